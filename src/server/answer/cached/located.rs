//! The steps of a read from the cache. Each is made only of the one before.
//!
//! 1. `Granted`: the caller may make this request.
//! 2. [`Located`]: the cache has the resource.
//! 3. [`Fitted`]: the store can answer the read in a form that the client accepts.
//! 4. `Prepared`: the state is as recent as the read demands.
//!
//! A view's reads take the same steps, but for the last.

use std::sync::Arc;

use apifront_watch_cache::DropManagedFields;
use apifront_watch_cache::read::{BypassReason, Shape};
use apifront_watch_cache::reflector::Entry;
use apifront_watch_cache::store::Store;
use http::{HeaderMap, HeaderValue};
use kubernetes_wire::api::Query;
use kubernetes_wire::negotiation::{self, Representation};
use kubernetes_wire::request::Scope;

use super::filling::BOOKMARK_WAITS;
use super::newest::Resource;
use super::plan::Plan;
use super::{demanded_forms, shape, watch};
use crate::server::stage::Identified;
use crate::shapes::{Rule, WITHOUT_MANAGED_FIELDS};

/// The parts of a resource that a path names: if the resource has namespaces, and if
/// it has none.
pub(super) struct Scopes<'a> {
    pub(super) namespaced: Option<Scope<'a>>,
    pub(super) cluster_wide: Option<Scope<'a>>,
}

impl<'a> Scopes<'a> {
    pub(super) fn are_empty(&self) -> bool {
        self.namespaced.is_none() && self.cluster_wide.is_none()
    }

    /// Tells whether the path names all namespaces.
    pub(super) fn hold_all(&self) -> bool {
        let namespaced = self.namespaced.as_ref();
        namespaced.is_none_or(|scope| scope.namespace.is_empty())
    }

    pub(super) fn in_store(self, store: &Store) -> Option<Scope<'a>> {
        match store.resource.namespaced {
            true => self.namespaced,
            false => self.cluster_wide,
        }
    }
}

/// A resource that the cache has, and the part of it that may be read.
pub(super) struct Located<'a> {
    pub(super) entry: Arc<Entry>,
    pub(super) store: Arc<Store>,
    pub(super) scope: Scope<'a>,
}

/// A read that the store can answer, in a form that the client accepts.
pub(super) struct Fitted<'a> {
    pub(super) plan: Plan,
    pub(super) target: Target<'a>,
}

/// The target of a read: the objects, and the form of the answer.
pub(super) struct Target<'a> {
    pub(super) located: Located<'a>,
    pub(super) representation: Representation,
    pub(super) shape: Shape,
    /// The rule by which the answer has this shape, if the client did not ask for it.
    rule: Option<Arc<Rule>>,
}

impl Target<'_> {
    /// Returns the header of an answer whose shape the client did not ask for.
    pub(super) fn shape_header(&self) -> Option<HeaderValue> {
        self.rule.as_ref().map(|_| WITHOUT_MANAGED_FIELDS)
    }
}

impl<'a> Located<'a> {
    /// Narrows the plan to what may be read, and checks that the store can answer it.
    /// `rule` is the rule about the shape of the answer.
    pub(super) async fn fit(
        self,
        caller: &Identified,
        headers: &HeaderMap,
        plan: Plan,
        legacy_watch: bool,
        rule: Option<Arc<Rule>>,
    ) -> Result<Fitted<'a>, BypassReason> {
        let store = &self.store;
        let plan = plan.narrow(&self.scope, legacy_watch)?;
        let drops = negotiation::mentions_drop(headers) && drops_managed_fields(caller).await;
        let accepted = shape::representation(headers, caller.query(), store, &plan, drops)?;
        let shapes = &caller.generation().shapes;
        let (representation, shape, rule) = shape::without_managed_fields(accepted, rule, shapes)?;
        if let Plan::Watch(options, _) = &plan
            && options.allow_watch_bookmarks
            && watch::is_given(options, store)
        {
            self.entry.bookmark_within(store, BOOKMARK_WAITS).await;
        }
        plan.check(store)?;
        let target = Target {
            located: self,
            representation,
            shape,
            rule,
        };
        Ok(Fitted { plan, target })
    }

    /// Returns the part that a caller reads, for the question how recent it is.
    pub(super) fn resource<'b>(&'b self, caller: &'b Identified) -> Resource<'b> {
        Resource {
            generation: caller.generation(),
            entry: &self.entry,
            store: &self.store,
            user: caller.user(),
            scope: &self.scope,
        }
    }
}

/// Tells whether reads are answered without managedFields here: always, or because
/// upstream would answer them so, too. Backends may be of any release, so upstream's
/// release tells nothing about them.
async fn drops_managed_fields(caller: &Identified) -> bool {
    let generation = caller.generation();
    generation.settings.cache.drop_managed_fields == DropManagedFields::Always
        || caller.route().is_none()
            && generation
                .upstream_features
                .drops_managed_fields(&generation.cache.upstream())
                .await
}

impl Fitted<'_> {
    /// Notes that lists of the whole resource are asked for in this form.
    pub(super) fn note_demand(&self, headers: &HeaderMap, query: &Query) {
        let Located { entry, scope, .. } = &self.target.located;
        if scope.namespace.is_empty() {
            let representation = self.target.representation;
            demanded_forms::note(entry, representation, (headers, query), &self.plan);
        }
    }
}
