//! The spans of one request: that of its answer, and that of its way upstream.

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

/// The most bytes of a text that a caller has written.
const MAX_TEXT_BYTES: usize = 1024;

/// A request whose span begins.
pub struct Beginning<'r> {
    pub info: &'r RequestInfo,
    pub headers: &'r HeaderMap,
    pub started: Instant,
    pub peer: Option<SocketAddr>,
    pub audit_id: &'r str,
    /// Whether the caller's own trace goes on here. Other callers could have
    /// anything sampled, so a new trace begins, with a link to theirs.
    pub trusted: bool,
}

/// The facts about an answer that its span ends with.
pub struct Ending {
    /// The status, or 0 if nothing was answered.
    pub code: u16,
    pub bytes: usize,
    /// `hit` or `bypass`; empty where the cache has no part.
    pub cache: &'static str,
    /// The reason for a bypass; empty if it was none.
    pub reason: &'static str,
    /// The way a stream ended; empty if it was none.
    pub end: &'static str,
}

/// The spans of a request. They end when this is dropped, if not before.
pub struct RequestSpan {
    tracer: SdkTracer,
    /// Declared before `server`, so that it ends before it.
    client: Option<Span>,
    server: Span,
    /// The requests to upstream so far, and whether the last one was answered.
    attempts: i64,
    answered: bool,
}

impl RequestSpan {
    pub(super) fn begin(tracer: SdkTracer, beginning: &Beginning<'_>) -> Self {
        let caller = trace_context::parent(beginning.headers);
        let (parent, linked) = match beginning.trusted {
            true => (caller, None),
            false => (None, caller),
        };
        // What takes time is added once it is known that somebody will read it.
        let builder = SpanBuilder::from_name("").with_kind(SpanKind::Server);
        let context = match parent {
            Some(parent) => Context::new().with_remote_span_context(parent),
            None => Context::new(),
        };
        let mut server = match linked {
            Some(linked) => {
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
            answered: false,
        }
    }

    /// Begins the span of a request to upstream. Returns the headers by which
    /// upstream's span follows it, in place of the caller's; `None` removes a
    /// header. A span that is still open ends.
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
        self.answered = false;
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
        if !self.server.is_recording() {
            return;
        }
        self.server
            .set_attribute(KeyValue::new("apifront.upstream", server.to_owned()));
        if let Some(client) = &mut self.client {
            let (host, port) = server.rsplit_once(':').unwrap_or((server, ""));
            client.set_attribute(KeyValue::new("server.address", host.to_owned()));
            if let Ok(port) = port.parse::<u16>() {
                client.set_attribute(KeyValue::new("server.port", i64::from(port)));
            }
        }
    }

    /// Notes the head of upstream's answer.
    pub fn answered(&mut self, code: u16) {
        self.answered = true;
        let Some(client) = self.client.as_mut().filter(|span| span.is_recording()) else {
            return;
        };
        client.set_attribute(status(code));
        if code >= 400 {
            client.set_attribute(KeyValue::new("error.type", code.to_string()));
            client.set_status(Status::error(""));
        }
    }

    fn end_client(&mut self) {
        if let Some(mut client) = self.client.take()
            && !self.answered
        {
            client.set_status(Status::error("no answer"));
        }
    }

    /// Ends the spans.
    pub fn end(mut self, ending: &Ending) {
        self.end_client();
        if !self.server.is_recording() {
            return;
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

/// Returns the attributes of a request, by the semantic conventions for HTTP.
/// Neither the query nor a header is among them but the client's name for
/// itself: there may be credentials.
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
