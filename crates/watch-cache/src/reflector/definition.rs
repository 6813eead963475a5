//! The parts of a resource's CustomResourceDefinition that the cache depends on (its
//! columns and its selectable fields), and whether they changed. `upstream_watch.rs`
//! looks at each new watch, and `run.rs` lists anew.

use std::time::Duration;

use apifront_source::{BodyLimit, JSON, ReadKind, Source};
use http::StatusCode;
use kubernetes_wire::api::GroupVersionResource;
use kubernetes_wire::representation::Form;
use kubernetes_wire::representation::table::CustomColumn;
use serde::Deserialize;

use super::source_encoding;
use crate::saved::Revision;
use crate::store::FieldTable;

/// A definition is small, and only refines the cache.
const DEFINITION_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub(super) struct Definition {
    pub(super) revision: Revision,
    pub(super) columns: Vec<CustomColumn>,
    pub(super) fields: FieldTable,
}

#[derive(Clone, Debug, Default)]
pub(super) enum DefinitionState {
    /// The resource is built in or aggregated, or apifront may not read its
    /// definition.
    #[default]
    Elsewhere,
    By(Definition),
    /// Upstream did not answer.
    Unknown,
}

impl DefinitionState {
    pub(super) fn definition(&self) -> Option<&Definition> {
        match self {
            Self::By(definition) => Some(definition),
            Self::Elsewhere | Self::Unknown => None,
        }
    }

    /// Tells whether `now` makes the knowledge of `self` void.
    pub(super) fn is_voided_by(&self, now: &Self) -> bool {
        let revision = |d: &Self| d.definition().map(|d| d.revision.clone());
        match (self, now) {
            (_, Self::Unknown) => false,
            (Self::Unknown, _) => true,
            (before, now) => revision(before) != revision(now),
        }
    }
}

/// The definition that a store's list was made with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum ListedBy {
    /// It is not known, or the store is about to be filled by a new list.
    #[default]
    Unsure,
    /// The resource has no definition that can change.
    None,
    Revision(Revision),
}

impl ListedBy {
    pub(super) fn from_definition(gvr: &GroupVersionResource, defined: &DefinitionState) -> Self {
        match defined {
            DefinitionState::By(definition) => Self::Revision(definition.revision.clone()),
            DefinitionState::Elsewhere => Self::None,
            DefinitionState::Unknown if source_encoding::is_built_in(gvr) => Self::None,
            DefinitionState::Unknown => Self::Unsure,
        }
    }
}

/// Tells whether the early end of a watch means another definition. The API server ends
/// the watches of a custom resource when its definition changes. Then objects may look
/// different without a new version.
pub(super) fn ends_watches(form: Form) -> bool {
    form == Form::Map
}

#[derive(Deserialize)]
struct Metadata {
    metadata: Revision,
}

#[derive(Deserialize)]
struct Document {
    metadata: Revision,
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    versions: Vec<Version>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    name: String,
    #[serde(default)]
    additional_printer_columns: Vec<CustomColumn>,
    #[serde(default)]
    selectable_fields: Vec<SelectableField>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SelectableField {
    json_path: String,
}

pub(super) async fn read(upstream: &dyn Source, gvr: &GroupVersionResource) -> DefinitionState {
    // The group of a CustomResourceDefinition has a dot.
    if !gvr.group.contains('.') {
        return DefinitionState::Elsewhere;
    }
    tokio::time::timeout(DEFINITION_TIMEOUT, ask(upstream, gvr))
        .await
        .ok()
        .flatten()
        .unwrap_or(DefinitionState::Unknown)
}

/// Reads the definition's current revision. `None` if upstream does not tell
/// it.
pub(super) async fn revision(
    upstream: &dyn Source,
    gvr: &GroupVersionResource,
) -> Option<Revision> {
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let asked = async {
        let path = path(gvr);
        let response = upstream.get(ReadKind::Discovery, &path, accept).await;
        let response = response.ok().filter(|r| r.status() == StatusCode::OK)?;
        let body = response.into_body().collect_bytes(BodyLimit::DOCUMENT);
        let found: Metadata = serde_json::from_slice(&body.await.ok()?).ok()?;
        Some(found.metadata)
    };
    tokio::time::timeout(DEFINITION_TIMEOUT, asked)
        .await
        .ok()
        .flatten()
}

fn path(gvr: &GroupVersionResource) -> String {
    format!(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}.{}",
        gvr.resource, gvr.group
    )
}

async fn ask(upstream: &dyn Source, gvr: &GroupVersionResource) -> Option<DefinitionState> {
    let path = path(gvr);
    let response = upstream.get(ReadKind::Discovery, &path, JSON).await.ok()?;
    match response.status() {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND | StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => {
            return Some(DefinitionState::Elsewhere);
        }
        _ => return None,
    }
    let body = response.into_body().collect_bytes(BodyLimit::DOCUMENT);
    let body = body.await.ok()?;
    Some(parse(&body, &gvr.version).map_or(DefinitionState::Elsewhere, DefinitionState::By))
}

fn parse(body: &[u8], version: &str) -> Option<Definition> {
    let document: Document = serde_json::from_slice(body).ok()?;
    let version = document
        .spec
        .versions
        .into_iter()
        .find(|v| v.name == version)?;
    let paths = version.selectable_fields.iter().map(|f| &*f.json_path);
    Some(Definition {
        revision: document.metadata,
        columns: version.additional_printer_columns,
        fields: FieldTable::custom(paths),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(generation: i64) -> DefinitionState {
        let body = format!(
            r#"{{"metadata":{{"uid":"u","generation":{generation},"name":"x"}},"spec":{{"versions":[
                {{"name":"v1","selectableFields":[{{"jsonPath":".spec.color"}}]}},{{"name":"v2"}}]}}}}"#
        );
        DefinitionState::By(parse(body.as_bytes(), "v1").unwrap())
    }

    #[test]
    fn a_definition_is_void_when_another_is_read() {
        let cases = [
            (read(1), read(1), false),
            (read(1), read(2), true),
            (read(1), DefinitionState::Elsewhere, true),
            (read(1), DefinitionState::Unknown, false),
            (DefinitionState::Unknown, DefinitionState::Unknown, false),
            (DefinitionState::Unknown, read(1), true),
            (
                DefinitionState::Elsewhere,
                DefinitionState::Elsewhere,
                false,
            ),
            (DefinitionState::Elsewhere, read(1), true),
        ];
        for (before, now, expected) in cases {
            assert_eq!(before.is_voided_by(&now), expected, "{before:?} {now:?}");
        }
        assert!(parse(b"{}", "v1").is_none());
    }
}
