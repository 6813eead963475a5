//! Access and token reviews, which are answered but not stored. Everybody may do
//! everything here, and no token is known.

use http::{HeaderMap, Response, StatusCode};
use hyper::body::Incoming;
use kubernetes_wire::api::{Status, user};
use serde_json::{Value, json};

use super::{
    body,
    call::Call,
    reply::{Body, json_bytes},
};
use crate::{encoding, view};

pub(super) async fn create(call: &Call<'_>, incoming: Incoming) -> Result<Response<Body>, Status> {
    call.negotiate()?;
    let resource = &call.resource;
    let mut review = body::object(call, incoming, &resource.kind, &resource.api_version()).await?;
    let status = match resource.kind.as_str() {
        "TokenReview" => json!({"user": {}, "error": "invalid bearer token"}),
        "SelfSubjectReview" => json!({"userInfo": user_info(&call.head.headers)}),
        "SelfSubjectRulesReview" => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        _ => json!({"allowed": true}),
    };
    view::to_stored(resource, &mut review);
    if let Some(map) = review.as_object_mut() {
        map.entry("metadata").or_insert(Value::Null);
        map.insert("status".to_owned(), status);
    }
    crate::meta::metadata_mut(&mut review);
    let object = encoding::whole(&resource.api_version(), &resource.kind, &review);
    Ok(json_bytes(StatusCode::CREATED, object.to_vec()))
}

/// Returns the user that the proxy in front names, since there is no authentication
/// here.
fn user_info(headers: &HeaderMap) -> Value {
    let text = |name: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    let name = text("x-remote-user");
    if name.is_empty() {
        return json!({"username": user::ANONYMOUS, "groups": [user::UNAUTHENTICATED]});
    }
    let groups: Vec<&str> = headers
        .get_all("x-remote-group")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    json!({"username": name, "groups": groups})
}
