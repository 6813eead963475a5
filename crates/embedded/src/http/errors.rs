//! Errors that several handlers return, in the words of the real server.

use kubernetes_wire::api::{
    GroupResource, Reason, Status,
    status::{Cause, Details},
};

pub(super) fn invalid_options(kind: &str, causes: Vec<Cause>) -> Status {
    let options = GroupResource {
        group: "meta.k8s.io".to_owned(),
        resource: kind.to_owned(),
    };
    Status::invalid(&options, "", causes)
}

pub(super) fn method_not_allowed() -> Status {
    Status::failure(
        405,
        Reason::MethodNotAllowed,
        "the server does not allow this method on the requested resource",
    )
    .with_details(Details::default())
}

pub(super) fn unsupported_media_type(accepted: &str) -> Status {
    Status::failure(
        415,
        Reason::UnsupportedMediaType,
        format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        ),
    )
}

pub(super) fn too_large_resource_version(asked: u64, current: u64) -> Status {
    Status::failure(
        504,
        Reason::Timeout,
        format!("Timeout: Too large resource version: {asked}, current: {current}"),
    )
    .with_details(Details {
        causes: vec![Cause::new(
            "ResourceVersionTooLarge",
            "",
            "Too large resource version",
        )],
        ..Details::default()
    })
    .retry_soon()
}

pub(super) fn modified(resource: &GroupResource, name: &str) -> Status {
    Status::conflict(
        resource,
        name,
        "the object has been modified; please apply your changes to the latest version and try again",
    )
}
