//! Follows a forwarded watch with a watch of the cache, and compares their events
//! one by one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apifront_watch_cache::read::{BypassReason, WatchPlan};
use apifront_watch_cache::watch::Watch;
use bytes::Bytes;
use http::header::ACCEPT_ENCODING;
use parking_lot::Mutex;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::capture::Head;
use super::{HEARS_WITHIN, Sampled};
use crate::server::answer::cached::{self, Outcome, Pin, Pinned};
use crate::shadow::{
    Columns, Difference, Frame, FrameReader, HeldBytes, Label, Shadow, Subject, Verdict,
};

/// The time within which an event of upstream reaches the cache, or an event of the
/// cache reaches the caller.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(10);

/// The most pieces of upstream's stream that are on their way to the comparison.
const MAX_PENDING_PIECES: usize = 1_024;

/// The caller's side of a followed watch. Dropping it ends the comparison.
pub(in crate::server) struct Tee {
    events: Sender<Bytes>,
    way: Arc<Mutex<Way>>,
}

/// The pieces on their way from the caller's side to the comparison.
struct Way {
    held: HeldBytes,
    /// Whether there was no room for some bytes.
    is_broken: bool,
}

enum End {
    /// Upstream or the caller ended the watch, or the cache's watch came to its end.
    Over,
    NotComparable(&'static str),
    /// The cache would have forwarded it.
    Bypass(BypassReason),
    Difference(Difference),
}

impl Tee {
    /// Begins to follow a watch, if that is possible.
    pub(super) fn start(sampled: Sampled, head: Head, held: HeldBytes) -> Option<Self> {
        let label = sampled.representation.answered_as(head.content_type());
        let shadow = sampled.shadow().clone();
        let (events, arriving) = channel(MAX_PENDING_PIECES);
        let (queued, place) = (sampled.begin(), shadow.watch(sampled.caller()));
        let way = Way {
            held,
            is_broken: false,
        };
        let way = Arc::new(Mutex::new(way));
        let mut follower = Follower {
            subject: sampled.subject(label),
            reader: FrameReader::new(label, head.is_gzip()),
            content_type: head.content_type().to_owned(),
            sampled,
            shadow: shadow.clone(),
            arriving,
            way: way.clone(),
            queued,
            pending: 0,
            columns: Columns::default(),
            upstream: VecDeque::new(),
        };
        let Some(place) = place else {
            follower.judged(Verdict::NotComparable("too_many_watches"));
            return None;
        };
        tokio::spawn(async move {
            let end = follower.follow().await;
            follower.ended(end);
            drop(place);
        });
        Some(Self { events, way })
    }

    /// Takes bytes that upstream sends. Returns false if the watch is not compared
    /// any more.
    pub(in crate::server) fn push(&self, bytes: &Bytes) -> bool {
        let mut way = self.way.lock();
        let goes =
            way.held.grow(bytes.len()).is_ok() && self.events.try_send(bytes.clone()).is_ok();
        way.is_broken = !goes;
        goes
    }
}

struct Follower {
    subject: Subject,
    content_type: String,
    sampled: Sampled,
    shadow: Arc<Shadow>,
    arriving: Receiver<Bytes>,
    way: Arc<Mutex<Way>>,
    reader: FrameReader,
    /// Events that have arrived but are not compared yet, and their bytes.
    upstream: VecDeque<Frame>,
    queued: HeldBytes,
    /// The bytes of an event that has not arrived completely.
    pending: usize,
    columns: Columns,
}

impl Follower {
    fn judged(&self, verdict: Verdict) {
        self.sampled.judged(&self.subject, verdict);
    }

    fn ended(&self, end: End) {
        match end {
            End::Over => {}
            End::NotComparable(why) => self.judged(Verdict::NotComparable(why)),
            End::Difference(found) => self.judged(Verdict::Difference(found)),
            End::Bypass(reason) => {
                self.shadow.would(&self.subject.gvr, Some(reason.as_str()));
            }
        }
    }

    async fn follow(&mut self) -> End {
        let watch = match self.open().await {
            Ok(watch) => watch,
            Err(end) => return end,
        };
        self.shadow.would(&self.subject.gvr, None);
        if watch.content_type() != self.content_type {
            let (theirs, ours) = (&self.content_type, watch.content_type());
            return End::Difference(Difference::of_texts("header content-type", theirs, ours));
        }
        self.compare(watch).await.err().unwrap_or(End::Over)
    }

