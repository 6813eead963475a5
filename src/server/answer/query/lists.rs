//! The lists whose objects a query is about.

use std::sync::Arc;

use apifront_query::{Continue, QuerySpec};
use kubernetes_wire::api::status::Cause;
use kubernetes_wire::api::{Status, dns_name};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::queries;
use crate::server::stage::Identified;

/// The most namespaces that a query may name. Each needs a right of its own.
const MAX_NAMESPACES: usize = 100;

pub(super) struct Lists {
    pub(super) lists: Vec<Arc<Identified>>,
    /// The place and state at which the query continues.
    pub(super) continued: Option<Continue>,
}

pub(super) fn of_query(spec: &QuerySpec, identified: &Identified) -> Result<Lists, Status> {
    let mut wrong = Vec::new();
    let mut refuse = |field: &str, value: &str, why: &str| {
        let message = format!("Invalid value: {value:?}: {why}");
        wrong.push(Cause::new("FieldValueInvalid", field, message));
    };
    let resource = &spec.resource;
    let is_path = |part: &str| {
        !part.is_empty() && part.len() <= 253 && part.split('.').all(dns_name::is_dns_label)
    };
    if !is_path(&resource.version) {
        let why = "must be a version of the group, such as v1";
        refuse("spec.resource.version", &resource.version, why);
    }
    if !is_path(&resource.resource) {
        let why = "must be the plural name of a resource, such as pods";
        refuse("spec.resource.resource", &resource.resource, why);
    }
    if !resource.group.is_empty() && !is_path(&resource.group) {
        refuse(
            "spec.resource.group",
            &resource.group,
            "must be the name of an API group",
        );
    }
    if spec.namespaces.len() > MAX_NAMESPACES {
        let why = format!("must have at most {MAX_NAMESPACES} items");
        refuse("spec.namespaces", &spec.namespaces.len().to_string(), &why);
    }
    let mut namespaces: Vec<&str> = spec.namespaces.iter().map(String::as_str).collect();
    for (at, namespace) in namespaces.iter().enumerate() {
        if !dns_name::is_dns_label(namespace) {
            refuse(
                &format!("spec.namespaces[{at}]"),
                namespace,
                "must be the name of a namespace",
            );
        }
    }
    let continued = Continue::of(spec).unwrap_or_else(|error| {
        refuse("spec.continue", &spec.continue_token, &error.to_string());
        None
    });
    if continued.is_some() && !spec.resource_version.is_empty() {
        let why = "must not be set together with `continue`";
        refuse("spec.resourceVersion", &spec.resource_version, why);
    }
    if !wrong.is_empty() {
        return Err(Status::invalid(&queries::kind(), "", wrong));
    }
    // As in a list of all namespaces, which is in the order of namespace/name.
    namespaces.sort_by_cached_key(|namespace| format!("{namespace}/"));
    namespaces.dedup();
    if namespaces.is_empty() {
        namespaces.push("");
    }
    let parameters = parameters(spec, continued.as_ref());
    let mut lists = Vec::with_capacity(namespaces.len());
    for namespace in namespaces {
        let path = path(spec, namespace);
        let list = identified.part(&path, &parameters);
        lists.push(list.map_err(|error| Status::bad_request(error.to_string()))?);
    }
    Ok(Lists { lists, continued })
}

fn path(spec: &QuerySpec, namespace: &str) -> String {
    let resource = &spec.resource;
    let root = match resource.group.as_str() {
        "" => format!("/api/{}", resource.version),
        group => format!("/apis/{group}/{}", resource.version),
    };
    match namespace {
        "" => format!("{root}/{}", resource.resource),
        namespace => format!("{root}/namespaces/{namespace}/{}", resource.resource),
    }
}

/// Returns the parameters of each list.
fn parameters(spec: &QuerySpec, continued: Option<&Continue>) -> String {
    let exact = continued.map(|token| token.resource_version.to_string());
    let (version, version_match) = match &exact {
        Some(version) => (version.as_str(), "Exact"),
        None => (
            spec.resource_version.as_str(),
            spec.resource_version_match.as_str(),
        ),
    };
    let parameters = [
        ("labelSelector", spec.label_selector.as_str()),
        ("fieldSelector", spec.field_selector.as_str()),
        ("resourceVersion", version),
        ("resourceVersionMatch", version_match),
    ];
    let set = parameters.iter().filter(|(_, value)| !value.is_empty());
    let set = set.map(|(name, value)| {
        let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
        format!("{name}={value}")
    });
    set.collect::<Vec<_>>().join("&")
}
