//! The text of an event about its request: `audit.k8s.io/v1` Event.
//!
//! Most of the text is the same at every stage. It is written once, when the
//! request is known, and each event copies it:
//!
//! ```text
//! {"kind":"Event",…,"auditID":"…","stage":" │ ","requestURI":…,"user":{…} │ ,"sourceIPs":…,"userAgent":… │
//!                                           ↑ stage                       ↑ impersonatedUser             ↑ objectRef, …
//! ```

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::SystemTime;

use http::HeaderMap;
use http::header::USER_AGENT;
use kubernetes_wire::api::UserInfo;
use kubernetes_wire::request::RequestInfo;

use super::level::{Level, Stage};
use super::object_ref::ObjectRef;
use super::outcome::Outcome;
use super::source_ips;
use super::text::{self, Object, string};

/// An event in a log begins with these fields. In a list of events they are left
/// out.
pub(super) const TYPE: &[u8] = br#""kind":"Event","apiVersion":"audit.k8s.io/v1","#;

/// kube-apiserver's limit, and the mark that it sets where it cuts.
const MAX_USER_AGENT: usize = 1024;
const TRUNCATED: &[u8] = b"...TRUNCATED";

/// The annotation of an event whose objects were left out.
const TRUNCATED_ANNOTATION: &str = "audit.k8s.io/truncated";

/// The first capacity of the buffer. Most events are shorter.
const EVENT_BYTES: usize = 1024;

/// A request whose head has been read.
#[derive(Clone, Copy)]
pub struct Request<'r> {
    pub info: &'r RequestInfo,
    /// The caller before any impersonation. `None` if the caller is unknown.
    pub user: Option<&'r UserInfo>,
    /// Path and query as received.
    pub uri: &'r str,
    pub headers: &'r HeaderMap,
    pub peer: Option<IpAddr>,
    pub audit_id: &'r [u8],
    pub received: SystemTime,
}

type Text = Cow<'static, str>;

#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) level: Level,
    text: Vec<u8>,
    /// Offsets in `text`: the place of the stage, and the end of the user, where
    /// impersonatedUser and authenticationMetadata are inserted.
    stage_at: usize,
    user_end: usize,
    received: SystemTime,
    impersonated: Vec<u8>,
    pub(super) reference: Option<Box<ObjectRef>>,
    annotations: Vec<(Text, Text)>,
    /// 0 until there is an answer.
    pub(super) code: u16,
    pub(super) panicked: bool,
    /// The message of responseStatus, if the answer has none.
    pub(super) message: String,
}

impl Record {
    /// `completes`: the request's object will complete objectRef.
    pub(super) fn new(level: Level, request: &Request<'_>, completes: bool) -> Self {
        let info = request.info;
        let mut out = Vec::with_capacity(EVENT_BYTES);
        out.push(b'{');
        out.extend_from_slice(TYPE);
        out.extend_from_slice(b"\"level\":\"");
        out.extend_from_slice(level.as_str().as_bytes());
        out.extend_from_slice(b"\",\"auditID\":");
        string(request.audit_id, &mut out);
        out.extend_from_slice(b",\"stage\":\"");
        let stage_at = out.len();
        out.extend_from_slice(b"\",\"requestURI\":");
        string(request.uri.as_bytes(), &mut out);
        out.extend_from_slice(b",\"verb\":");
        string(info.verb.as_bytes(), &mut out);
        out.extend_from_slice(b",\"user\":");
        text::user(request.user, &mut out);
        let user_end = out.len();
        source_addresses(request, &mut out);
        user_agent(request.headers, &mut out);
        let reference = completes.then(|| Box::new(ObjectRef::from_info(info)));
        if reference.is_none() && info.is_resource_request {
            out.extend_from_slice(b",\"objectRef\":");
            ObjectRef::write_of(info, &mut out);
        }
        Self {
            level,
            stage_at,
            user_end,
            text: out,
            received: request.received,
            impersonated: Vec::new(),
            reference,
            annotations: Vec::new(),
            code: 0,
            panicked: false,
            message: String::new(),
        }
    }

    /// `constraint` is the verb of the constrained impersonation mode. It is empty
    /// for legacy impersonation.
    pub(super) fn impersonate(&mut self, user: &UserInfo, constraint: &str) {
        let out = &mut self.impersonated;
        out.clear();
        out.extend_from_slice(b",\"impersonatedUser\":");
        text::user(Some(user), out);
        if !constraint.is_empty() {
            out.extend_from_slice(b",\"authenticationMetadata\":");
            let mut metadata = Object::begin(out);
            metadata.text("impersonationConstraint", constraint);
            metadata.end();
        }
    }

    /// Adds an annotation. The first value of a key stays.
    pub(super) fn annotate(&mut self, key: Text, value: Text) {
        if let Err(at) = self.annotations.binary_search_by(|(k, _)| k.cmp(&key)) {
            self.annotations.insert(at, (key, value));
        }
    }

