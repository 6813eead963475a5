//! Makes the cache's answer at the version that upstream's answer shows, and
//! compares the two.

use std::sync::Arc;
use std::time::Duration;

use apifront_watch_cache::read::BypassReason;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::capture::Whole;
use super::{HEARS_WITHIN, Sampled, is_allowed};
use crate::server::answer::cached::{self, Outcome, Pin, Pinned};
use crate::server::offload::threads;
use crate::server::reply::answer::Answer;
use crate::server::reply::head::NOT_CACHED;
use crate::shadow::{
    self, Body, Difference, Label, Shadow, Subject, Turn, Verdict, compare_bodies, compare_headers,
    compare_pieces, plain,
};

/// How long an answer first waits for a version. Events arrive within milliseconds.
const FIRST_TIMEOUT: Duration = Duration::from_millis(500);

/// The reason why the cache's answer was not made.
enum NotMade {
    Bypass(BypassReason),
    NotComparable(&'static str),
}

/// The cache's answer, and the time it took.
struct Made {
    answer: Answer,
    took: Duration,
    /// Whether it shows a version that the store had not heard of.
    unheard: bool,
}

pub(super) async fn compare(mut sampled: Sampled, mut whole: Whole) {
    let shadow = sampled.shadow().clone();
    let Ok(turn) = shadow.turn(sampled.caller()).await else {
        let subject = sampled.subject(sampled.representation);
        return shadow.judged(&subject, Verdict::NotComparable("no_room"));
    };
    let is_list = sampled.verb() == "list";
    let status = whole.head.status;
    let label = match status.is_success() {
        true => sampled
            .representation
            .answered_as(whole.head.content_type()),
        false => Label::Other,
    };
    let mut subject = sampled.subject(label);
    let limits = &sampled.identified.generation().settings.cache.modes.shadow;
    let upstream = match unpacked(&mut whole, limits.max_held_bytes).await {
        Ok(upstream) => upstream,
        Err(why) => return shadow.judged(&subject, Verdict::NotComparable(why)),
    };
    let version = match status.is_success() {
        true => shadow::version_of(label, is_list, &upstream),
        false => None,
    };
    subject.version = version.unwrap_or_default();
    let pin = match (status, version) {
        (StatusCode::OK, None) => {
            return shadow.judged(&subject, Verdict::NotComparable("no_version"));
        }
        (StatusCode::OK, Some(version)) if is_list => Pin::Version(version),
        (StatusCode::OK, Some(version)) => Pin::Object(version),
        (StatusCode::NOT_FOUND, _) if !is_list => Pin::Absent,
        (StatusCode::TOO_MANY_REQUESTS, _) => {
            return shadow.judged(&subject, Verdict::NotComparable("upstream_error"));
        }
        (status, _) if status.is_server_error() => {
            return shadow.judged(&subject, Verdict::NotComparable("upstream_error"));
        }
        _ => Pin::NotOlderThan(0),
    };
    let compared = Compared {
        sampled: &sampled,
        whole: &whole,
        upstream,
        subject: &subject,
        pin,
    };
    let verdict = compared.verdict(&shadow, turn).await;
    if let Some(verdict) = verdict {
        let verdict = excused(&mut sampled, verdict, status).await;
        sampled.judged(&subject, verdict);
    }
}

async fn unpacked(whole: &mut Whole, most: usize) -> Result<Bytes, &'static str> {
    if !whole.head.is_gzip() {
        return Ok(whole.body.clone());
    }
    let body = Body {
        pieces: vec![whole.body.clone()],
        is_gzip: true,
    };
    let unpacked = threads::run(move || plain(&body, most)).await;
    let bytes = match unpacked {
        Some(Ok(bytes)) => bytes,
        Some(Err(shadow::Unreadable::TooLarge)) => return Err("no_room"),
        Some(Err(shadow::Unreadable::NotGzip)) | None => return Err("unreadable"),
    };
    whole.held.grow(bytes.len()).map_err(|_| "no_room")?;
    Ok(bytes.into())
}

struct Compared<'a> {
    sampled: &'a Sampled,
    whole: &'a Whole,
    upstream: Bytes,
    subject: &'a Subject,
    pin: Pin,
}

