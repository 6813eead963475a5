//! A link to a server that delays every answer, or holds the answers back.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use serde_json::{Value, json};

use super::apifront::Apifront;
use super::cluster::Cluster;
use super::ports;
use super::process::temporary_folder;

pub struct SlowLink {
    pub address: SocketAddr,
    is_held: watch::Sender<bool>,
    _accepts: JoinSet<()>,
}

impl SlowLink {
    /// Forwards connections to `server`. The server's bytes arrive `delay` later.
    pub async fn to(server: SocketAddr, delay: Duration) -> Self {
        let listener = ports::listen_async();
        let address = listener.local_addr().expect("an address");
        let (is_held, held) = watch::channel(false);
        let mut accepts = JoinSet::new();
        accepts.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(pass_on(client, server, delay, held.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Self {
            address,
            is_held,
            _accepts: accepts,
        }
    }

    /// Holds the server's bytes back, or lets them pass again.
    pub fn hold(&self, is_held: bool) {
        self.is_held.send_replace(is_held);
    }

    /// Starts an apifront that reaches the API server of `cluster` over the slow
    /// link.
    pub async fn before(
        cluster: &Cluster,
        delay: Duration,
        change: impl FnOnce(&mut Value),
    ) -> (Self, Apifront) {
        let link = Self::to(cluster.apiserver.address(), delay).await;
        let near = std::fs::read_to_string(&cluster.front_kubeconfig).expect("a kubeconfig");
        let far = near.replace(
            &cluster.apiserver.address().to_string(),
            &link.address.to_string(),
        );
        assert_ne!(near, far);
        let file = temporary_folder("far-away").join("far.kubeconfig");
        std::fs::write(&file, far).expect("a kubeconfig");
        let front = Apifront::start(cluster, |config| {
            config["upstream"]["kubeconfig"] = json!(file);
            change(config);
        })
        .await;
        (link, front)
    }
}

async fn pass_on(
    client: TcpStream,
    server: SocketAddr,
    delay: Duration,
    mut held: watch::Receiver<bool>,
) {
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
            crate::pace::of_load(delay).await;
            if held.wait_for(|is_held| !is_held).await.is_err() {
                return;
            }
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
