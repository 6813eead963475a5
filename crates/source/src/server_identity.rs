//! The identity of the servers behind a URL: the cluster, and the exact version of
//! kube-apiserver.

use bytes::Bytes;
use http::StatusCode;
use serde::Deserialize;

use crate::{BodyLimit, JSON, ReadKind, Source, VERSION};

/// The cluster and the version of the server that answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerIdentity {
    /// The uid of the namespace kube-system, which every cluster has all its life.
    pub cluster: String,
    /// The exact version, such as `v1.36.2`.
    pub git_version: String,
}

/// Why a server's identity is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unidentified {
    /// No server could answer now; one may later.
    Later,
    /// The server does not disclose it.
    Untold,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    git_version: String,
}

#[derive(Deserialize)]
struct Namespace {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    uid: String,
}

/// Asks for the cluster's and the server's identity.
pub(crate) async fn ask<S: Source + ?Sized>(source: &S) -> Result<ServerIdentity, Unidentified> {
    let (version, namespace) = tokio::join!(
        document(source, VERSION),
        document(source, "/api/v1/namespaces/kube-system"),
    );
    identity(&version?, &namespace?).ok_or(Unidentified::Untold)
}

async fn document<S: Source + ?Sized>(source: &S, path: &str) -> Result<Bytes, Unidentified> {
    let response = source.get(ReadKind::Discovery, path, JSON).await;
    let response = response.map_err(|_| Unidentified::Later)?;
    match response.status() {
        StatusCode::OK => {}
        StatusCode::TOO_MANY_REQUESTS => return Err(Unidentified::Later),
        status if status.is_server_error() => return Err(Unidentified::Later),
        _ => return Err(Unidentified::Untold),
    }
    let body = response.into_body().collect_bytes(BodyLimit::DOCUMENT);
    body.await.map_err(|_| Unidentified::Later)
}

fn identity(version: &[u8], namespace: &[u8]) -> Option<ServerIdentity> {
    let Version { git_version } = serde_json::from_slice(version).ok()?;
    let Namespace { metadata } = serde_json::from_slice(namespace).ok()?;
    let cluster = metadata.uid;
    let told = !git_version.is_empty() && !cluster.is_empty();
    told.then_some(ServerIdentity {
        cluster,
        git_version,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_needs_both_facts() {
        let version = br#"{"major":"1","minor":"36","gitVersion":"v1.36.2"}"#;
        let namespace = br#"{"kind":"Namespace","metadata":{"name":"kube-system","uid":"u-1"}}"#;
        let expected = ServerIdentity {
            cluster: "u-1".to_owned(),
            git_version: "v1.36.2".to_owned(),
        };
        assert_eq!(identity(version, namespace), Some(expected));
        for (version, namespace) in [
            (&b"{}"[..], &namespace[..]),
            (br#"{"gitVersion":""}"#, namespace),
            (version, b"{}"),
            (version, br#"{"metadata":{"uid":""}}"#),
            (version, b""),
        ] {
            assert_eq!(identity(version, namespace), None);
        }
    }
}
