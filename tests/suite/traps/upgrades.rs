//! Tests connections that change protocol.

use tokio::io::AsyncReadExt;

use super::{SOON, personal_before, raw};
use crate::harness::scripted::Scripted;

/// pingora issue 946: the answer to an upgrade may come before the end of the
/// request.
#[tokio::test]
async fn a_tunnel_whose_101_comes_early_stands() {
    let scripted = Scripted::start(|mut connection| async move {
        let Some(request) = connection.next().await else {
            return;
        };
        let protocol = request.header("upgrade").unwrap_or("none").to_owned();
        connection
            .write(format!(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: {protocol}\r\nConnection: Upgrade\r\n\r\nhello"
            ))
            .await;
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = connection.stream.read(&mut buffer).await {
            connection.write(&buffer[..n]).await;
        }
    })
    .await;
    let front = personal_before(&scripted).await;
    let path = "/api/v1/namespaces/default/pods/p/exec?command=true";
    for (method, protocol) in [
        ("GET", "websocket"),
        ("POST", "websocket"),
        ("GET", "SPDY/3.1"),
        ("POST", "SPDY/3.1"),
    ] {
        let tunnel = async |n: usize| {
            let mut connection = raw(&front).await;
            let request = format!(
                "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\nContent-Length: 0\r\n\r\n"
            );
            connection.write(request.as_bytes()).await.expect("write");
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                let byte = connection.read_exact(1).await.expect("the head");
                head.push(char::from(byte[0]));
            }
            assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
            assert_eq!(connection.read_exact(5).await.expect("early"), b"hello");
            let ping = format!("ping {n:04}");
            connection.write(ping.as_bytes()).await.expect("write");
            let pong = connection.read_exact(ping.len()).await.expect("an echo");
            assert_eq!(pong, ping.as_bytes());
        };
        let all = futures::future::join_all((0..50).map(tunnel));
        tokio::time::timeout(SOON, all)
            .await
            .unwrap_or_else(|_| panic!("{method} {protocol}: 50 of 50 tunnels"));
    }
    front.stop().await;
}
