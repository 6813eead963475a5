//! The spans of one request: one for its answer, and one for its way upstream.

use std::net::SocketAddr;
use std::time::{Instant, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use kubernetes_wire::request::RequestInfo;
use opentelemetry::trace::{
    Link, Span as _, SpanBuilder, SpanKind, Status, TraceContextExt, Tracer,
};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_sdk::trace::{SdkTracer, Span};

use super::name;
use super::trace_context::{self, TRACEPARENT, TRACESTATE};

/// The most bytes of a text that a caller chooses.
const MAX_TEXT_BYTES: usize = 1024;

pub struct Beginning<'r> {
    pub info: &'r RequestInfo,
    pub headers: &'r HeaderMap,
    pub started: Instant,
    pub peer: Option<SocketAddr>,
    pub audit_id: &'r str,
    /// Whether the caller's own trace goes on here. Untrusted callers could cause
    /// anything to be sampled, so a new trace begins, with a link to theirs.
    pub trusted: bool,
}

/// The facts about an answer with which its span ends.
pub struct Ending {
    /// The status, or 0 without an answer.
    pub code: u16,
    pub bytes: usize,
    /// `hit` or `bypass`. Empty if the cache has no part.
    pub cache: &'static str,
    /// The reason for a bypass, else empty.
    pub reason: &'static str,
    /// The way a stream ended. Empty for other answers.
    pub end: &'static str,
}

/// The spans of a request. They end when this is dropped, if not before.
pub struct RequestSpan {
    tracer: SdkTracer,
    /// Declared before `server`, so that it ends before it.
    client: Option<Span>,
    server: Span,
    attempts: i64,
    /// The last server that was asked, `host:port`, and the status of its answer,
    /// which is 0 without one. They are kept here because a span would keep every
    /// value that was set.
    asked: String,
    answer: u16,
}

impl RequestSpan {
    pub(super) fn begin(tracer: SdkTracer, beginning: &Beginning<'_>) -> Self {
        let caller = trace_context::parent(beginning.headers);
        let (parent, linked) = match beginning.trusted {
            true => (caller, None),
            false => (None, caller),
        };
        // Costly attributes are added only when it is known that the span is
        // sampled.
        let builder = SpanBuilder::from_name("").with_kind(SpanKind::Server);
        let context = match parent {
            Some(parent) => Context::new().with_remote_span_context(parent),
            None => Context::new(),
        };
        let mut server = match linked {
            Some(linked) => {
                let linked = trace_context::without_state(&linked);
                let links = vec![Link::new(linked, Vec::new(), 0)];
                tracer.build_with_context(started(builder, beginning).with_links(links), &context)
            }
            None => tracer.build_with_context(started(builder, beginning), &context),
        };
        if server.is_recording() {
            server.update_name(name::of_request(beginning.info));
            server.set_attributes(attributes(beginning));
        }
        Self {
            tracer,
            client: None,
            server,
            attempts: 0,
            asked: String::new(),
            answer: 0,
        }
    }

    /// Tells whether the spans are sampled, and so will be sent.
    pub fn is_sampled(&self) -> bool {
        self.server.is_recording()
    }

    /// Begins the span of a request to upstream, and ends an earlier one. Returns
    /// the headers that replace the caller's, so that upstream's span follows this
    /// one. `None` removes a header.
    pub fn ask(&mut self, method: &Method) -> [(HeaderName, Option<HeaderValue>); 2] {
        self.end_client();
        let parent = self.server.span_context().clone();
        let context = Context::new().with_remote_span_context(parent);
        let name = name::of_forwarded(method);
        let builder = SpanBuilder::from_name(name).with_kind(SpanKind::Client);
        let mut client = self.tracer.build_with_context(builder, &context);
        if client.is_recording() {
            client.set_attribute(self::method(method));
            if self.attempts > 0 {
                client.set_attribute(KeyValue::new("http.request.resend_count", self.attempts));
            }
        }
        self.attempts = self.attempts.saturating_add(1);
        self.answer = 0;
        let span = client.span_context();
        let headers = [
            (TRACEPARENT, trace_context::traceparent(span)),
            (TRACESTATE, trace_context::tracestate(span)),
        ];
        self.client = Some(client);
        headers
    }

