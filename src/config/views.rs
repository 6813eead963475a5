//! `views`: lists and watches over all namespaces for callers who may only read
//! some of them.

use std::time::Duration;

use apifront_watch_cache::Settings;

use super::check::Check;
use super::degraded::preload_rbac;
use super::raw;
use crate::authz::NamedCallers;
use crate::views::ViewCallers;

/// The default age of a review. RBAC's withdrawals are noticed at once; this is for
/// other authorizers. kube-apiserver's webhook authorizer remembers an allowance for
/// as long.
const REVIEW_TTL: Duration = Duration::from_secs(5 * 60);

/// A shorter time would keep upstream busy with reviews.
const LEAST_REVIEW_TTL: Duration = Duration::from_secs(1);

/// The default number of views: 500 users who list and watch two resources.
const MAX_VIEWS: usize = 2_000;
const MOST_VIEWS: usize = 100_000;

/// The default number of grants in a view. A caller with more grants is better
/// served with a ClusterRoleBinding.
const MAX_GRANTS: usize = 1_000;
const MOST_GRANTS: usize = 10_000;

/// The default number of single names in one namespace. Each name costs a review for
/// each user who may read it, and anybody who may write Roles in the namespace
/// chooses them.
const MAX_NAMES: usize = 100;

/// The views' callers and limits. There is at least one caller, or the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Views {
    pub callers: ViewCallers,
    pub review_ttl: Duration,
    pub max_views: usize,
    /// The most namespaces and single names in one view.
    pub max_grants: usize,
    /// The most single names in one view's namespace.
    pub max_names: usize,
}

/// Checks the section. If there may be views, RBAC's resources are preloaded.
pub(super) fn check(
    raw: &raw::Views,
    has_callers: bool,
    cache: &mut Settings,
    check: &mut Check,
) -> Option<Views> {
    let review_ttl = check.duration("views.reviewTTL", &raw.review_ttl, REVIEW_TTL);
    if review_ttl < LEAST_REVIEW_TTL {
        let text = raw.review_ttl.as_deref().unwrap_or_default();
        check.error("views.reviewTTL", text, "must be at least 1s");
    }
    let views = Views {
        callers: ViewCallers {
            named: NamedCallers {
                users: raw.users.clone().unwrap_or_default(),
                groups: raw.groups.clone().unwrap_or_default(),
            },
            request_header: raw.request_header.unwrap_or_default(),
        },
        review_ttl,
        max_views: check.count("views.maxViews", raw.max_views, MAX_VIEWS, 1..=MOST_VIEWS),
        max_grants: check.count(
            "views.maxGrantsPerView",
            raw.max_grants_per_view,
            MAX_GRANTS,
            1..=MOST_GRANTS,
        ),
        max_names: check.count(
            "views.maxNamesPerNamespace",
            raw.max_names_per_namespace,
            MAX_NAMES,
            0..=MOST_GRANTS,
        ),
    };
    let ViewCallers {
        named: NamedCallers { users, groups },
        request_header,
    } = &views.callers;
    if users.iter().chain(groups).any(String::is_empty) {
        check.error("views", "", "a group or a user must not be empty");
    }
    if users.is_empty() && groups.is_empty() && !request_header {
        return None;
    }
    if !has_callers {
        let why = "needs a configuration file: callers are not told apart otherwise";
        check.error("views", "", why);
    }
    preload_rbac("views", cache, check);
    Some(views)
}
