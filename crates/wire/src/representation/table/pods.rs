//! Pods: the state of their containers as one word.

use std::collections::HashMap;

use serde::Deserialize;

use super::NotPrintable;
use super::age::Moment;
use super::meta::{Container, Object, moment, nullable};
use super::row::{Cell, Piece, Row};

const SUCCEEDED: &str = r#"[{"type":"Completed","status":"True","reason":"Succeeded","message":"The pod has completed successfully."}]"#;
const FAILED: &str =
    r#"[{"type":"Completed","status":"True","reason":"Failed","message":"The pod failed."}]"#;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(deserialize_with = "nullable")]
    containers: Vec<serde::de::IgnoredAny>,
    #[serde(deserialize_with = "nullable")]
    init_containers: Vec<Container>,
    node_name: String,
    #[serde(deserialize_with = "nullable")]
    readiness_gates: Vec<ReadinessGate>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ReadinessGate {
    condition_type: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: String,
    reason: String,
    #[serde(deserialize_with = "nullable")]
    conditions: Vec<Condition>,
    #[serde(deserialize_with = "nullable")]
    init_container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "nullable")]
    container_statuses: Vec<ContainerStatus>,
    #[serde(rename = "podIPs", deserialize_with = "nullable")]
    pod_ips: Vec<PodIp>,
    nominated_node_name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodIp {
    ip: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    r#type: String,
    status: String,
    reason: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatus {
    name: String,
    ready: bool,
    started: Option<bool>,
    restart_count: i64,
    state: State,
    last_state: State,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct State {
    waiting: Option<Waiting>,
    running: Option<serde::de::IgnoredAny>,
    terminated: Option<Terminated>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Waiting {
    reason: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Terminated {
    exit_code: i64,
    signal: i64,
    reason: String,
    #[serde(deserialize_with = "moment")]
    finished_at: Option<Moment>,
}

impl Terminated {
    fn cause(&self) -> String {
        if !self.reason.is_empty() {
            self.reason.clone()
        } else if self.signal != 0 {
            format!("Signal:{}", self.signal)
        } else {
            format!("ExitCode:{}", self.exit_code)
        }
    }
}

#[derive(Default)]
struct Restarts {
    count: i64,
    last: Option<Moment>,
}

impl Restarts {
    fn add(&mut self, container: &ContainerStatus) {
        self.count = self.count.saturating_add(container.restart_count);
        let finished = container.last_state.terminated.as_ref();
        self.last = self.last.max(finished.and_then(|t| t.finished_at));
    }

    fn cell(&self) -> Cell {
        match self.last {
            Some(last) if self.count != 0 => Cell::Mixed(Box::new([
                Piece::Text(format!("{} (", self.count)),
                Piece::Age(last),
                Piece::Text(" ago)".to_owned()),
            ])),
            _ => Cell::text(&self.count.to_string()),
        }
    }
}

#[derive(Default)]
struct Summary {
    reason: String,
    ready: usize,
    restarts: Restarts,
    initializing: bool,
}

pub(crate) fn print(object: &[u8]) -> Result<Row, NotPrintable> {
    print_with(object, BesideCompleted::Failed)
}

pub(super) fn print_before_1_35(object: &[u8]) -> Result<Row, NotPrintable> {
    print_with(object, BesideCompleted::Ignored)
}

/// How a failed container affects the status of a pod if another container has
/// completed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BesideCompleted {
    Failed,
    Ignored,
}

fn print_with(object: &[u8], beside: BesideCompleted) -> Result<Row, NotPrintable> {
    let pod: Object<Spec, Status> = serde_json::from_slice(object)?;
    let sidecars: HashMap<&str, bool> = pod
        .spec
        .init_containers
        .iter()
        .map(|c| (c.name.as_str(), is_sidecar(c)))
        .collect();
    let total = pod
        .spec
        .init_containers
        .iter()
        .filter(|c| is_sidecar(c))
        .count()
        .saturating_add(pod.spec.containers.len());

    let mut summary = Summary {
        reason: first_reason(&pod.status),
        ..Summary::default()
    };
    let sidecar_restarts = init_containers(&pod, &sidecars, &mut summary);
    if !summary.initializing || condition(&pod.status, "Initialized") == Some("True") {
        summary.restarts = sidecar_restarts;
        containers(&pod.status, beside, &mut summary);
    }

    let terminal = matches!(pod.status.phase.as_str(), "Failed" | "Succeeded");
    if pod.metadata.deletion_timestamp.is_some() {
        if pod.status.reason == "NodeLost" {
            summary.reason = "Unknown".to_owned();
        } else if !terminal {
            summary.reason = "Terminating".to_owned();
        }
    }

    let or_none = |text: &str| Cell::text(if text.is_empty() { "<none>" } else { text });
    let pod_ip = pod.status.pod_ips.first().map_or("", |ip| &ip.ip);
    Ok(Row {
        cells: vec![
            Cell::text(&pod.metadata.name),
            Cell::text(&format!("{}/{total}", summary.ready)),
            Cell::text(&summary.reason),
            summary.restarts.cell(),
            pod.metadata.age(),
            or_none(pod_ip),
            or_none(&pod.spec.node_name),
            or_none(&pod.status.nominated_node_name),
            readiness_gates(&pod),
        ],
        conditions: match pod.status.phase.as_str() {
            "Succeeded" => SUCCEEDED,
            "Failed" => FAILED,
            _ => "",
        },
    })
}

/// Tells whether an init container keeps running beside the other containers
/// (KEP-753).
fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn first_reason(status: &Status) -> String {
    let gated = status
        .conditions
        .iter()
        .any(|c| c.r#type == "PodScheduled" && c.reason == "SchedulingGated");
    if gated {
        "SchedulingGated".to_owned()
    } else if !status.reason.is_empty() {
        status.reason.clone()
    } else {
        status.phase.clone()
    }
}

/// Reads the init containers up to the first that has not finished. Returns the
/// restarts of sidecars, the only ones that count later.
fn init_containers(
    pod: &Object<Spec, Status>,
    sidecars: &HashMap<&str, bool>,
    summary: &mut Summary,
) -> Restarts {
    let mut of_sidecars = Restarts::default();
    for (i, container) in pod.status.init_container_statuses.iter().enumerate() {
        let sidecar = sidecars.get(container.name.as_str()) == Some(&true);
        summary.restarts.add(container);
        if sidecar {
            of_sidecars.add(container);
        }
        let state = &container.state;
        match (&state.terminated, &state.waiting) {
            (Some(terminated), _) if terminated.exit_code == 0 => continue,
            _ if sidecar && container.started == Some(true) => {
                if container.ready {
                    summary.ready = summary.ready.saturating_add(1);
                }
                continue;
            }
            (Some(terminated), _) => summary.reason = format!("Init:{}", terminated.cause()),
            (None, Some(waiting))
                if !waiting.reason.is_empty() && waiting.reason != "PodInitializing" =>
            {
                summary.reason = format!("Init:{}", waiting.reason);
            }
            _ => summary.reason = format!("Init:{i}/{}", pod.spec.init_containers.len()),
        }
        summary.initializing = true;
        break;
    }
    of_sidecars
}

/// Reads the containers from the last to the first, so that the first one with a
/// problem determines the reason.
fn containers(status: &Status, beside: BesideCompleted, summary: &mut Summary) {
    let mut has_running = false;
    let mut error = String::new();
    for container in status.container_statuses.iter().rev() {
        summary.restarts.add(container);
        let state = &container.state;
        match (&state.waiting, &state.terminated) {
            (Some(waiting), _) if !waiting.reason.is_empty() => {
                summary.reason.clone_from(&waiting.reason);
            }
            (_, Some(terminated)) => {
                summary.reason = terminated.cause();
                if terminated.exit_code != 0 {
                    error.clone_from(&summary.reason);
                }
            }
            _ if container.ready && state.running.is_some() => {
                has_running = true;
                summary.ready = summary.ready.saturating_add(1);
            }
            _ => {}
        }
    }
    if summary.reason == "Completed" {
        let is_ready = status
            .conditions
            .iter()
            .any(|c| c.r#type == "Ready" && c.status == "True");
        if has_running && is_ready {
            summary.reason = "Running".to_owned();
        } else if !error.is_empty() && beside == BesideCompleted::Failed {
            summary.reason = error;
        } else if has_running {
            summary.reason = "NotReady".to_owned();
        }
    }
}

/// Returns the status of the first condition of a type.
fn condition<'a>(status: &'a Status, r#type: &str) -> Option<&'a str> {
    let found = status.conditions.iter().find(|c| c.r#type == r#type)?;
    Some(&found.status)
}

fn readiness_gates(pod: &Object<Spec, Status>) -> Cell {
    let gates = &pod.spec.readiness_gates;
    if gates.is_empty() {
        return Cell::text("<none>");
    }
    // If there are several conditions of a type, the first one counts.
    let conditions = pod.status.conditions.iter().rev();
    let states: HashMap<&str, &str> = conditions.map(|c| (&*c.r#type, &*c.status)).collect();
    let open = gates
        .iter()
        .filter(|gate| states.get(&*gate.condition_type) == Some(&"True"))
        .count();
    Cell::text(&format!("{open}/{}", gates.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If each gate searched all conditions, this would take hours.
    #[test]
    fn a_gate_is_looked_up() {
        let gates = (0..300_000).map(|n| format!("{{\"conditionType\":\"{n}\"}}"));
        let conditions = (0..300_000).map(|n| format!("{{\"type\":\"{n}\",\"status\":\"True\"}}"));
        let [gates, conditions] = [gates.collect::<Vec<_>>(), conditions.collect()];
        let pod = format!(
            "{{\"spec\":{{\"readinessGates\":[{}]}},\"status\":{{\"conditions\":[{}]}}}}",
            gates.join(","),
            conditions.join(",")
        );
        let row = print(pod.as_bytes()).unwrap();
        let Some(Cell::Fixed(open)) = row.cells.last() else {
            panic!("no text")
        };
        assert_eq!(&**open, "\"300000/300000\"");
    }
}
