//! The requests that shared reads send upstream.

use std::time::Duration;

use apifront_source::{BodyError, BodyLimit, JSON, ReadKind, ResponseBody, Source};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Response, StatusCode};
use http_body_util::BodyExt;
use kubernetes_wire::api::{Status, protobuf};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::shared_listing::{self, ACCEPT, Decoder, Listed, Listing, ListingError, most_bytes};
use super::shared_plan::{ListQuery, escaped};
use super::shared_state::Fetch;
use crate::store::{ObjectKey, Store, StoredObject};

/// The most bytes of one object. etcd refuses objects above 1.5 MiB by default,
/// but aggregated servers may store larger ones.
const MAX_OBJECT_BYTES: usize = 64 << 20;

/// The time limit of a body. The callers of a shared read give up sooner. This
/// limit ends reads that nobody waits for any more.
const BODY_TIMEOUT: Duration = Duration::from_secs(120);

/// The most bytes of a Status. A longer error is not passed on.
const MAX_STATUS_BYTES: usize = 64 << 10;

#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// The server cannot list metadata alone.
    NotAcceptable,
    /// The server refuses apifront, or the request. It may answer a client
    /// differently.
    Refused,
    /// The server failed, and would fail for every client.
    Failed(Status),
    TooManyRequests,
    Unreachable,
    /// The answer breaks off, or is not what was requested.
    Malformed,
}

pub(super) async fn list(
    upstream: &dyn Source,
    store: &Store,
    read: &ListQuery,
) -> Result<Listing, Failure> {
    let path = read.path(&store.resource.gvr);
    let response = ask(upstream, &path, ACCEPT).await?;
    let most = most_bytes(store.memory().objects);
    let listing = if is_protobuf(&response) {
        decode(response.into_body(), most).await
    } else {
        let body = collect(response.into_body(), most).await?;
        shared_listing::from_json(&body)
    };
    listing.map_err(|error| {
        tracing::warn!(resource = %store.resource.gvr, %error, "unusable list");
        Failure::Malformed
    })
}

async fn decode(body: ResponseBody, most: usize) -> Result<Listing, ListingError> {
    let mut body = body.into_stream();
    let mut decoder = Decoder::default();
    let mut left = most;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ListingError::Incomplete)?;
        if let Ok(data) = frame.into_data() {
            left = left
                .checked_sub(data.len())
                .ok_or(ListingError::TooLong(most))?;
            decoder.push(&data)?;
        }
    }
    decoder.finish()
}

/// Reads the name and version of one object. `None` if it does not exist. A
/// list of the name costs kube-apiserver less than a GET, because its own cache
/// answers the list.
pub(super) async fn listed(
    upstream: &dyn Source,
    store: &Store,
    namespace: &str,
    name: &str,
) -> Result<Option<Listed>, Failure> {
    let read = ListQuery {
        namespace: namespace.to_owned(),
        field_selector: format!("metadata.name={name}"),
        ..ListQuery::default()
    };
    let mut listing = list(upstream, store, &read).await?;
    match (listing.items.pop(), listing.items.is_empty()) {
        (None, _) => Ok(None),
        (Some(one), true) if one.key == ObjectKey::new(namespace, name) => Ok(Some(one)),
        _ => Err(Failure::Malformed),
    }
}

pub(super) async fn object(
    upstream: &dyn Source,
    store: &Store,
    namespace: &str,
    name: &str,
) -> Result<Option<StoredObject>, Failure> {
    let gvr = &store.resource.gvr;
    let read = ListQuery {
        namespace: namespace.to_owned(),
        ..ListQuery::default()
    };
    let path = format!("{}/{}", read.path(gvr), escaped(name));
    let response = send(upstream, &path, JSON).await?;
    if response.status() == StatusCode::NOT_FOUND {
        let body = collect(response.into_body(), MAX_STATUS_BYTES).await?;
        // A 404 may also mean that the resource is gone.
        let expected = Status::not_found(&gvr.group_resource(), name);
        let same = Status::from_json(&body).is_some_and(|s| s == expected);
        return same.then_some(None).ok_or(Failure::Refused);
    }
    let response = succeeded(response).await?;
    let body = collect(response.into_body(), MAX_OBJECT_BYTES).await?;
    let item = store.resource.envelope.fragment(&body);
    let item = item.ok_or(Failure::Malformed)?;
    StoredObject::parse(item, &store.resource.fields)
        .map(Some)
        .map_err(|_| Failure::Malformed)
}

