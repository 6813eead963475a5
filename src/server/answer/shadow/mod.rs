//! Shadow mode: makes the answers that the cache would have given, and compares them
//! with upstream's. The caller gets upstream's answer, and never waits for a
//! comparison.
//!
//! `capture.rs` keeps upstream's answer. `compare.rs` makes the cache's answer at
//! the version that upstream's answer shows. `follow.rs` does the same for a watch.

mod capture;
mod compare;
mod follow;

use std::sync::Arc;
use std::time::{Duration, Instant};

use apifront_watch_cache::read::BypassReason;
pub(in crate::server) use capture::Capture;
pub(in crate::server) use follow::Tee;
use http::{Version, request};
use tokio::task::JoinHandle;

use crate::server::stage::context::CacheResult;
use crate::server::stage::{Identified, NotGranted, PendingGrant};
use crate::shadow::{HeldBytes, Label, Shadow, Subject, Verdict};

/// The time within which the store hears of any version. Upstream sends a bookmark
/// each minute.
const HEARS_WITHIN: Duration = Duration::from_secs(75);

/// A read that upstream answers, and whose answer is compared.
pub(in crate::server) struct Sampled {
    request: request::Parts,
    identified: Arc<Identified>,
    representation: Label,
    asked: Instant,
    /// The version that the store had before upstream was asked.
    since: Option<u64>,
    /// Whether the caller was allowed to read before upstream was asked.
    allowed: JoinHandle<bool>,
}

/// Decides by chance whether the answer to a forwarded request is compared.
pub(in crate::server) fn begin(
    request: &request::Parts,
    identified: &Arc<Identified>,
    cache: CacheResult,
) -> Option<Box<Capture>> {
    let generation = identified.generation();
    let limits = &generation.settings.cache.modes.shadow;
    let is_shadow = cache == CacheResult::Bypass(BypassReason::Shadow);
    // Streams of HTTP/1.0 and WebSockets are framed in another way.
    let is_plain = request.version != Version::HTTP_10 && identified.upgrade().is_none();
    if !is_shadow || !is_plain || identified.degraded().is_some() || !Shadow::draws(limits) {
        return None;
    }
    let gvr = &identified.info().gvr;
    let store = generation.cache.store(gvr);
    let is_watch = identified.info().verb == "watch";
    let asking = identified.clone();
    let sampled = Sampled {
        request: request.clone(),
        identified: identified.clone(),
        representation: Label::of_request(&request.headers, identified.query(), is_watch),
        asked: Instant::now(),
        since: store.map(|store| store.progress().resource_version),
        allowed: tokio::spawn(async move { is_allowed(&asking).await }),
    };
    Some(Box::new(Capture::new(sampled)))
}

/// Asks whether the caller may read. The question may be answered from memory.
async fn is_allowed(identified: &Arc<Identified>) -> bool {
    let mut grant = PendingGrant::new(identified.clone(), None);
    !matches!(grant.ask().await, Err(NotGranted::Refused(_)))
}

impl Sampled {
    fn shadow(&self) -> &Arc<Shadow> {
        &self.identified.generation().shadow
    }

    /// Returns the caller to whom the comparison is charged. `None` is apifront's
    /// own user.
    fn caller(&self) -> Option<Arc<str>> {
        let user = self.identified.user();
        user.map(|user| user.name.as_str().into())
    }

    fn begin(&self) -> HeldBytes {
        let limits = &self.identified.generation().settings.cache.modes.shadow;
        self.shadow().begin(self.caller(), limits.max_held_bytes)
    }

    /// Notes the result of a comparison. A difference refutes the owner's claim
    /// about an extension API server.
    fn judged(&self, subject: &Subject, verdict: Verdict) {
        let is_difference = matches!(verdict, Verdict::Difference(_));
        self.shadow().judged(subject, verdict);
        let generation = self.identified.generation();
        let (cache, config) = (&generation.cache, generation.settings.as_ref());
        if is_difference && cache.withdraw_claim(&subject.gvr, config) {
            self.shadow().withdrawn(&subject.gvr);
        }
    }

    /// Returns the subject of a comparison whose answer has this representation.
    fn subject(&self, representation: Label) -> Subject {
        Subject {
            gvr: self.identified.info().gvr.clone(),
            verb: self.verb(),
            representation,
            version: 0,
        }
    }

    /// Returns the verb as metrics name it.
    fn verb(&self) -> &'static str {
        match self.identified.info().verb.as_str() {
            "get" => "get",
            "list" => "list",
            _ => "watch",
        }
    }
}
