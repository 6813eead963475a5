//! A kube-apiserver of a future release: the real one, with an extra field in the
//! metadata and spec of each pod that no present schema knows.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use futures::stream;
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::task::JoinHandle;

use super::client::Client;
use super::ports;

/// The JSON of the new field, the first member of metadata and spec.
pub const JSON_FIELD: &str = r#""brandNew":{"is":["here",1]},"#;
/// The protobuf of the new field: number 900, a string, the last field of
/// metadata and spec.
pub const PROTOBUF_FIELD: &[u8] = b"\xa2\x38\x09brand new";

type Body = UnsyncBoxBody<Bytes, hyper::Error>;

pub struct Newer {
    pub address: SocketAddr,
    accept: JoinHandle<()>,
}

impl Newer {
    /// Starts the server on loopback, with plain HTTP/1.1. It calls `upstream` as
    /// that client's user for every caller.
    pub async fn before(upstream: Client) -> Self {
        let listener = ports::listen_async();
        let address = listener.local_addr().expect("an address");
        let accept = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let upstream = upstream.clone();
                let service = service_fn(move |request| {
                    let upstream = upstream.clone();
                    async move { Ok::<_, Infallible>(answer(&upstream, request).await) }
                });
                let serve = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                // A client may disconnect early.
                tokio::spawn(async move { drop(serve.await) });
            }
        });
        Self { address, accept }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Newer {
    fn drop(&mut self) {
        self.accept.abort();
    }
}

async fn answer(upstream: &Client, request: Request<Incoming>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().expect("a path").as_str();
    let headers: Vec<(&str, &str)> = parts
        .headers
        .iter()
        // A compressed body could not be changed.
        .filter(|(name, _)| !["host", "accept-encoding", "connection"].contains(&name.as_str()))
        .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
        .collect();
    let body = body.collect().await.expect("a body").to_bytes();
    let response = upstream
        .try_open(parts.method.clone(), path, &headers, body)
        .await
        .expect("kube-apiserver answers");
    let (mut head, body) = response.into_parts();
    if !parts.uri.path().ends_with("/pods") && !parts.uri.path().contains("/pods/") {
        return Response::from_parts(head, body.boxed_unsync());
    }
    head.headers.remove("content-length");
    let framing = Framing::for_answer(&head.headers, path);
    let body = match framing {
        None => {
            let whole = body.collect().await.expect("a whole body").to_bytes();
            let never = |never: Infallible| match never {};
            Full::new(newer(&whole)).map_err(never).boxed_unsync()
        }
        Some(framing) => StreamBody::new(events(body, framing)).boxed_unsync(),
    };
    Response::from_parts(head, body)
}

#[derive(Clone, Copy)]
enum Framing {
    Lines,
    /// A length of four bytes, big-endian, comes before each event.
    Lengths,
}

impl Framing {
    fn for_answer(headers: &HeaderMap, path: &str) -> Option<Self> {
        let content_type = headers.get("content-type")?.to_str().ok()?;
        if !path.contains("watch=") {
            return None;
        }
        let protobuf = content_type.contains("protobuf");
        Some(if protobuf { Self::Lengths } else { Self::Lines })
    }

    /// Takes the next event out of the buffer, if it is complete, and rewrites it.
    fn take(self, buffer: &mut BytesMut) -> Option<Bytes> {
        match self {
            Self::Lines => {
                let end = buffer.iter().position(|b| *b == b'\n')?;
                Some(newer(&buffer.split_to(end + 1)))
            }
            Self::Lengths => {
                let length = u32::from_be_bytes(*buffer.first_chunk()?) as usize;
                if buffer.len() < 4 + length {
                    return None;
                }
                // The event is a WatchEvent{2: RawExtension{1: an envelope}}
                // and has no envelope itself.
                let event = buffer.split_to(4 + length);
                let event = change(&event[4..], 2, &|object| change(object, 1, &envelope));
                let length = u32::try_from(event.len()).expect("an event");
                Some([&length.to_be_bytes()[..], &event].concat().into())
            }
        }
    }
}

