//! A watch cache of Kubernetes resources. It is kept equal to an API server by
//! one list and one watch for each resource, and read with kube-apiserver's
//! semantics.
//!
//! - [`source::Source`] is what the cache reads from: API servers, in whichever way
//!   the program reaches them.
//! - [`reflector::Cache`] starts a reflector for each resource at the first
//!   request for it. It evicts resources that nobody reads or that do not fit
//!   into memory.
//! - [`store::Store`] holds one resource: a snapshot, and the log of events.
//! - [`saved::SavedStores`] keeps stores on disk, so that a restarted process
//!   begins with them.
//! - [`read`] answers GET and LIST from a store: it decides whether the store
//!   may answer, selects the objects and writes the bytes of the body.
//! - [`watch::Watch`] answers WATCH as batches of bytes.
//!
//! A store can be used without a reflector, fed by hand:
//!
//! ```
//! use std::sync::{Arc, OnceLock};
//! use std::time::{Duration, Instant};
//!
//! use apifront_watch_cache::store::{Filter, Resource, Store, field_table};
//! use apifront_watch_cache::watch::{Watch, WatchOptions, WholeFrames};
//! use bytes::Bytes;
//! use kubernetes_wire::api::{FieldSelector, GroupVersionResource, LabelSelector};
//! use kubernetes_wire::representation::{Encoding, Envelope, Form};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let gvr = GroupVersionResource::new("", "v1", "configmaps");
//! let resource = Resource {
//!     fields: field_table(&gvr),
//!     gvr,
//!     namespaced: true,
//!     envelope: Envelope::new(Form::Struct, "v1", "ConfigMap", "ConfigMapList"),
//!     bookmark: OnceLock::new(),
//! };
//! let filter = Filter::new("shop", LabelSelector::default(), FieldSelector::default(), &resource);
//! let options = WatchOptions {
//!     filter: filter.unwrap(),
//!     bookmarks: false,
//!     lasts: Duration::from_secs(60),
//! };
//! let (writer, store) = Store::new(resource, Vec::new(), 1);
//! let frames = Box::new(WholeFrames::new(store.clone(), Encoding::Json));
//! let mut watch = Watch::from_version(store.clone(), 1, options, frames).unwrap();
//!
//! let item = r#"{"metadata":{"name":"a","namespace":"shop","resourceVersion":"2"}}"#;
//! writer.apply(false, Bytes::from(item), Instant::now()).unwrap();
//!
//! assert!(store.snapshot().get("shop", "a").is_some());
//! let (bytes, events) = watch.next().await.unwrap();
//! assert_eq!(events, 1);
//! assert!(bytes.starts_with(br#"{"type":"ADDED","object":{"kind":"ConfigMap""#));
//! # }
//! ```

// No value from the wire or a file may cause a panic.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::unwrap_used
    )
)]

pub mod fingerprint;
mod left_out;
mod observer;
pub mod read;
pub mod reflector;
mod resource_pattern;
pub mod saved;
pub mod self_check;
mod settings;
pub mod store;
pub mod watch;

pub use apifront_source as source;
pub use left_out::LeftOut;
pub use observer::{Observer, SelfCheckResult, Shed};
pub use resource_pattern::ResourcePattern;
pub use settings::{
    CacheMode, CacheModes, Consistency, DropManagedFields, MemoryLimit, Persistence, Policy,
    Settings, ShadowLimits, ShardedListAndWatch,
};
