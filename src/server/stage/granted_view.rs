//! The grant of a view: the right to read some objects of a resource that the caller
//! may not read as a whole.
//!
//! It is not a [`Granted`](super::Granted), and has no scope: only the set of
//! objects that it gives can be served under it.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use apifront_watch_cache::store::Visible;
use apifront_watch_cache::watch::Visibility;
use http::{HeaderMap, HeaderValue};
use kubernetes_wire::api::{GroupVersionResource, Status, UserInfo, warning};

use super::granted::PendingGrant;
use super::identified::Identified;
use crate::identity::VIEW;
use crate::server::state::gate::Gate;
use crate::views::{Asked, Coverage, Refusal, Versions, View, ViewCallers};

/// How long a request waits for its caller's rights. A review takes milliseconds,
/// and a thousand reviews take seconds.
const RIGHTS_WITHIN: Duration = Duration::from_secs(10);

/// How long a request waits for RBAC in memory after the start.
const RBAC_WITHIN: Duration = Duration::from_secs(2);

/// A list or watch whose caller may see a part of the resource.
pub(in crate::server) struct GrantedView {
    identified: Arc<Identified>,
    view: Arc<View>,
    /// For a list: what the same caller may watch.
    watched: Option<Arc<View>>,
    coverage: Coverage,
}

pub(in crate::server) enum NoView {
    /// The caller gets the refusal that it would get without views.
    Refused,
    /// The caller may have a view, but not now, or not one of this size.
    Failed(Status),
}

/// Tells whether the request may have a view. It must be a list or watch over all
/// namespaces, by a caller whom the configuration names. If every caller may ask for
/// views, it may also be by a caller who does ask.
pub(in crate::server) fn is_wanted(identified: &Identified, headers: &HeaderMap) -> bool {
    let info = identified.info();
    matches!(info.verb.as_str(), "list" | "watch")
        && info.namespace.is_empty()
        && !info.is_verb_via_path()
        && is_of_viewer(identified, headers)
}

/// Tells whether lists and watches of the request's caller may have views.
pub(in crate::server) fn is_of_viewer(identified: &Identified, headers: &HeaderMap) -> bool {
    let wants = |views: &ViewCallers, user: &UserInfo| {
        views.names(user) || views.request_header && asks(headers)
    };
    let views = identified.generation().settings.views.as_ref();
    identified.degraded().is_none()
        && views
            .zip(identified.user())
            .is_some_and(|(v, user)| wants(v, user))
}

fn asks(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(VIEW).iter();
    values.next().is_some_and(|value| value == "true") && values.next().is_none()
}

/// Tells whether RBAC in memory lets the request's caller list or watch a part of
/// the resource. This grants nothing.
pub(in crate::server) async fn may_have(
    identified: &Identified,
    verb: &str,
    gvr: &GroupVersionResource,
) -> bool {
    let Some(user) = identified.user() else {
        return false;
    };
    let views = &identified.generation().views;
    views.known_within(RBAC_WITHIN).await && views.may_hold(user, verb, gvr)
}

/// Returns the size of the view that the request's caller would get of a resource.
/// Returns `None` if the caller would get none, or none now. This grants nothing.
pub(in crate::server) async fn coverage(
    identified: &Identified,
    verb: &'static str,
    gvr: &GroupVersionResource,
    namespaced: bool,
    versions: Arc<dyn Versions>,
) -> Option<Coverage> {
    let generation = identified.generation();
    let (Gate::Delegated(gate), Some(user)) = (&generation.gate, identified.user()) else {
        return None;
    };
    let asked = Asked {
        user,
        gvr,
        verb,
        namespaced,
        reviewer: gate.authorizer.clone(),
        versions,
    };
    let view = generation.views.view(&asked).ok()?;
    view.ready(RIGHTS_WITHIN).await.ok()?;
    let visible = view.granted().ok()?;
    (!visible.is_empty()).then(|| Coverage::from_visible(&visible))
}

