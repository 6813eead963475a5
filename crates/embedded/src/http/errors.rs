//! Error answers that several handlers give, in the words of the real server.

use kubernetes_wire::api::{
    GroupResource, Reason, Status,
    status::{Cause, Details},
};

/// 422 about an object or about options.
pub fn invalid(kind: &GroupResource, name: &str, causes: Vec<Cause>) -> Status {
    let mut texts: Vec<String> = Vec::new();
    for cause in &causes {
        let text = format!("{}: {}", cause.field, cause.message);
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let aggregate = match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    // The kind is written Kind.group, as GroupKind prints itself.
    Status::failure(
        422,
        Reason::Invalid,
        format!("{kind} \"{name}\" is invalid: {aggregate}"),
    )
    .with_details(Details {
        name: name.to_owned(),
        group: kind.group.clone(),
        kind: kind.resource.clone(),
        causes,
        ..Details::default()
    })
}

pub fn cause(reason: &str, field: &str, message: impl Into<String>) -> Cause {
    Cause {
        reason: reason.to_owned(),
        message: message.into(),
        field: field.to_owned(),
    }
}

/// Options of meta.k8s.io that contradict themselves.
pub fn invalid_options(kind: &str, causes: Vec<Cause>) -> Status {
    let options = GroupResource {
        group: "meta.k8s.io".to_owned(),
        resource: kind.to_owned(),
    };
    invalid(&options, "", causes)
}

pub fn method_not_allowed() -> Status {
    Status::failure(
        405,
        Reason::MethodNotAllowed,
        "the server does not allow this method on the requested resource",
    )
    .with_details(Details::default())
}

pub fn unsupported_media_type(accepted: &str) -> Status {
    Status::failure(
        415,
        Reason::UnsupportedMediaType,
        format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        ),
    )
}

pub fn too_large_resource_version(asked: u64, current: u64) -> Status {
    let mut status = Status::failure(
        504,
        Reason::Timeout,
        format!("Timeout: Too large resource version: {asked}, current: {current}"),
    )
    .with_details(Details {
        causes: vec![Cause {
            reason: "ResourceVersionTooLarge".to_owned(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        }],
        ..Details::default()
    });
    status = status.with_retry_after(1);
    status
}

pub fn modified(resource: &GroupResource, name: &str) -> Status {
    Status::conflict(
        resource,
        name,
        "the object has been modified; please apply your changes to the latest version and try again",
    )
}
