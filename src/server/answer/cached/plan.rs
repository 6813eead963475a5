//! Plans how a request is read from the cache, before the cache is asked.

use apifront_watch_cache::read::{
    self, BypassReason, Freshness, ListVersion, WatchPlan, legacy_watch, parameters,
};
use apifront_watch_cache::store::{Filter, Store};
use kubernetes_wire::api::ListOptions;
use kubernetes_wire::request::{Deadline, Scope};

use super::watch;
use crate::server::stage::Received;

pub(super) enum Plan {
    Get(Freshness),
    List(ListOptions, read::ListPlan),
    Watch(ListOptions, WatchPlan),
}

impl Plan {
    pub(super) fn freshness(&self) -> Freshness {
        match self {
            Self::Get(freshness) => *freshness,
            Self::List(_, plan) => plan.freshness(),
            Self::Watch(_, WatchPlan::InitialEvents(freshness) | WatchPlan::FromNow(freshness)) => {
                *freshness
            }
            Self::Watch(_, WatchPlan::From(_) | WatchPlan::Unmarked) => Freshness::Any,
        }
    }

    /// Tells whether the read itself names the version of its state.
    pub(super) fn is_exact(&self) -> bool {
        matches!(self, Self::List(_, plan) if matches!(plan.version, ListVersion::Exact(_)))
    }

    pub(super) fn is_of_shard(&self) -> bool {
        match self {
            Self::Get(_) => false,
            Self::List(options, _) | Self::Watch(options, _) => options.shard_selector.is_some(),
        }
    }

    /// Checks whether the store can answer the read at all. This must be known
    /// before upstream is asked for anything.
    pub(super) fn check(&self, store: &Store) -> Result<(), BypassReason> {
        let (Self::List(options, _) | Self::Watch(options, _)) = self else {
            return Ok(());
        };
        Filter::check_fields(&options.field_selector, &store.resource)
            .map_err(|_| BypassReason::FieldSelector)?;
        match self {
            Self::Watch(options, _) => watch::check(options, store),
            // Releases before 1.34 read later pages from etcd. It respects the
            // limit, which their cache ignores for version 0. Servers of these
            // releases make no continue tokens of shards.
            Self::List(options, _)
                if options.resource_version == "0"
                    && !options.continue_token.is_empty()
                    && options.shard_selector.is_none()
                    && store.presentation().other_lists =>
            {
                Err(BypassReason::UnusualRequest)
            }
            Self::Get(_) | Self::List(..) => Ok(()),
        }
    }

    /// Narrows the selection to that of the grant, whose selectors were authorized.
    /// A legacy watch is authorized without selectors, so its own selectors only
    /// narrow the selection.
    pub(super) fn narrow(
        self,
        scope: &Scope<'_>,
        legacy_watch: bool,
    ) -> Result<Self, BypassReason> {
        let narrow = |mut options: ListOptions| {
            if !legacy_watch {
                let selected = options.select(scope.label_selector, scope.field_selector);
                selected.map_err(|_| BypassReason::InvalidOptions)?;
            }
            legacy_watch::options(options, scope.name)
        };
        Ok(match self {
            Self::Get(freshness) => Self::Get(freshness),
            Self::List(options, plan) => Self::List(narrow(options)?, plan),
            Self::Watch(options, plan) => Self::Watch(narrow(options)?, plan),
        })
    }
}

/// Plans how a request is read from the cache. Returns `None` if the cache could
/// never answer a request like this.
pub(super) fn plan(received: &Received) -> Result<Option<Plan>, BypassReason> {
    let (info, query) = (received.info(), received.query());
    let verb = info.verb.as_str();
    if !matches!(verb, "get" | "list" | "watch") || info.parts.len() > 2 {
        return Ok(None);
    }
    if !received.generation().settings.cache.caches(&info.gvr) {
        return Err(BypassReason::Excluded);
    }
    // The cache answers an upgrade only if it is a WebSocket watch with a correct
    // handshake.
    let is_answered_here = verb == "watch" && received.handshake().is_some();
    if received.upgrade().is_some() && !is_answered_here {
        return Err(BypassReason::WatchProtocol);
    }
    if !info.is_canonical() {
        return Err(BypassReason::UnusualRequest);
    }
    // A watch has its own time limit, `timeoutSeconds`.
    if verb != "watch" && received.deadline() == Deadline::Unclear {
        return Err(BypassReason::InvalidOptions);
    }
    let options = || {
        parameters::check_list(query)?;
        let shard_selector = parameters::shard(query);
        let shard_selector = shard_selector.map_err(|_| BypassReason::UnusualRequest)?;
        let options = ListOptions::from_query(query);
        let options = options.map_err(|_| BypassReason::InvalidOptions)?;
        Ok::<_, BypassReason>(ListOptions {
            shard_selector,
            ..options
        })
    };
    let plan = match verb {
        "get" => {
            parameters::check_get(query)?;
            Plan::Get(read::get(query)?)
        }
        "list" => {
            let options = options()?;
            let plan = read::list(&options)?;
            Plan::List(options, plan)
        }
        _ => {
            let options = options()?;
            let plan = match info.is_verb_via_path() {
                true => legacy_watch::plan(&options)?,
                false => read::watch(&options)?,
            };
            Plan::Watch(options, plan)
        }
    };
    Ok(Some(plan))
}
