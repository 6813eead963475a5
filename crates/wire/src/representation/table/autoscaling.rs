//! Horizontal pod autoscalers. Those of `autoscaling/v1` are left to the API
//! server, since that version does not show the order of the metrics.

use serde::Deserialize;

use super::NotPrintable;
use super::meta::{Object, nullable};
use super::row::{Cell, Row};

/// The number of metrics that a cell lists before it counts the rest.
const MAX_SHOWN_METRICS: usize = 2;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    scale_target_ref: Target,
    min_replicas: Option<i64>,
    max_replicas: i64,
    #[serde(deserialize_with = "nullable")]
    metrics: Vec<Metric>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Target {
    kind: String,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    current_replicas: i64,
    #[serde(deserialize_with = "nullable")]
    current_metrics: Vec<Metric>,
}

/// The target or the current value of a metric. Exactly one source is set.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metric {
    r#type: String,
    external: Option<Source>,
    pods: Option<Source>,
    object: Option<Source>,
    resource: Option<Source>,
    container_resource: Option<Source>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Source {
    name: String,
    target: Value,
    current: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Value {
    value: Option<String>,
    average_value: Option<String>,
    average_utilization: Option<i64>,
}

pub(crate) fn print(object: &[u8]) -> Result<Row, NotPrintable> {
    let autoscaler: Object<Spec, Status> = serde_json::from_slice(object)?;
    let spec = &autoscaler.spec;
    let min = spec.min_replicas.map(|min| min.to_string());
    Ok(Row::new(vec![
        Cell::text(&autoscaler.metadata.name),
        Cell::text(&format!(
            "{}/{}",
            spec.scale_target_ref.kind, spec.scale_target_ref.name
        )),
        Cell::text(&metrics(&spec.metrics, &autoscaler.status.current_metrics)?),
        Cell::text(min.as_deref().unwrap_or("<unset>")),
        Cell::integer(spec.max_replicas),
        Cell::integer(autoscaler.status.current_replicas),
        autoscaler.metadata.age(),
    ]))
}

fn metrics(wanted: &[Metric], current: &[Metric]) -> Result<String, NotPrintable> {
    if wanted.is_empty() {
        return Ok("<none>".to_owned());
    }
    let mut shown = Vec::new();
    for (i, metric) in wanted.iter().enumerate() {
        shown.push(metric.text(current.get(i))?);
    }
    let more = shown.len().saturating_sub(MAX_SHOWN_METRICS);
    shown.truncate(MAX_SHOWN_METRICS);
    let shown = shown.join(", ");
    Ok(match more {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    })
}

impl Metric {
    /// Formats the current value and the target. The caller matches the two by
    /// position.
    fn text(&self, current: Option<&Self>) -> Result<String, NotPrintable> {
        type Part = fn(&Metric) -> Option<&Source>;
        let part: Part = match self.r#type.as_str() {
            "External" => |m| m.external.as_ref(),
            "Pods" => |m| m.pods.as_ref(),
            "Object" => |m| m.object.as_ref(),
            "Resource" => |m| m.resource.as_ref(),
            "ContainerResource" => |m| m.container_resource.as_ref(),
            _ => return Ok("<unknown type>".to_owned()),
        };
        let source = part(self).ok_or(NotPrintable)?;
        let current = current.and_then(part).map(|source| &source.current);
        let target = &source.target;
        let average = current.map_or("<unknown>", |c| quantity(c.average_value.as_ref()));
        match self.r#type.as_str() {
            "External" | "Object" => Ok(match &target.average_value {
                Some(wanted) => {
                    let average = current.and_then(|c| c.average_value.as_deref());
                    format!("{}/{wanted} (avg)", average.unwrap_or("<unknown>"))
                }
                None => {
                    let value = current.map_or("<unknown>", |c| quantity(c.value.as_ref()));
                    format!("{value}/{}", quantity(target.value.as_ref()))
                }
            }),
            "Pods" => Ok(format!(
                "{average}/{}",
                quantity(target.average_value.as_ref())
            )),
            _ => Ok(match &target.average_value {
                Some(wanted) => format!("{}: {average}/{wanted}", source.name),
                None => {
                    let percent = |n: i64| format!("{n}%");
                    let used = current.and_then(|c| c.average_utilization).map(percent);
                    let wanted = target.average_utilization.map(percent);
                    format!(
                        "{}: {}/{}",
                        source.name,
                        used.as_deref().unwrap_or("<unknown>"),
                        wanted.as_deref().unwrap_or("<auto>")
                    )
                }
            }),
        }
    }
}

/// Formats a `resource.Quantity`. The server sends its canonical form, which is
/// shown.
fn quantity(quantity: Option<&String>) -> &str {
    quantity.map_or("<nil>", String::as_str)
}
