//! Changes the samples now and then, so that watches have something to show.

use std::time::Duration;

use kubernetes_wire::api::GroupResource;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{meta, server::EmbeddedServer, storage::Expect};

/// The time between changes: often enough to notice, and slow enough to read.
pub(crate) const CHANGE_INTERVAL: Duration = Duration::from_secs(3);

impl EmbeddedServer {
    /// Changes a running pod every `period` until the task is aborted.
    pub fn spawn_activity(&self, period: Duration) -> JoinHandle<()> {
        self.spawn_activity_until(period, CancellationToken::new())
    }

    pub(super) fn spawn_activity_until(
        &self,
        period: Duration,
        stop: CancellationToken,
    ) -> JoinHandle<()> {
        let server = self.clone();
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(period.max(Duration::from_millis(10)));
            for turn in 0.. {
                tokio::select! {
                    () = stop.cancelled() => return,
                    _ = ticks.tick() => server.stir(turn),
                }
            }
        })
    }

    /// Restarts a container of one pod, a different one each time.
    fn stir(&self, turn: usize) {
        let pods = GroupResource {
            group: String::new(),
            resource: "pods".to_owned(),
        };
        let snapshot = self.storage().snapshot(&pods);
        let running: Vec<_> = snapshot
            .objects
            .iter()
            .filter(|(_, pod)| {
                pod.value.pointer("/status/phase") == Some(&json!("Running"))
                    && !meta::is_deleting(&pod.value)
            })
            .collect();
        let Some((key, pod)) = turn
            .checked_rem(running.len())
            .and_then(|at| running.get(at))
        else {
            return;
        };
        let mut value = pod.value.clone();
        let containers = value
            .pointer_mut("/status/containerStatuses")
            .and_then(Value::as_array_mut);
        let Some(container) = containers
            .and_then(|containers| containers.first_mut())
            .and_then(Value::as_object_mut)
        else {
            return;
        };
        let restarts = container
            .get("restartCount")
            .and_then(Value::as_i64)
            .unwrap_or(0);
        container.insert("restartCount".to_owned(), restarts.saturating_add(1).into());
        let now = meta::now();
        container.insert("state".to_owned(), json!({"running": {"startedAt": now}}));
        container.insert(
            "lastState".to_owned(),
            json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}}),
        );
        // If another write came first, watches have something to show anyway.
        let _ = self
            .storage()
            .put(&pods, key, Expect::Revision(pod.revision), value);
    }
}
