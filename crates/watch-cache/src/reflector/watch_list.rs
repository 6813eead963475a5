//! A complete list as the beginning of a watch (WatchList, KEP-3157): every
//! object as an event, then a bookmark that says so, and the same stream goes
//! on as the watch.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::{Duration, Instant};

use apifront_upstream::{BodyStream, Upstream, UpstreamKind};
use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use hyper::body::Body;
use kubernetes_wire::api::{GroupVersionResource, ResourceVersion};
use kubernetes_wire::representation::protobuf_envelope::Answer;
use kubernetes_wire::representation::{BookmarkTemplate, Encoding, Envelope, Form};
use rand::Rng;
use serde::Deserialize;

use super::list::{ListError, answer_error, code_of, message, warnings};
use super::list_progress::ListProgress;
use super::memory_pool::MemoryReservation;
use super::source_encoding;
use super::watch_decoder::{Frame, Object, WatchDecodeError, WatchDecoder};
use crate::store::{FieldTable, ObjectKey, StoredObject};

/// A watch is renewed after 5 to 10 minutes, as client-go does.
const WATCH_SECONDS: std::ops::Range<u64> = 300..600;

/// Between two of the initial events, or before their end. A server that knows
/// nothing of initial events sends what it has and then waits for changes: it
/// looks just like one that has fallen silent.
const INITIAL_SILENCE: Duration = Duration::from_secs(20);

/// How much longer than a watch was asked to last its initial events may take.
/// A server that keeps to the time has ended the watch by then.
const OVERTIME: Duration = Duration::from_secs(30);

/// Marks the bookmark that ends the initial events.
const END: &str = "k8s.io/initial-events-end";

/// A watch that upstream has opened.
pub(super) struct Opened<B = BodyStream> {
    pub(super) frames: WatchDecoder<B>,
    pub(super) at: tokio::time::Instant,
    /// When upstream will end it, from then on.
    pub(super) lasts: Duration,
    /// The `Warning` headers of the answer.
    pub(super) warnings: Vec<HeaderValue>,
}

/// How long the next watch shall last.
pub(super) fn lifetime() -> Duration {
    Duration::from_secs(rand::rng().random_range(WATCH_SECONDS))
}

/// Asks for everything as a stream. `None` where upstream does not know that.
pub(super) async fn open(
    upstream: &Upstream,
    gvr: &GroupVersionResource,
    accept: &str,
    reading: MemoryReservation,
) -> Result<Option<Opened>, ListError> {
    let lasts = lifetime();
    // No resourceVersion: the most recent state.
    let path = format!(
        "{}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
         &allowWatchBookmarks=true&timeoutSeconds={}",
        gvr.path(),
        lasts.as_secs(),
    );
    let response = upstream.get_as(UpstreamKind::Watch, &path, accept).await?;
    let encoding = source_encoding::encoding(response.headers());
    let warnings = warnings(response.headers());
    match response.status() {
        StatusCode::OK => Ok(Some(Opened {
            frames: WatchDecoder::new(response.into_body().into_stream(), encoding, reading),
            at: tokio::time::Instant::now(),
            lasts,
            warnings,
        })),
        // The options are not understood, or not allowed together.
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => Ok(None),
        _ => Err(answer_error(response).await),
    }
}

/// What the initial events told.
pub(super) struct Initial {
    pub(super) objects: Vec<StoredObject>,
    pub(super) resource_version: u64,
    /// With all but the list's kind, which no event shows.
    pub(super) envelope: Envelope,
    pub(super) bookmark: Option<BookmarkTemplate>,
}

/// Reads the initial events to their end, as far as there is room and within the
/// time that the watch was asked to last: a server may send without end what
/// replaces what it sent before.
pub(super) async fn initial_events<B>(
    stream: &mut Opened<B>,
    gvr: &GroupVersionResource,
    fields: &FieldTable,
    reading: &mut MemoryReservation,
) -> Result<Initial, ListError>
where
    B: Body<Data = Bytes, Error: Display> + Unpin,
{
    let most = stream.lasts.saturating_add(OVERTIME);
    let left = most.saturating_sub(stream.at.elapsed());
    let events = events(&mut stream.frames, gvr, fields, reading);
    match tokio::time::timeout(left, events).await {
        Ok(initial) => initial,
        Err(_) => Err(ListError::Body(format!("no end after {most:?}"))),
    }
}

