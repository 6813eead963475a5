//! The eviction subresource, which deletes the pod. There is no controller for
//! PodDisruptionBudgets, so none is checked.

use http::{Response, StatusCode};
use hyper::body::Incoming;
use kubernetes_wire::api::Status;
use serde::Deserialize;

use super::{
    body,
    call::Call,
    delete::{self, Options},
    reply::{self, Body},
};
use crate::meta;

/// Both versions are accepted, as in the real server.
const API_VERSIONS: [&str; 2] = ["policy/v1", "policy/v1beta1"];

pub(super) async fn create(call: &Call<'_>, incoming: Incoming) -> Result<Response<Body>, Status> {
    call.negotiate()?;
    let eviction = body::object_of(call, incoming, "Eviction", &API_VERSIONS).await?;
    if meta::name(&eviction) != call.target.name {
        return Err(Status::bad_request(
            "name in URL does not match name in Eviction object",
        ));
    }
    let mut options = match eviction.get("deleteOptions") {
        Some(options) if !options.is_null() => {
            Options::deserialize(options).map_err(|error| Status::bad_request(error.to_string()))?
        }
        _ => Options::default(),
    };
    if body::dry_run(call, "CreateOptions")? && options.dry_run.is_empty() {
        options.dry_run.push("All".to_owned());
    }
    delete::begin(call, &options)?;
    Ok(reply::done(StatusCode::CREATED))
}
