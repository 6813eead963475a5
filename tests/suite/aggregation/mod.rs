//! Tests of extension API servers behind apifront, compared with the same
//! servers behind kube-apiserver's aggregator.

mod api_services;
mod by_caller;
mod claims;
mod flips;
mod forwarding;
mod isolation;
mod json_only;
mod kubectl;
mod reload;
mod unavailable;
mod wardle;

use crate::harness::backend::{Backend, Mood};
use crate::harness::shared::Shared;
use crate::harness::twins::{Parts, Registration, Twins};
use std::sync::Arc;

const HOSTILE: &str = "hostile.example.com";

/// The twins with one [`Backend`]. The shared one answers correctly, for tests of
/// forwarding.
struct HostileTwins {
    twins: Twins,
    backend: Backend,
}

impl HostileTwins {
    fn shared() -> Arc<Self> {
        static SHARED: Shared<HostileTwins> = Shared::new();
        SHARED.get(HostileTwins::start)
    }

    async fn start() -> HostileTwins {
        Self::start_group(HOSTILE, "hostile", Mood::Fine).await
    }

    /// Starts a backend that serves `group` as the given service.
    async fn start_group(group: &str, service: &str, mood: Mood) -> HostileTwins {
        let mut started = None;
        let twins = Twins::start(async |parts: &Parts| {
            let backend = parts.backend(group, mood);
            let registration = Registration::new(group, "v1", service, backend.port());
            started = Some(backend);
            vec![registration.trust(parts.ca())]
        })
        .await;
        twins.settled(&format!("v1.{group}"), true).await;
        HostileTwins {
            twins,
            backend: started.expect("started above"),
        }
    }
}
