//! The HTTP surface: one function that turns a request into its response.

mod accept;
mod binding;
mod body;
mod call;
mod create;
mod delete;
mod errors;
mod eviction;
mod field_validation;
mod fresh;
mod get;
mod go_error;
pub(crate) mod head;
mod list;
mod list_options;
mod logs;
mod patch;
mod removal;
pub(crate) mod reply;
mod reviews;
mod route;
mod scale;
mod selection;
#[cfg(test)]
mod tests;
mod update;
mod watch;

use std::sync::Arc;

use http::{HeaderValue, Method, Request, Response, header};
use hyper::body::Incoming;
use kubernetes_wire::api::Status;

use self::{
    call::Call,
    head::Head,
    reply::{Body, page_not_found},
    route::{Route, Target},
};
use super::{
    discovery,
    registry::{Resource, Subresource, Verbs},
    server::EmbeddedServer,
};

/// Answers one request. It never fails: every error is an answer.
pub(crate) async fn serve(server: EmbeddedServer, request: Request<Incoming>) -> Response<Body> {
    let (parts, incoming) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let head = Head::from_parts(parts);
    let mut response = match dispatch(&server, &path, &head, incoming).await {
        Ok(response) => head.encoded(response).await,
        Err(status) => head.refused(&status),
    };
    let headers = response.headers_mut();
    for warning in head.warnings() {
        headers.append(header::WARNING, warning);
    }
    let audit_id = head
        .headers
        .get("audit-id")
        .cloned()
        .or_else(|| HeaderValue::from_str(&uuid::Uuid::new_v4().to_string()).ok());
    if let Some(id) = audit_id {
        headers.insert("audit-id", id);
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-cache, private"));
    response
}

async fn dispatch(
    server: &EmbeddedServer,
    path: &str,
    head: &Head,
    incoming: Incoming,
) -> Result<Response<Body>, Status> {
    let route = Route::parse(&head.method, path, &head.query)?;
    if let Route::Resource(target) = route {
        return resource(server, target, head, incoming).await;
    }
    let served = server.registry().served();
    let readable = matches!(head.method, Method::GET | Method::HEAD);
    if !readable && !matches!(route, Route::Unknown | Route::Health(..)) {
        return Err(errors::method_not_allowed());
    }
    match route {
        Route::Root => discovery::root(&served),
        Route::Version => discovery::version(),
        Route::Health(probe, check) => Ok(discovery::health(&probe, check.as_deref(), &head.query)),
        Route::OpenApiV2 => Ok(discovery::openapi_v2(&served, &head.headers)),
        Route::OpenApiV3(None) => discovery::openapi_v3_index(&served),
        Route::OpenApiV3(Some(key)) => discovery::openapi_v3(&served, &key),
        Route::Core => discovery::core(&served, head),
        Route::Groups => discovery::groups(&served, head),
        Route::Group(group) => discovery::group(&served, &group, head),
        Route::GroupVersion(group, version) => {
            discovery::resources(&served, &group, &version, head)
        }
        Route::Resource(_) | Route::Unknown => Ok(page_not_found()),
    }
}

async fn resource(
    server: &EmbeddedServer,
    target: Target,
    head: &Head,
    incoming: Incoming,
) -> Result<Response<Body>, Status> {
    let registry = server.registry();
    let Some(resource) = registry.lookup(&target.group, &target.version, &target.resource) else {
        // Only groups of built-in resources answer with a Status.
        return if registry.served().is_built_in_group(&target.group) {
            Err(Status::unknown_path())
        } else {
            Ok(page_not_found())
        };
    };
    if let Some(text) = &resource.warning {
        head.warn(text);
    }
    route_call(server, resource, target, head, incoming).await
}

async fn route_call(
    server: &EmbeddedServer,
    resource: Arc<Resource>,
    target: Target,
    head: &Head,
    incoming: Incoming,
) -> Result<Response<Body>, Status> {
    let custom = resource.custom.is_some();
    let method = head.method.as_str();
    let in_namespace = !target.namespace.is_empty();
    if in_namespace && !resource.namespaced
        || (target.name.is_empty() && !target.subresource.is_empty())
    {
        return unknown(custom);
    }
    if resource.verbs == Verbs::CreateOnly {
        return match (method, target.name.as_str(), in_namespace) {
            ("POST", "", true) if resource.kind == "Binding" => {
                binding::create(&Call::new(server, resource, target, head), incoming).await
            }
            ("POST", "", inside) if inside == resource.namespaced => {
                reviews::create(&Call::new(server, resource, target, head), incoming).await
            }
            _ => Err(errors::method_not_allowed()),
        };
    }
    if resource.namespaced && !in_namespace && !target.name.is_empty() {
        return unknown(custom);
    }
    let subresource = match target.subresource.as_str() {
        "" => None,
        name => match resource.subresources.iter().find(|s| s.name() == name) {
            Some(found) => Some(*found),
            // For custom resources, the object is looked up before the subresource.
            None if custom => {
                return Err(Status::not_found(&resource.group_resource(), &target.name));
            }
            None => return unknown(false),
        },
    };
    let everywhere = resource.namespaced && !in_namespace;
    let call = Call::new(server, resource, target, head);
    let named = !call.target.name.is_empty();
    match (method, named, subresource) {
        ("GET", false, _) => list::list_or_watch(&call).await,
        ("GET", true, None) if call.target.watch => list::list_or_watch(&call).await,
        ("GET", true, None | Some(Subresource::Status)) => get::get(&call).await,
        ("GET", true, Some(Subresource::Scale)) => scale::get(&call),
        ("GET", true, Some(Subresource::Log)) => logs::get(&call),
        (_, false, _) if everywhere && custom => unknown(true),
        ("POST", false, None) if !everywhere => create::create(&call, incoming).await,
        ("DELETE", false, None)
            if !everywhere && call.resource.verbs != Verbs::NoDeleteCollection =>
        {
            delete::collection(&call, incoming).await
        }
        ("PUT", true, None | Some(Subresource::Status)) => {
            update::update(&call, subresource.is_some(), incoming).await
        }
        ("PATCH", true, None | Some(Subresource::Status)) => {
            patch::patch(&call, subresource.is_some(), incoming).await
        }
        ("PUT" | "PATCH", true, Some(Subresource::Scale)) => scale::put(&call, incoming).await,
        ("PUT", true, Some(Subresource::Finalize)) => update::finalize(&call, incoming).await,
        ("POST", true, Some(Subresource::Binding)) => binding::create(&call, incoming).await,
        ("POST", true, Some(Subresource::Eviction)) => eviction::create(&call, incoming).await,
        ("DELETE", true, None) => delete::delete(&call, incoming).await,
        ("PUT", false, None) if custom => Err(Status::bad_request("name must be provided")),
        ("GET" | "POST" | "PUT" | "PATCH" | "DELETE", ..) => Err(errors::method_not_allowed()),
        // `RequestInfo` has no verb for this method.
        _ if custom => Err(Status::method_not_allowed(&call.group_resource(), "")),
        _ => Err(errors::method_not_allowed()),
    }
}

fn unknown(custom: bool) -> Result<Response<Body>, Status> {
    if custom {
        Ok(page_not_found())
    } else {
        Err(Status::unknown_path())
    }
}
