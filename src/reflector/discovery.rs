//! What discovery says of one resource.

use http::StatusCode;
use serde::Deserialize;

use super::list::{ListError, message};
use crate::api::GroupVersionResource;
use crate::upstream::Upstream;

#[derive(Deserialize)]
struct ResourceList {
    #[serde(default)]
    resources: Vec<ApiResource>,
}

#[derive(Deserialize)]
struct ApiResource {
    name: String,
    namespaced: bool,
    verbs: Vec<String>,
}

/// Whether the resource is namespaced; a refusal if it cannot be watched.
pub(super) async fn namespaced(
    upstream: &Upstream,
    gvr: &GroupVersionResource,
) -> Result<bool, ListError> {
    let response = upstream.get(&gvr.group_version().path()).await?;
    let status = response.status();
    let body = response
        .into_body()
        .collect_bytes()
        .await
        .map_err(|e| ListError::Body(e.to_string()))?;
    if !status.is_success() {
        return Err(ListError::Failed {
            status,
            message: message(&body),
        });
    }
    let list: ResourceList = serde_json::from_slice(&body)?;
    list.resources
        .into_iter()
        .find(|r| r.name == gvr.resource && r.verbs.iter().any(|v| v == "watch"))
        .map(|r| r.namespaced)
        .ok_or_else(|| ListError::Refused {
            status: StatusCode::METHOD_NOT_ALLOWED,
            message: "not watchable".to_owned(),
        })
}
