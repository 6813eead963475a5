//! The audit of one request: the facts known so far, and the events at its stages.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_ENCODING, HeaderValue};
use kubernetes_wire::api::UserInfo;
use kubernetes_wire::negotiation;
use kubernetes_wire::request::RequestInfo;

use super::body::Body;
use super::event::Unfinished;
use super::level::{Level, Stage};
use super::object::{self, Kind};
use super::outcome::{AuditedBodies, Bodies};
use super::policy::Decision;
use super::record::{Record, Request};
use super::{Audit, Owner};

/// Subresources whose bodies are streams, or belong to another server.
const STREAMS: [&str; 5] = ["log", "exec", "attach", "portforward", "proxy"];

/// Verbs whose bodies are API objects.
const WRITES: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];

/// A request that is audited. Its last event is made when the trail is dropped, so
/// that no request ends without one.
pub struct Trail {
    audit: Arc<Audit>,
    /// The caller who is charged for the request's events.
    owner: Owner,
    decision: Decision,
    record: Record,
    wants: AuditedBodies,
    long_running: bool,
    /// True if a success may be answered with a Status, which the event must have.
    answers_object: bool,
    started: bool,
    request: Option<Body>,
    response: ResponseBody,
    /// The request's Accept header. If it does not accept the encoding of an error,
    /// kube-apiserver's event has no Status, and neither has this one.
    accept: Option<HeaderValue>,
    is_stream: bool,
    /// The bodies, once an event was made from them.
    bodies: Option<Arc<Bodies>>,
    at_end: Vec<(&'static str, String)>,
}

/// The part of an answer's body that is kept for events.
enum ResponseBody {
    Ignored,
    /// The first bytes decide, unless they are compressed. A Status is kept, and
    /// other objects are kept if `objects`.
    Unknown {
        objects: bool,
    },
    Kept(Body),
}

impl Trail {
    pub(super) fn new(
        audit: Arc<Audit>,
        owner: Owner,
        decision: Decision,
        request: &Request<'_>,
    ) -> Self {
        let Decision {
            level,
            omit_managed_fields,
            ..
        } = decision;
        let info = request.info;
        let long_running = info.is_long_running();
        let is_stream = STREAMS.contains(&info.subresource.as_str());
        let writes = info.is_resource_request && !is_stream && WRITES.contains(&info.verb.as_str());
        let wants = AuditedBodies {
            request_object: writes && level >= Level::Request,
            response_object: level == Level::RequestResponse,
            reference: writes && matches!(info.verb.as_str(), "create" | "update"),
            is_patch: info.verb == "patch",
            is_delete: matches!(info.verb.as_str(), "delete" | "deletecollection"),
            without_managed_fields: omit_managed_fields,
        };
        let record = Record::new(level, request, wants.reference);
        let reads_body = wants.reference || wants.request_object;
        Self {
            record,
            wants,
            long_running,
            answers_object: may_answer_status(info, is_stream),
            started: false,
            request: reads_body.then(|| Body::new(false, &audit.room, owner)),
            response: ResponseBody::Ignored,
            accept: request.headers.get(ACCEPT).cloned(),
            is_stream,
            bodies: None,
            at_end: Vec::new(),
            decision,
            owner,
            audit,
        }
    }

    pub fn level(&self) -> Level {
        self.decision.level
    }

    /// Adds an annotation to all events to come. The first value of a key stays, as
    /// in kube-apiserver.
    pub fn annotate(
        &mut self,
        key: impl Into<Cow<'static, str>>,
        value: impl Into<Cow<'static, str>>,
    ) {
        self.record.annotate(key.into(), value.into());
    }

    /// Replaces an annotation that no event has had yet.
    pub fn annotate_anew(&mut self, key: &'static str, value: String) {
        self.record.annotate_anew(key.into(), value.into());
    }

