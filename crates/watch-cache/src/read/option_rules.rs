//! Decides what the options of a request require of the cache, and which combinations
//! kube-apiserver has to refuse. The functions are pure, so that every cell of the
//! tables of resourceVersion semantics is a line of a test.
//!
//! Sources: Kubernetes API concepts, "Semantics for get, list and watch".
//! Defaults and validation are those of k8s.io/apiserver `storage/cacher` and
//! apimachinery `meta/internalversion`.

use kubernetes_wire::api::{
    ContinueToken, ListOptions, Query, ResourceVersion, ResourceVersionMatch,
};

use super::BypassReason;

/// How recent an answer must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Any state that the cache has.
    Any,
    NotOlderThan(u64),
    /// A state no older than the request.
    MostRecent,
}

/// The state that a LIST shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListVersion {
    /// The newest state, which must be this recent.
    Newest(Freshness),
    /// The state at exactly this version.
    Exact(u64),
}

/// A LIST that the cache may answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPlan {
    pub version: ListVersion,
    /// The first key that may be in the answer, relative to the list's scope.
    /// Empty for the beginning.
    pub start: String,
    /// The most objects in the answer. 0 means no limit.
    pub limit: usize,
}

impl ListPlan {
    /// Returns how recent the cache must be to hold the state.
    pub fn freshness(&self) -> Freshness {
        match self.version {
            ListVersion::Newest(freshness) => freshness,
            ListVersion::Exact(version) => Freshness::NotOlderThan(version),
        }
    }
}

/// Where a WATCH from the cache starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchPlan {
    /// Events after this version.
    From(u64),
    /// Events after the newest version, which must be this recent.
    FromNow(Freshness),
    /// The state as ADDED events, then later events.
    InitialEvents(Freshness),
    /// Like [`Self::InitialEvents`], from any state that the cache has, but
    /// without the bookmark that marks the end of the state.
    Unmarked,
}

pub(super) fn freshness(resource_version: &str) -> Result<Freshness, BypassReason> {
    match resource_version {
        "" => Ok(Freshness::MostRecent),
        "0" => Ok(Freshness::Any),
        text => match ResourceVersion::parse(text) {
            // kube-apiserver reads `00` as zero in some places and not in
            // others.
            Ok(ResourceVersion(n)) if n > 0 => Ok(Freshness::NotOlderThan(n)),
            Ok(_) | Err(_) => Err(BypassReason::InvalidOptions),
        },
    }
}

/// Returns how recent the answer to a GET of one object must be.
pub fn get(query: &Query) -> Result<Freshness, BypassReason> {
    freshness(query.get("resourceVersion").unwrap_or_default())
}

pub fn list(options: &ListOptions) -> Result<ListPlan, BypassReason> {
    if options.send_initial_events.is_some() || options.limit < 0 {
        return Err(BypassReason::InvalidOptions);
    }
    let version_match = options
        .version_match()
        .map_err(|_| BypassReason::InvalidOptions)?;
    let version = options.resource_version.as_str();
    let limit = match version {
        // For version 0, the API server's cache ignores the limit.
        "0" => 0,
        _ => usize::try_from(options.limit).unwrap_or(usize::MAX),
    };
    if !options.continue_token.is_empty() {
        return continued(options, version_match, limit);
    }
    let freshness = freshness(version)?;
    let version = match (version_match, freshness) {
        // The API server's rule is "forbidden unless resourceVersion is
        // provided". Exact is also forbidden with "0".
        (Some(_), Freshness::MostRecent) | (Some(ResourceVersionMatch::Exact), Freshness::Any) => {
            return Err(BypassReason::InvalidOptions);
        }
        (Some(ResourceVersionMatch::Exact), Freshness::NotOlderThan(n)) => ListVersion::Exact(n),
        // With a limit, a version without a match means exactly this version.
        (None, Freshness::NotOlderThan(n)) if limit > 0 => ListVersion::Exact(n),
        _ => ListVersion::Newest(freshness),
    };
    Ok(ListPlan {
        version,
        start: String::new(),
        limit,
    })
}