/// Reads objects as they were at a version. A single object is read by a list,
/// because GET does not support exact versions.
pub(super) struct Exact<'a> {
    pub(super) upstream: &'a dyn Source,
    pub(super) store: &'a Store,
}

#[derive(Deserialize)]
struct Items<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

impl Exact<'_> {
    async fn list(&self, read: &ListQuery, version: u64, most: usize) -> Option<Vec<StoredObject>> {
        let resource = &self.store.resource;
        let mut path = read.path(&resource.gvr);
        path.push(if path.contains('?') { '&' } else { '?' });
        path.push_str(&format!(
            "resourceVersion={version}&resourceVersionMatch=Exact"
        ));
        let response = ask(self.upstream, &path, JSON).await.ok()?;
        let body = collect(response.into_body(), most).await.ok()?;
        let list: Items = serde_json::from_slice(&body).ok()?;
        let object = |item: &&RawValue| {
            // A slice would keep the whole list alive.
            let item = Bytes::copy_from_slice(item.get().as_bytes());
            StoredObject::parse(item, &resource.fields).ok()
        };
        list.items.iter().map(object).collect()
    }
}

impl Fetch for Exact<'_> {
    async fn fetch(&self, listed: &Listed, version: u64) -> Option<StoredObject> {
        let read = ListQuery {
            namespace: listed.key.namespace().to_owned(),
            field_selector: format!("metadata.name={}", listed.key.name()),
            ..ListQuery::default()
        };
        let mut found = self.list(&read, version, MAX_OBJECT_BYTES).await?;
        found.pop().filter(|_| found.is_empty())
    }

    async fn fetch_all(&self, read: &ListQuery, version: u64) -> Option<Vec<StoredObject>> {
        let most = most_bytes(self.store.memory().objects);
        self.list(read, version, most).await
    }
}

async fn ask(
    upstream: &dyn Source,
    path: &str,
    accept: &str,
) -> Result<Response<ResponseBody>, Failure> {
    succeeded(send(upstream, path, accept).await?).await
}

async fn send(
    upstream: &dyn Source,
    path: &str,
    accept: &str,
) -> Result<Response<ResponseBody>, Failure> {
    let answer = upstream.get(ReadKind::SharedRead, path, accept);
    answer.await.map_err(|error| {
        tracing::warn!(%error, "shared read failed");
        Failure::Unreachable
    })
}

async fn succeeded(response: Response<ResponseBody>) -> Result<Response<ResponseBody>, Failure> {
    let status = response.status();
    match status.as_u16() {
        200 => Ok(response),
        406 => Err(Failure::NotAcceptable),
        // Priority and Fairness refuses in plain text. A storage that is
        // created again after its definition has changed refuses with a Status.
        429 => match status_of(response).await? {
            Some(status) => Err(Failure::Failed(status)),
            None => Err(Failure::TooManyRequests),
        },
        500.. => {
            let told = status_of(response).await?;
            Err(told.map_or(Failure::Unreachable, Failure::Failed))
        }
        _ => Err(Failure::Refused),
    }
}

async fn status_of(response: Response<ResponseBody>) -> Result<Option<Status>, Failure> {
    let protobuf = is_protobuf(&response);
    let body = collect(response.into_body(), MAX_STATUS_BYTES).await?;
    Ok(match protobuf {
        true => protobuf::decode_status(&body),
        false => Status::from_json(&body),
    })
}

fn is_protobuf(response: &Response<ResponseBody>) -> bool {
    let value = response.headers().get(CONTENT_TYPE);
    value.is_some_and(|v| {
        v.as_bytes()
            .starts_with(b"application/vnd.kubernetes.protobuf")
    })
}

async fn collect(body: ResponseBody, most: usize) -> Result<Bytes, Failure> {
    match body.collect_bytes(BodyLimit::new(most, BODY_TIMEOUT)).await {
        Ok(body) => Ok(body),
        Err(BodyError::TooLarge(_)) => Err(Failure::Malformed),
        Err(BodyError::Late(_) | BodyError::BrokeOff(_)) => Err(Failure::Unreachable),
    }
}
