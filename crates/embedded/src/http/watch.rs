//! WATCH: a cursor over a resource's event log, turned into frames.
//!
//! ```text
//! initial events ─▶ end bookmark ─▶ live ─▶ deadline, resource gone, or
//!   (if asked)        (if asked)     │       history lost: the stream ends
//!                                    └─ bookmarks every period
//! ```
//!
//! The rules are those of apiserver `storage/cacher/cache_watcher.go`.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::stream;
use http::Response;
use kubernetes_wire::{
    api::{Reason, Status, go_json},
    negotiation::{IncludeObject, MediaType, Transform},
    representation::{EventType, json_envelope::watch_frame, whole},
};
use rand::Rng;
use tokio::{sync::watch::Receiver, time::Instant};

use super::{
    call::Call,
    fresh::wait_for,
    list_options::parse_version,
    reply::{self, Body},
    selection::Selection,
};
use crate::{
    registry::Resource,
    server::EmbeddedServer,
    storage::{Event, Keyspace, Stored},
    table, view,
};

/// The most events in one chunk, which bounds the memory for a slow reader.
const MAX_BATCH_EVENTS: usize = 100;

/// The longest time limit. No client watches longer, and clocks can still represent
/// it.
const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A watch without timeoutSeconds ends after one to two times this long
/// (`--min-request-timeout`).
const MIN_REQUEST_TIMEOUT: Duration = Duration::from_secs(1800);

/// The time before a watch's end at which it sends a bookmark, which saves its
/// client a relist.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

pub(super) async fn start(call: &Call<'_>, selection: Selection) -> Result<Response<Body>, Status> {
    let wanted = call.negotiate_watch()?;
    let protobuf = wanted.media_type == MediaType::Protobuf;
    let content_type = if protobuf {
        "application/vnd.kubernetes.protobuf;stream=watch"
    } else {
        MediaType::Json.as_str()
    };
    let include_object = call.include_object()?;
    let options = &selection.options;
    let requested = parse_version(&options.resource_version)
        .map_err(|text| Status::failure(500, Reason::Unknown, text))?;
    let now = Instant::now();
    let timeout = match options.timeout_seconds {
        Some(seconds) if seconds > 0 => {
            Duration::from_secs(seconds.unsigned_abs()).min(MAX_TIMEOUT)
        }
        _ => MIN_REQUEST_TIMEOUT.mul_f64(rand::rng().random_range(1.0..2.0)),
    };
    let keyspace = call.storage().keyspace(&call.group_resource());
    let mut stream = Stream {
        server: call.server.clone(),
        changed: keyspace.subscribe(),
        keyspace,
        resource: call.resource.clone(),
        bookmarks: options.allow_watch_bookmarks,
        transform: wanted.transform,
        protobuf,
        include_object,
        columns_sent: false,
        initial: VecDeque::new(),
        end_bookmark: false,
        error: None,
        cursor: requested,
        bookmarked: 0,
        resource_gone: false,
        deadline: now.checked_add(timeout).unwrap_or(now),
        next_bookmark: now,
        selection,
    };
    stream.schedule_bookmark(now);
    stream.position(call, requested).await;
    let frames = stream::unfold(stream, |mut stream| async move {
        let bytes = stream.next().await?;
        Some((bytes, stream))
    });
    Ok(reply::stream(content_type, frames))
}

struct Stream {
    server: EmbeddedServer,
    keyspace: Arc<Keyspace>,
    changed: Receiver<u64>,
    resource: Arc<Resource>,
    selection: Selection,
    bookmarks: bool,
    transform: Transform,
    protobuf: bool,
    include_object: IncludeObject,
    /// True after the first event of a watch for Tables. Only that event has the
    /// columns.
    columns_sent: bool,
    /// Objects of the initial state that are still to be sent as ADDED.
    initial: VecDeque<Arc<Stored>>,
    end_bookmark: bool,
    /// An error that is sent instead of everything else. Then the stream ends.
    error: Option<Status>,
    /// The revision up to which all events have been seen.
    cursor: u64,
    /// The revision that the client knows from the start or from a bookmark.
    bookmarked: u64,
    resource_gone: bool,
    deadline: Instant,
    next_bookmark: Instant,
}

impl Stream {
    async fn position(&mut self, call: &Call<'_>, requested: u64) {
        let send_initial = self.selection.options.send_initial_events;
        if send_initial == Some(true) {
            if let Err(status) = wait_for(call, requested).await {
                self.error = Some(status);
                return;
            }
            let snapshot = self.keyspace.snapshot(self.server.storage().revision());
            self.cursor = snapshot.revision;
            self.initial = snapshot
                .objects
                .iter()
                .filter(|(key, _)| self.selection.has_key(key))
                .filter(|(_, object)| self.selection.matches(&self.resource, object))
                .map(|(_, object)| object.clone())
                .collect();
            self.end_bookmark = self.bookmarks;
        } else if requested == 0 {
            self.cursor = self.server.storage().revision();
        } else if let Err(old) = self.keyspace.events_after(requested, 0) {
            self.error = Some(Status::expired(format!(
                "too old resource version: {requested} ({})",
                old.oldest.saturating_sub(1)
            )));
        }
        self.bookmarked = self.cursor;
    }

    async fn next(&mut self) -> Option<Bytes> {
        if let Some(status) = self.error.take() {
            self.resource_gone = true;
            return Some(self.error_frame(&status));
        }
        let frames = self.frames().await?;
        // No event is a list, so the first event cannot be written and ends the
        // stream.
        let is_list = matches!(self.transform, Transform::PartialObjectMetadataList(_));
        (!is_list).then_some(frames)
    }

