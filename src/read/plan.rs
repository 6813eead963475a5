//! What a request's options ask of the cache: pure functions, so that every
//! cell of the tables of resourceVersion semantics is a line of a test.
//!
//! Source: Kubernetes API concepts, "Semantics for get, list and watch";
//! defaulting and validation as in k8s.io/apiserver `storage/cacher` and
//! apimachinery `meta/internalversion`.

use super::BypassReason;
use crate::api::{ListOptions, Query, ResourceVersion, ResourceVersionMatch};

/// How recent the answer must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Whatever the cache has.
    Any,
    NotOlderThan(u64),
    /// No older than the moment of asking.
    MostRecent,
}

/// A LIST the cache may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListPlan {
    pub freshness: Freshness,
    /// The answer must be one page: at most this many objects, 0 for any.
    pub limit: usize,
}

/// Where a WATCH from the cache starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchPlan {
    /// Events after this version.
    From(u64),
    /// Events after the version the cache is at.
    FromNow,
    /// The state as ADDED events, then what follows.
    InitialEvents(Freshness),
    /// The same from whatever the cache has, with no bookmark to mark the end
    /// of the state.
    Unmarked,
}

pub(super) fn freshness(resource_version: &str) -> Result<Freshness, BypassReason> {
    match resource_version {
        "" => Ok(Freshness::MostRecent),
        "0" => Ok(Freshness::Any),
        text => match ResourceVersion::parse(text) {
            // kube-apiserver reads `00` as a zero here and as no zero there.
            Ok(ResourceVersion(n)) if n > 0 => Ok(Freshness::NotOlderThan(n)),
            Ok(_) | Err(_) => Err(BypassReason::InvalidOptions),
        },
    }
}

/// A GET of one object.
pub fn get(query: &Query) -> Result<Freshness, BypassReason> {
    // `export` is an error, `timeout` shortens the request, both upstream's.
    if query.contains("export") || query.contains("timeout") {
        return Err(BypassReason::UnusualRequest);
    }
    freshness(query.get("resourceVersion").unwrap_or_default())
}

pub fn list(options: &ListOptions) -> Result<ListPlan, BypassReason> {
    if options.send_initial_events.is_some() || options.limit < 0 {
        return Err(BypassReason::InvalidOptions);
    }
    if !options.continue_token.is_empty() {
        return Err(BypassReason::Chunked);
    }
    let version_match = options
        .version_match()
        .map_err(|_| BypassReason::InvalidOptions)?;
    let freshness = freshness(&options.resource_version)?;
    match (version_match, freshness) {
        // "forbidden unless resourceVersion is provided"
        (Some(_), Freshness::MostRecent) => return Err(BypassReason::InvalidOptions),
        (Some(ResourceVersionMatch::Exact), _) => return Err(BypassReason::ExactVersion),
        // A limit turns a version without a match into an exact one.
        (None, Freshness::NotOlderThan(_)) if options.limit > 0 => {
            return Err(BypassReason::ExactVersion);
        }
        _ => {}
    }
    Ok(ListPlan {
        freshness,
        // With version "0" the API server ignores the limit.
        limit: match freshness {
            Freshness::Any => 0,
            Freshness::NotOlderThan(_) | Freshness::MostRecent => {
                usize::try_from(options.limit).unwrap_or(usize::MAX)
            }
        },
    })
}

