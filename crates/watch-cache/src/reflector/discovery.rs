//! Reads discovery documents: a resource's kind and scope, and a group's
//! preferred version.

use std::time::Duration;

use apifront_source::{BodyLimit, CurrentSource, JSON, ReadKind, Source};
use http::StatusCode;
use kubernetes_wire::api::GroupVersionResource;
use serde::Deserialize;

use super::list::message;
use super::list_error::ListError;

#[derive(Deserialize)]
struct ResourceList {
    #[serde(default)]
    resources: Vec<ApiResource>,
}

#[derive(Deserialize)]
pub(super) struct ApiResource {
    name: String,
    pub(super) namespaced: bool,
    #[serde(default)]
    pub(super) kind: String,
    verbs: Vec<String>,
}

/// Returns the kind and scope of the resource. Fails with
/// [`ListError::Refused`] if it cannot be watched.
pub(super) async fn resource(
    upstream: &dyn Source,
    gvr: &GroupVersionResource,
) -> Result<ApiResource, ListError> {
    let response = upstream
        .get(ReadKind::Discovery, &gvr.group_version().path(), JSON)
        .await?;
    let status = response.status();
    let body = response.into_body().collect_bytes(BodyLimit::DOCUMENT);
    let body = body.await.map_err(|e| ListError::Body(e.to_string()))?;
    if !status.is_success() {
        return Err(ListError::Failed {
            status,
            message: message(&body),
            retry_after: None,
        });
    }
    let list: ResourceList = serde_json::from_slice(&body)?;
    list.resources
        .into_iter()
        .find(|r| r.name == gvr.resource && r.verbs.iter().any(|v| v == "watch"))
        .ok_or_else(|| ListError::Refused {
            status: StatusCode::METHOD_NOT_ALLOWED,
            message: "not watchable".to_owned(),
        })
}

const RETRY_DELAY: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    preferred_version: GroupVersion,
}

#[derive(Deserialize)]
struct GroupVersion {
    version: String,
}

/// Returns the version of a group that upstream prefers. Waits until upstream
/// answers.
pub(super) async fn preferred_version(upstream: &dyn CurrentSource, group: &str) -> String {
    if group.is_empty() {
        return "v1".to_owned();
    }
    loop {
        let asked = async {
            let current = upstream.current();
            let response = current
                .get(ReadKind::Discovery, &format!("/apis/{group}"), JSON)
                .await
                .ok()?;
            let body = response.into_body().collect_bytes(BodyLimit::DOCUMENT);
            let body = body.await.ok()?;
            serde_json::from_slice::<Group>(&body).ok()
        };
        if let Some(group) = asked.await {
            return group.preferred_version.version;
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}