    /// Adds an annotation to the last event only. kube-apiserver adds these when it
    /// counts the request.
    pub fn annotate_at_end(&mut self, key: &'static str, value: String) {
        self.at_end.push((key, value));
    }

    /// Notes the user as whom the request goes on. `constraint` is the verb of the
    /// constrained impersonation mode. It is empty for legacy impersonation.
    pub fn impersonated(&mut self, user: &UserInfo, constraint: &str) {
        self.record.impersonate(user, constraint);
    }

    /// Notes that the request's body begins, perhaps again after a retry.
    pub fn request_begins(&mut self) {
        if let Some(body) = &mut self.request {
            body.restart();
        }
    }

    pub fn request_piece(&mut self, piece: &Bytes) {
        if let Some(body) = &mut self.request {
            body.push(piece);
        }
    }

    pub fn response(&mut self, code: u16, headers: &HeaderMap) {
        // 100 and 102 to 199 are not final answers; 101 is.
        if matches!(code, 100 | 102..=199) {
            return;
        }
        self.record.code = code;
        let encoding = headers.get(CONTENT_ENCODING).map(|v| v.as_bytes());
        let is_error = code >= 400;
        let objects = self.wants.response_object && !self.is_stream && !self.long_running;
        self.response = match encoding {
            _ if is_error && !negotiation::error_is_negotiable(self.accept.as_ref()) => {
                ResponseBody::Ignored
            }
            _ if !objects && !is_error && !self.answers_object => ResponseBody::Ignored,
            None | Some(b"identity") => ResponseBody::Unknown { objects },
            Some(b"gzip") if objects => {
                ResponseBody::Kept(Body::new(true, &self.audit.room, self.owner))
            }
            Some(_) => ResponseBody::Ignored,
        };
        // The Status of an error is still to come.
        if !is_error {
            self.started();
        }
    }

    pub fn response_piece(&mut self, piece: &Bytes) {
        if piece.is_empty() {
            return;
        }
        if let ResponseBody::Unknown { objects } = self.response {
            self.response = match object::sniff(piece) {
                Kind::Status => ResponseBody::Kept(Body::new(false, &self.audit.room, self.owner)),
                Kind::Object if objects => {
                    ResponseBody::Kept(Body::new(false, &self.audit.room, self.owner))
                }
                Kind::Object | Kind::Else => ResponseBody::Ignored,
            };
        }
        if let ResponseBody::Kept(body) = &mut self.response {
            body.push(piece);
        }
    }

    fn started(&mut self) {
        if self.long_running && !std::mem::replace(&mut self.started, true) {
            self.emit(Stage::ResponseStarted);
        }
    }

    /// Makes one event for the whole request, as kube-apiserver does when it refuses
    /// an unknown caller.
    pub(super) fn only_started(&mut self, message: String) {
        self.record.message = message;
        self.long_running = true;
        self.decision = self.decision.omitting(Stage::ResponseComplete);
    }

    /// Makes the event of a stage, unless the policy omits the stage.
    pub(super) fn emit(&mut self, stage: Stage) {
        if self.decision.omits(stage) {
            return;
        }
        self.audit.metrics.event();
        let now = SystemTime::now();
        let outcome = if stage == Stage::RequestReceived {
            None
        } else {
            self.freeze()
        };
        match outcome {
            None => self.audit.push_line(self.owner, |out| {
                self.record.write(stage, now, None, false, out);
            }),
            Some(bodies) => {
                let event = Unfinished {
                    record: self.record.clone(),
                    stage,
                    at: now,
                    bodies,
                };
                self.audit.push_unfinished(self.owner, event);
            }
        }
    }

