//! Kubernetes objects and requests on the wire, byte for byte as kube-apiserver
//! reads and writes them.
//!
//! A proxy, a cache, an admission webhook or a test server reads requests and answers
//! them. This crate has what such a program needs to read the same things into a
//! request as kube-apiserver, and to write the same bytes into an answer. It does no
//! I/O and needs no cluster.
//!
//! - [`request`] turns method, path and query into a
//!   [`RequestInfo`](request::RequestInfo): verb, resource, namespace, name.
//! - [`negotiation`] reads from the Accept headers in which form a client wants the
//!   answer.
//! - [`representation`] converts built-in objects between protobuf and JSON, and
//!   writes lists, watch events, Tables, PartialObjectMetadata and YAML. Begin with
//!   [`BuiltInObject`](representation::BuiltInObject); a server that answers many
//!   requests goes on to [`Envelope`](representation::Envelope) and
//!   [`Printer`](representation::Printer).
//! - [`api`] has the vocabulary of the API as types: [`Status`](api::Status),
//!   [`ListOptions`](api::ListOptions), selectors, continue tokens, resource versions.
//! - [`schema`] holds the messages of all built-in kinds of one release.
//!
//! # From a request to its answer
//!
//! ```
//! use http::{HeaderMap, Method, header::ACCEPT};
//! use kubernetes_wire::api::Query;
//! use kubernetes_wire::negotiation::{
//!     IncludeObject, Negotiation, Offer, Transform, negotiate,
//! };
//! use kubernetes_wire::representation::{BuiltInObject, TableOptions};
//! use kubernetes_wire::request::RequestInfo;
//!
//! // kubectl get namespace blue
//! let query = Query::parse("includeObject=None");
//! let mut headers = HeaderMap::new();
//! headers.insert(ACCEPT, "application/json;as=Table;v=v1;g=meta.k8s.io".parse()?);
//!
//! let request = RequestInfo::parse(&Method::GET, "/api/v1/namespaces/blue", &query)?;
//! assert_eq!(request.verb, "get");
//! assert_eq!(request.gvr.to_string(), "namespaces.v1");
//! assert_eq!(request.name, "blue");
//!
//! let Negotiation::Accepted(wanted) = negotiate(&headers, &query, Offer::BUILT_IN) else {
//!     panic!("a 406");
//! };
//! let Transform::Table(version) = wanted.transform else {
//!     panic!("no Table");
//! };
//! let options = TableOptions { version, include: IncludeObject::from_query(&query)? };
//!
//! // A server reads the object from etcd, as protobuf.
//! let stored = br#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"blue",
//!     "creationTimestamp":"2026-01-01T00:00:00Z"},"status":{"phase":"Active"}}"#;
//! let stored = BuiltInObject::from_json(stored)?.to_protobuf()?;
//! assert!(stored.starts_with(b"k8s\0"));
//!
//! let object = BuiltInObject::from_protobuf(&stored)?;
//! let body = object.to_table(&request.gvr.resource, options, "2026-01-01T01:30:00Z".parse()?)?;
//! let table: serde_json::Value = serde_json::from_slice(&body)?;
//! assert_eq!(table["kind"], "Table");
//! assert_eq!(table["rows"][0]["cells"], serde_json::json!(["blue", "Active", "90m"]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it promises
//!
//! - **Exact or an error.** A field that the schema does not name is an error. So is an
//!   object that a printer is not certain about. Nothing is dropped or guessed. A proxy
//!   forwards the request instead.
//! - **No panic** on any bytes, and a limit on the depth of nesting.
//! - **One release.**
//!   [`Schema::kubernetes_version`](schema::Schema::kubernetes_version) returns the
//!   release of the schema.
//!
//! # Versions
//!
//! Enums that a caller must handle completely, such as
//! [`MediaType`](negotiation::MediaType) or
//! [`EventType`](representation::EventType), are exhaustive: a new variant is a
//! breaking release, and the compiler then names each place that must learn of it. What
//! is only passed on or shown, such as errors and [`Reason`](api::Reason), is
//! `#[non_exhaustive]`.
//!
//! Types of the crates bytes, chrono, http and serde_json occur in the API.

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

pub mod api;
pub mod negotiation;
pub mod representation;
pub mod request;
pub mod schema;

// Runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