fn continued(
    options: &ListOptions,
    version_match: Option<ResourceVersionMatch>,
    limit: usize,
) -> Result<ListPlan, BypassReason> {
    let version_is_set = !matches!(options.resource_version.as_str(), "" | "0");
    if version_match.is_some() || version_is_set {
        return Err(BypassReason::InvalidOptions);
    }
    let token =
        ContinueToken::parse(&options.continue_token).map_err(|_| BypassReason::InvalidOptions)?;
    Ok(ListPlan {
        version: match u64::try_from(token.resource_version) {
            Ok(version) => ListVersion::Exact(version),
            Err(_) => ListVersion::Newest(Freshness::MostRecent),
        },
        start: token.start,
        limit,
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
            Freshness::Any | Freshness::MostRecent => Ok(WatchPlan::FromNow(freshness)),
            Freshness::NotOlderThan(n) => Ok(WatchPlan::From(n)),
        },
        // Since WatchList (KEP-3157) a watch from "" or "0" has initial events.
        (None, false) => match freshness {
            // Initial events may not be combined with `continue`, even if they
            // are only the default.
            Freshness::Any | Freshness::MostRecent if !options.continue_token.is_empty() => invalid,
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
        use BypassReason::InvalidOptions;
        use Freshness::{Any, MostRecent, NotOlderThan};
        use ListVersion::{Exact, Newest};
        let plan = |version, limit| {
            Ok(ListPlan {
                version,
                start: String::new(),
                limit,
            })
        };
        for (query, expected) in [
            ("", plan(Newest(MostRecent), 0)),
            ("limit=5", plan(Newest(MostRecent), 5)),
            ("resourceVersion=0", plan(Newest(Any), 0)),
            ("resourceVersion=0&limit=5", plan(Newest(Any), 0)),
            ("resourceVersion=7", plan(Newest(NotOlderThan(7)), 0)),
            ("resourceVersion=7&limit=5", plan(Exact(7), 5)),
            ("resourceVersionMatch=Exact", Err(InvalidOptions)),
            ("resourceVersionMatch=Exact&limit=5", Err(InvalidOptions)),
            (
                "resourceVersion=0&resourceVersionMatch=Exact",
                Err(InvalidOptions),
            ),
            (
                "resourceVersion=7&resourceVersionMatch=Exact",
                plan(Exact(7), 0),
            ),
            (
                "resourceVersion=7&resourceVersionMatch=Exact&limit=5",
                plan(Exact(7), 5),
            ),
            ("resourceVersionMatch=NotOlderThan", Err(InvalidOptions)),
            (
                "resourceVersion=0&resourceVersionMatch=NotOlderThan&limit=5",
                plan(Newest(Any), 0),
            ),
            (
                "resourceVersion=7&resourceVersionMatch=NotOlderThan",
                plan(Newest(NotOlderThan(7)), 0),
            ),
            (
                "resourceVersion=7&resourceVersionMatch=NotOlderThan&limit=5",
                plan(Newest(NotOlderThan(7)), 5),
            ),
            ("resourceVersion=00", Err(InvalidOptions)),
            ("resourceVersion=x", Err(InvalidOptions)),
            ("resourceVersion=-1", Err(InvalidOptions)),
            (
                "resourceVersion=7&resourceVersionMatch=Foo",
                Err(InvalidOptions),
            ),
            ("limit=-1", Err(InvalidOptions)),
            ("sendInitialEvents=true", Err(InvalidOptions)),
        ] {
            assert_eq!(list(&options(query)), expected, "{query}");
        }
    }

    #[test]
    fn pages_go_on_where_their_token_says() {
        use ListVersion::{Exact, Newest};
        let token = ContinueToken::after(7, "a/b");
        let newest = token.clone().at_newest();
        let plan = |version, limit| {
            Ok(ListPlan {
                version,
                start: "a/b\0".to_owned(),
                limit,
            })
        };
        let invalid = Err(BypassReason::InvalidOptions);
        for (query, expected) in [
            (format!("continue={token}"), plan(Exact(7), 0)),
            (format!("continue={token}&limit=5"), plan(Exact(7), 5)),
            (
                format!("continue={token}&limit=5&resourceVersion=0"),
                plan(Exact(7), 0),
            ),
            (
                format!("continue={newest}&limit=5"),
                plan(Newest(Freshness::MostRecent), 5),
            ),
            (
                format!("continue={token}&resourceVersion=7"),
                invalid.clone(),
            ),
            (
                format!("continue={token}&resourceVersionMatch=Exact"),
                invalid.clone(),
            ),
            ("continue=x".to_owned(), invalid),
        ] {
            assert_eq!(list(&options(&query)), expected, "{query}");
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
            ("resourceVersion=7&continue=x", Ok(From(7))),
            ("continue=x", invalid),
            ("resourceVersion=0&continue=x", invalid),
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
                Ok(FromNow(Any)),
            ),
            (
                "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=9",
                Ok(From(9)),
            ),
            (
                "sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
                Ok(FromNow(MostRecent)),
            ),
        ] {
            assert_eq!(watch(&options(query)), expected, "{query}");
        }
    }
}
