//! Tests cases in which HTTP proxies, including pingora, are known to fail.

mod answers;
mod bodies;
mod cancellation;
mod certificates;
mod framing;
mod large_answers;
mod shutdown;
mod upgrades;

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use serde_json::json;
use tokio::net::TcpStream;

use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::kubeconfig::{self, Credential};
use crate::harness::process;
use crate::harness::raw::RawConnection;
use crate::harness::scripted::{Connection, Scripted};

const SOON: Duration = Duration::from_secs(5);
/// A pause that is longer than any prompt answer on loopback takes.
const QUIET: Duration = Duration::from_millis(300);
const MUCH: usize = 20 << 20;

async fn personal_before(scripted: &Scripted) -> Apifront {
    let folder = process::temporary_folder("traps");
    let config = kubeconfig::write(&folder, "traps", &scripted.url(), None, Credential::None);
    Apifront::personal(&config).await
}

async fn front_before(scripted: &Scripted) -> Apifront {
    let cluster = Cluster::shared();
    Apifront::start(cluster, |config| {
        config["upstream"] = json!({ "servers": [scripted.url()], "caFile": cluster.ca() });
    })
    .await
}

async fn raw(front: &Apifront) -> RawConnection {
    RawConnection::new(TcpStream::connect(front.address).await.expect("connect"))
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

async fn h2c(front: &Apifront) -> h2::client::SendRequest<Bytes> {
    let stream = TcpStream::connect(front.address).await.expect("connect");
    let (sender, connection) = h2::client::handshake(stream).await.expect("handshake");
    tokio::spawn(connection);
    sender.ready().await.expect("a usable connection")
}

fn h2_request(front: &Apifront, method: &str, path: &str) -> Request<()> {
    let uri = format!("http://{}{path}", front.address);
    let request = Request::builder().method(method).uri(uri);
    request.body(()).expect("a request")
}

async fn h2_body(mut body: h2::RecvStream) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.expect("the whole answer");
        let _ = body.flow_control().release_capacity(data.len());
        all.extend_from_slice(&data);
    }
    all
}

/// Answers every request with the length of its body and any bytes after it.
async fn echo_leftover(mut connection: Connection) {
    while let Some(request) = connection.next().await {
        let body = connection.body(&request).await.unwrap_or_default();
        let leftover = connection.read_within(QUIET).await;
        let text = format!("{} {:?}", body.len(), String::from_utf8_lossy(&leftover));
        connection.answer("200 OK", &text).await;
    }
}

fn both() -> (Client, Client) {
    (
        Cluster::shared().admin_client(),
        Apifront::shared().admin_client(),
    )
}

/// Splits an answer into the head and the bytes after it.
fn split(answer: &[u8]) -> (String, Vec<u8>) {
    let at = answer.windows(4).position(|w| w == b"\r\n\r\n");
    let at = at.unwrap_or_else(|| panic!("no head in {:?}", String::from_utf8_lossy(answer)));
    let head = String::from_utf8_lossy(&answer[..at]).to_ascii_lowercase();
    (head, answer[at + 4..].to_vec())
}
