//! How upstream shows a resource as a Table: its columns decide whether our
//! printer is the same one.

use crate::upstream::ResponseBody;
use http::StatusCode;
use serde::Deserialize;

use crate::api::GroupVersionResource;
use crate::metrics::UpstreamKind;
use crate::representation::Form;
use crate::representation::table::{CustomColumn, Printer};
use crate::upstream::Upstream;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// The printer for a resource, or `None` where Tables must come from upstream.
pub(super) async fn learn(
    upstream: &Upstream,
    gvr: &GroupVersionResource,
    form: Form,
) -> Option<Printer> {
    let printer = match form {
        Form::Struct => Printer::builtin(gvr).cloned(),
        Form::Map => custom(upstream, gvr).await,
    }?;
    let one = format!("{}?limit=1", gvr.path());
    let table = success(
        upstream
            .get_as(UpstreamKind::Discovery, &one, TABLE)
            .await
            .ok()?,
    )
    .await?;
    printer.with_columns_of(&table)
}

#[derive(Deserialize)]
struct Definition {
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
}

async fn custom(upstream: &Upstream, gvr: &GroupVersionResource) -> Option<Printer> {
    let path = format!(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}.{}",
        gvr.resource, gvr.group
    );
    let body = success(upstream.get(UpstreamKind::Discovery, &path).await.ok()?).await?;
    let definition: Definition = serde_json::from_slice(&body).ok()?;
    let version = definition
        .spec
        .versions
        .into_iter()
        .find(|v| v.name == gvr.version)?;
    Printer::from_crd_columns(&version.additional_printer_columns)
}

async fn success(response: http::Response<ResponseBody>) -> Option<bytes::Bytes> {
    if response.status() != StatusCode::OK {
        return None;
    }
    response.into_body().collect_bytes().await.ok()
}
