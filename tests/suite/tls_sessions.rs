//! Clients resume their TLS sessions, however many came after them, and are asked again
//! who they are.

use std::time::Duration;

use rustls::HandshakeKind;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::{Cluster, unique};
use crate::harness::{eventually, process};

const SOON: Duration = Duration::from_secs(20);
/// More than rustls keeps in memory unless it is told otherwise.
const OTHERS: usize = 300;
const LIST: &str = "/api/v1/secrets";

/// Connects, and reads a list that the client may not see. Returns how the connection
/// began, and the answer.
async fn refused(client: &Client) -> (HandshakeKind, String) {
    let stream = client.tls_stream(b"http/1.1").await;
    let mut stream = stream.expect("a connection");
    let kind = stream.get_ref().1.handshake_kind().expect("a handshake");
    let request = format!("GET {LIST} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("a write");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    (kind, answer)
}

#[tokio::test]
async fn a_session_is_resumed_with_its_user() {
    let cluster = Cluster::shared();
    let front = Apifront::shared();
    let jane = unique("jane");
    let pair = cluster.certificates.client(&jane, &[]);
    for (name, client, other) in [
        (
            "kube-apiserver",
            cluster.client(Some(&pair)),
            cluster.client(None),
        ),
        ("apifront", front.client(Some(&pair)), front.client(None)),
    ] {
        let named = format!("User \\\"{jane}\\\" cannot list resource");
        let (kind, answer) = refused(&client).await;
        assert_eq!(kind, HandshakeKind::Full, "{name}");
        assert!(answer.contains(&named), "{name}: {answer}");
        for _ in 0..OTHERS {
            other.tls_stream(b"http/1.1").await.expect("a connection");
        }
        for _ in 0..2 {
            let (kind, answer) = refused(&client).await;
            assert_eq!(kind, HandshakeKind::Resumed, "{name}");
            assert!(answer.contains(&named), "{name}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_resumed_session_proves_nothing_once_its_authority_is_gone() {
    skip_under_oracle!("it changes apifront's certificate authorities");
    let cluster = Cluster::shared();
    let certificates = &cluster.certificates;
    let authorities = process::temporary_folder("authorities").join("ca.crt");
    std::fs::copy(&certificates.cluster.cert, &authorities).expect("a copy");
    let front = Apifront::start(cluster, |config| {
        config["authentication"]["clientCAFile"] = json!(authorities);
    })
    .await;
    let client = front.client(Some(&certificates.client(&unique("jane"), &[])));
    let (_, answer) = refused(&client).await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    let other = authorities.with_extension("new");
    std::fs::copy(&certificates.front_proxy.cert, &other).expect("a copy");
    std::fs::rename(&other, &authorities).expect("rename");
    eventually("the authority is gone", SOON, || async {
        let (kind, answer) = refused(&client).await;
        assert_eq!(kind, HandshakeKind::Resumed);
        answer.starts_with("HTTP/1.1 401 ")
    })
    .await;
    front.stop().await;
}