impl PendingGrant<'_> {
    /// Tells whether RBAC in memory lets the caller read a part of the resource.
    /// This grants nothing.
    pub(in crate::server) async fn may_have_view(&self) -> bool {
        let identified = self.identified();
        let info = identified.info();
        may_have(identified, &info.verb, &info.gvr).await
    }

    /// Asks for the view of a caller who may not read all of the resource.
    pub(in crate::server) async fn ask_view(
        &mut self,
        namespaced: bool,
        versions: Arc<dyn Versions>,
    ) -> Result<GrantedView, NoView> {
        let identified = self.identified().clone();
        let generation = identified.generation();
        let (Gate::Delegated(gate), Some(user)) = (&generation.gate, identified.user()) else {
            return Err(NoView::Refused);
        };
        let views = &generation.views;
        let refuse = |(status, why): (Status, Refusal)| {
            views.metrics().refused(why);
            NoView::Failed(status)
        };
        let view = |verb| {
            views.view(&Asked {
                user,
                gvr: &identified.info().gvr,
                verb,
                namespaced,
                reviewer: gate.authorizer.clone(),
                versions: versions.clone(),
            })
        };
        let is_list = identified.info().verb == "list";
        // A client that lists will watch from the list's version. If there is room
        // for one view only, the list gets it.
        let watched = is_list.then(|| view("watch").ok()).flatten();
        let own = view(if is_list { "list" } else { "watch" }).map_err(refuse)?;
        let watchable = async {
            match &watched {
                Some(watched) => watched.ready(RIGHTS_WITHIN).await.is_ok(),
                None => false,
            }
        };
        let (ready, watchable) = tokio::join!(own.ready(RIGHTS_WITHIN), watchable);
        ready.map_err(refuse)?;
        let visible = own.granted().map_err(refuse)?;
        let coverage = Coverage::from_visible(&visible);
        if visible.is_empty() {
            views.metrics().refused(Refusal::Nothing);
            return Err(NoView::Refused);
        }
        self.allow_view(reason(coverage));
        Ok(GrantedView {
            identified,
            view: own,
            watched: watched.filter(|_| watchable),
            coverage,
        })
    }
}

/// Returns the reason why a list or watch is allowed as a view.
pub(in crate::server) fn reason(Coverage { namespaces, names }: Coverage) -> String {
    format!(
        "apifront: a view of {namespaces} namespaces and {names} names, each allowed by a review"
    )
}

impl GrantedView {
    /// Returns a version. A client can watch from each list that is later than it.
    /// Returns `None` while the version is not known.
    pub(in crate::server) fn since(&self) -> Option<u64> {
        let own = self.view.since()?;
        match &self.watched {
            Some(watched) => Some(own.max(watched.since()?)),
            None => Some(own),
        }
    }

    pub(in crate::server) fn visible(&self) -> Visible {
        self.view.visible()
    }

    /// Fails if the view has failed since it was granted, or has no answer about any
    /// place.
    pub(in crate::server) fn still_granted(&self) -> Result<(), NoView> {
        let granted = self.view.granted().map_err(|(status, why)| {
            self.generation().views.metrics().refused(why);
            NoView::Failed(status)
        });
        granted.map(drop)
    }

    pub(in crate::server) fn list_at(&self, version: u64) -> Option<Visible> {
        if let Some(watched) = &self.watched {
            // The client may begin a watch at this version.
            let _ = watched.list_at(version);
        }
        self.view.list_at(version)
    }

    /// Returns what a watch from this version shows. Returns `None` if the client
    /// may have listed other objects at this version.
    pub(in crate::server) fn watch_from(&self, version: u64) -> Option<Visibility> {
        self.view.watch_from(version)
    }

    /// Returns what a watch shows that begins with the state at this version.
    pub(in crate::server) fn watch_state(&self, version: u64) -> Option<Visibility> {
        self.view.watch_state(version)
    }

    /// Returns the value of the header that tells the size of the view.
    pub(in crate::server) fn header(&self) -> Option<HeaderValue> {
        let Coverage { namespaces, names } = self.coverage;
        HeaderValue::from_str(&format!("namespaces={namespaces}, names={names}")).ok()
    }

    pub(in crate::server) fn warnings(&self) -> Vec<HeaderValue> {
        let lacks = self.view.lacks();
        let mut warnings = Vec::new();
        for (is_lacking, why) in [
            (
                lacks.names_anywhere,
                "this view lacks objects that you may read by name in every namespace",
            ),
            (
                lacks.names_left_out,
                "this view lacks objects that you may read by name: they are more than \
                 views.maxNamesPerNamespace or views.maxGrantsPerView",
            ),
            (
                lacks.unanswered,
                "this view lacks namespaces or names about which nobody has answered yet",
            ),
        ] {
            if is_lacking {
                warnings.extend(warning::header(why));
            }
        }
        let watched = self.watched.as_ref();
        if watched.is_some_and(|watched| watched.visible() != self.view.visible()) {
            let why = "you may not list and watch the same namespaces: a watch from this list \
                       tells of those only that you may watch";
            warnings.extend(warning::header(why));
        }
        warnings
    }
}

impl Deref for GrantedView {
    type Target = Identified;

    fn deref(&self) -> &Identified {
        &self.identified
    }
}