pub fn watch(options: &ListOptions) -> Result<WatchPlan, BypassReason> {
    let invalid = Err(BypassReason::InvalidOptions);
    let freshness = freshness(&options.resource_version)?;
    let not_older = match options.version_match() {
        Ok(None) => false,
        Ok(Some(ResourceVersionMatch::NotOlderThan)) => true,
        Ok(Some(ResourceVersionMatch::Exact)) | Err(_) => return invalid,
    };
    match (options.send_initial_events, not_older) {
        (Some(_), false) | (None, true) => invalid,
        (Some(_), true) if !options.continue_token.is_empty() => invalid,
        (Some(true), true) => Ok(WatchPlan::InitialEvents(freshness)),
        (Some(false), true) => match freshness {
            Freshness::Any => Ok(WatchPlan::FromNow),
            Freshness::NotOlderThan(n) => Ok(WatchPlan::From(n)),
            // Starts at upstream's version, which only upstream knows.
            Freshness::MostRecent => Err(BypassReason::MostRecent),
        },
        // Since WatchList (KEP-3157) a watch from "" or "0" is one with
        // initial events.
        (None, false) => match freshness {
            Freshness::Any | Freshness::MostRecent => Ok(WatchPlan::InitialEvents(freshness)),
            Freshness::NotOlderThan(n) => Ok(WatchPlan::From(n)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(query: &str) -> ListOptions {
        ListOptions::from_query(&Query::parse(query)).unwrap()
    }

    #[test]
    fn every_cell_of_the_list_table() {
        use Freshness::{Any, MostRecent, NotOlderThan};
        let plan = |freshness, limit| Ok(ListPlan { freshness, limit });
        for (query, expected) in [
            ("", plan(MostRecent, 0)),
            ("limit=5", plan(MostRecent, 5)),
            ("resourceVersion=0", plan(Any, 0)),
            ("resourceVersion=0&limit=5", plan(Any, 0)),
            ("resourceVersion=7", plan(NotOlderThan(7), 0)),
            ("resourceVersion=7&limit=5", Err(BypassReason::ExactVersion)),
            (
                "resourceVersion=7&resourceVersionMatch=NotOlderThan",
                plan(NotOlderThan(7), 0),
            ),
            (
                "resourceVersion=7&resourceVersionMatch=NotOlderThan&limit=5",
                plan(NotOlderThan(7), 5),
            ),
            (
                "resourceVersion=0&resourceVersionMatch=NotOlderThan&limit=5",
                plan(Any, 0),
            ),
            (
                "resourceVersion=7&resourceVersionMatch=Exact",
                Err(BypassReason::ExactVersion),
            ),
            (
                "resourceVersionMatch=NotOlderThan",
                Err(BypassReason::InvalidOptions),
            ),
            ("continue=x", Err(BypassReason::Chunked)),
            ("resourceVersion=x", Err(BypassReason::InvalidOptions)),
            ("resourceVersion=00", Err(BypassReason::InvalidOptions)),
            ("resourceVersion=-1", Err(BypassReason::InvalidOptions)),
            (
                "resourceVersion=7&resourceVersionMatch=Foo",
                Err(BypassReason::InvalidOptions),
            ),
            ("sendInitialEvents=true", Err(BypassReason::InvalidOptions)),
        ] {
            assert_eq!(list(&options(query)), expected, "{query}");
        }
    }

    #[test]
    fn every_cell_of_the_watch_table() {
        use Freshness::{Any, MostRecent, NotOlderThan};
        use WatchPlan::{From, FromNow, InitialEvents};
        let invalid = Err(BypassReason::InvalidOptions);
        for (query, expected) in [
            ("", Ok(InitialEvents(MostRecent))),
            ("resourceVersion=0", Ok(InitialEvents(Any))),
            ("resourceVersion=7", Ok(From(7))),
            ("resourceVersion=x", invalid),
            (
                "resourceVersion=7&resourceVersionMatch=NotOlderThan",
                invalid,
            ),
            ("sendInitialEvents=true", invalid),
            (
                "sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1",
                invalid,
            ),
            (
                "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
                Ok(InitialEvents(MostRecent)),
            ),
            (
                "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0",
                Ok(InitialEvents(Any)),
            ),
            (
                "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=9",
                Ok(InitialEvents(NotOlderThan(9))),
            ),
            (
                "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=0",
                Ok(FromNow),
            ),
            (
                "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=9",
                Ok(From(9)),
            ),
            (
                "sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
                Err(BypassReason::MostRecent),
            ),
        ] {
            assert_eq!(watch(&options(query)), expected, "{query}");
        }
    }
}
