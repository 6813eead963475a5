//! Groups of pods that are scheduled together (KEP-4671), and priority classes.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::NotPrintable;
use super::conditions::Conditions;
use super::meta::{Meta, Object};
use super::row::{Cell, Row};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct GroupSpec {
    pod_group_template_ref: Option<TemplateRef>,
    scheduling_policy: Policy,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TemplateRef {
    workload: Option<WorkloadRef>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WorkloadRef {
    workload_name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Policy {
    gang: Option<IgnoredAny>,
}

pub(crate) fn print_pod_group(object: &[u8]) -> Result<Row, NotPrintable> {
    let group: Object<GroupSpec, Conditions> = serde_json::from_slice(object)?;
    let spec = &group.spec;
    // If there are several conditions of a type, the last one counts.
    let condition = |r#type| group.status.last(r#type);
    let status = match (
        condition("DisruptionTarget"),
        condition("PodGroupScheduled"),
    ) {
        (Some(disrupted), _) => &disrupted.reason,
        (None, Some(scheduled)) if scheduled.status == "True" => "Scheduled",
        (None, Some(_)) => "Unschedulable",
        (None, None) => "Pending",
    };
    let workload = match &spec.pod_group_template_ref {
        None => "<none>",
        // The API server fails if there is no workload.
        Some(template) => match &template.workload {
            Some(workload) => &workload.workload_name,
            None => return Err(NotPrintable),
        },
    };
    let policy = match spec.scheduling_policy.gang {
        Some(_) => "Gang",
        None => "Basic",
    };
    Ok(Row::new(vec![
        Cell::text(&group.metadata.name),
        Cell::text(policy),
        Cell::text(workload),
        Cell::text(status),
        group.metadata.age(),
    ]))
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PriorityClass {
    metadata: Meta,
    value: i64,
    global_default: bool,
    preemption_policy: Option<String>,
}

pub(crate) fn print_priority_class(object: &[u8]) -> Result<Row, NotPrintable> {
    let class: PriorityClass = serde_json::from_slice(object)?;
    Ok(Row::new(vec![
        Cell::text(&class.metadata.name),
        Cell::integer(class.value),
        Cell::boolean(class.global_default),
        class.metadata.age(),
        Cell::text(class.preemption_policy.as_deref().unwrap_or_default()),
    ]))
}