async fn events<B>(
    frames: &mut WatchDecoder<B>,
    gvr: &GroupVersionResource,
    fields: &FieldTable,
    reading: &mut MemoryReservation,
) -> Result<Initial, ListError>
where
    B: Body<Data = Bytes, Error: Display> + Unpin,
{
    let mut progress = ListProgress::new(gvr, Instant::now());
    let mut envelope = None;
    // In key order, as a list has them. A server whose cache was behind sends
    // the changes it catches up with before the end, deletions too.
    let mut objects: BTreeMap<ObjectKey, StoredObject> = BTreeMap::new();
    loop {
        let frame = tokio::time::timeout(INITIAL_SILENCE, frames.next())
            .await
            .map_err(|_| ListError::Silent(INITIAL_SILENCE))?
            .map_err(of_frame)?
            .ok_or_else(|| ListError::Body("the watch ended".to_owned()))?;
        match frame {
            Frame::Object { deleted, object } => {
                let envelope = match &envelope {
                    Some(envelope) => envelope,
                    None => envelope.insert(type_of_object(&object)?),
                };
                let item = object.item(envelope).ok_or(ListError::Form)?;
                let object = StoredObject::decode(object.encoding, item, fields, envelope)?;
                let gone = if deleted {
                    objects.remove(&object.key)
                } else {
                    reading.take(object.size()).await?;
                    objects.insert(object.key.clone(), object)
                };
                reading.give_back(gone.map_or(0, |o| o.size()));
                progress.objects(objects.len(), Instant::now());
            }
            Frame::Bookmark(object) => {
                let Some(resource_version) = end_version(&object)? else {
                    continue;
                };
                let envelope = match envelope {
                    Some(envelope) => envelope,
                    None => type_of(&object)?,
                };
                return Ok(Initial {
                    objects: objects.into_values().collect(),
                    resource_version,
                    envelope,
                    bookmark: BookmarkTemplate::learn(&object),
                });
            }
            Frame::Error(status) => {
                let code = code_of(&status);
                return Err(ListError::Failed {
                    status: StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
                    message: message(&status),
                    retry_after: None,
                });
            }
        }
    }
}

fn of_frame(error: WatchDecodeError) -> ListError {
    match error {
        WatchDecodeError::MemoryExhausted(error) => error.into(),
        error => ListError::Body(error.to_string()),
    }
}

fn type_of_object(object: &Object) -> Result<Envelope, ListError> {
    match object.encoding {
        Encoding::Json => type_of(&object.bytes),
        Encoding::Protobuf => {
            let answer = Answer::parse(&object.bytes).ok_or(ListError::Form)?;
            let (api_version, kind) = (answer.api_version, answer.kind);
            Ok(Envelope::new(Form::Struct, api_version, kind, ""))
        }
    }
}

/// Form, kind and apiVersion of a whole object.
fn type_of(object: &[u8]) -> Result<Envelope, ListError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Type {
        kind: String,
        api_version: String,
    }
    let form = Form::detect(object).ok_or(ListError::Form)?;
    let found: Type = serde_json::from_slice(object)?;
    Ok(Envelope::new(form, &found.api_version, &found.kind, ""))
}

/// The version of a bookmark that ends the initial events.
fn end_version(bookmark: &[u8]) -> Result<Option<u64>, ListError> {
    #[derive(Deserialize)]
    struct Bookmark {
        metadata: Meta,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Meta {
        annotations: BTreeMap<String, String>,
        resource_version: String,
    }
    let Bookmark { metadata } = serde_json::from_slice(bookmark)?;
    if metadata.annotations.get(END).is_none_or(|v| v != "true") {
        return Ok(None);
    }
    ResourceVersion::parse(&metadata.resource_version)
        .map(|v| Some(v.0))
        .map_err(ListError::Version)
}
