//! GET of one object.

use http::{Response, StatusCode};

use super::{call::Call, fresh::wait_for, list_options::parse_version, reply::Body};
use crate::api::{Reason, Status};

pub async fn get(call: &Call<'_>) -> Result<Response<Body>, Status> {
    call.negotiate()?;
    let version = call.head.query.get("resourceVersion").unwrap_or_default();
    let version =
        parse_version(version).map_err(|text| Status::failure(500, Reason::Unknown, text))?;
    // Every read is of the newest state; only the future can be missing.
    wait_for(call, version).await?;
    let stored = call.find()?;
    call.object(StatusCode::OK, &stored)
}
