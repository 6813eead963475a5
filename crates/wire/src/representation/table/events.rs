//! Events of the core group and of `events.k8s.io`.

use serde::Deserialize;

use super::NotPrintable;
use super::age::Moment;
use super::meta::{Meta, lower, moment};
use super::row::{Cell, Row};

/// An event with the field names of the core group. The aliases are the names
/// in `events.k8s.io`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Event {
    metadata: Meta,
    #[serde(alias = "regarding")]
    involved_object: InvolvedObject,
    reason: String,
    #[serde(alias = "note")]
    message: String,
    #[serde(alias = "deprecatedSource")]
    source: EventSource,
    #[serde(alias = "deprecatedFirstTimestamp", deserialize_with = "moment")]
    first_timestamp: Option<Moment>,
    #[serde(alias = "deprecatedLastTimestamp", deserialize_with = "moment")]
    last_timestamp: Option<Moment>,
    #[serde(alias = "deprecatedCount")]
    count: i64,
    r#type: String,
    #[serde(deserialize_with = "moment")]
    event_time: Option<Moment>,
    series: Option<Series>,
    #[serde(alias = "reportingController")]
    reporting_component: String,
    reporting_instance: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct InvolvedObject {
    kind: String,
    name: String,
    field_path: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EventSource {
    component: String,
    host: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Series {
    count: i64,
    #[serde(deserialize_with = "moment")]
    last_observed_time: Option<Moment>,
}

pub(crate) fn print(object: &[u8]) -> Result<Row, NotPrintable> {
    let event: Event = serde_json::from_slice(object)?;
    let first = event.first_timestamp.or(event.event_time);
    let (last, count) = match &event.series {
        Some(series) => (series.last_observed_time, series.count),
        // The new API does not count events that happened once.
        None if event.count == 0 => (event.last_timestamp.or(first), 1),
        None => (event.last_timestamp.or(first), event.count),
    };
    let involved = &event.involved_object;
    let mut target = lower(&involved.kind)?;
    if !involved.name.is_empty() {
        target = format!("{target}/{}", involved.name);
    }
    Ok(Row::new(vec![
        Cell::age(last),
        Cell::text(&event.r#type),
        Cell::text(&event.reason),
        Cell::text(&target),
        Cell::text(&involved.field_path),
        Cell::text(&source(&event)),
        Cell::text(event.message.trim()),
        Cell::age(first),
        Cell::integer(count),
        Cell::text(&event.metadata.name),
    ]))
}

fn source(event: &Event) -> String {
    let first = |a: &str, b: &str| {
        if a.is_empty() {
            b.to_owned()
        } else {
            a.to_owned()
        }
    };
    let component = first(&event.source.component, &event.reporting_component);
    let instance = first(&event.source.host, &event.reporting_instance);
    if instance.is_empty() {
        component
    } else {
        format!("{component}, {instance}")
    }
}
