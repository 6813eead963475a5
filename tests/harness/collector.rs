//! A collector of spans: an OTLP server over gRPC on loopback that keeps what it
//! receives.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message;
use tokio::net::TcpListener;

use super::ports;

/// The bytes before a gRPC message: a compression flag and the message's length.
const PREFIX: usize = 5;

#[derive(Clone, Debug)]
pub struct Collected {
    pub service: String,
    pub span: Span,
}

impl Collected {
    pub fn trace_id(&self) -> String {
        hex(&self.span.trace_id)
    }

    pub fn span_id(&self) -> String {
        hex(&self.span.span_id)
    }

    /// Empty for the first span of a trace.
    pub fn parent_id(&self) -> String {
        hex(&self.span.parent_span_id)
    }

    /// Returns the linked spans, as (trace, span).
    pub fn links(&self) -> Vec<(String, String)> {
        let links = self.span.links.iter();
        links.map(|l| (hex(&l.trace_id), hex(&l.span_id))).collect()
    }

    /// Returns an attribute as text; empty if there is none.
    pub fn attribute(&self, key: &str) -> String {
        attribute(&self.span.attributes, key)
    }

    pub fn is_of(&self, service: &str, kind: SpanKind) -> bool {
        self.service == service && self.span.kind == kind as i32
    }
}

pub struct Collector {
    pub address: SocketAddr,
    spans: Arc<Mutex<Vec<Collected>>>,
}

impl Collector {
    /// Starts a collector in a thread of its own, which outlives every test.
    pub fn start() -> Self {
        let spans = Arc::new(Mutex::new(Vec::new()));
        let kept = spans.clone();
        let listener = ports::listen();
        let address = listener.local_addr().expect("an address");
        listener.set_nonblocking(true).expect("nonblocking");
        std::thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("runtime")
                .block_on(serve(listener, kept));
        });
        Self { address, spans }
    }

    pub fn spans(&self) -> Vec<Collected> {
        self.spans.lock().expect("no panic while locked").clone()
    }

    pub fn find(&self, wanted: impl Fn(&Collected) -> bool) -> Vec<Collected> {
        let spans = self.spans.lock().expect("no panic while locked");
        spans.iter().filter(|span| wanted(span)).cloned().collect()
    }
}

async fn serve(listener: std::net::TcpListener, kept: Arc<Mutex<Vec<Collected>>>) {
    let listener = TcpListener::from_std(listener).expect("a listener");
    while let Ok((stream, _)) = listener.accept().await {
        let kept = kept.clone();
        let answer = service_fn(move |request| take(request, kept.clone()));
        tokio::spawn(
            http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), answer),
        );
    }
}

/// Keeps the spans of an export and acknowledges all of them.
async fn take(
    request: Request<Incoming>,
    kept: Arc<Mutex<Vec<Collected>>>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, hyper::Error> {
    let message = request.into_body().collect().await?.to_bytes();
    let message = message.slice(PREFIX.min(message.len())..);
    let export = ExportTraceServiceRequest::decode(message).expect("an export");
    let mut kept = kept.lock().expect("no panic while locked");
    for spans in export.resource_spans {
        let resource = spans.resource.unwrap_or_default();
        let service = attribute(&resource.attributes, "service.name");
        let of_scopes = spans.scope_spans.into_iter().flat_map(|scope| scope.spans);
        kept.extend(of_scopes.map(|span| Collected {
            service: service.clone(),
            span,
        }));
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let body = Full::new(Bytes::from_static(&[0; PREFIX]));
    let body = body.with_trailers(std::future::ready(Some(Ok(trailers))));
    let mut response = Response::new(body.boxed());
    let grpc = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert("content-type", grpc);
    Ok(response)
}

fn attribute(attributes: &[KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == key);
    match found.and_then(|attribute| attribute.value.clone()) {
        Some(AnyValue {
            value: Some(Value::StringValue(text)),
        }) => text,
        Some(AnyValue {
            value: Some(Value::IntValue(number)),
        }) => number.to_string(),
        _ => String::new(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
