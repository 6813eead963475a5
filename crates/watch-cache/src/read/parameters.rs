//! The query parameters that the cache understands. A request with any other
//! parameter is forwarded, since a newer API server may answer it differently.
//! API servers with sharded lists do that for `shardSelector` (KEP-5866).

use kubernetes_wire::api::{InvalidShard, Query, ShardSelector};

use super::BypassReason;

/// Parameters that every request may have. They concern the form of the answer
/// and its time limit.
const EVERYWHERE: [&str; 3] = ["includeObject", "pretty", "timeout"];

/// `meta/v1 GetOptions`.
const GET: [&str; 1] = ["resourceVersion"];

/// The parameter of a list or watch of a share of the objects (KEP-5866).
const SHARD_SELECTOR: &str = "shardSelector";

/// `meta/v1 ListOptions`.
const LIST: [&str; 11] = [
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    SHARD_SELECTOR,
    "timeoutSeconds",
    "watch",
];

/// Checks the parameters of a GET of one object. Some clients also send the
/// parameters of a list with empty values, which mean nothing.
pub fn check_get(query: &Query) -> Result<(), BypassReason> {
    let is_empty = |key, value: &str| LIST.contains(&key) && value.is_empty();
    let understood = |(key, value)| is_understood(key, &GET) || is_empty(key, value);
    checked(query.pairs().all(understood))
}

/// Checks the parameters of a LIST or WATCH.
pub fn check_list(query: &Query) -> Result<(), BypassReason> {
    checked(query.keys().all(|key| is_understood(key, &LIST)))
}

/// Returns the text of the shard selector of a LIST or WATCH, if there is one.
pub fn shard_selector(query: &Query) -> Option<&str> {
    query.get(SHARD_SELECTOR).filter(|text| !text.is_empty())
}

/// Returns the shard of a LIST or WATCH.
pub fn shard(query: &Query) -> Result<Option<ShardSelector>, InvalidShard> {
    shard_selector(query).map(ShardSelector::parse).transpose()
}

fn is_understood(key: &str, known: &[&str]) -> bool {
    known.contains(&key) || EVERYWHERE.contains(&key)
}

fn checked(are_understood: bool) -> Result<(), BypassReason> {
    match are_understood {
        true => Ok(()),
        false => Err(BypassReason::UnusualRequest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_parameters_are_upstreams() {
        let get = |query| check_get(&Query::parse(query)).is_ok();
        let list = |query| check_list(&Query::parse(query)).is_ok();
        for query in [
            "",
            "pretty=1",
            "resourceVersion=0&timeout=5s",
            "labelSelector=&limit",
        ] {
            assert!(get(query) && list(query), "{query}");
        }
        for query in [
            "labelSelector=a",
            "labelSelector=&labelSelector=a",
            "watch=1",
            "limit=5&continue=x",
            "shardSelector=x",
        ] {
            assert!(!get(query) && list(query), "{query}");
        }
        for query in [
            "export=1",
            "resourceversion=0",
            "=",
            "pretty=1&new",
            "Watch=1",
            "labelSelector%00=a",
        ] {
            assert!(!get(query) && !list(query), "{query}");
        }
    }
    /// A check that searched for all pairs of a key at each pair would take
    /// hours here.
    #[test]
    fn a_pair_is_looked_at_once() {
        let many = "limit&".repeat(1_000_000);
        assert!(check_get(&Query::parse(&many)).is_ok());
        assert!(check_get(&Query::parse(&format!("{many}limit=1"))).is_err());
    }
}
