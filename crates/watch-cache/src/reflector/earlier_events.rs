//! Asks upstream for the events before a store's history.
//!
//! A client may bring a version from before the history: it was connected to
//! another process, or to this one before the last resync. Upstream usually
//! still knows the events after that version. A short watch reads them, up to a
//! version that the history has. So the client's own watch need not be
//! forwarded for its whole duration.
//!
//! ```text
//! client's version ─── short watch ──▶ its last event or bookmark ─── log ──▶
//!                            │
//!                   history begins here
//! ```

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use apifront_source::ReadKind;
use bytes::Bytes;
use http::StatusCode;
use http_body::Body;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::cache::Cache;
use super::earlier_answers::{SMALL_BYTES, Selected};
use super::entry::Entry;
use super::freshness_probe::{listed_version, version_of};
use super::source_encoding;
use super::watch_decoder::{Frame, WatchDecoder};
use crate::store::{EarlierEvents, SharedEvents, Store};

/// The most bytes and events that are read for one question.
const MOST_BYTES: usize = 256 << 10;
const MOST_EVENTS: usize = 1_000;

/// The duration of the short watch in seconds. kube-apiserver sends its bookmark two
/// seconds before the end, or up to a second later; in a shorter watch, it sends none.
const WATCH_SECONDS: &str = "3";
const EVENTS_TIMEOUT: Duration = Duration::from_secs(4);
/// If the server learns of a newer version only after its bookmarks were due, a second
/// watch gets one.
const TRIES: usize = 2;
/// The silence after which the server is made to learn of a newer version. Events, and
/// an error, come at once.
const SILENT_FOR: Duration = Duration::from_millis(300);

/// The events that a watch wants: those after a version, of the selected
/// objects in a namespace.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// The caller, who gets a share of the places. `None` is apifront's own
    /// user.
    pub caller: Option<&'a str>,
    pub namespace: &'a str,
    /// The selectors as the client wrote them.
    pub label_selector: Option<&'a str>,
    pub field_selector: Option<&'a str>,
    pub after: u64,
}

impl Wanted<'_> {
    fn path(&self, entry: &Entry) -> String {
        let (gvr, after) = (&entry.gvr, self.after);
        let mut path = gvr.path_in(self.namespace);
        path.push_str(&format!(
            "?watch=true&resourceVersion={after}&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}"
        ));
        for (key, selector) in [
            ("labelSelector", self.label_selector),
            ("fieldSelector", self.field_selector),
        ] {
            if let Some(selector) = selector {
                let selector = utf8_percent_encode(selector, NON_ALPHANUMERIC);
                path.push_str(&format!("&{key}={selector}"));
            }
        }
        path
    }

    fn selected(&self, entry: &Entry, store: &Store) -> Selected {
        Selected {
            gvr: entry.gvr.clone(),
            epoch: store.epoch(),
            namespace: self.namespace.to_owned(),
            label_selector: self.label_selector.map(str::to_owned),
            field_selector: self.field_selector.map(str::to_owned),
        }
    }
}

/// Why a watch does not get the events that it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoEarlierEvents {
    /// Upstream does not tell them soon, or they are too many.
    Untold,
    /// As many questions are asked, or their answers held, as one caller or all may
    /// have.
    NoPlace,
}

impl Cache {
    /// Returns the wanted events, up to a version from which the store's
    /// history continues.
    pub async fn earlier_events(
        &self,
        entry: &Entry,
        store: &Store,
        wanted: Wanted<'_>,
    ) -> Result<EarlierEvents, NoEarlierEvents> {
        let is_of_use = |events: &SharedEvents| store.begin(events.version).is_ok();
        let (answers, after) = (&self.earlier_answers, wanted.after);
        let question = answers.question(wanted.selected(entry, store), after, is_of_use);
        let is_first = question.after == after;
        let earliest = Wanted {
            after: question.after,
            ..wanted.clone()
        };
        let mut asks = false;
        // A watch that finds no place leaves the question to the next one.
        let asked = question.answer.get_or_try_init(|| {
            asks = true;
            self.ask(entry, store, earliest)
        });
        let answer = asked.await?.clone();
        match answer.filter(|events| is_of_use(events)) {
            Some(events) => {
                if asks && events.place.is_none() {
                    answers.keep(&question);
                }
                Ok(EarlierEvents::after(events, after))
            }
            None if is_first => Err(NoEarlierEvents::Untold),
            // There may be fewer events after this version.
            None => {
                let events = self.ask(entry, store, wanted).await?;
                let events = events.ok_or(NoEarlierEvents::Untold)?;
                Ok(EarlierEvents::after(events, after))
            }
        }
    }

