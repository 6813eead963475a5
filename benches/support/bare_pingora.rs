//! pingora as a proxy and nothing else. This is the part of apifront's cost that
//! precedes all of its own work.

use std::net::SocketAddr;
use std::process::Command;

use async_trait::async_trait;
use pingora_core::Result;
use pingora_core::server::Server;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_proxy::{ProxyHttp, Session, http_proxy_service};

/// The argument that turns a benchmark into the proxy. Port and upstream follow.
const BECOME_PROXY: &str = "bare-pingora";

struct Bare {
    upstream: SocketAddr,
}

#[async_trait]
impl ProxyHttp for Bare {
    type CTX = ();

    fn new_ctx(&self) -> Self::CTX {}

    async fn upstream_peer(&self, _: &mut Session, (): &mut ()) -> Result<Box<HttpPeer>> {
        Ok(Box::new(HttpPeer::new(self.upstream, false, String::new())))
    }
}

/// Returns the command that starts the proxy, which is this program again.
pub fn command(port: u16, upstream: SocketAddr) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args([BECOME_PROXY, &port.to_string(), &upstream.to_string()]);
    command
}

/// Serves until the process ends, if the command line asks for the proxy. pingora's
/// default is one thread for a service.
pub fn serve_if_asked() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [first, port, upstream] = arguments.as_slice() else {
        return;
    };
    if first != BECOME_PROXY {
        return;
    }
    let upstream = upstream.parse().expect("an address");
    let mut server = Server::new(None).expect("a server");
    server.bootstrap();
    let mut service = http_proxy_service(&server.configuration, Bare { upstream });
    service.add_tcp(&format!("127.0.0.1:{port}"));
    server.add_service(service);
    server.run_forever();
}