    /// Notes the server that is asked, `host:port`.
    pub fn asked(&mut self, server: &str) {
        if self.is_sampled() {
            server.clone_into(&mut self.asked);
        }
    }

    pub fn answered(&mut self, code: u16) {
        self.answer = code;
    }

    fn end_client(&mut self) {
        let Some(mut client) = self.client.take().filter(|span| span.is_recording()) else {
            return;
        };
        let (host, port) = self.asked.rsplit_once(':').unwrap_or((&self.asked, ""));
        if !host.is_empty() {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            client.set_attribute(KeyValue::new("server.address", host.to_owned()));
        }
        if let Ok(port) = port.parse::<u16>() {
            client.set_attribute(KeyValue::new("server.port", i64::from(port)));
        }
        match self.answer {
            0 => client.set_status(Status::error("no answer")),
            code => client.set_attribute(status(code)),
        }
        if self.answer >= 400 {
            client.set_attribute(KeyValue::new("error.type", self.answer.to_string()));
            client.set_status(Status::error(""));
        }
    }

    pub fn end(mut self, ending: &Ending) {
        self.end_client();
        if !self.is_sampled() {
            return;
        }
        if !self.asked.is_empty() {
            let asked = std::mem::take(&mut self.asked);
            self.server
                .set_attribute(KeyValue::new("apifront.upstream", asked));
        }
        let texts = [
            ("apifront.cache.result", ending.cache),
            ("apifront.cache.bypass_reason", ending.reason),
            ("apifront.stream.end", ending.end),
        ];
        for (key, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            self.server.set_attribute(KeyValue::new(key, text));
        }
        if ending.bytes > 0 {
            let bytes = i64::try_from(ending.bytes).unwrap_or(i64::MAX);
            self.server
                .set_attribute(KeyValue::new("http.response.body.size", bytes));
        }
        if ending.code > 0 {
            self.server.set_attribute(status(ending.code));
        }
        if ending.code == 0 || ending.code >= 500 {
            self.server.set_status(Status::error(""));
        }
    }
}

fn started(builder: SpanBuilder, beginning: &Beginning<'_>) -> SpanBuilder {
    let now = SystemTime::now();
    let started = now.checked_sub(beginning.started.elapsed()).unwrap_or(now);
    builder.with_start_time(started)
}

/// Returns the attributes of a request, by the semantic conventions for HTTP. The
/// query and the headers may hold credentials, so they are left out, except the
/// User-Agent.
fn attributes(beginning: &Beginning<'_>) -> Vec<KeyValue> {
    let Beginning { info, headers, .. } = beginning;
    let mut attributes = vec![
        method(&info.method),
        KeyValue::new("url.path", short(&info.path)),
        KeyValue::new("audit-id", short(beginning.audit_id)),
    ];
    if let Some(peer) = beginning.peer {
        let address = peer.ip().to_string();
        attributes.push(KeyValue::new("network.peer.address", address));
        let port = i64::from(peer.port());
        attributes.push(KeyValue::new("network.peer.port", port));
    }
    let agent = headers.get(http::header::USER_AGENT);
    if let Some(agent) = agent.and_then(|agent| agent.to_str().ok()) {
        attributes.push(KeyValue::new("user_agent.original", short(agent)));
    }
    attributes
}

fn method(method: &Method) -> KeyValue {
    let known = match name::method(method) {
        "HTTP" => "_OTHER",
        known => known,
    };
    KeyValue::new("http.request.method", known)
}

fn status(code: u16) -> KeyValue {
    KeyValue::new("http.response.status_code", i64::from(code))
}

