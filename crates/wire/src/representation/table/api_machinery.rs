//! The API server's own resources: API services, custom resource definitions, flow
//! schemas and priority levels, and storage versions.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::conditions::Conditions;
use super::meta::{Object, nullable};
use super::row::{Cell, Row};
use super::{NotPrintable, core};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DefinitionSpec {
    group: String,
    scope: String,
    names: DefinitionNames,
    #[serde(deserialize_with = "nullable")]
    versions: Vec<DefinitionVersion>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DefinitionNames {
    kind: String,
    #[serde(deserialize_with = "nullable")]
    short_names: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DefinitionVersion {
    name: String,
    served: bool,
    storage: bool,
}

pub(crate) fn print_custom_resource_definition(object: &[u8]) -> Result<Row, NotPrintable> {
    let definition: Object<DefinitionSpec, Conditions> = serde_json::from_slice(object)?;
    let spec = &definition.spec;
    let served = spec.versions.iter().filter(|version| version.served);
    let label = |version: &DefinitionVersion| {
        let storage = if version.storage { "(storage)" } else { "" };
        format!("{}{storage}", version.name)
    };
    let mut versions: Vec<String> = served.map(label).collect();
    versions.sort_unstable();
    let mut conditions = definition.status.conditions.iter();
    let established = conditions.any(|c| c.r#type == "Established" && c.status == "True");
    Ok(Row::new(vec![
        Cell::text(&definition.metadata.name),
        Cell::text(&spec.scope),
        Cell::text(&versions.join(",")),
        core::created(object)?,
        Cell::text(&spec.group),
        Cell::text(&spec.names.kind),
        Cell::text(&spec.names.short_names.join(",")),
        Cell::boolean(established),
    ]))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ServiceSpec {
    service: Option<Service>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Service {
    namespace: String,
    name: String,
}

pub(crate) fn print_api_service(object: &[u8]) -> Result<Row, NotPrintable> {
    let api: Object<ServiceSpec, Conditions> = serde_json::from_slice(object)?;
    let service = match &api.spec.service {
        None => "Local".to_owned(),
        Some(service) => format!("{}/{}", service.namespace, service.name),
    };
    let available = match api.status.first("Available") {
        None => "Unknown".to_owned(),
        Some(c) if c.status == "True" || c.reason.is_empty() => c.status.clone(),
        Some(c) => format!("{} ({})", c.status, c.reason),
    };
    Ok(Row::new(vec![
        Cell::text(&api.metadata.name),
        Cell::text(&service),
        Cell::text(&available),
        api.metadata.age(),
    ]))
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FlowSpec {
    priority_level_configuration: Level,
    matching_precedence: i64,
    distinguisher_method: Option<Method>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Level {
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Method {
    r#type: String,
}

pub(crate) fn print_flow_schema(object: &[u8]) -> Result<Row, NotPrintable> {
    let schema: Object<FlowSpec, Conditions> = serde_json::from_slice(object)?;
    let spec = &schema.spec;
    let method = spec.distinguisher_method.as_ref();
    let dangling = schema.status.first("Dangling");
    Ok(Row::new(vec![
        Cell::text(&schema.metadata.name),
        Cell::text(&spec.priority_level_configuration.name),
        Cell::integer(spec.matching_precedence),
        Cell::text(method.map_or("<none>", |method| &method.r#type)),
        schema.metadata.age(),
        Cell::text(dangling.map_or("?", |condition| &condition.status)),
    ]))
}

/// Returns the sort key of flow schemas. They are evaluated, and listed in
/// Tables, in this order.
pub(crate) fn precedence(object: &[u8]) -> Result<(i64, String), NotPrintable> {
    let schema: Object<FlowSpec, IgnoredAny> = serde_json::from_slice(object)?;
    Ok((schema.spec.matching_precedence, schema.metadata.name))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LevelSpec {
    r#type: String,
    limited: Option<Limited>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Limited {
    nominal_concurrency_shares: i64,
    limit_response: LimitResponse,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LimitResponse {
    queuing: Option<Queuing>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Queuing {
    queues: i64,
    hand_size: i64,
    queue_length_limit: i64,
}

pub(crate) fn print_priority_level(object: &[u8]) -> Result<Row, NotPrintable> {
    let level: Object<LevelSpec, IgnoredAny> = serde_json::from_slice(object)?;
    let or_none = |number: Option<i64>| match number {
        Some(number) => Cell::integer(number),
        None => Cell::text("<none>"),
    };
    let limited = level.spec.limited.as_ref();
    let queuing = limited.and_then(|limited| limited.limit_response.queuing.as_ref());
    Ok(Row::new(vec![
        Cell::text(&level.metadata.name),
        Cell::text(&level.spec.r#type),
        or_none(limited.map(|limited| limited.nominal_concurrency_shares)),
        or_none(queuing.map(|queuing| queuing.queues)),
        or_none(queuing.map(|queuing| queuing.hand_size)),
        or_none(queuing.map(|queuing| queuing.queue_length_limit)),
        level.metadata.age(),
    ]))
}

/// The number of servers that a cell lists before it counts the rest.
const MAX_SHOWN_SERVERS: usize = 3;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VersionStatus {
    #[serde(deserialize_with = "nullable")]
    storage_versions: Vec<ServerVersion>,
    common_encoding_version: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ServerVersion {
    #[serde(rename = "apiServerID")]
    server: String,
    #[serde(rename = "encodingVersion")]
    encoding: String,
}

pub(crate) fn print_storage_version(object: &[u8]) -> Result<Row, NotPrintable> {
    let version: Object<IgnoredAny, VersionStatus> = serde_json::from_slice(object)?;
    let status = &version.status;
    let servers = status.storage_versions.iter();
    let shown: Vec<String> = servers
        .take(MAX_SHOWN_SERVERS)
        .map(|version| format!("{}={}", version.server, version.encoding))
        .collect();
    let shown = shown.join(",");
    let servers = match status
        .storage_versions
        .len()
        .saturating_sub(MAX_SHOWN_SERVERS)
    {
        0 if shown.is_empty() => "<unset>".to_owned(),
        0 => shown,
        more => format!("{shown} + {more} more..."),
    };
    Ok(Row::new(vec![
        Cell::text(&version.metadata.name),
        Cell::text(
            status
                .common_encoding_version
                .as_deref()
                .unwrap_or("<unset>"),
        ),
        Cell::text(&servers),
        version.metadata.age(),
    ]))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MigrationSpec {
    resource: GroupResource,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GroupResource {
    group: String,
    resource: String,
}

pub(crate) fn print_storage_version_migration(object: &[u8]) -> Result<Row, NotPrintable> {
    let migration: Object<MigrationSpec, Conditions> = serde_json::from_slice(object)?;
    let of = &migration.spec.resource;
    let resource = match of.group.as_str() {
        "" => of.resource.clone(),
        group => format!("{}.{group}", of.resource),
    };
    let states = ["Running", "Failed", "Succeeded"];
    let conditions = migration.status.conditions.iter();
    let state = conditions
        .rev()
        .find(|c| c.status == "True" && states.contains(&c.r#type.as_str()))
        .map_or("Unknown", |c| &c.r#type);
    Ok(Row::new(vec![
        Cell::text(&migration.metadata.name),
        Cell::text(&resource),
        Cell::text(state),
    ]))
}
