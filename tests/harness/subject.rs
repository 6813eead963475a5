//! The servers that a suite may test.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use apifront_embedded::EmbeddedServer;

use super::apifront::{Apifront, oracle};
use super::client::Client;
use super::cluster::{Cluster, create_namespace};
use super::kubeconfig::{self, Credential};
use super::release::Release;
use super::shared::Shared;
use super::{gates, ports, process};

/// A server that claims to behave as kube-apiserver.
pub struct Subject {
    pub name: &'static str,
    /// A client that may do everything.
    pub admin: Client,
    pub release: Release,
    /// Whether the server writes CBOR (KEP-4222).
    pub has_cbor: bool,
    /// The instance that serves this subject. It ends when nobody uses it.
    _front: Option<Arc<Apifront>>,
}

impl Subject {
    /// Returns the oracle itself. A suite that fails on it is wrong.
    pub async fn kube_apiserver() -> Self {
        Self {
            name: "kube-apiserver",
            admin: Cluster::shared().admin_client(),
            release: Release::under_test(),
            has_cbor: gates::are_all_on(),
            _front: None,
        }
    }

    pub async fn apifront() -> Self {
        Self {
            name: "apifront",
            admin: Apifront::shared().admin_client(),
            release: Release::under_test(),
            has_cbor: gates::are_all_on(),
            _front: None,
        }
    }

    /// Returns the in-memory API server, in this process.
    pub async fn embedded() -> Self {
        Self {
            name: "embedded",
            admin: Client::plain(embedded_address()),
            release: Release::DEFAULT,
            has_cbor: false,
            _front: None,
        }
    }

    /// Returns apifront in its personal mode before the in-memory API server.
    pub async fn apifront_before_embedded() -> Self {
        static FRONT: Shared<Apifront> = Shared::new();
        let front = FRONT.get(|| async {
            let folder = process::temporary_folder("embedded");
            let server = format!("http://{}", embedded_address());
            let config = kubeconfig::write(&folder, "embedded", &server, None, Credential::None);
            Apifront::personal(&config).await
        });
        Self {
            name: "apifront before embedded",
            admin: Client::plain(front.address),
            release: Release::DEFAULT,
            has_cbor: false,
            _front: Some(front),
        }
    }

    /// Tells whether watches may ask for initial events. apifront gives them
    /// before every server.
    pub fn has_watch_list(&self) -> bool {
        self.release.has_watch_list() || (self.name == "apifront" && !oracle())
    }

    pub async fn namespace(&self, purpose: &str) -> String {
        create_namespace(&self.admin, purpose).await
    }
}

/// Returns the address of an embedded server that lives as long as the process.
fn embedded_address() -> SocketAddr {
    static ADDRESS: OnceLock<SocketAddr> = OnceLock::new();
    *ADDRESS.get_or_init(|| {
        let (tell, told) = std::sync::mpsc::channel();
        // The server has its own runtime, since the tests' runtimes come and go.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("runtime");
            runtime.block_on(async {
                let address = ports::loopback(0);
                let handle = EmbeddedServer::new().start(address).await;
                let handle = handle.expect("the embedded server starts");
                tell.send(handle.address()).expect("somebody asked");
                std::future::pending::<()>().await;
            });
        });
        told.recv().expect("an address")
    })
}
