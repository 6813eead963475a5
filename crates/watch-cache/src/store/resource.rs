//! The resource of a store, and the facts that answers show of it.

use std::sync::{Arc, OnceLock};

use http::HeaderValue;
use kubernetes_wire::api::GroupVersionResource;
use kubernetes_wire::representation::table::Printer;
use kubernetes_wire::representation::{BookmarkTemplate, Envelope};

use super::FieldTable;

/// The resource whose objects a store holds.
#[derive(Clone, Debug)]
pub struct Resource {
    pub gvr: GroupVersionResource,
    pub namespaced: bool,
    /// The form in which the server writes objects and lists of the resource.
    pub envelope: Envelope,
    pub fields: FieldTable,
    /// The form in which the server writes an otherwise empty object, learnt
    /// from one of the server's bookmarks.
    pub bookmark: OnceLock<BookmarkTemplate>,
}

/// The facts that answers show of a resource besides its objects. They are not
/// part of [`Resource`], because a changed CustomResourceDefinition replaces
/// them.
#[derive(Clone, Debug, Default)]
pub struct Presentation {
    /// Prints Tables as upstream does. `None` if that is not known.
    pub printer: Option<Arc<Printer>>,
    /// `Warning` headers that come with every answer: deprecations (KEP-1693).
    pub warnings: Vec<HeaderValue>,
    /// Upstream supports initial events of watches (WatchList, KEP-3157). The
    /// feature is off in some releases.
    pub initial_events: bool,
    /// Upstream refused initial events when it was listed. They are then sent by the
    /// cache.
    pub lacks_initial_events: bool,
    /// Upstream ends initial events with a bookmark that depends on the watch's
    /// encoding (see [`BookmarkTemplate::had_blueprint`]).
    pub blueprint: bool,
    /// Upstream's release writes protobuf in another way than this cache. JSON is
    /// kept as upstream wrote it.
    pub other_release: bool,
    /// Upstream's release writes continue tokens, and Tables without objects, in
    /// another way than this cache.
    pub other_lists: bool,
    /// Upstream's release counts the objects that remain after a page of a shard, as
    /// in lists without a selector.
    pub counts_shards: bool,
    /// Upstream's release compresses watches that begin with a list.
    pub compresses_watches: bool,
    /// Upstream's release writes `"creationTimestamp":null` in metadata without
    /// a creation time.
    pub writes_null_times: bool,
}
