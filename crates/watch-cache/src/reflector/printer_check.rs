//! How upstream shows a resource as a Table: its columns decide whether our
//! printer is the same one.

use apifront_upstream::{BodyLimit, ResponseBody, Upstream, UpstreamKind};
use bytes::Bytes;
use http::StatusCode;
use kubernetes_wire::api::GroupVersionResource;
use kubernetes_wire::representation::Form;
use kubernetes_wire::representation::table::Printer;
use serde::Deserialize;

use super::custom_resource_definition::Definition;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// The printer for a resource, or `None` where Tables must come from upstream.
///
/// A kind that is not Kubernetes' own has the columns of kube-apiserver's
/// library, if its server has. One that knows no Tables cannot contradict: then
/// a client gets them of us.
pub(super) async fn learn(
    upstream: &Upstream,
    gvr: &GroupVersionResource,
    form: Form,
    definition: Option<&Definition>,
) -> Option<Printer> {
    let built_in = Printer::builtin(gvr);
    let printer = match form {
        Form::Struct => built_in.unwrap_or(Printer::default_columns()).clone(),
        Form::Map => match definition {
            Some(definition) => Printer::from_crd_columns(&definition.columns)?,
            None => Printer::default_columns().clone(),
        },
    };
    let one = format!("{}?limit=1", gvr.path());
    let response = upstream
        .get_as(UpstreamKind::Discovery, &one, TABLE)
        .await
        .ok()?;
    let known = built_in.is_some() || definition.is_some();
    match shown(response).await? {
        // To the word: other columns of these names could be filled otherwise.
        Shown::Table(table) if !known => printer.has_columns_of(&table).then_some(printer),
        Shown::Table(table) => printer.with_columns_of(&table),
        Shown::NoTables => (!known).then_some(printer),
    }
}

/// What a server makes of a question for a Table.
enum Shown {
    Table(Bytes),
    /// It has no idea of them.
    NoTables,
}

#[derive(Deserialize)]
struct Kind {
    #[serde(default)]
    kind: String,
}

async fn shown(response: http::Response<ResponseBody>) -> Option<Shown> {
    match response.status() {
        StatusCode::OK => {}
        StatusCode::NOT_ACCEPTABLE => return Some(Shown::NoTables),
        _ => return None,
    }
    let body = response.into_body().collect_bytes(BodyLimit::DOCUMENT);
    let body = body.await.ok()?;
    let Kind { kind } = serde_json::from_slice(&body).ok()?;
    Some(match kind.as_str() {
        "Table" => Shown::Table(body),
        _ => Shown::NoTables,
    })
}
