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
    workload_ref: Option<WorkloadRef>,
    scheduling_policy: Policy,
}

impl GroupSpec {
    fn cells(&self) -> [Cell; 2] {
        let policy = match self.scheduling_policy.gang {
            Some(_) => "Gang",
            None => "Basic",
        };
        let workload = self.workload_ref.as_ref();
        let workload = workload.map_or("<none>", |workload| &workload.workload_name);
        [Cell::text(policy), Cell::text(workload)]
    }
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
    // If there are several conditions of a type, the last one counts.
    let condition = |r#type| group.status.last(r#type);
    let status = match (
        condition("DisruptionTarget"),
        condition("PodGroupInitiallyScheduled"),
    ) {
        (Some(disrupted), _) => &disrupted.reason,
        (None, Some(scheduled)) if scheduled.status == "True" => "Scheduled",
        (None, Some(_)) => "Unschedulable",
        (None, None) => "Pending",
    };
    let [policy, workload] = group.spec.cells();
    Ok(Row::new(vec![
        Cell::text(&group.metadata.name),
        policy,
        workload,
        Cell::text(status),
        group.metadata.age(),
    ]))
}

pub(crate) fn print_composite_pod_group(object: &[u8]) -> Result<Row, NotPrintable> {
    let group: Object<GroupSpec, IgnoredAny> = serde_json::from_slice(object)?;
    let [policy, workload] = group.spec.cells();
    Ok(Row::new(vec![
        Cell::text(&group.metadata.name),
        policy,
        workload,
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

impl PriorityClass {
    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(&self.metadata.name),
            Cell::integer(self.value),
            Cell::boolean(self.global_default),
            self.metadata.age(),
        ]
    }
}

pub(crate) fn print_priority_class(object: &[u8]) -> Result<Row, NotPrintable> {
    let class: PriorityClass = serde_json::from_slice(object)?;
    let mut cells = class.cells();
    cells.push(Cell::text(
        class.preemption_policy.as_deref().unwrap_or_default(),
    ));
    Ok(Row::new(cells))
}

/// Prints a priority class as releases before 1.32 do, without its policy.
pub(crate) fn print_priority_class_before_1_32(object: &[u8]) -> Result<Row, NotPrintable> {
    let class: PriorityClass = serde_json::from_slice(object)?;
    Ok(Row::new(class.cells()))
}
