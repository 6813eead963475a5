//! Kubernetes objects and requests on the wire, byte for byte as kube-apiserver
//! reads and writes them.
//!
//! - [`representation`] converts built-in objects between protobuf and JSON, and
//!   writes lists, watch events, Tables, PartialObjectMetadata and YAML.
//! - [`negotiation`] reads from the Accept headers which of these a client wants.
//! - [`request`] turns method, path and query into a `RequestInfo`.
//! - [`api`] has the vocabulary of the API as types: continue tokens, selectors,
//!   `Status`, list options, resource versions.
//! - [`schema`] holds the messages of all built-in kinds of one release.
//!
//! The crate does no I/O. An unknown value is an error and is never dropped.
//!
//! ```
//! use kubernetes_wire::representation::BuiltInObject;
//!
//! let json = br#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"blue"}}"#;
//! let namespace = BuiltInObject::from_json(json)?;
//! let protobuf = namespace.to_protobuf()?;
//! assert!(protobuf.starts_with(b"k8s\0"));
//! let again = BuiltInObject::from_protobuf(&protobuf)?;
//! assert_eq!(again.kind(), "Namespace");
//! assert_eq!(again.to_json(), namespace.to_json());
//! # Ok::<(), kubernetes_wire::representation::ObjectError>(())
//! ```

// No value from the wire or a file may cause an arithmetic overflow or an index
// out of bounds.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        clippy::string_slice
    )
)]

pub mod api;
pub mod negotiation;
pub mod representation;
pub mod request;
pub mod schema;
