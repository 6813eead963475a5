//! Reads a complete list as the beginning of a watch (WatchList, KEP-3157).
//! Every object comes as an event, then a bookmark marks their end, and the
//! same stream continues as the watch.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::{Duration, Instant};

use apifront_source::{BodyStream, ReadKind, Source};
use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use http_body::Body;
use kubernetes_wire::api::{GroupVersionResource, ResourceVersion};
use kubernetes_wire::representation::protobuf_envelope::Answer;
use kubernetes_wire::representation::{BookmarkTemplate, Encoding, Envelope, Form};
use rand::Rng;
use serde::Deserialize;

use super::initial_objects::InitialObjects;
use super::list::{answer_error, code_of, message, warnings};
use super::list_error::ListError;
use super::list_progress::ListProgress;
use super::memory_pool::MemoryReservation;
use super::source_encoding;
use super::watch_decoder::{Frame, Object, WatchDecodeError, WatchDecoder};
use crate::store::{Change, FieldTable, Gathered, StoredObject};

/// The duration of a watch in seconds: 15 to 30 minutes. client-go's watches
/// last a third of that, and each end costs the API server two requests.
const WATCH_SECONDS: std::ops::Range<u64> = 900..1800;

/// The longest silence before the end of the initial events. A server that does
/// not know initial events sends its objects and then waits for changes. That
/// looks the same as a server that has fallen silent.
const INITIAL_SILENCE: Duration = Duration::from_secs(20);

/// The time that initial events may take beyond the duration that was asked
/// for. A server that keeps to that duration has ended the watch by then.
const MAX_OVERTIME: Duration = Duration::from_secs(30);

/// The annotation on the bookmark that ends the initial events.
const END: &str = "k8s.io/initial-events-end";

pub(super) struct Opened<B = BodyStream> {
    pub(super) frames: WatchDecoder<B>,
    pub(super) at: tokio::time::Instant,
    /// The time after `at` when upstream will end the watch.
    pub(super) lasts: Duration,
    pub(super) warnings: Vec<HeaderValue>,
}

pub(super) fn lifetime() -> Duration {
    Duration::from_secs(rand::rng().random_range(WATCH_SECONDS))
}

/// Asks for all objects as a stream. `None` if upstream does not know initial
/// events.
pub(super) async fn open(
    upstream: &dyn Source,
    gvr: &GroupVersionResource,
    accept: &str,
    reading: MemoryReservation,
) -> Result<Option<Opened>, ListError> {
    let lasts = lifetime();
    // A request without resourceVersion asks for the most recent state.
    let path = format!(
        "{}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
         &allowWatchBookmarks=true&timeoutSeconds={}",
        gvr.path(),
        lasts.as_secs(),
    );
    let response = upstream.get(ReadKind::Watch, &path, accept).await?;
    let encoding = source_encoding::encoding(response.headers());
    let warnings = warnings(response.headers());
    match response.status() {
        StatusCode::OK => Ok(Some(Opened {
            frames: WatchDecoder::new(response.into_body().into_stream(), encoding, reading),
            at: tokio::time::Instant::now(),
            lasts,
            warnings,
        })),
        // Upstream does not understand the options, or not their combination.
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => Ok(None),
        _ => Err(answer_error(response).await),
    }
}

pub(super) struct Initial {
    pub(super) objects: Gathered,
    pub(super) resource_version: u64,
    /// The envelope without the list's kind, which no event shows.
    pub(super) envelope: Envelope,
    pub(super) bookmark: Option<BookmarkTemplate>,
}

/// Reads the initial events to their end, within the memory limit and the
/// duration that was asked for. A time limit is needed because a server may go
/// on replacing objects that it has sent.
pub(super) async fn initial_events<B>(
    stream: &mut Opened<B>,
    gvr: &GroupVersionResource,
    fields: &FieldTable,
    reading: &mut MemoryReservation,
) -> Result<Initial, ListError>
where
    B: Body<Data = Bytes, Error: Display> + Unpin,
{
    let most = stream.lasts.saturating_add(MAX_OVERTIME);
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
    let mut objects = InitialObjects::default();
    loop {
        let frame = tokio::time::timeout(INITIAL_SILENCE, frames.next())
            .await
            .map_err(|_| ListError::Silent(INITIAL_SILENCE))?
            .map_err(of_frame)?
            .ok_or_else(|| ListError::Body("the watch ended".to_owned()))?;
        match frame {
            Frame::Object { change, object } => {
                let envelope = match &envelope {
                    Some(envelope) => envelope,
                    None => envelope.insert(type_of_object(&object)?),
                };
                let item = object.item(envelope).ok_or(ListError::Form)?;
                let object = StoredObject::decode(object.encoding, item, fields, envelope)?;
                let gone = if change == Change::Deleted {
                    objects.remove(&object.key)
                } else {
                    reading.take(object.size()).await?;
                    objects.put(object)
                };
                reading.give_back(gone);
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
                    objects: objects.finish(),
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

/// Returns the bookmark's version, if the bookmark ends the initial events.
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
