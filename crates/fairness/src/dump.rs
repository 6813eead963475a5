//! The texts of `/debug/api_priority_and_fairness` (k8s.io/apiserver
//! `util/flowcontrol/apf_controller_debug.go`). Levels are in the order of their
//! names; kube-apiserver has them in no fixed order.

use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;

use crate::clock::{Clock, Time};
use crate::level::{Level, Lifecycle};
use crate::queue_set::dump::{RequestDump, SetDump};
use crate::table::table;

/// The start time of a request that has not begun: Go's zero time.
const NEVER: &str = "0001-01-01T00:00:00Z";

pub(crate) fn priority_levels(levels: &[Arc<Level>]) -> String {
    let mut rows = vec![words(&[
        "PriorityLevelName",
        "ActiveQueues",
        "IsIdle",
        "IsQuiescing",
        "WaitingRequests",
        "ExecutingRequests",
        "DispatchedRequests",
        "RejectedRequests",
        "TimedoutRequests",
        "CancelledRequests",
    ])];
    for (level, dump, lifecycle) in dumps(levels) {
        let active = dump.queues.iter().filter(|q| !q.waiting.is_empty()).count();
        rows.push(vec![
            level.name().to_owned(),
            active.to_string(),
            dump.is_idle.to_string(),
            (lifecycle == Lifecycle::Quiescing).to_string(),
            dump.waiting.to_string(),
            dump.executing.to_string(),
            dump.dispatched.to_string(),
            dump.rejected.to_string(),
            // kube-apiserver counts these among the cancelled ones.
            "0".to_owned(),
            dump.cancelled.to_string(),
        ]);
    }
    table(&rows)
}

pub(crate) fn queues(levels: &[Arc<Level>]) -> String {
    let mut rows = vec![words(&[
        "PriorityLevelName",
        "Index",
        "PendingRequests",
        "ExecutingRequests",
        "SeatsInUse",
        "NextDispatchR",
        "InitialSeatsSum",
        "MaxSeatsSum",
        "TotalWorkSum",
    ])];
    for (level, dump, _) in dumps(levels) {
        for (index, queue) in dump.queues.iter().enumerate() {
            rows.push(vec![
                level.name().to_owned(),
                index.to_string(),
                queue.waiting.len().to_string(),
                queue.executing.len().to_string(),
                queue.seats_in_use.to_string(),
                queue.next_dispatch.clone(),
                queue.initial_seats.to_string(),
                queue.max_seats.to_string(),
                queue.total_work.clone(),
            ]);
        }
    }
    table(&rows)
}

pub(crate) fn requests(levels: &[Arc<Level>], clock: &dyn Clock, with_details: bool) -> String {
    let mut header = words(&[
        "PriorityLevelName",
        "FlowSchemaName",
        "QueueIndex",
        "RequestIndexInQueue",
        "FlowDistingsher",
        "ArriveTime",
        "InitialSeats",
        "FinalSeats",
        "AdditionalLatency",
        "StartTime",
    ]);
    if with_details {
        header.extend(words(&[
            "UserName",
            "Verb",
            "APIPath",
            "Namespace",
            "Name",
            "APIVersion",
            "Resource",
            "SubResource",
        ]));
    }
    let mut rows = vec![header];
    for (level, dump, _) in dumps(levels) {
        let mut add = |queue: String, index: String, request: &RequestDump| {
            let mut row = vec![level.name().to_owned()];
            row.extend(request.row(queue, index, clock));
            if with_details {
                row.extend(request.details());
            }
            rows.push(row);
        };
        let none = || "-1".to_owned();
        for (at, queue) in dump.queues.iter().enumerate() {
            for (index, request) in queue.waiting.iter().enumerate() {
                add(at.to_string(), index.to_string(), request);
            }
            for request in &queue.executing {
                add(at.to_string(), none(), request);
            }
        }
        for request in &dump.queueless {
            add(none(), none(), request);
        }
    }
    table(&rows)
}

impl RequestDump {
    fn row(&self, queue: String, index: String, clock: &dyn Clock) -> [String; 9] {
        let time = |time: Time| rfc3339(clock.unix(time));
        [
            self.class.flow_schema().to_owned(),
            queue,
            index,
            self.class.distinguisher().to_owned(),
            time(self.arrival),
            self.width.initial_seats.to_string(),
            self.width.final_seats.to_string(),
            go_duration(self.width.additional_latency),
            self.started.map_or_else(|| NEVER.to_owned(), time),
        ]
    }

    fn details(&self) -> [String; 8] {
        let request = self.class.request();
        let (info, user) = (request.info(), request.user());
        let api_version = match info.gvr.group.as_str() {
            "" => info.gvr.version.clone(),
            group => format!("{group}/{}", info.gvr.version),
        };
        [
            user.map(|user| user.name.clone()).unwrap_or_default(),
            info.verb.clone(),
            info.path.clone(),
            info.namespace.clone(),
            info.name.clone(),
            api_version,
            info.gvr.resource.clone(),
            info.subresource.clone(),
        ]
    }
}

fn dumps(levels: &[Arc<Level>]) -> impl Iterator<Item = (&Level, SetDump, Lifecycle)> {
    levels.iter().map(|level| {
        let (dump, lifecycle) = level.look(|set, lifecycle, _| (set.dump(), lifecycle));
        (level.as_ref(), dump, lifecycle)
    })
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Writes a time as Go's `time.RFC3339Nano` does: without zeros at the end.
fn rfc3339(since_1970: Duration) -> String {
    let seconds = i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX);
    let whole = DateTime::from_timestamp(seconds, 0).unwrap_or_default();
    let fraction = match since_1970.subsec_nanos() {
        0 => String::new(),
        nanos => format!(".{nanos:09}").trim_end_matches('0').to_owned(),
    };
    format!("{}{fraction}Z", whole.format("%Y-%m-%dT%H:%M:%S"))
}

/// Writes a duration as Go's `Duration.String` does.
fn go_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let (unit, per_unit) = match nanos {
        0 => return "0s".to_owned(),
        1..1_000 => ("ns", 1.0),
        1_000..1_000_000 => ("µs", 1e3),
        1_000_000..1_000_000_000 => ("ms", 1e6),
        _ => ("s", 1e9),
    };
    let minutes = duration.as_secs() / 60;
    if minutes == 0 {
        return format!("{}{unit}", nanos as f64 / per_unit);
    }
    let seconds = duration.saturating_sub(Duration::from_secs(minutes.saturating_mul(60)));
    let seconds = seconds.as_nanos() as f64 / 1e9;
    match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{minutes}m{seconds}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_durations_are_gos() {
        let time = |seconds, nanos| rfc3339(Duration::new(seconds, nanos));
        assert_eq!(time(1_795_458_000, 120_000_000), "2026-11-23T18:20:00.12Z");
        assert_eq!(time(1_795_458_000, 0), "2026-11-23T18:20:00Z");
        let shown = |nanos| go_duration(Duration::from_nanos(nanos));
        assert_eq!(
            [0, 17, 1_500, 5_000_000, 12_500_000].map(shown),
            ["0s", "17ns", "1.5µs", "5ms", "12.5ms"]
        );
        assert_eq!(
            [1_500_000_000, 61_000_000_000, 3_600_000_000_000].map(shown),
            ["1.5s", "1m1s", "1h0m0s"]
        );
    }
}
