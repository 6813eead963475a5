//! How upstream shows a resource as a Table: its columns decide whether our
//! printer is the same one.

use crate::upstream::ResponseBody;
use http::StatusCode;

use super::definition::Definition;
use crate::api::GroupVersionResource;
use crate::metrics::UpstreamKind;
use crate::representation::Form;
use crate::representation::table::Printer;
use crate::upstream::Upstream;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// The printer for a resource, or `None` where Tables must come from upstream.
pub(super) async fn learn(
    upstream: &Upstream,
    gvr: &GroupVersionResource,
    form: Form,
    definition: Option<&Definition>,
) -> Option<Printer> {
    let printer = match form {
        Form::Struct => Printer::builtin(gvr).cloned(),
        Form::Map => Printer::from_crd_columns(&definition?.columns),
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

async fn success(response: http::Response<ResponseBody>) -> Option<bytes::Bytes> {
    if response.status() != StatusCode::OK {
        return None;
    }
    response.into_body().collect_bytes().await.ok()
}
