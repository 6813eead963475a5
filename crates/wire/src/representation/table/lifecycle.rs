//! Evictions of pods, and requests for evictions (KEP-4563).

use serde::Deserialize;

use super::NotPrintable;
use super::age::Moment;
use super::conditions::Conditions;
use super::meta::{Object, moment, nullable};
use super::row::{Cell, Piece, Row};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Target {
    pod: Option<Pod>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pod {
    name: String,
}

impl Target {
    fn cells(&self) -> [Cell; 2] {
        match &self.pod {
            Some(pod) => [Cell::text(&pod.name), Cell::text("Pod")],
            None => [Cell::text(UNSET), Cell::text(UNSET)],
        }
    }
}

const UNSET: &str = "<unset>";

/// The part of the status that shows the progress of an eviction.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Progress {
    #[serde(flatten)]
    conditions: Conditions,
    observed_generation: Option<i64>,
}

impl Progress {
    fn text(&self) -> String {
        // If there are several conditions of a type, the first one counts.
        let holds = |r#type| {
            let first = self.conditions.first(r#type);
            first.filter(|condition| condition.status == "True")
        };
        match holds("TargetEvicted").or_else(|| holds("Failed")) {
            Some(condition) => format!("{} ({})", condition.r#type, condition.reason),
            None if self.observed_generation > Some(0) => "Progressing".to_owned(),
            None => "Pending".to_owned(),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RequestSpec {
    target: Target,
    requester: String,
    intent: String,
}

pub(crate) fn print_eviction_request(object: &[u8]) -> Result<Row, NotPrintable> {
    let request: Object<RequestSpec, Progress> = serde_json::from_slice(object)?;
    let [target, target_type] = request.spec.target.cells();
    Ok(Row::new(vec![
        Cell::text(&request.metadata.name),
        target,
        target_type,
        Cell::text(&request.status.text()),
        Cell::text(&request.spec.requester),
        Cell::text(&request.spec.intent),
        request.metadata.age(),
    ]))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    target: Target,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    #[serde(flatten)]
    progress: Progress,
    #[serde(deserialize_with = "nullable")]
    requesters: Vec<Requester>,
    #[serde(deserialize_with = "nullable")]
    target_responders: Vec<TargetResponder>,
    #[serde(deserialize_with = "nullable")]
    responders: Vec<Responder>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Requester {
    name: String,
    intent: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TargetResponder {
    name: String,
    state: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Responder {
    name: String,
    #[serde(deserialize_with = "moment")]
    start_time: Option<Moment>,
    #[serde(deserialize_with = "moment")]
    heartbeat_time: Option<Moment>,
    #[serde(deserialize_with = "moment")]
    expected_completion_time: Option<Moment>,
    #[serde(deserialize_with = "moment")]
    completion_time: Option<Moment>,
    message: Option<String>,
}

pub(crate) fn print_eviction(object: &[u8]) -> Result<Row, NotPrintable> {
    let eviction: Object<Spec, Status> = serde_json::from_slice(object)?;
    let status = &eviction.status;
    let [target, target_type] = eviction.spec.target.cells();
    let active = status.active();
    let active_name = active.map_or(UNSET, |responder| &responder.name);
    let begun = status.target_responders.iter().filter(|r| r.has_begun());
    let counted = format!(
        "{active_name} ({}/{})",
        begun.count(),
        status.target_responders.len()
    );
    let [responder, expected, heartbeat, message] = match active {
        Some(active) => status.responder_cells(active)?,
        None => unknown_responder(),
    };
    Ok(Row::new(vec![
        Cell::text(&eviction.metadata.name),
        target,
        target_type,
        Cell::text(&status.progress.text()),
        Cell::text(&counted),
        responder,
        expected,
        Cell::text(&status.requesters()),
        eviction.metadata.age(),
        heartbeat,
        message,
    ]))
}

fn unknown_responder() -> [Cell; 4] {
    [UNSET, "<unknown>", UNSET, UNSET].map(Cell::text)
}

impl TargetResponder {
    fn is_active(&self) -> bool {
        self.state == "Active"
    }

    fn has_begun(&self) -> bool {
        let ended = ["Canceled", "Interrupted", "Completed"];
        self.is_active() || ended.contains(&self.state.as_str())
    }
}

impl Status {
    /// Returns the last responder that is active, or else the last that has ended.
    fn active(&self) -> Option<&TargetResponder> {
        let all = &self.target_responders;
        let active = all.iter().rfind(|r| r.is_active());
        active.or_else(|| all.iter().rfind(|r| r.has_begun()))
    }

    /// Returns the active responder's cells: its status, its expected completion,
    /// its heartbeat and its message.
    fn responder_cells(&self, active: &TargetResponder) -> Result<[Cell; 4], NotPrintable> {
        let Some(responder) = self.responders.iter().find(|r| r.name == active.name) else {
            return Ok(unknown_responder());
        };
        let (mut status, mut expected) = (Cell::text(&active.state), Cell::text("-"));
        match (active.state.as_str(), responder.start_time) {
            ("Active", None) => expected = Cell::text("<unknown>"),
            ("Active", Some(started)) => {
                // Whether this time is still to come depends on the clock.
                if responder.expected_completion_time.is_some() {
                    return Err(NotPrintable);
                }
                status = ago("Started (", started, " ago)");
                expected = Cell::text("<unknown>");
            }
            ("Completed", _) => {
                if let Some(completed) = responder.completion_time {
                    status = ago("Completed (", completed, " ago)");
                }
            }
            _ => {}
        }
        let heartbeat = match responder.heartbeat_time {
            Some(heartbeat) => ago("", heartbeat, " ago"),
            None => Cell::text(UNSET),
        };
        let message = responder.message.as_deref().unwrap_or_default().trim();
        let message = Cell::text(if message.is_empty() { UNSET } else { message });
        Ok([status, expected, heartbeat, message])
    }

    fn requesters(&self) -> String {
        let asking = self.requesters.iter().filter(|r| r.intent != "Withdrawn");
        let mut names: Vec<&str> = asking.map(|r| r.name.as_str()).collect();
        names.sort_unstable();
        match names.as_slice() {
            [] if self.requesters.is_empty() => "<none>".to_owned(),
            [] => "<withdrawn>".to_owned(),
            [""] => UNSET.to_owned(),
            [only] => (*only).to_owned(),
            [first, others @ ..] => format!("{first} + {} more...", others.len()),
        }
    }
}

fn ago(before: &str, moment: Moment, after: &str) -> Cell {
    Cell::Mixed(Box::new([
        Piece::Text(before.into()),
        Piece::Age(moment),
        Piece::Text(after.into()),
    ]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cells(status: serde_json::Value) -> Result<Vec<String>, NotPrintable> {
        let object = json!({ "metadata": { "name": "e" }, "spec": {}, "status": status });
        let row = print_eviction(object.to_string().as_bytes())?;
        let shown = |cell: &Cell| match cell {
            Cell::Fixed(json) => json.trim_matches('"').to_owned(),
            Cell::Age(_) => "AGE".to_owned(),
            Cell::Mixed(pieces) => {
                let text = |piece: &Piece| match piece {
                    Piece::Text(text) => text.clone(),
                    Piece::Age(_) => "AGE".to_owned(),
                };
                pieces.iter().map(text).collect()
            }
        };
        Ok([4, 5, 6, 7, 9, 10].map(|at| shown(&row.cells[at])).into())
    }

    #[test]
    fn the_active_responder_is_shown() {
        let time = "2026-11-21T03:00:00Z";
        let responders = |state: &str| {
            json!({
                "targetResponders": [{ "name": "a", "state": "Completed" }, { "name": "b", "state": state },
                    { "name": "c", "state": "Inactive" }],
                "responders": [{ "name": "b", "startTime": time, "heartbeatTime": time,
                    "completionTime": time, "message": " busy " }],
                "requesters": [{ "name": "z", "intent": "Eviction" }, { "name": "y", "intent": "Eviction" },
                    { "name": "x", "intent": "Withdrawn" }],
            })
        };
        let unset = "\\u003cunset\\u003e";
        let unknown = "\\u003cunknown\\u003e";
        for (state, name, status, expected) in [
            ("Active", "b (2/3)", "Started (AGE ago)", unknown),
            ("Completed", "b (2/3)", "Completed (AGE ago)", "-"),
            ("Canceled", "b (2/3)", "Canceled", "-"),
            ("Inactive", "a (1/3)", unset, unknown),
        ] {
            let shown = cells(responders(state)).unwrap();
            assert_eq!(shown[..4], [name, status, expected, "y + 1 more..."]);
            let is_known = state != "Inactive";
            assert_eq!(shown[4], if is_known { "AGE ago" } else { unset });
            assert_eq!(shown[5], if is_known { "busy" } else { unset });
        }
        let mut expecting = responders("Active");
        expecting["responders"][0]["expectedCompletionTime"] = json!(time);
        assert_eq!(cells(expecting), Err(NotPrintable));
    }
}