fn short(text: &str) -> Value {
    let end = text.floor_char_boundary(MAX_TEXT_BYTES);
    text.get(..end).unwrap_or_default().to_owned().into()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use kubernetes_wire::api::Query;
    use opentelemetry::trace::TracerProvider;
    use opentelemetry_sdk::error::OTelSdkResult;
    use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, SpanData, SpanProcessor};

    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331";

    #[derive(Clone, Debug, Default)]
    struct Ended(Arc<Mutex<Vec<SpanData>>>);

    impl SpanProcessor for Ended {
        fn on_start(&self, _: &mut Span, _: &Context) {}

        fn on_end(&self, span: SpanData) {
            self.0.lock().unwrap().push(span);
        }

        fn force_flush(&self) -> OTelSdkResult {
            Ok(())
        }

        fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
            Ok(())
        }
    }

    /// Begins a span with the caller's flags. No trace that begins here is sampled.
    fn begin(flags: &str, trusted: bool) -> (RequestSpan, Ended) {
        let ended = Ended::default();
        let provider = SdkTracerProvider::builder()
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOff)))
            .with_span_processor(ended.clone())
            .build();
        let mut headers = HeaderMap::new();
        let parent = format!("{PARENT}-{flags}");
        headers.insert(TRACEPARENT, HeaderValue::try_from(parent).unwrap());
        let path = "/api/v1/namespaces/a/pods/b";
        let info = RequestInfo::parse(&Method::GET, path, &Query::default()).unwrap();
        let beginning = Beginning {
            info: &info,
            headers: &headers,
            started: Instant::now(),
            peer: None,
            audit_id: "an-id",
            trusted,
        };
        (
            RequestSpan::begin(provider.tracer("test"), &beginning),
            ended,
        )
    }

    fn parent(headers: [(HeaderName, Option<HeaderValue>); 2]) -> String {
        let [(_, parent), (_, state)] = headers;
        assert_eq!(state, None);
        parent.unwrap().to_str().unwrap().to_owned()
    }

    fn attribute(span: &SpanData, key: &str) -> String {
        let found = span.attributes.iter().filter(|a| a.key.as_str() == key);
        let found: Vec<_> = found.map(|a| a.value.to_string()).collect();
        assert!(found.len() <= 1, "{key} {found:?}");
        found.concat()
    }

    const ENDING: Ending = Ending {
        code: 503,
        bytes: 7,
        cache: "bypass",
        reason: "not_cached",
        end: "",
    };

    #[test]
    fn each_attempt_has_a_span() {
        let (mut span, ended) = begin("01", true);
        let first = parent(span.ask(&Method::GET));
        span.asked("10.0.0.1:6443");
        let second = parent(span.ask(&Method::GET));
        span.asked("[fd00::1]:443");
        span.answered(103);
        span.answered(503);
        span.end(&ENDING);
        let spans = ended.0.lock().unwrap();
        let [one, two, server] = spans.as_slice() else {
            panic!("{spans:#?}");
        };
        for (span, header) in [(one, first), (two, second)] {
            let (trace, id) = (span.span_context.trace_id(), span.span_context.span_id());
            assert_eq!(header, format!("00-{trace}-{id}-01"));
            assert_eq!(span.parent_span_id, server.span_context.span_id());
        }
        assert_eq!(one.status, Status::error("no answer"));
        assert_eq!(attribute(one, "server.address"), "10.0.0.1");
        assert_eq!(attribute(two, "server.address"), "fd00::1");
        assert_eq!(attribute(two, "server.port"), "443");
        assert_eq!(attribute(two, "http.request.resend_count"), "1");
        assert_eq!(two.status, Status::error(""));
        assert_eq!(server.status, Status::error(""));
        for (key, value) in [
            ("apifront.upstream", "[fd00::1]:443"),
            ("apifront.cache.result", "bypass"),
            ("apifront.cache.bypass_reason", "not_cached"),
            ("apifront.stream.end", ""),
            ("http.response.status_code", "503"),
            ("http.response.body.size", "7"),
            ("url.path", "/api/v1/namespaces/a/pods/b"),
            ("audit-id", "an-id"),
        ] {
            assert_eq!(attribute(server, key), value, "{key}");
        }
    }

    #[test]
    fn a_request_that_is_not_sampled_has_ids_alone() {
        for (flags, trusted) in [("00", true), ("00", false), ("01", false)] {
            let (mut span, ended) = begin(flags, trusted);
            assert!(!span.is_sampled());
            let header = parent(span.ask(&Method::POST));
            assert!(header.ends_with("-00"), "{header}");
            let (trace, _) = PARENT.rsplit_once('-').unwrap();
            assert_eq!(header.starts_with(trace), trusted, "{header}");
            span.asked("10.0.0.1:6443");
            span.answered(200);
            span.end(&ENDING);
            assert!(ended.0.lock().unwrap().is_empty());
        }
    }

    #[test]
    fn spans_end_even_if_nobody_ends_them() {
        let (mut span, ended) = begin("01", true);
        span.ask(&Method::GET);
        drop(span);
        assert_eq!(ended.0.lock().unwrap().len(), 2);
    }
}
