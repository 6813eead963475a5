//! Kubernetes' built-in types, as both encodings need them. Each message has its
//! fields in JSON's order, with their JSON name, protobuf number, type, and
//! condition under which JSON omits them. `tools/schema` reads this from the Go
//! types and writes `kubernetes.txt` (`make schema`); a test compares the two.
//!
//! The schema is valid for one release. Its users refuse every field that it
//! does not name, so that a newer API server's fields are never dropped.

mod message;
mod names;
mod parse;

use std::collections::HashMap;
use std::sync::LazyLock;

pub use message::Message;
pub(crate) use message::{Field, Form, Kind, Shape};

/// Every message and kind of one Kubernetes release.
#[derive(Debug, Default)]
pub struct Schema {
    version: String,
    /// All messages. [`Kind::Message`] and [`Form`] refer to them by position.
    messages: Vec<Message>,
    names: HashMap<Box<str>, u16>,
    /// The positions of the messages, by apiVersion, then by kind.
    kinds: HashMap<Box<str>, HashMap<Box<str>, u16>>,
}

static BUILTIN: LazyLock<Schema> = LazyLock::new(|| {
    let read = Schema::parse(include_str!("kubernetes.txt"));
    debug_assert!(read.is_ok(), "{:?}", read.err());
    // A test reads the file, so this does not fail. Without a schema, nothing could
    // be transcoded and everything would be forwarded.
    read.unwrap_or_default()
});

impl Schema {
    /// Returns the schema of the release that this crate was made for.
    pub fn builtin() -> &'static Self {
        &BUILTIN
    }

    /// Returns the version as API servers write it: `v1.37.1`.
    pub fn kubernetes_version(&self) -> &str {
        &self.version
    }

    /// Returns the message of a kind: an object, a list, Status or options.
    pub fn kind(&self, api_version: &str, kind: &str) -> Option<&Message> {
        let id = self.kinds.get(api_version)?.get(kind)?;
        self.message_at(*id)
    }

    /// Returns every apiVersion, kind and its message, in no particular order.
    pub fn kinds(&self) -> impl Iterator<Item = (&str, &str, &Message)> {
        self.kinds.iter().flat_map(move |(api_version, kinds)| {
            kinds.iter().filter_map(move |(kind, id)| {
                Some((&**api_version, &**kind, self.message_at(*id)?))
            })
        })
    }

    /// Returns the message with this name: the last parts of the Go package's
    /// path and the type's name, such as `meta/v1.ObjectMeta` or `core/v1.Pod`.
    pub(crate) fn message(&self, go_name: &str) -> Option<&Message> {
        self.message_at(*self.names.get(go_name)?)
    }

    /// Returns the message that a [`Kind::Message`] or a [`Form`] refers to.
    pub(crate) fn message_at(&self, id: u16) -> Option<&Message> {
        self.messages.get(usize::from(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_their_messages() {
        let schema = Schema::builtin();
        assert!(schema.kubernetes_version().starts_with("v1."));
        for (api_version, kind, message) in [
            ("v1", "Pod", "core/v1.Pod"),
            ("v1", "PodList", "core/v1.PodList"),
            ("v1", "List", "core/v1.List"),
            ("v1", "Status", "meta/v1.Status"),
            ("v1", "APIGroupList", "meta/v1.APIGroupList"),
            ("apps/v1", "Deployment", "apps/v1.Deployment"),
            ("apps/v1", "DeleteOptions", "meta/v1.DeleteOptions"),
            ("policy/v1", "Eviction", "policy/v1.Eviction"),
            ("autoscaling/v1", "Scale", "autoscaling/v1.Scale"),
            (
                "authentication.k8s.io/v1",
                "TokenRequest",
                "authentication/v1.TokenRequest",
            ),
            (
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                "apiextensions/v1.CustomResourceDefinition",
            ),
            (
                "apiregistration.k8s.io/v1",
                "APIService",
                "apiregistration/v1.APIService",
            ),
            (
                "apidiscovery.k8s.io/v2",
                "APIGroupDiscoveryList",
                "apidiscovery/v2.APIGroupDiscoveryList",
            ),
            (
                "meta.k8s.io/v1",
                "PartialObjectMetadataList",
                "meta/v1.PartialObjectMetadataList",
            ),
        ] {
            let found = schema.kind(api_version, kind).map(Message::name);
            assert_eq!(found, Some(message), "{api_version} {kind}");
        }
        assert!(schema.kind("v1", "Deployment").is_none());
        assert!(schema.kind("meta.k8s.io/v1", "Table").is_none());
        assert!(schema.message("meta/v1.ObjectMeta").is_some());
        assert!(schema.kinds().count() > 700);
    }
}
