//! The options of a legacy watch path, `/api/v1/watch/…`.
//!
//! The path makes kube-apiserver watch, whatever the query says. But without
//! `watch` in the query, the options are defaulted and validated as for a list:
//! initial events are not the default and may not be asked for, and
//! `resourceVersionMatch` is checked and then ignored. Source: `forceWatch` in
//! k8s.io/apiserver `endpoints/handlers/get.go`, and experiments with
//! kube-apiserver.

use kubernetes_wire::api::field_selector::{FieldRequirement, FieldSelector};
use kubernetes_wire::api::{ListOptions, ResourceVersionMatch};

use super::option_rules::{self, freshness};
use super::{BypassReason, Freshness, WatchPlan};

const NAME: &str = "metadata.name";

/// Returns the options as they apply to a legacy path. `name` is the object's
/// name in the path, or empty. A field selector beside a name must require the
/// same name.
pub fn options(mut options: ListOptions, name: &str) -> Result<ListOptions, BypassReason> {
    if name.is_empty() {
        return Ok(options);
    }
    if options.field_selector.is_empty() {
        options.field_selector = FieldSelector::from_requirement(FieldRequirement {
            field: NAME.to_owned(),
            equal: true,
            value: name.to_owned(),
        });
    } else if options.field_selector.required(NAME) != Some(name) {
        return Err(BypassReason::InvalidOptions);
    }
    Ok(options)
}

pub fn plan(options: &ListOptions) -> Result<WatchPlan, BypassReason> {
    if options.watch {
        return option_rules::watch(options);
    }
    let invalid = Err(BypassReason::InvalidOptions);
    let version = freshness(&options.resource_version)?;
    let version_match = options
        .version_match()
        .map_err(|_| BypassReason::InvalidOptions)?;
    match (version_match, version) {
        _ if options.send_initial_events.is_some() => invalid,
        (Some(_), Freshness::MostRecent) => invalid,
        (Some(_), _) if !options.continue_token.is_empty() => invalid,
        (Some(ResourceVersionMatch::Exact), Freshness::Any) => invalid,
        (_, Freshness::NotOlderThan(n)) => Ok(WatchPlan::From(n)),
        // Without a version, any state will do. WatchList promises a recent
        // state only together with initial events.
        (_, Freshness::Any | Freshness::MostRecent) => Ok(WatchPlan::Unmarked),
    }
}

#[cfg(test)]
mod tests {
    use kubernetes_wire::api::Query;

    use super::*;

    fn parse(query: &str) -> ListOptions {
        ListOptions::from_query(&Query::parse(query)).unwrap()
    }

    #[test]
    fn options_are_validated_as_a_lists() {
        let invalid = Err(BypassReason::InvalidOptions);
        for (query, expected) in [
            ("", Ok(WatchPlan::Unmarked)),
            ("watch=false", Ok(WatchPlan::Unmarked)),
            ("resourceVersion=0", Ok(WatchPlan::Unmarked)),
            ("allowWatchBookmarks=1", Ok(WatchPlan::Unmarked)),
            ("resourceVersion=7", Ok(WatchPlan::From(7))),
            ("resourceVersion=x", invalid),
            ("limit=1&continue=x", Ok(WatchPlan::Unmarked)),
            (
                "resourceVersion=7&resourceVersionMatch=Exact",
                Ok(WatchPlan::From(7)),
            ),
            (
                "resourceVersion=7&resourceVersionMatch=NotOlderThan",
                Ok(WatchPlan::From(7)),
            ),
            (
                "resourceVersion=0&resourceVersionMatch=NotOlderThan",
                Ok(WatchPlan::Unmarked),
            ),
            ("resourceVersion=0&resourceVersionMatch=Exact", invalid),
            (
                "resourceVersion=7&resourceVersionMatch=Exact&continue=x",
                invalid,
            ),
            ("resourceVersionMatch=NotOlderThan", invalid),
            ("sendInitialEvents=true", invalid),
            ("sendInitialEvents=false&resourceVersion=7", invalid),
            // With `watch` in the query, the watch is an ordinary one.
            (
                "watch=1",
                Ok(WatchPlan::InitialEvents(Freshness::MostRecent)),
            ),
            (
                "watch=1&resourceVersion=7&resourceVersionMatch=Exact",
                invalid,
            ),
        ] {
            assert_eq!(plan(&parse(query)), expected, "{query}");
        }
    }

    #[test]
    fn a_selector_may_only_repeat_the_name() {
        for (selector, expected) in [
            ("", Some(1)),
            ("metadata.name%3Da", Some(1)),
            ("metadata.name%3Da,spec.type%3Db", Some(2)),
            ("metadata.name%3Db", None),
            ("metadata.name!%3Da", None),
            ("spec.type%3Db", None),
        ] {
            let selected = options(parse(&format!("fieldSelector={selector}")), "a");
            let terms = selected.map(|o| o.field_selector.requirements.len());
            assert_eq!(terms.ok(), expected, "{selector}");
        }
        let all = options(parse("fieldSelector=metadata.name%3Db"), "").unwrap();
        assert_eq!(all.field_selector.required(NAME), Some("b"));
    }
}
