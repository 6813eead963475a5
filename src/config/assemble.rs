//! Makes the checked [`Config`] from the document as written.

use apifront_watch_cache::{Consistency, ResourcePattern};

use super::access::{Access, Delegated};
use super::apis::Apis;
use super::check::{Check, Overrides};
use super::serving::DefaultPorts;
use super::{
    Config, Demo, FieldError, Observability, Serving, Upstream, aggregation, cache, degraded, flow,
    observability, queries, raw, shapes, views,
};
use crate::aggregation::api_service_objects::api_services;

/// The default ports of a front. 6443 and 9443 are documented and must not change.
const FRONT: DefaultPorts = DefaultPorts {
    secure: 6443,
    insecure: 0,
};
const OBSERVABILITY_PORT: u16 = 9443;
/// The default ports without a configuration file: those of `kubectl proxy`.
const OWNER: DefaultPorts = DefaultPorts {
    secure: 0,
    insecure: 8001,
};

/// The error without a file, a kubeconfig and a demo.
const NOTHING_TO_SERVE: &str = "nothing to serve: --kubeconfig FILE serves you before a \
    cluster, --config FILE stands before a cluster for its users; a build with the feature \
    `demo` (make run, cargo run --features demo) serves samples without a cluster";

/// The kind of process that a configuration is checked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// No file and no kubeconfig, which only a program with the demo can serve.
    Demo,
    /// A kubeconfig and no file.
    Personal,
    Front,
}

impl Config {
    /// Checks the document. `flags` names the flag of each field that was not
    /// set by the file.
    pub(super) fn check(
        raw: &raw::FrontConfiguration,
        shape: Shape,
        demo: Demo,
        flags: Overrides,
    ) -> Result<Self, Vec<FieldError>> {
        let mut check = Check::new(flags);
        let front = shape == Shape::Front;
        let upstream = match shape {
            Shape::Demo => {
                if let Some(context) = &raw.upstream.context {
                    check.error("upstream.context", context, "needs --kubeconfig");
                }
                match demo {
                    Demo::Included => Some(Upstream::Demo),
                    Demo::Absent => {
                        check.error("", "", NOTHING_TO_SERVE);
                        None
                    }
                }
            }
            Shape::Personal | Shape::Front => Upstream::check(&raw.upstream, &mut check),
        };
        let access = if front {
            Delegated::check(raw, &mut check).map(|d| Access::Delegated(Box::new(d)))
        } else {
            Some(Access::Owner)
        };
        let (ports, observability_port) = if front {
            (FRONT, OBSERVABILITY_PORT)
        } else {
            (OWNER, 0)
        };
        let serving = Serving::check(&raw.serving, ports, front, &mut check);
        let in_flight = flow::in_flight(&raw.serving, &mut check);
        let observability =
            Observability::check(&raw.observability, observability_port, &mut check);
        let logging = observability::logging(&raw.logging, &mut check);
        // The demo's server proves freshness in microseconds, and a person who
        // tries apifront wants to see its cache answer at once.
        let cache_defaults = match shape {
            Shape::Demo => cache::Defaults {
                consistency: Consistency::Fresh,
                preload: &["pods"],
            },
            Shape::Personal | Shape::Front => cache::Defaults {
                consistency: Consistency::Strict,
                preload: &[],
            },
        };
        let mut cache = cache::check(&raw.cache, cache_defaults, &mut check);
        let degraded = degraded::check(&raw.cache.degraded, front, &mut cache, &mut check);
        let views = views::check(&raw.views, front, &mut cache, &mut check);
        if let Some(access) = &access {
            access.preload(&mut cache, &mut check);
        }
        let shapes = shapes::check(&raw.shapes, &mut check);
        let flow = flow::check(&raw.flow, in_flight, &mut check);
        cache.pinned = flow::pinned(&flow);
        let api_services = ResourcePattern::Exact(api_services());
        cache.pinned.push(api_services);
        let proxy_client = access
            .as_ref()
            .and_then(Access::delegated)
            .and_then(|d| d.proxy_client.clone());
        let aggregation = aggregation::check(&raw.aggregation, proxy_client, &mut check);
        let queries = queries::check(&raw.queries, &aggregation, &mut check);
        let apis = Apis::check(&raw.apis, &mut check);
        match (upstream, access) {
            (Some(upstream), Some(access)) if check.errors().is_empty() => Ok(Self {
                serving,
                observability,
                logging,
                upstream,
                access,
                flow,
                cache,
                degraded,
                views,
                shapes,
                queries,
                aggregation,
                api_service_files: aggregation::watched_files(&raw.aggregation),
                apis,
            }),
            _ => Err(check.into_errors()),
        }
    }
}
