//! Dynamic resource allocation (KEP-4381): resource claims, device taint rules
//! and pool status requests.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::NotPrintable;
use super::age::Moment;
use super::meta::{Object, moment, nullable};
use super::row::{Cell, Row};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimStatus {
    allocation: Option<IgnoredAny>,
    #[serde(deserialize_with = "nullable")]
    reserved_for: Vec<IgnoredAny>,
}

pub(crate) fn print_resource_claim(object: &[u8]) -> Result<Row, NotPrintable> {
    let claim: Object<IgnoredAny, ClaimStatus> = serde_json::from_slice(object)?;
    let deleted = claim.metadata.deletion_timestamp.is_some();
    let status = &claim.status;
    let state = match (&status.allocation, status.reserved_for.as_slice()) {
        (None, _) if deleted => "deleted",
        (None, _) => "pending",
        (Some(_), []) if deleted => "deleted,allocated",
        (Some(_), []) => "allocated",
        (Some(_), _) if deleted => "deleted,allocated,reserved",
        (Some(_), _) => "allocated,reserved",
    };
    Ok(Row::new(vec![
        Cell::text(&claim.metadata.name),
        Cell::text(state),
        claim.metadata.age(),
    ]))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RuleSpec {
    taint: Taint,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Taint {
    key: String,
    value: String,
    effect: String,
    time_added: Option<AddedTime>,
}

#[derive(Debug, Deserialize)]
struct AddedTime(#[serde(deserialize_with = "moment")] Option<Moment>);

pub(crate) fn print_device_taint_rule(object: &[u8]) -> Result<Row, NotPrintable> {
    let rule: Object<RuleSpec, IgnoredAny> = serde_json::from_slice(object)?;
    let taint = &rule.spec.taint;
    let added = match &taint.time_added {
        None => Cell::text(""),
        Some(AddedTime(moment)) => Cell::age(*moment),
    };
    Ok(Row::new(vec![
        Cell::text(&rule.metadata.name),
        Cell::text(&taint.key),
        Cell::text(&taint.value),
        Cell::text(&taint.effect),
        added,
        rule.metadata.age(),
    ]))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RequestSpec {
    driver: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RequestStatus {
    #[serde(deserialize_with = "nullable")]
    conditions: Vec<Condition>,
    pool_count: Option<i32>,
    #[serde(deserialize_with = "nullable")]
    pools: Vec<Pool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    r#type: String,
    status: String,
    #[serde(deserialize_with = "moment")]
    last_transition_time: Option<Moment>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Pool {
    validation_error: Option<IgnoredAny>,
    total_devices: Option<i32>,
    available_devices: Option<i32>,
    allocated_devices: Option<i32>,
    unavailable_devices: Option<i32>,
}

pub(crate) fn print_pool_status_request(object: &[u8]) -> Result<Row, NotPrintable> {
    let request: Object<RequestSpec, Option<RequestStatus>> = serde_json::from_slice(object)?;
    let status = request.status.as_ref();
    let ended = status.and_then(|status| {
        status
            .conditions
            .iter()
            .find(|c| c.status == "True" && matches!(c.r#type.as_str(), "Complete" | "Failed"))
    });
    let pools = status.map_or(0, |status| status.pools.len());
    let all_pools = status.and_then(|status| status.pool_count).unwrap_or(0);
    let failed = ended.is_some_and(|c| c.r#type == "Failed");
    let complete = ended.filter(|_| !failed);
    let partly = usize::try_from(all_pools).is_ok_and(|all| all > pools);
    let text = match complete {
        _ if failed => "Failed".to_owned(),
        Some(_) if partly => format!("Complete ({pools}/{all_pools} pools)"),
        Some(_) => "Complete".to_owned(),
        None => "Pending".to_owned(),
    };
    // The sum wraps around as in Go's int32, although there are never that many
    // devices.
    let sum = |count: fn(&Pool) -> i32| match status.filter(|_| !failed) {
        None => Cell::text("-"),
        Some(status) => {
            let sum = status.pools.iter().map(count).fold(0, i32::wrapping_add);
            Cell::text(&sum.to_string())
        }
    };
    Ok(Row::new(vec![
        Cell::text(&request.metadata.name),
        Cell::text(&request.spec.driver),
        sum(|p| p.total_devices.unwrap_or(0)),
        sum(|p| p.available_devices.unwrap_or(0)),
        sum(|p| p.allocated_devices.unwrap_or(0)),
        sum(|p| p.unavailable_devices.unwrap_or(0)),
        sum(|p| p.validation_error.is_some().into()),
        Cell::integer(all_pools.into()),
        Cell::text(&text),
        complete.map_or_else(
            || Cell::text("<none>"),
            |condition| Cell::age(condition.last_transition_time),
        ),
    ]))
}
