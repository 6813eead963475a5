//! Events of the core group.

use serde::Deserialize;

use super::NotPrintable;
use super::age::Moment;
use super::meta::{Meta, moment};
use super::row::{Cell, Row};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Event {
    metadata: Meta,
    involved_object: InvolvedObject,
    reason: String,
    message: String,
    source: EventSource,
    #[serde(deserialize_with = "moment")]
    first_timestamp: Option<Moment>,
    #[serde(deserialize_with = "moment")]
    last_timestamp: Option<Moment>,
    count: i64,
    r#type: String,
    #[serde(deserialize_with = "moment")]
    event_time: Option<Moment>,
    series: Option<Series>,
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

pub fn print(object: &[u8]) -> Result<Row, NotPrintable> {
    let event: Event = serde_json::from_slice(object)?;
    let first = event.first_timestamp.or(event.event_time);
    let (last, count) = match &event.series {
        Some(series) => (series.last_observed_time, series.count),
        // Events that happened once are not counted in the new API.
        None => (event.last_timestamp.or(first), event.count.max(1)),
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

/// Kinds are ASCII; for others Go's and Rust's tables may differ.
fn lower(kind: &str) -> Result<String, NotPrintable> {
    if kind.is_ascii() {
        Ok(kind.to_ascii_lowercase())
    } else {
        Err(NotPrintable)
    }
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