    /// Takes the bodies as they are now. Later events use the same ones.
    fn freeze(&mut self) -> Option<Arc<Bodies>> {
        if self.bodies.is_none() {
            let response = match std::mem::replace(&mut self.response, ResponseBody::Ignored) {
                ResponseBody::Kept(body) => Some(body),
                ResponseBody::Ignored | ResponseBody::Unknown { .. } => None,
            };
            let request = self.request.take();
            if request.is_some() || response.is_some() {
                let reference = self.record.reference.as_deref().cloned();
                let code = self.record.code;
                let bodies = Bodies::new(request, response, self.wants, reference, code);
                self.bodies = Some(Arc::new(bodies));
            }
        }
        self.bodies.clone()
    }
}

/// Tells whether a success may be a Status, as for deletions, bindings and
/// evictions.
fn may_answer_status(info: &RequestInfo, is_stream: bool) -> bool {
    let verb = matches!(info.verb.as_str(), "create" | "delete" | "deletecollection");
    info.is_resource_request && !is_stream && verb
}

impl Drop for Trail {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.record.panicked = true;
            self.emit(Stage::Panic);
            return;
        }
        self.started();
        for (key, value) in std::mem::take(&mut self.at_end) {
            self.annotate(key, value);
        }
        self.emit(Stage::ResponseComplete);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    use http::Method;
    use kubernetes_wire::api::Query;
    use serde_json::{Value, json};

    use super::*;
    use crate::audit::backend::Backend;
    use crate::audit::body::MAX_BODY_BYTES;
    use crate::audit::queue::{Batch, Item, Queue};
    use crate::audit::{AuditMetrics, Plugin, Prepared, policy_file};

    struct Log {
        audit: Arc<Audit>,
        queue: Arc<Queue>,
        metrics: AuditMetrics,
    }

    impl Log {
        fn at(level: &str) -> Self {
            let text = format!(
                "{{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{{level: {level}}}]}}"
            );
            let metrics = AuditMetrics::register(&prometheus::Registry::new()).unwrap();
            let (audit, queue) = (Audit::new(metrics.clone()), Arc::new(Queue::new(100, 1)));
            audit.apply(Prepared {
                policy: Some(policy_file::parse(&text).unwrap().0),
                backends: vec![Backend::for_tests(queue.clone())],
            });
            Self {
                audit,
                queue,
                metrics,
            }
        }

        fn begin(&self, method: &Method, uri: &str) -> Option<Box<Trail>> {
            let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
            let info = RequestInfo::parse(method, path, &Query::parse(query)).unwrap();
            self.audit.begin(&Request {
                info: &info,
                user: None,
                uri,
                headers: &HeaderMap::new(),
                peer: None,
                audit_id: b"id",
                received: SystemTime::UNIX_EPOCH,
            })
        }

        fn lines(&self, most: Option<usize>) -> Vec<String> {
            self.queue.close();
            let (mut batch, mut lines) = (Batch::default(), Vec::new());
            while self.queue.take(Duration::ZERO, &mut batch) {
                let mut line = batch.lines.clone();
                for item in &batch.items {
                    if let Item::Unfinished(event) = item
                        && !event.write(most, &mut line)
                    {
                        self.metrics.lost(Plugin::Truncate, 1);
                    }
                }
                lines.push(String::from_utf8(line).unwrap());
            }
            lines
        }

        fn events(&self) -> Vec<Value> {
            let lines = self.lines(None);
            lines
                .iter()
                .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
                .collect()
        }
    }

    fn stages(events: &[Value]) -> Vec<&str> {
        events
            .iter()
            .map(|e| e["stage"].as_str().unwrap())
            .collect()
    }

