//! GET of one object.

use http::{Response, StatusCode};

use super::{Body, call::Call, errors, list_options::parse_version};
use crate::api::{Reason, Status};

pub fn get(call: &Call<'_>) -> Result<Response<Body>, Status> {
    call.media()?;
    let version = call.head.query.get("resourceVersion").unwrap_or_default();
    let version =
        parse_version(version).map_err(|text| Status::failure(500, Reason::Unknown, text))?;
    // Here every read is of the newest state: only the future can be missing.
    let current = call.storage().revision();
    if version > current {
        return Err(errors::too_large_resource_version(version, current));
    }
    let stored = call.find()?;
    call.object(StatusCode::OK, &stored)
}
