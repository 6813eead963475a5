//! Counts the reads that rules about shapes name.

use http::{Method, request};

use super::Outcome;
use crate::server::stage::Identified;
use crate::shapes::SHAPE;

/// Counts a read that a rule about shapes names.
pub(super) fn count_shape(outcome: &Outcome, request: &request::Parts, identified: &Identified) {
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
        && let Some(rule) = identified.shape_rule(&request.headers)
    {
        match is_shaped {
            true => rule.count_shaped(),
            false => rule.count_whole(),
        }
    }
}
