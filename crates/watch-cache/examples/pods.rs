//! Prints the rows of `kubectl get pods -A`, and then the changes of pods, all from a
//! cache in this process.
//!
//! ```text
//! kubectl proxy --port 8001
//! cargo run -p apifront-watch-cache --example pods -- http://127.0.0.1:8001
//! ```

use std::sync::Arc;
use std::time::Duration;

use apifront_watch_cache::read::{Page, Shape, list_body};
use apifront_watch_cache::reflector::{Cache, Selection};
use apifront_watch_cache::source::{BoxError, ReadKind, ResponseBody, Source, SourceError};
use apifront_watch_cache::store::{Filter, KeyScope};
use apifront_watch_cache::watch::{Watch, WatchOptions, WholeFrames};
use arc_swap::ArcSwap;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response, header::ACCEPT};
use http_body_util::Empty;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use kubernetes_wire::api::{FieldSelector, GroupVersionResource, LabelSelector};
use kubernetes_wire::negotiation::{IncludeObject, MetaVersion};
use kubernetes_wire::representation::table::TableOptions;
use kubernetes_wire::representation::{Encoding, ListMeta};
use serde_json::Value;

/// API servers behind one address, without TLS and credentials.
struct PlainHttp {
    address: String,
    client: Client<HttpConnector, Empty<Bytes>>,
}

impl Source for PlainHttp {
    fn get<'a>(
        &'a self,
        _: ReadKind,
        path_and_query: &'a str,
        accept: &'a str,
    ) -> BoxFuture<'a, Result<Response<ResponseBody>, SourceError>> {
        Box::pin(async move {
            let request = Request::get(format!("{}{path_and_query}", self.address));
            let request = request.header(ACCEPT, accept).body(Empty::new());
            let answer = self.client.request(request.map_err(BoxError::from)?);
            Ok(answer.await.map_err(BoxError::from)?.map(ResponseBody::new))
        })
    }
}

/// The cache may hold any resource.
struct Everything;

impl Selection for Everything {
    fn allows(&self, _: &GroupVersionResource) -> bool {
        true
    }

    fn trusts(&self, _: &GroupVersionResource) -> bool {
        true
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let address = std::env::args().nth(1);
    let source = PlainHttp {
        address: address.unwrap_or_else(|| "http://127.0.0.1:8001".to_owned()),
        client: Client::builder(TokioExecutor::new()).build_http(),
    };
    let cache = Cache::new(Arc::new(ArcSwap::from_pointee(source)), Arc::new(()));

    // The first look at a resource starts its list and its watch.
    let pods = GroupVersionResource::new("", "v1", "pods");
    let found = cache.lookup_within(&pods, &Everything, Duration::from_secs(30));
    let entry = found.await.map_err(|why| format!("no pods: {why:?}"))?;
    let store = entry.store().ok_or("pods are not cached any more")?;

    // A snapshot never changes. Its list has the bytes that kube-apiserver writes.
    let snapshot = store.snapshot();
    let printer = store.presentation().printer.clone();
    let options = TableOptions {
        version: MetaVersion::V1,
        include: IncludeObject::Metadata,
    };
    let shape = Shape::table(printer.ok_or("unknown columns")?, options);
    let page = Page {
        parts: snapshot.parts(&KeyScope::All, "").collect(),
        meta: ListMeta::at(snapshot.resource_version),
    };
    let pieces = list_body(&store, &page, &shape).map_err(|why| why.as_str())?;
    let table: Value = serde_json::from_slice(&pieces.concat())?;
    for row in table["rows"].as_array().into_iter().flatten() {
        let namespace = &row["object"]["metadata"]["namespace"];
        println!("{namespace} {}", row["cells"]);
    }

    // The watch continues where the snapshot ends.
    let options = WatchOptions {
        filter: Filter::new(
            "",
            LabelSelector::default(),
            FieldSelector::default(),
            &store.resource,
        )
        .map_err(|_| "the selectors are not supported")?,
        bookmarks: false,
        lasts: Duration::from_secs(3600),
    };
    let frames = Box::new(WholeFrames::new(store.clone(), Encoding::Json));
    let watch = Watch::from_version(store.clone(), snapshot.resource_version, options, frames);
    let mut watch = watch.map_err(|_| "the snapshot is too old")?;
    while let Ok((bytes, _)) = watch.next().await {
        for event in serde_json::Deserializer::from_slice(&bytes).into_iter::<Value>() {
            let event = event?;
            let metadata = &event["object"]["metadata"];
            let [namespace, name] = ["namespace", "name"].map(|key| &metadata[key]);
            println!("{} {namespace} {name}", event["type"]);
        }
    }
    Ok(())
}