    async fn frames(&mut self) -> Option<Bytes> {
        loop {
            if !self.initial.is_empty() {
                return Some(self.initial_frames());
            }
            if self.end_bookmark {
                self.end_bookmark = false;
                let object = view::bookmark(&self.resource, self.cursor, true);
                return Some(self.frame(EventType::Bookmark, object));
            }
            if Instant::now() >= self.deadline {
                return None;
            }
            let revision = self.server.storage().revision();
            // The history was lost while streaming, so the client must start
            // again.
            let events = self
                .keyspace
                .events_after(self.cursor, MAX_BATCH_EVENTS)
                .ok()?;
            match events.last() {
                Some(last) => {
                    self.cursor = last.revision;
                    let frames = self.live_frames(&events);
                    if !frames.is_empty() {
                        return Some(frames);
                    }
                    continue;
                }
                None if self.resource_gone => return None,
                // The cursor may be in the future; it never moves back.
                None => self.cursor = self.cursor.max(revision),
            }
            if let Some(frame) = self.due_bookmark() {
                return Some(frame);
            }
            tokio::select! {
                changed = self.changed.changed() => self.resource_gone = changed.is_err(),
                () = tokio::time::sleep_until(self.next_bookmark.min(self.deadline)) => {}
            }
        }
    }

    fn due_bookmark(&mut self) -> Option<Bytes> {
        let now = Instant::now();
        if now < self.next_bookmark {
            return None;
        }
        self.schedule_bookmark(now);
        let known = self.server.storage().revision().min(self.cursor);
        if !self.bookmarks || known <= self.bookmarked {
            return None;
        }
        self.bookmarked = known;
        let object = view::bookmark(&self.resource, known, false);
        Some(self.frame(EventType::Bookmark, object))
    }

    fn schedule_bookmark(&mut self, now: Instant) {
        let period = self.server.options().bookmark_period.min(MAX_TIMEOUT);
        let periodic = now.checked_add(period).unwrap_or(now);
        let last = self.deadline.checked_sub(LAST_BOOKMARK);
        self.next_bookmark = match last {
            Some(last) if last > now && last < periodic => last,
            _ => periodic,
        };
    }

    fn initial_frames(&mut self) -> Bytes {
        let count = self.initial.len().min(MAX_BATCH_EVENTS);
        let objects: Vec<_> = self.initial.drain(..count).collect();
        let mut out = Vec::new();
        for object in objects {
            let object = view::object(&self.resource, &object);
            out.extend_from_slice(&self.frame(EventType::Added, object));
        }
        out.into()
    }

    fn live_frames(&mut self, events: &[Event]) -> Bytes {
        let mut out = Vec::new();
        for event in events {
            if let Some((kind, object)) = self.convert(event) {
                out.extend_from_slice(&self.frame(kind, object));
            }
        }
        out.into()
    }

    /// Converts an event. An object that leaves the selection is DELETED as it
    /// last matched, with the revision of the event (`convertToWatchEvent`).
    fn convert(&self, event: &Event) -> Option<(EventType, Bytes)> {
        if !self.selection.has_key(&event.key) {
            return None;
        }
        let passes = |object: &Option<Arc<Stored>>| {
            object
                .as_ref()
                .filter(|object| self.selection.matches(&self.resource, object))
                .cloned()
        };
        let (current, previous) = (passes(&event.current), passes(&event.previous));
        let view = |object: &Stored| view::object(&self.resource, object);
        match (current, previous) {
            (Some(current), None) => Some((EventType::Added, view(&current))),
            (Some(current), Some(_)) => Some((EventType::Modified, view(&current))),
            (None, Some(previous)) => Some((
                EventType::Deleted,
                match &event.removed {
                    Some(removed) => view(removed),
                    None => view(&previous.restamped(event.revision)),
                },
            )),
            (None, None) => None,
        }
    }

    fn frame(&mut self, event: EventType, object: Bytes) -> Bytes {
        let object = self.shaped(&object).unwrap_or(object);
        self.encoded(event, &object)
    }

    fn error_frame(&self, status: &Status) -> Bytes {
        self.encoded(EventType::Error, &go_json::to_vec(status))
    }

    /// Writes an event. An object that cannot be written as protobuf is replaced by
    /// an error.
    fn encoded(&self, event: EventType, object: &[u8]) -> Bytes {
        if !self.protobuf {
            return watch_frame(event, object);
        }
        whole::protobuf_frame(event, object).unwrap_or_else(|| {
            let status = Status::internal_error("the object cannot be written as protobuf");
            let status = go_json::to_vec(&status);
            whole::protobuf_frame(EventType::Error, &status).unwrap_or_default()
        })
    }

    /// Returns the object in the requested representation, or unchanged if that
    /// fails.
    fn shaped(&mut self, object: &Bytes) -> Option<Bytes> {
        match self.transform {
            Transform::Table(version) => {
                let first = !self.columns_sent;
                let include = self.include_object;
                let table = table::event(&self.resource, object, version, include, first)?;
                self.columns_sent = true;
                Some(table)
            }
            Transform::PartialObjectMetadata(version) => {
                table::metadata(&self.resource, object, version)
            }
            Transform::None | Transform::PartialObjectMetadataList(_) => None,
        }
    }
}