    /// Returns what upstream tells, if it does.
    async fn ask(
        &self,
        entry: &Entry,
        store: &Store,
        wanted: Wanted<'_>,
    ) -> Result<Option<Arc<SharedEvents>>, NoEarlierEvents> {
        let caller = wanted.caller.map(Into::into);
        let places = match (wanted.label_selector, wanted.field_selector) {
            (None, None) => &self.earlier_of_all,
            _ => &self.earlier,
        };
        let place = places.take(caller, 1);
        let place = place.map_err(|_| NoEarlierEvents::NoPlace)?;
        for _ in 0..TRIES {
            let told = self.told(entry, store, wanted.clone());
            match tokio::time::timeout(EVENTS_TIMEOUT, told).await {
                Ok(Told::Silence) => {}
                Ok(Told::Events(mut events, bytes)) => {
                    events.place = (bytes > SMALL_BYTES).then_some(place);
                    return Ok(Some(Arc::new(events)));
                }
                Ok(Told::Nothing) | Err(_) => break,
            }
        }
        Ok(None)
    }

    async fn told(&self, entry: &Entry, store: &Store, wanted: Wanted<'_>) -> Told {
        let accept = source_encoding::accept(&entry.gvr, entry.provenance().reads_json());
        let path = wanted.path(entry);
        let asked = entry.upstream();
        let answer = asked.get(ReadKind::EarlierEvents, &path, accept);
        let answer = answer.await.ok();
        let Some(answer) = answer.filter(|answer| answer.status() == StatusCode::OK) else {
            return Told::Nothing;
        };
        let encoding = source_encoding::encoding(answer.headers());
        let body = answer.into_body().into_stream();
        let frames = WatchDecoder::new(body, encoding, self.memory.begin(0));
        // kube-apiserver sends no bookmark of a version at which the watch began. If it
        // has no events either, this makes it ask etcd for a newer version.
        let newer = async {
            tokio::time::sleep(SILENT_FOR).await;
            listed_version(&*asked, &entry.gvr, store.resource.namespaced).await
        };
        let read = read(frames, store);
        tokio::pin!(read);
        tokio::select! {
            biased;
            told = &mut read => told,
            _ = newer => read.await,
        }
    }
}

/// A short watch of upstream ends in one of these ways.
enum Told {
    /// The events up to a version that the store's history has, and their bytes.
    Events(SharedEvents, usize),
    /// The watch has ended without an event or a bookmark.
    Silence,
    /// Nothing of use.
    Nothing,
}

/// Reads the events up to a version that the store's history has.
async fn read<B>(mut frames: WatchDecoder<B>, store: &Store) -> Told
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    let mut events = Vec::new();
    let mut bytes = 0usize;
    loop {
        let version = match frames.next().await {
            Ok(Some(Frame::Object { change, object })) => {
                bytes = bytes.saturating_add(object.bytes.len());
                if bytes > MOST_BYTES || events.len() >= MOST_EVENTS {
                    return Told::Nothing;
                }
                let Ok(object) = object.stored(&store.resource) else {
                    return Told::Nothing;
                };
                let version = object.resource_version;
                events.push((change, object));
                version
            }
            Ok(Some(Frame::Bookmark(object))) => match version_of(&object) {
                Some(version) => version,
                None => return Told::Nothing,
            },
            Ok(None) if events.is_empty() => return Told::Silence,
            Ok(Some(Frame::Error(_)) | None) | Err(_) => return Told::Nothing,
        };
        // Upstream has sent everything up to this version.
        if store.begin(version).is_ok() {
            let events = SharedEvents {
                events,
                version,
                place: None,
            };
            return Told::Events(events, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use apifront_shares::Shares;

    use crate::reflector::cache::EARLIER_EVENTS_PLACES;

    #[test]
    fn one_callers_watches_leave_places_for_those_of_others() {
        let places: Shares<Arc<str>> = Shares::new(EARLIER_EVENTS_PLACES);
        let flood = (0..1_000).filter_map(|_| places.take(Arc::from("flood"), 1).ok());
        let flood: Vec<_> = flood.collect();
        assert_eq!(flood.len(), 24);
        let jane = (0..12).map(|_| places.take(Arc::from("jane"), 1));
        assert!(jane.collect::<Vec<_>>().iter().all(Result::is_ok));
    }
}