    /// Opens the watch of the cache where upstream's watch begins.
    async fn open(&mut self) -> Result<Box<Watch>, End> {
        let pin = match cached::watch_plan(&self.sampled.identified) {
            Some(WatchPlan::From(version)) => Pin::NotOlderThan(version),
            None => Pin::NotOlderThan(0),
            Some(WatchPlan::FromNow(_)) => {
                // Only its first event tells where the watch begins.
                let first = self.fill(|_| true).await?;
                let (version, is_bookmark) = self.version_at(first)?;
                Pin::Version(version.saturating_sub(u64::from(!is_bookmark)))
            }
            Some(WatchPlan::InitialEvents(_)) => {
                let end = self.fill(Frame::ends_initial_events).await?;
                Pin::Version(self.version_at(end)?.0)
            }
            // Nothing tells the version of the events at its beginning.
            Some(WatchPlan::Unmarked) => return Err(End::NotComparable("no_version")),
        };
        if let Pin::Version(version) = pin {
            self.subject.version = version;
        }
        let mut request = self.sampled.request.clone();
        request.headers.remove(ACCEPT_ENCODING);
        let mut pinned = Pinned::new(pin, HEARS_WITHIN);
        let identified = self.sampled.identified.clone();
        match cached::answer_at(&request, identified, &mut pinned).await {
            Outcome::Watch(watch, _) => Ok(watch),
            Outcome::Bypass(_) if pinned.not_comparable.is_some() => Err(End::NotComparable(
                pinned.not_comparable.unwrap_or_default(),
            )),
            Outcome::Bypass(reason) => Err(End::Bypass(reason)),
            Outcome::Answer(answer) => Err(End::Difference(Difference::of_texts(
                "status",
                "200",
                answer.status.as_str(),
            ))),
            Outcome::NotAsked => Err(End::NotComparable("not_a_read")),
        }
    }

    /// Reads upstream's events until a wanted one comes, and returns its position.
    async fn fill(&mut self, wanted: impl Fn(&Frame) -> bool) -> Result<usize, End> {
        loop {
            let had = self.upstream.len();
            self.arrive().await?;
            if self.upstream.iter().skip(had).any(Frame::is_error) {
                return Err(End::NotComparable("upstream_error"));
            }
            if let Some(at) = self.upstream.iter().skip(had).position(&wanted) {
                return Ok(had.saturating_add(at));
            }
        }
    }

    /// Returns the version of one of upstream's events, and whether the event is a
    /// bookmark.
    fn version_at(&self, position: usize) -> Result<(u64, bool), End> {
        let frame = self.upstream.get(position);
        let version = frame.and_then(Frame::version);
        let version = version.ok_or(End::NotComparable("no_version"))?;
        Ok((version, frame.is_some_and(Frame::is_bookmark)))
    }

    /// Waits for bytes from upstream. Cancel-safe.
    async fn arrive(&mut self) -> Result<(), End> {
        let Some(bytes) = self.arriving.recv().await else {
            return Err(match self.way.lock().is_broken {
                true => End::NotComparable("no_room"),
                false => End::Over,
            });
        };
        self.way.lock().held.shrink(bytes.len());
        let mut frames = Vec::new();
        let read = self.reader.push(&bytes, &mut frames);
        read.map_err(|_| End::NotComparable("unreadable"))?;
        let whole: usize = frames.iter().map(|frame| frame.bytes.len()).sum();
        self.upstream.extend(frames);
        self.queued.shrink(self.pending);
        self.pending = self.reader.pending();
        let room = self.queued.grow(whole.saturating_add(self.pending));
        room.map_err(|_| End::NotComparable("no_room"))
    }

    /// Compares event by event until one side ends.
    async fn compare(&mut self, mut watch: Box<Watch>) -> Result<(), End> {
        let mut ours: VecDeque<Frame> = VecDeque::new();
        let mut reader = FrameReader::new(self.subject.representation, false);
        let mut is_over = false;
        let mut waits_since = Instant::now();
        loop {
            if self.pair(&mut ours)? {
                waits_since = Instant::now();
            }
            if is_over && self.upstream.is_empty() {
                return Ok(());
            }
            let awaits_ours = !self.upstream.is_empty();
            if !awaits_ours {
                waits_since = Instant::now();
            }
            let left = ARRIVAL_TIMEOUT.saturating_sub(waits_since.elapsed());
            tokio::select! {
                arrived = self.arrive(), if !is_over => match arrived {
                    Err(End::Over) => is_over = true,
                    arrived => arrived?,
                },
                batch = watch.next() => {
                    let (bytes, _) = batch.map_err(|_| End::Over)?;
                    let mut frames = Vec::new();
                    let read = reader.push(&bytes, &mut frames);
                    read.map_err(|_| End::NotComparable("unreadable"))?;
                    ours.extend(frames);
                }
                () = tokio::time::sleep(left), if awaits_ours => {
                    return Err(self.missing());
                }
            }
        }
    }

