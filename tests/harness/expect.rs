//! Checks which part of apifront made an answer. Equal answers prove nothing about
//! the cache if kube-apiserver made both.

use super::client::Answer;

/// The request header that makes the answer say how the cache took part.
pub const DEBUG: (&str, &str) = ("x-apifront-debug", "cache");
const CACHE: &str = "x-apifront-cache";

/// The part that the cache must have in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The answer comes from the watch cache.
    Hit,
    /// The answer is a document of discovery or OpenAPI, from memory.
    Document,
    /// The cache left the request to kube-apiserver, for this reason.
    Bypass(&'static str),
    /// The cache is not asked. The request is a write, a subresource or an unknown
    /// path, or it is refused before any read.
    NotAsked,
}

impl Expect {
    /// Returns an empty text if the answer meets the expectation, or else what the
    /// answer says.
    pub fn unmet(self, answer: &Answer) -> String {
        let said = answer.header(CACHE);
        let met = match self {
            Self::Hit => answer.is_hit(),
            Self::Document => said == "hit; document",
            Self::Bypass(reason) => said.strip_prefix("bypass; reason=") == Some(reason),
            Self::NotAsked => said.is_empty(),
        };
        match met {
            true => String::new(),
            false => format!("  cache: expected {self:?}, found {said:?}\n"),
        }
    }
}

/// Reasons of time: upstream answers because the cache does not know enough yet.
pub const LATE: [&str; 3] = ["filling", "future_version", "not_proven_fresh"];

/// Tells whether the cache could not answer yet, as on a busy machine.
pub fn is_late(answer: &Answer) -> bool {
    let reason = answer.header(CACHE).strip_prefix("bypass; reason=");
    reason.is_some_and(|reason| LATE.contains(&reason))
}