impl Compared<'_> {
    /// Makes the cache's answer and compares it. Returns `None` if the cache would
    /// not have answered.
    async fn verdict(&self, shadow: &Arc<Shadow>, turn: Turn) -> Option<Verdict> {
        let first = self.make(self.pinned(FIRST_TIMEOUT).trusting()).await;
        let would = match &first {
            Err(NotMade::Bypass(reason)) => Some(reason.as_str()),
            Ok(_) | Err(NotMade::NotComparable(_)) => None,
        };
        let gvr = &self.subject.gvr;
        shadow.would(gvr, would);
        match self.judge(first).await {
            Judged::Said(verdict) => return verdict,
            Judged::Made(made, None) => {
                let bytes = u64::try_from(self.whole.body.len()).unwrap_or(u64::MAX);
                shadow.cost(gvr, self.whole.head.took, made.took, bytes);
                return Some(Verdict::Match);
            }
            Judged::Made(made, Some(found)) if !made.unheard => {
                return Some(Verdict::Difference(found));
            }
            // The store had not heard of that version.
            Judged::Made(..) | Judged::Late => drop(turn),
        }
        let late = self.make(self.pinned(HEARS_WITHIN)).await;
        match self.judge(late).await {
            Judged::Said(verdict) => verdict,
            Judged::Made(_, None) => Some(Verdict::Match),
            Judged::Made(_, Some(found)) => Some(Verdict::Difference(found)),
            Judged::Late => Some(Verdict::NotComparable("not_reached")),
        }
    }

    fn pinned(&self, patience: Duration) -> Pinned {
        let version = self.sampled.identified.query().get("resourceVersion");
        let most_recent = version.unwrap_or_default().is_empty();
        Pinned::new(self.pin, patience).since(self.sampled.since, most_recent)
    }

    async fn make(&self, mut pinned: Pinned) -> Result<Made, NotMade> {
        let (request, identified) = (&self.sampled.request, &self.sampled.identified);
        let outcome = cached::answer_at(request, identified.clone(), &mut pinned).await;
        if let Some(why) = pinned.not_comparable {
            return Err(NotMade::NotComparable(why));
        }
        match outcome {
            Outcome::Answer(answer) => Ok(Made {
                answer,
                took: pinned.ready.map_or(Duration::ZERO, |ready| ready.elapsed()),
                unheard: pinned.unheard,
            }),
            Outcome::Bypass(reason) => Err(NotMade::Bypass(reason)),
            Outcome::Watch(..) | Outcome::NotAsked => Err(NotMade::NotComparable("not_a_read")),
        }
    }

    async fn judge(&self, made: Result<Made, NotMade>) -> Judged {
        let made = match made {
            Ok(made) => made,
            Err(NotMade::Bypass(_)) => return Judged::Said(None),
            Err(NotMade::NotComparable("not_reached")) => return Judged::Late,
            Err(NotMade::NotComparable(why)) => {
                return Judged::Said(Some(Verdict::NotComparable(why)));
            }
        };
        if made.answer.status == StatusCode::TOO_MANY_REQUESTS {
            return Judged::Said(Some(Verdict::NotComparable("overloaded")));
        }
        match self.difference(&made.answer).await {
            Ok(found) => Judged::Made(made, found),
            Err(why) => Judged::Said(Some(Verdict::NotComparable(why))),
        }
    }

    /// Returns the first difference from the cache's answer.
    async fn difference(&self, ours: &Answer) -> Result<Option<Difference>, &'static str> {
        let head = &self.whole.head;
        if head.status != ours.status {
            let (theirs, ours) = (head.status.as_str(), ours.status.as_str());
            return Ok(Some(Difference::of_texts("status", theirs, ours)));
        }
        if let Some(found) = compare_headers(&head.headers, &sent(&ours.headers)) {
            return Ok(Some(found));
        }
        let body = Body {
            pieces: ours.body.clone(),
            is_gzip: ours.headers.contains_key(CONTENT_ENCODING),
        };
        let (upstream, label) = (self.upstream.clone(), self.subject.representation);
        // Both answers were made between the request and now.
        let between = self.sampled.asked.elapsed();
        let work = move || {
            if !body.is_gzip && compare_pieces(&upstream, &body.pieces) {
                return None;
            }
            match plain(&body, usize::MAX) {
                Ok(ours) => compare_bodies(label, &upstream, &ours, between),
                // No client could read the cache's answer, so it counts as
                // different.
                Err(_) => {
                    let ours = body.pieces.concat();
                    Some(Difference::of_bytes("body", Some(&upstream), Some(&ours)))
                }
            }
        };
        threads::run(work).await.ok_or("panicked")
    }
}

enum Judged {
    /// The comparison is over. `None` if the cache would not have answered.
    Said(Option<Verdict>),
    Made(Made, Option<Difference>),
    Late,
}

/// Adds the headers that every answer gets when it is sent.
fn sent(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    if !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(NOT_CACHED));
    }
    headers
}

/// Excuses a difference in rights if the rights have changed: if upstream's decision
/// fits the rights now, or those before upstream was asked. It first waits until
/// remembered rights are not believed any more, so that they are asked for again.
async fn excused(sampled: &mut Sampled, verdict: Verdict, upstream: StatusCode) -> Verdict {
    let Verdict::Difference(found) = &verdict else {
        return verdict;
    };
    let is_of_rights = found.path == "status"
        && (upstream == StatusCode::FORBIDDEN
            || found.apifront.is_text(StatusCode::FORBIDDEN.as_str()));
    if !is_of_rights {
        return verdict;
    }
    if let Some(believed) = sampled.identified.generation().settings.decision_ttl {
        tokio::time::sleep(believed).await;
    }
    let now = is_allowed(&sampled.identified).await;
    let before = (&mut sampled.allowed).await.unwrap_or(now);
    let upstream = upstream != StatusCode::FORBIDDEN;
    match now == upstream || before == upstream {
        true => Verdict::NotComparable("rights_changed"),
        false => verdict,
    }
}
