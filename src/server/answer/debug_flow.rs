//! The answers to `/debug/api_priority_and_fairness/…`: priority levels, queues
//! and requests as kube-apiserver dumps them (k8s.io/apiserver
//! `util/flowcontrol/apf_controller_debug.go`).

use http::StatusCode;
use kubernetes_wire::api::Query;

use super::respond::Answer;
use crate::server::state::generation::Generation;

pub(in crate::server) const LEVELS_PATH: &str =
    "/debug/api_priority_and_fairness/dump_priority_levels";
pub(in crate::server) const QUEUES_PATH: &str = "/debug/api_priority_and_fairness/dump_queues";
pub(in crate::server) const REQUESTS_PATH: &str = "/debug/api_priority_and_fairness/dump_requests";

/// Returns the answer to one of the paths.
pub(in crate::server) fn answer(generation: &Generation, path: &str, query: &Query) -> Answer {
    if !generation.config.flow.enable_priority_and_fairness {
        // kube-apiserver has no such paths then.
        return Answer::text(StatusCode::NOT_FOUND, "404 page not found\n");
    }
    let fairness = generation.flow.fairness();
    let text = match path {
        LEVELS_PATH => fairness.dump_priority_levels(),
        QUEUES_PATH => fairness.dump_queues(),
        _ => {
            // Any text asks for them.
            let details = query.get("includeRequestDetails").unwrap_or_default();
            fairness.dump_requests(!details.is_empty())
        }
    };
    Answer::new(
        StatusCode::OK,
        "text/plain; charset=utf-8",
        vec![text.into()],
    )
}
