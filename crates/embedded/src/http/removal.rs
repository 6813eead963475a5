//! Removes an object that is being deleted, after a DELETE or after the write
//! that took its last finalizer.

use std::sync::Arc;

use kubernetes_wire::api::Status;
use serde_json::Value;

use super::{call::Call, errors};
use crate::{
    meta,
    storage::{CommitError, Expect, Stored},
};

pub(super) fn is_complete(call: &Call<'_>, object: &Value) -> bool {
    let grace = object
        .pointer("/metadata/deletionGracePeriodSeconds")
        .and_then(Value::as_i64)
        .unwrap_or(0);
    !meta::has_finalizers(object)
        && grace == 0
        && !call.resource.is_namespace()
        && !call.resource.is_definition()
}

pub(super) fn remove(call: &Call<'_>, stored: &Stored) -> Result<Arc<Stored>, Status> {
    let resource = call.group_resource();
    let name = &call.target.name;
    let removed = call
        .storage()
        .remove(
            &resource,
            &call.key(name),
            Expect::Revision(stored.revision),
        )
        .map_err(|error| match error {
            CommitError::Changed => errors::modified(&resource, name),
            _ => Status::not_found(&resource, name),
        })?;
    call.server
        .namespace_content_removed(&call.target.namespace);
    Ok(removed)
}