    /// Compares the events that are there on both sides. Tells whether there were
    /// any.
    fn pair(&mut self, ours: &mut VecDeque<Frame>) -> Result<bool, End> {
        let mut paired = false;
        loop {
            // Bookmarks are left out, because each side sends them at its own times.
            let counts = |frame: &Frame| !frame.is_bookmark() || frame.ends_initial_events();
            while self.upstream.front().is_some_and(|frame| !counts(frame)) {
                self.take();
            }
            while ours.front().is_some_and(|frame| !counts(frame)) {
                ours.pop_front();
            }
            let (Some(theirs), Some(own)) = (self.upstream.front(), ours.front()) else {
                return Ok(paired);
            };
            paired = true;
            if theirs.is_error() {
                return Err(End::NotComparable("upstream_error"));
            }
            self.columns.note(own);
            // Upstream printed its Table after it was asked, and the cache before now.
            let between = self.sampled.asked.elapsed();
            let label = self.subject.representation;
            let found = differs(label, theirs, own, &self.columns, between);
            if let Some(version) = theirs.version() {
                self.subject.version = version;
            }
            if let Some(found) = found {
                return Err(End::Difference(found));
            }
            self.judged(Verdict::Match);
            self.take();
            ours.pop_front();
        }
    }

    fn take(&mut self) {
        if let Some(frame) = self.upstream.pop_front() {
            self.queued.shrink(frame.bytes.len());
        }
    }

    /// Judges an event of upstream that the cache does not send.
    fn missing(&mut self) -> End {
        let Some(frame) = self.upstream.pop_front() else {
            return End::Over;
        };
        if frame.is_error() {
            return End::NotComparable("upstream_error");
        }
        let version = frame.version().unwrap_or(u64::MAX);
        self.subject.version = version;
        let cache = &self.sampled.identified.generation().cache;
        let store = cache.store(&self.subject.gvr);
        let reached = store.is_some_and(|store| store.progress().resource_version >= version);
        match reached {
            true => End::Difference(Difference::of_bytes("event", Some(&frame.bytes), None)),
            false => End::NotComparable("not_reached"),
        }
    }
}

/// Returns the difference of two events. The rows of Tables have ages, which may
/// differ.
fn differs(
    label: Label,
    theirs: &Frame,
    ours: &Frame,
    columns: &Columns,
    between: Duration,
) -> Option<Difference> {
    let repeated = columns.repeated(theirs, ours);
    let ours = repeated.as_ref().unwrap_or(ours);
    if theirs.bytes == ours.bytes {
        return None;
    }
    let (one, other) = (theirs.content(), ours.content());
    if one == other {
        // The difference is around the object.
        let (theirs, ours) = (Some(theirs.bytes.as_ref()), Some(ours.bytes.as_ref()));
        return Some(Difference::of_bytes("event", theirs, ours));
    }
    let mut found = crate::shadow::compare_bodies(label, one, other, between)?;
    found.path = found.path.replacen("body", "event", 1);
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(age: &str) -> Frame {
        let table = format!(
            r#"{{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{{"resourceVersion":"452"}},"columnDefinitions":[{{"name":"Name"}},{{"name":"Age"}}],"rows":[{{"cells":["a","{age}"]}}]}}"#
        );
        let event = format!("{{\"type\":\"ADDED\",\"object\":{table}}}\n");
        let mut frames = Vec::new();
        let mut reader = FrameReader::new(Label::Table, false);
        reader.push(event.as_bytes(), &mut frames).unwrap();
        frames.remove(0)
    }

    #[test]
    fn an_event_that_the_cache_heard_of_late_has_another_age() {
        let differs = |between| {
            let (theirs, ours) = (frame("11s"), frame("57s"));
            let between = Duration::from_secs(between);
            differs(Label::Table, &theirs, &ours, &Columns::default(), between)
        };
        assert!(differs(46).is_none());
        assert!(differs(40).is_some());
    }
}
