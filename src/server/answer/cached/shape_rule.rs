//! The rule about the shape of a read's answer.

use std::sync::Arc;

use apifront_upstream::cdn_loop;
use http::{HeaderMap, Method, request};

use super::Outcome;
use crate::server::stage::Identified;
use crate::shapes::{Rule, SHAPE};

/// Returns the rule about the shape of a read's answer. The cache of another apifront
/// reads whole objects, which it shows to callers whom this one does not know.
pub(super) fn find(identified: &Identified, headers: &HeaderMap) -> Option<Arc<Rule>> {
    if cdn_loop::is_of_a_cache(headers) {
        return None;
    }
    let (shapes, gvr) = (&identified.generation().shapes, &identified.info().gvr);
    shapes.rule_for(identified.user(), headers, gvr)
}

/// Counts a read that a rule about shapes names.
pub(super) fn count(outcome: &Outcome, request: &request::Parts, identified: &Identified) {
    let info = identified.info();
    let is_read =
        info.method == Method::GET && info.is_resource_request && info.subresource.is_empty();
    let is_shaped = match outcome {
        Outcome::Answer(answer) => answer.headers.contains_key(SHAPE),
        Outcome::Watch(_, head) => head.shape.is_some(),
        Outcome::Bypass(_) | Outcome::NotAsked => false,
    };
    let is_forwarded = matches!(outcome, Outcome::Bypass(_) | Outcome::NotAsked);
    if is_read
        && (is_shaped || is_forwarded)
        && let Some(rule) = find(identified, &request.headers)
    {
        match is_shaped {
            true => rule.count_shaped(),
            false => rule.count_whole(),
        }
    }
}
