//! The answers to `/debug/api_priority_and_fairness/…`: priority levels, queues and
//! requests as kube-apiserver dumps them (k8s.io/apiserver
//! `util/flowcontrol/apf_controller_debug.go`). They name callers with requests in
//! flight, so the port without authentication has none of them.

use http::StatusCode;

use super::open_answer::OpenAnswer;
use crate::server::reply::answer::Answer;
use crate::server::stage::Granted;
use crate::server::state::generation::Generation;

const NEEDS_A_GRANT: &str = "403 ask on the secure port, as a user who may get this path \
                             (nonResourceURLs)";

#[derive(Clone, Copy)]
pub(super) enum Dump {
    Levels,
    Queues,
    Requests,
}

pub(super) fn answer(granted: &Granted, dump: Dump) -> Answer {
    let generation = granted.generation();
    if !generation.settings.enable_priority_and_fairness {
        // Then kube-apiserver does not have these paths either.
        return not_found().into_answer();
    }
    let fairness = generation.flow.fairness();
    let text = match dump {
        Dump::Levels => fairness.dump_priority_levels(),
        Dump::Queues => fairness.dump_queues(),
        Dump::Requests => {
            // Any text asks for the details.
            let details = granted.query().get("includeRequestDetails");
            fairness.dump_requests(!details.unwrap_or_default().is_empty())
        }
    };
    Answer::new(
        StatusCode::OK,
        "text/plain; charset=utf-8",
        vec![text.into()],
    )
}

/// Tells a caller without a grant where the dumps are.
pub(super) fn open(generation: &Generation) -> OpenAnswer {
    match generation.settings.enable_priority_and_fairness {
        true => OpenAnswer::text(StatusCode::FORBIDDEN, NEEDS_A_GRANT),
        false => not_found(),
    }
}

fn not_found() -> OpenAnswer {
    OpenAnswer::text(StatusCode::NOT_FOUND, "404 page not found")
}
