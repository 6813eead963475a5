//! Chooses the printer whose Tables have the columns that upstream shows.

use apifront_source::{BodyLimit, ReadKind, ResponseBody, Source};
use http::StatusCode;
use kubernetes_wire::api::{GroupVersionResource, Release};
use kubernetes_wire::representation::Form;
use kubernetes_wire::representation::table::Printer;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::definition::Definition;
use crate::saved::Columns;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

pub(super) async fn ask(upstream: &dyn Source, gvr: &GroupVersionResource) -> Columns {
    let one = format!("{}?limit=1", gvr.path());
    let asked = upstream.get(ReadKind::Discovery, &one, TABLE);
    match asked.await {
        Ok(response) => shown(response).await.unwrap_or_default(),
        Err(_) => Columns::Unknown,
    }
}

/// Returns the printer for a resource that upstream shows in these columns.
/// `None` if Tables must come from upstream.
///
/// A kind that is not Kubernetes' own gets the default columns of
/// kube-apiserver's library, if its server shows exactly these. A server
/// without Tables shows no other columns, so its clients get Tables from the
/// cache.
pub(super) fn printer(
    gvr: &GroupVersionResource,
    form: Form,
    definition: Option<&Definition>,
    release: Option<Release>,
    columns: &Columns,
) -> Option<Printer> {
    let built_in = Printer::builtin(gvr);
    let printer = match form {
        Form::Struct => built_in.unwrap_or(Printer::default_columns()).clone(),
        Form::Map => match definition {
            Some(definition) => Printer::from_crd_columns(&definition.columns)?,
            None => Printer::default_columns().clone(),
        },
    };
    let known = built_in.is_some() || definition.is_some();
    match columns {
        Columns::Unknown => None,
        Columns::Table(table) if form == Form::Struct && built_in.is_some() => {
            Printer::builtin_in(gvr, release?)?.with_columns_of(table.as_bytes())
        }
        // The columns must be exactly equal. Different columns of the same
        // names could hold other values.
        Columns::Table(table) if !known => {
            let same = printer.has_columns_of(table.as_bytes());
            same.then_some(printer)
        }
        Columns::Table(table) => printer.with_columns_of(table.as_bytes()),
        Columns::NoTables => (!known).then_some(printer),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    #[serde(default)]
    kind: String,
    #[serde(borrow)]
    column_definitions: Option<&'a RawValue>,
}

async fn shown(response: http::Response<ResponseBody>) -> Option<Columns> {
    match response.status() {
        StatusCode::OK => {}
        StatusCode::NOT_ACCEPTABLE => return Some(Columns::NoTables),
        _ => return None,
    }
    let body = response.into_body().collect_bytes(BodyLimit::DOCUMENT);
    let body = body.await.ok()?;
    let answer: Answer = serde_json::from_slice(&body).ok()?;
    if answer.kind != "Table" {
        return Some(Columns::NoTables);
    }
    // The row of the object is left out.
    let columns = answer.column_definitions.map_or("null", RawValue::get);
    Some(Columns::Table(format!(
        "{{\"columnDefinitions\":{columns}}}"
    )))
}
