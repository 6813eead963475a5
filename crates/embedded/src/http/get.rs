//! GET of one object.

use http::{Response, StatusCode};
use kubernetes_wire::api::{Reason, Status};

use super::{call::Call, fresh::wait_for, list_options::parse_version, reply::Body};

pub(super) async fn get(call: &Call<'_>) -> Result<Response<Body>, Status> {
    call.negotiate()?;
    let version = call.head.query.get("resourceVersion").unwrap_or_default();
    let version =
        parse_version(version).map_err(|text| Status::failure(500, Reason::Unknown, text))?;
    // Every read shows the newest state, so only a future version can be
    // missing.
    wait_for(call, version).await?;
    let stored = call.find()?;
    call.object(StatusCode::OK, &stored)
}
