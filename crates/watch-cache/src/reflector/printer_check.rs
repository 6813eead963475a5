//! Compares a printer with the Tables that upstream shows. The columns must be
//! equal; the cells are those of upstream's release.

use apifront_upstream::{BodyLimit, ResponseBody, Upstream, UpstreamKind};
use bytes::Bytes;
use http::StatusCode;
use kubernetes_wire::api::{GroupVersionResource, Release};
use kubernetes_wire::representation::Form;
use kubernetes_wire::representation::table::Printer;
use serde::Deserialize;

use super::custom_resource_definition::Definition;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// Returns the printer for a resource. `None` if Tables must come from
/// upstream.
///
/// A kind that is not Kubernetes' own has the default columns of
/// kube-apiserver's library, if its server shows them. A server that knows no
/// Tables shows no other columns: clients then get Tables from the cache.
pub(super) async fn learn(
    upstream: &Upstream,
    gvr: &GroupVersionResource,
    form: Form,
    definition: Option<&Definition>,
    release: Option<Release>,
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
        Shown::Table(table) if form == Form::Struct && built_in.is_some() => {
            Printer::builtin_in(gvr, release?)?.with_columns_of(&table)
        }
        // The columns must be exactly equal: different columns of the same
        // names could have other contents.
        Shown::Table(table) if !known => printer.has_columns_of(&table).then_some(printer),
        Shown::Table(table) => printer.with_columns_of(&table),
        Shown::NoTables => (!known).then_some(printer),
    }
}

/// A server's answer to a request for a Table.
enum Shown {
    Table(Bytes),
    /// The server does not know Tables.
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
