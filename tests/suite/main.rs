//! All tests against real servers. They are one binary, so that they share a
//! cluster.

extern crate harness;

/// Skips a test whose questions kube-apiserver could not answer in apifront's place.
/// Reports it, so that a run with the oracle shows how much it left out.
macro_rules! skip_under_oracle {
    ($reason:literal) => {
        if crate::harness::apifront::oracle() {
            let test = std::any::type_name_of_val(&|| {});
            crate::harness::apifront::tell_skipped(test, $reason);
            return;
        }
    };
}

/// Makes two tests of each function: one compares kube-apiserver with itself, the
/// other compares it with apifront. The module's `oracle` and `through_apifront`
/// return the two comparisons.
macro_rules! differential {
    ($($test:ident),+ $(,)?) => {
        mod kube_apiserver {
            $(#[tokio::test]
            #[ignore = "it proves the suite: make test-proofs"]
            async fn $test() { super::$test(super::oracle()).await; })+
        }
        mod apifront {
            $(#[tokio::test]
            async fn $test() { super::$test(super::through_apifront()).await; })+
        }
    };
}

mod aggregation;
mod anonymous;
mod audit;
mod bounds;
mod browsers;
mod cached_rbac;
mod cached_reads;
mod chunked;
mod conformance;
mod consistency;
mod consistency_herd;
mod consistency_outage;
mod consistency_shared;
mod consistency_writers;
mod credentials;
mod custom_resources;
mod degraded;
mod deprecation;
mod discovery;
mod doctor;
mod encodings;
mod explain;
mod failover;
mod fairness;
mod faithful;
mod field_selectors;
mod flow;
mod fuzz;
mod goaway;
mod gzip;
mod heads;
mod health;
mod herd;
mod identity;
mod isolation;
mod kubectl;
mod kubectl_output;
mod legacy_watch;
mod linearizability;
mod malformed;
mod managed_fields;
mod memory_limit;
mod metrics;
mod metrics_policy;
mod new_for_old;
mod newer_server;
mod open_port;
mod openapi;
mod personal;
mod queries;
mod recording;
mod redefinition;
mod reload;
mod restart;
mod schema;
mod self_review;
mod shadow;
mod shapes;
mod sharded;
mod status;
mod streams;
mod tables;
mod tls_sessions;
mod tracing;
mod traps;
mod tree;
mod upgrades;
mod views;
mod warm_restart;
mod watch_history;
mod websocket_watch;
