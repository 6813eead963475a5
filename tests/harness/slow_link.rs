//! A link to a server that delays every answer.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::ports;

pub struct SlowLink {
    pub address: SocketAddr,
    _accepts: JoinSet<()>,
}

impl SlowLink {
    /// Passes connections on to `server`. What the server sends arrives `delay`
    /// later.
    pub async fn to(server: SocketAddr, delay: Duration) -> Self {
        let listener = TcpListener::bind(ports::loopback(ports::free()))
            .await
            .expect("a free port");
        let address = listener.local_addr().expect("an address");
        let mut accepts = JoinSet::new();
        accepts.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(pass_on(client, server, delay));
                while connections.try_join_next().is_some() {}
            }
        });
        Self {
            address,
            _accepts: accepts,
        }
    }
}

async fn pass_on(client: TcpStream, server: SocketAddr, delay: Duration) {
    let Ok(server) = TcpStream::connect(server).await else {
        return;
    };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let up = tokio::io::copy(&mut from_client, &mut to_server);
    let down = async {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let Ok(read) = from_server.read(&mut buffer).await else {
                return;
            };
            tokio::time::sleep(delay).await;
            let sent = to_client.write_all(&buffer[..read]).await;
            if read == 0 || sent.is_err() {
                return;
            }
        }
    };
    // When one side closes, both are closed.
    tokio::select! {
        _ = up => {}
        () = down => {}
    }
}
