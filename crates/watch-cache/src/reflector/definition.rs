//! The CustomResourceDefinition of a resource, as far as the cache depends on it.

use std::time::Duration;

use apifront_upstream::{Bound, Upstream, UpstreamKind};
use http::StatusCode;
use kubernetes_wire::api::GroupVersionResource;
use kubernetes_wire::representation::table::CustomColumn;
use serde::Deserialize;

use crate::store::FieldTable;

/// A definition is small; what it says only refines the cache.
const TIMEOUT: Duration = Duration::from_secs(10);

/// One version of a definition, as it was read.
#[derive(Clone, Debug)]
pub(super) struct Definition {
    pub(super) edition: Edition,
    pub(super) columns: Vec<CustomColumn>,
    pub(super) fields: FieldTable,
}

/// Changes whenever the definition does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Edition {
    uid: String,
    generation: i64,
}

/// What is known of a resource's definition.
#[derive(Clone, Debug, Default)]
pub(super) enum Defined {
    /// It has none, or not for us: a built-in or aggregated resource.
    #[default]
    Elsewhere,
    By(Definition),
    /// Upstream did not tell.
    Unknown,
}

impl Defined {
    pub(super) fn definition(&self) -> Option<&Definition> {
        match self {
            Self::By(definition) => Some(definition),
            Self::Elsewhere | Self::Unknown => None,
        }
    }

    /// Whether what was read `now` says that the earlier knowledge is void.
    pub(super) fn is_voided_by(&self, now: &Self) -> bool {
        let edition = |d: &Self| d.definition().map(|d| d.edition.clone());
        match (self, now) {
            (_, Self::Unknown) => false,
            (Self::Unknown, _) => true,
            (before, now) => edition(before) != edition(now),
        }
    }
}

#[derive(Deserialize)]
struct Document {
    metadata: Edition,
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

/// Reads the definition of a resource.
pub(super) async fn read(upstream: &Upstream, gvr: &GroupVersionResource) -> Defined {
    // The name of a CustomResourceDefinition's group has a dot.
    if !gvr.group.contains('.') {
        return Defined::Elsewhere;
    }
    tokio::time::timeout(TIMEOUT, ask(upstream, gvr))
        .await
        .ok()
        .flatten()
        .unwrap_or(Defined::Unknown)
}

async fn ask(upstream: &Upstream, gvr: &GroupVersionResource) -> Option<Defined> {
    let path = format!(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}.{}",
        gvr.resource, gvr.group
    );
    let response = upstream.get(UpstreamKind::Discovery, &path).await.ok()?;
    match response.status() {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND | StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => {
            return Some(Defined::Elsewhere);
        }
        _ => return None,
    }
    let body = response.into_body().collect_bytes(Bound::DOCUMENT);
    let body = body.await.ok()?;
    Some(parse(&body, &gvr.version).map_or(Defined::Elsewhere, Defined::By))
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
        edition: document.metadata,
        columns: version.additional_printer_columns,
        fields: FieldTable::custom(paths),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(generation: i64) -> Defined {
        let body = format!(
            r#"{{"metadata":{{"uid":"u","generation":{generation},"name":"x"}},"spec":{{"versions":[
                {{"name":"v1","selectableFields":[{{"jsonPath":".spec.color"}}]}},{{"name":"v2"}}]}}}}"#
        );
        Defined::By(parse(body.as_bytes(), "v1").unwrap())
    }

    #[test]
    fn a_definition_is_void_when_another_is_read() {
        let cases = [
            (read(1), read(1), false),
            (read(1), read(2), true),
            (read(1), Defined::Elsewhere, true),
            (read(1), Defined::Unknown, false),
            (Defined::Unknown, Defined::Unknown, false),
            (Defined::Unknown, read(1), true),
            (Defined::Elsewhere, Defined::Elsewhere, false),
            (Defined::Elsewhere, read(1), true),
        ];
        for (before, now, expected) in cases {
            assert_eq!(before.is_voided_by(&now), expected, "{before:?} {now:?}");
        }
        assert!(parse(b"{}", "v1").is_none());
    }
}