fn events(
    body: Incoming,
    framing: Framing,
) -> impl futures::Stream<Item = Result<Frame<Bytes>, hyper::Error>> {
    stream::unfold(
        (body, BytesMut::new()),
        move |(mut body, mut buffer)| async move {
            loop {
                if let Some(event) = framing.take(&mut buffer) {
                    return Some((Ok(Frame::data(event)), (body, buffer)));
                }
                match body.frame().await? {
                    Ok(frame) => buffer.extend_from_slice(&frame.into_data().unwrap_or_default()),
                    Err(error) => return Some((Err(error), (body, buffer))),
                }
            }
        },
    )
}

fn newer(body: &[u8]) -> Bytes {
    if body.starts_with(PREFIX) {
        return envelope(body).into();
    }
    let text = String::from_utf8_lossy(body);
    // In pods, only metadata and spec have these first members.
    let text = text.replace(
        "\"metadata\":{\"name\"",
        &format!("\"metadata\":{{{JSON_FIELD}\"name\""),
    );
    let text = text.replace("\"spec\":{\"", &format!("\"spec\":{{{JSON_FIELD}\""));
    text.into()
}

const PREFIX: &[u8] = b"k8s\0";

/// Changes `k8s\0` and Unknown{1: TypeMeta{1: apiVersion, 2: kind}, 2: the
/// message}.
fn envelope(data: &[u8]) -> Vec<u8> {
    let unknown = &data[PREFIX.len()..];
    let type_meta = field(unknown, 1).expect("a TypeMeta");
    let kind = field(type_meta, 2).expect("a kind").to_vec();
    let changed = change(unknown, 2, &|message| match kind.as_slice() {
        b"Pod" => pod(message),
        b"PodList" => change(message, 2, &pod),
        b"PartialObjectMetadata" => change(message, 1, &append),
        b"PartialObjectMetadataList" => change(message, 2, &|item| change(item, 1, &append)),
        _ => message.to_vec(),
    });
    [PREFIX, &changed].concat()
}

/// Changes a pod's fields 1, ObjectMeta, and 2, PodSpec.
fn pod(message: &[u8]) -> Vec<u8> {
    change(&change(message, 1, &append), 2, &append)
}

fn append(message: &[u8]) -> Vec<u8> {
    // The bookmark of a watch has a version but no name, and stays unchanged.
    match field(message, 1) {
        Some(b"") => message.to_vec(),
        _ => [message, PROTOBUF_FIELD].concat(),
    }
}

/// Copies the message, with `with` applied to every field `number`.
fn change(message: &[u8], number: u64, with: &dyn Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let mut out = Vec::new();
    for (tag, whole, inner) in fields(message) {
        if tag == number << 3 | 2 {
            let inner = with(inner);
            prost::encoding::encode_varint(tag, &mut out);
            prost::encoding::encode_varint(inner.len() as u64, &mut out);
            out.extend_from_slice(&inner);
        } else {
            out.extend_from_slice(whole);
        }
    }
    out
}

fn field(message: &[u8], number: u64) -> Option<&[u8]> {
    let found = fields(message)
        .into_iter()
        .find(|(tag, ..)| tag >> 3 == number);
    found.map(|(_, _, inner)| inner)
}

/// Returns the tag, the whole field and, if it has a length, the content of each
/// field.
fn fields(mut message: &[u8]) -> Vec<(u64, &[u8], &[u8])> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let whole = message;
        let tag = varint(&mut message);
        let inner = match tag & 7 {
            0 => {
                varint(&mut message);
                &[]
            }
            2 => {
                let length = usize::try_from(varint(&mut message)).expect("a length");
                let (inner, rest) = message.split_at(length);
                message = rest;
                inner
            }
            wire => panic!("wire type {wire} in a pod"),
        };
        found.push((tag, &whole[..whole.len() - message.len()], inner));
    }
    found
}

fn varint(message: &mut &[u8]) -> u64 {
    prost::encoding::decode_varint(message).expect("a varint")
}