    pub(super) fn annotate_anew(&mut self, key: Text, value: Text) {
        match self.annotations.binary_search_by(|(k, _)| k.cmp(&key)) {
            Ok(at) => {
                if let Some((_, before)) = self.annotations.get_mut(at) {
                    *before = value;
                }
            }
            Err(at) => self.annotations.insert(at, (key, value)),
        }
    }

    /// Appends a stage's event as a line. `outcome` holds the facts from the bodies;
    /// its objects are left out if `stripped`.
    pub(super) fn write(
        &self,
        stage: Stage,
        now: SystemTime,
        outcome: Option<&Outcome>,
        stripped: bool,
        out: &mut Vec<u8>,
    ) {
        let part = |range: std::ops::Range<usize>| self.text.get(range).unwrap_or_default();
        out.extend_from_slice(part(0..self.stage_at));
        out.extend_from_slice(stage.as_str().as_bytes());
        out.extend_from_slice(part(self.stage_at..self.user_end));
        let received = stage == Stage::RequestReceived;
        if !received {
            out.extend_from_slice(&self.impersonated);
        }
        out.extend_from_slice(part(self.user_end..self.text.len()));
        if let Some(reference) = &self.reference {
            out.extend_from_slice(b",\"objectRef\":");
            match outcome.and_then(|o| o.reference.as_ref()) {
                Some(filled) if !received => filled.write(out),
                _ => reference.write(out),
            }
        }
        if !received {
            self.write_status(outcome, out);
            self.write_objects(outcome.filter(|_| !stripped), out);
        }
        out.extend_from_slice(b",\"requestReceivedTimestamp\":");
        text::micro_time(self.received, out);
        out.extend_from_slice(b",\"stageTimestamp\":");
        text::micro_time(if received { self.received } else { now }, out);
        if !received {
            let cut = outcome.is_some_and(|o| o.is_cut && self.level >= Level::Request);
            self.write_annotations(stripped || cut, out);
        }
        out.extend_from_slice(b"}\n");
    }

    fn write_status(&self, outcome: Option<&Outcome>, out: &mut Vec<u8>) {
        out.extend_from_slice(b",\"responseStatus\":{\"metadata\":{}");
        if self.panicked {
            out.extend_from_slice(
                br#","status":"Failure","message":"APIServer panic'd","reason":"InternalError""#,
            );
        } else if let Some(status) = outcome.and_then(|o| o.status.as_deref()) {
            out.extend_from_slice(status);
        } else if !self.message.is_empty() {
            out.extend_from_slice(b",\"message\":");
            string(self.message.as_bytes(), out);
        } else if self.code == 0 {
            out.extend_from_slice(br#","status":"Success","message":"Connection closed early""#);
        }
        let code = match self.code {
            _ if self.panicked => 500,
            0 => 200,
            code => code,
        };
        out.extend_from_slice(b",\"code\":");
        text::three_digits(code, out);
        out.push(b'}');
    }

    fn write_objects(&self, outcome: Option<&Outcome>, out: &mut Vec<u8>) {
        let objects = [
            (
                ",\"requestObject\":",
                outcome.and_then(|o| o.request.as_deref()),
            ),
            (
                ",\"responseObject\":",
                outcome.and_then(|o| o.response.as_deref()),
            ),
        ];
        for (name, object) in objects {
            if let Some(object) = object {
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(object);
            }
        }
    }

    fn write_annotations(&self, truncated: bool, out: &mut Vec<u8>) {
        if self.annotations.is_empty() && !truncated {
            return;
        }
        out.extend_from_slice(b",\"annotations\":");
        let mut object = Object::begin(out);
        let mut pending = truncated.then_some(TRUNCATED_ANNOTATION);
        for (key, value) in &self.annotations {
            if let Some(first) = pending.take_if(|first| *first < key.as_ref()) {
                string(b"true", object.field(first.as_bytes()));
            }
            string(value.as_bytes(), object.field(key.as_bytes()));
        }
        if let Some(last) = pending {
            string(b"true", object.field(last.as_bytes()));
        }
        object.end();
    }
}

fn source_addresses(request: &Request<'_>, out: &mut Vec<u8>) {
    use std::io::Write;
    let mut is_first = true;
    source_ips::visit(request.headers, request.peer, |ip| {
        let before = if std::mem::take(&mut is_first) {
            ",\"sourceIPs\":[\""
        } else {
            ",\""
        };
        out.extend_from_slice(before.as_bytes());
        // Writing to a vector never fails.
        let _written = write!(out, "{ip}");
        out.push(b'"');
    });
    if !is_first {
        out.push(b']');
    }
}

fn user_agent(headers: &HeaderMap, out: &mut Vec<u8>) {
    let agent = headers.get(USER_AGENT).map_or(&b""[..], |v| v.as_bytes());
    if agent.is_empty() {
        return;
    }
    out.extend_from_slice(b",\"userAgent\":");
    match agent.get(..MAX_USER_AGENT) {
        Some(start) if agent.len() > MAX_USER_AGENT => string(&[start, TRUNCATED].concat(), out),
        _ => string(agent, out),
    }
}
