//! A complete list of a resource, page by page.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::WARNING;
use http_body_util::{BodyExt, Limited};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::api::{GroupVersionResource, ResourceVersion};
use crate::metrics::UpstreamKind;
use crate::representation::{Envelope, Form};
use crate::store::{FieldTable, MalformedObject, StoredObject};
use crate::upstream::{Upstream, UpstreamError};

/// Objects per page, as client-go's pager asks for.
const PAGE_SIZE: u32 = 500;

/// A page that takes longer to arrive will not.
const PAGE_TIMEOUT: Duration = Duration::from_secs(120);

/// A page of objects of the largest size that etcd takes.
const MAX_PAGE_BYTES: usize = 1 << 30;

#[derive(Debug, thiserror::Error)]
pub(super) enum ListError {
    /// The resource is not there, cannot be listed, or not by us.
    #[error("the API server answers {status}: {message}")]
    Refused { status: StatusCode, message: String },
    #[error("the API server answers {status}: {message}")]
    Failed { status: StatusCode, message: String },
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    #[error("the list broke off: {0}")]
    Body(String),
    #[error("the answer is not a list: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the list has no usable resourceVersion: {0}")]
    Version(String),
    #[error("the answer is neither a built-in's nor a custom resource's list")]
    Form,
    #[error(transparent)]
    Object(#[from] MalformedObject),
}

/// A list as it came, with what it tells of the resource.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) envelope: Envelope,
    pub(super) resource_version: u64,
    pub(super) objects: Vec<StoredObject>,
    /// The `Warning` headers of the answer.
    pub(super) warnings: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    kind: String,
    api_version: String,
    metadata: PageMeta,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    #[serde(default)]
    resource_version: String,
    #[serde(default, rename = "continue")]
    continue_token: String,
}

/// Lists everything at one version: the most recent when asked. If that version
/// is gone before the last page, everything is asked for at once, as client-go
/// does: a large list would run out of time again and again.
pub(super) async fn list(
    upstream: &Upstream,
    gvr: &GroupVersionResource,
    fields: &FieldTable,
) -> Result<Listed, ListError> {
    let mut listed: Option<Listed> = None;
    let mut asked = Asked::Page(String::new());
    loop {
        let (warnings, body) = match page(upstream, gvr, &asked).await {
            Err(ListError::Failed { status, .. })
                if status == StatusCode::GONE
                    && matches!(&asked, Asked::Page(t) if !t.is_empty()) =>
            {
                listed = None;
                asked = Asked::Everything;
                continue;
            }
            page => page?,
        };
        let page: Page = serde_json::from_slice(&body)?;
        let into = match &mut listed {
            Some(listed) => listed,
            none => none.insert(head(&page, &body, warnings)?),
        };
        for item in page.items.iter().flatten() {
            // Its own allocation: a slice would keep the whole page alive.
            let item = Bytes::copy_from_slice(item.get().as_bytes());
            into.objects.push(StoredObject::parse(item, fields)?);
        }
        if page.metadata.continue_token.is_empty() {
            break;
        }
        asked = Asked::Page(page.metadata.continue_token);
    }
    listed.ok_or(ListError::Form)
}

enum Asked {
    /// The page of this continue token; the first one of an empty token.
    Page(String),
    Everything,
}

fn head(page: &Page, body: &[u8], warnings: Vec<String>) -> Result<Listed, ListError> {
    let form = Form::detect(body).ok_or(ListError::Form)?;
    // A CustomResourceDefinition may name its list kind freely; its items say
    // what they are.
    #[derive(Deserialize)]
    struct Kind {
        #[serde(default)]
        kind: String,
    }
    let item_kind = page
        .items
        .iter()
        .flatten()
        .next()
        .and_then(|item| serde_json::from_str::<Kind>(item.get()).ok())
        .map(|k| k.kind)
        .filter(|kind| !kind.is_empty());
    let kind = item_kind.unwrap_or_else(|| {
        page.kind
            .strip_suffix("List")
            .unwrap_or(&page.kind)
            .to_owned()
    });
    Ok(Listed {
        envelope: Envelope::new(form, &page.api_version, &kind, &page.kind),
        resource_version: ResourceVersion::parse(&page.metadata.resource_version)
            .map_err(ListError::Version)?
            .0,
        objects: Vec::new(),
        warnings,
    })
}

async fn page(
    upstream: &Upstream,
    gvr: &GroupVersionResource,
    asked: &Asked,
) -> Result<(Vec<String>, Bytes), ListError> {
    let mut path = gvr.path();
    if let Asked::Page(token) = asked {
        path.push_str(&format!("?limit={PAGE_SIZE}"));
        if !token.is_empty() {
            path.push_str("&continue=");
            path.extend(percent_encoding::utf8_percent_encode(
                token,
                percent_encoding::NON_ALPHANUMERIC,
            ));
        }
    }
    let response = upstream.get(UpstreamKind::List, &path).await?;
    let status = response.status();
    let warnings = response
        .headers()
        .get_all(WARNING)
        .iter()
        .filter_map(|v| v.to_str().ok().map(str::to_owned))
        .collect();
    let collect = Limited::new(response.into_body(), MAX_PAGE_BYTES).collect();
    let body = tokio::time::timeout(PAGE_TIMEOUT, collect)
        .await
        .map_err(|_| ListError::Body(format!("not complete after {PAGE_TIMEOUT:?}")))?
        .map_err(|e| ListError::Body(e.to_string()))?
        .to_bytes();
    if status.is_success() {
        return Ok((warnings, body));
    }
    let message = message(&body);
    Err(match status {
        StatusCode::NOT_FOUND
        | StatusCode::FORBIDDEN
        | StatusCode::UNAUTHORIZED
        | StatusCode::METHOD_NOT_ALLOWED
        | StatusCode::NOT_ACCEPTABLE => ListError::Refused { status, message },
        _ => ListError::Failed { status, message },
    })
}

/// The message of a Status, or the start of whatever came.
pub(super) fn message(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Message {
        message: String,
    }
    match serde_json::from_slice::<Message>(body) {
        Ok(status) => status.message,
        Err(_) => String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned(),
    }
}
