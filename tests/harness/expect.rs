//! Which part of apifront is to have made an answer. Two answers that are the
//! same prove nothing of the cache if kube-apiserver has made both.

use super::client::Answer;

/// Has the answer say how the cache took part.
pub const DEBUG: (&str, &str) = ("x-apifront-debug", "cache");
/// The header of the answer that says it.
const CACHE: &str = "x-apifront-cache";

/// What the answer to a request is to say of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// It comes from the watch cache.
    Hit,
    /// It is a document of discovery or OpenAPI, from memory.
    Document,
    /// The cache was asked and left it to kube-apiserver, for this reason.
    Bypass(&'static str),
    /// It is nothing that the cache is asked: a write, a subresource, a path
    /// that nobody serves, or a refusal before any read.
    NotAsked,
}

impl Expect {
    /// Empty, or what the answer says instead.
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

/// Tells whether the cache does not have the resource yet. Such an answer is
/// kube-apiserver's, whatever is expected of the cache.
pub fn is_filling(answer: &Answer) -> bool {
    answer.header(CACHE) == "bypass; reason=filling"
}
