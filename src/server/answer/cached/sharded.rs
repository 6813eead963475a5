//! Lists and watches with a `shardSelector` (KEP-5866) that are never forwarded,
//! because of `cache.shardedListAndWatch: Always`.
//!
//! An API server without the feature ignores the selector and answers with all
//! objects. So a request that the cache cannot answer is refused here. Upstream's
//! abilities do not matter: it may have several servers, and each may be replaced by
//! another one at any time.

use apifront_watch_cache::ShardedListAndWatch;
use apifront_watch_cache::read::{BypassReason, parameters};
use http::request;
use kubernetes_wire::api::{Query, Reason, Status};

use super::Outcome;
use crate::server::stage::context::CacheResult;
use crate::server::stage::{NotGranted, PendingGrant, Received};

/// Tells whether the cache answers the shards of this request, whatever upstream can
/// do.
pub(super) fn is_always_served(received: &Received) -> bool {
    let cache = &received.generation().settings.cache;
    cache.sharded_list_and_watch == ShardedListAndWatch::Always
}

/// Tells whether the request must not be forwarded. A DELETE of a collection selects
/// objects as a LIST does; without the selector, it would delete all. Upstream may
/// read an unusual path in another way than apifront.
pub(super) fn is_kept(received: &Received) -> bool {
    let info = received.info();
    let selects = matches!(info.verb.as_str(), "list" | "watch" | "deletecollection");
    is_always_served(received)
        && info.is_resource_request
        && (selects || !info.is_canonical())
        && parameters::shard_selector(received.query()).is_some()
}

/// Returns the outcome of a request that must not be forwarded. If it would be
/// forwarded, this is a refusal.
pub(super) async fn keep(
    outcome: Outcome,
    request: &request::Parts,
    grant: &mut PendingGrant<'_>,
) -> Outcome {
    let reason = match outcome {
        Outcome::Answer(_) | Outcome::Watch(..) => return outcome,
        Outcome::Bypass(reason) => Some(reason),
        Outcome::NotAsked => None,
    };
    // A caller who may not read learns only that.
    let status = match grant.ask().await {
        Err(NotGranted::Refused(status)) => status,
        Ok(_) | Err(NotGranted::OnlyUpstream) => refusal(reason, grant.identified().query()),
    };
    let answer = super::say(&status, &[], request, grant.identified());
    Outcome::Answer(match reason {
        Some(reason) => answer.out_of(CacheResult::Bypass(reason)),
        None => answer,
    })
}

fn refusal(reason: Option<BypassReason>, query: &Query) -> Status {
    match (parameters::shard(query), reason) {
        (Err(invalid), Some(_)) => Status::failure(500, Reason::Unknown, invalid.to_string()),
        (Ok(_), Some(reason)) => unanswered(reason),
        (_, None) => Status::bad_request(
            "shardSelector: only the GET of a list or watch is answered with it here",
        ),
    }
}

fn unanswered(reason: BypassReason) -> Status {
    let message = format!(
        "shardSelector: this request cannot be answered from the cache, and upstream may ignore \
         the selector: {}",
        reason.as_str()
    );
    status(reason, message)
}

/// Returns the refusal of a read that must not be forwarded and that the cache
/// cannot answer.
pub(super) fn status(reason: BypassReason, message: String) -> Status {
    match reason {
        BypassReason::MostRecent
        | BypassReason::NotProvenFresh
        | BypassReason::FutureVersion
        | BypassReason::Filling
        | BypassReason::TooManyResources
        | BypassReason::MemoryLimit
        | BypassReason::Stale => {
            Status::failure(503, Reason::ServiceUnavailable, message).retry_soon()
        }
        // The client must list again.
        BypassReason::SnapshotGone | BypassReason::HistoryTooShort => Status::expired(message),
        BypassReason::Representation => Status::failure(406, Reason::NotAcceptable, message),
        BypassReason::UnusualRequest
        | BypassReason::InvalidOptions
        | BypassReason::FieldSelector
        | BypassReason::NoBookmark
        | BypassReason::WatchProtocol
        | BypassReason::Excluded
        | BypassReason::Aggregated
        | BypassReason::Withdrawn
        | BypassReason::Shadow
        | BypassReason::NotWatchable
        | BypassReason::TooCostly
        | BypassReason::FirstRead => Status::bad_request(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_whether_to_try_again() {
        let half = "shardSelector=shardRange(object.metadata.uid,\
                    '0x0000000000000000','0x8000000000000000')";
        for (reason, query, code, retry) in [
            (Some(BypassReason::Filling), half, 503, 1),
            (Some(BypassReason::SnapshotGone), half, 410, 0),
            (Some(BypassReason::HistoryTooShort), half, 410, 0),
            (Some(BypassReason::Representation), half, 406, 0),
            (Some(BypassReason::UnusualRequest), half, 400, 0),
            (
                Some(BypassReason::UnusualRequest),
                "shardSelector=junk",
                500,
                0,
            ),
            (None, half, 400, 0),
        ] {
            let status = refusal(reason, &Query::parse(query));
            assert_eq!(
                (status.code, status.retry_after()),
                (code, retry),
                "{reason:?}"
            );
        }
    }
}