    #[test]
    fn fields_come_in_the_order_of_the_type() {
        let log = Log::at("Metadata");
        let mut trail = log.begin(&Method::GET, "/api/v1/nodes/a?x=<").unwrap();
        trail.annotate("b", "2");
        trail.annotate("a", "1");
        trail.annotate("b", "never");
        trail.impersonated(&UserInfo::anonymous(), "impersonate:user-info");
        trail.response(200, &HeaderMap::new());
        drop(trail);
        let lines = log.lines(None);
        let text = lines[1].replace(|c: char| c.is_ascii_digit(), "0");
        let (before, after) = text.split_once("\"stageTimestamp\":").unwrap();
        assert_eq!(
            before,
            concat!(
                r#"{"kind":"Event","apiVersion":"audit.k0s.io/v0","level":"Metadata","#,
                r#""auditID":"id","stage":"ResponseComplete","#,
                r#""requestURI":"/api/v0/nodes/a?x=\u000c","verb":"get","user":{},"#,
                r#""impersonatedUser":{"username":"system:anonymous","#,
                r#""groups":["system:unauthenticated"]},"#,
                r#""authenticationMetadata":{"impersonationConstraint":"impersonate:user-info"},"#,
                r#""objectRef":{"resource":"nodes","name":"a","apiVersion":"v0"},"#,
                r#""responseStatus":{"metadata":{},"code":000},"#,
                r#""requestReceivedTimestamp":"0000-00-00T00:00:00.000000Z","#,
            )
        );
        assert!(after.ends_with("Z\",\"annotations\":{\"a\":\"0\",\"b\":\"0\"}}\n"));
    }

    #[test]
    fn every_request_ends_with_an_event() {
        let log = Log::at("Metadata");
        drop(log.begin(&Method::GET, "/api/v1/nodes"));
        let trail = log.begin(&Method::GET, "/version");
        let panicked = catch_unwind(AssertUnwindSafe(move || {
            let _trail = trail;
            panic!("for the test");
        }));
        assert!(panicked.is_err());
        let mut watch = log.begin(&Method::GET, "/api/v1/nodes?watch=1").unwrap();
        watch.response(200, &HeaderMap::new());
        drop(watch);
        let events = log.events();
        assert_eq!(
            stages(&events),
            [
                "RequestReceived",
                "ResponseComplete",
                "RequestReceived",
                "Panic",
                "RequestReceived",
                "ResponseStarted",
                "ResponseComplete"
            ]
        );
        let early = json!({
            "metadata": {}, "status": "Success", "message": "Connection closed early", "code": 200,
        });
        assert_eq!(events[1]["responseStatus"], early);
        assert_eq!(events[3]["responseStatus"]["code"], 500);
        assert!(Log::at("None").begin(&Method::GET, "/version").is_none());
    }

    #[test]
    fn what_is_too_large_is_left_out_and_said_so() {
        let send = |log: &Log, bytes: usize| {
            let mut trail = log.begin(&Method::POST, "/api/v1/nodes").unwrap();
            trail.request_begins();
            let object = json!({ "metadata": { "name": "n" }, "x": "y".repeat(bytes) });
            trail.request_piece(&object.to_string().into());
            trail.response(201, &HeaderMap::new());
        };
        let log = Log::at("Request");
        send(&log, 10);
        send(&log, MAX_BODY_BYTES);
        let events = log.events();
        assert_eq!(events[1]["requestObject"]["x"], "yyyyyyyyyy");
        assert_eq!(events[1]["objectRef"]["name"], "n");
        assert_eq!(events[1].get("annotations"), None);
        assert_eq!(events[3].get("requestObject"), None);
        assert_eq!(events[3]["annotations"]["audit.k8s.io/truncated"], "true");
        // The configured length of an event also leaves objects out.
        for (most, expected) in [(10_000, 10_000), (2_000, 1_000), (100, 0)] {
            let log = Log::at("Request");
            send(&log, 5_000);
            let line = log.lines(Some(most)).pop().unwrap();
            assert!(line.len() <= expected, "{most}: {line}");
            let truncated = line.contains("\"audit.k8s.io/truncated\":\"true\"");
            assert_eq!(truncated, expected == 1_000);
        }
        // Without objects there is nothing to leave out.
        let log = Log::at("Metadata");
        send(&log, MAX_BODY_BYTES);
        assert_eq!(log.events()[1].get("annotations"), None);
    }
}
