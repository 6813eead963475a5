//! h2 and rustls as a server and nothing else, whose streams stay open. This is the part
//! of an idle watch's memory that precedes all of apifront's own.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::floor;
use harness::certificates::{Certificates, Pair};
use harness::client::Client;
use harness::ports;
use harness::process::{self, Process};

/// The argument that turns a benchmark into the server. Port, certificate and key follow.
const BECOME_SERVER: &str = "bare-h2";
const FIRST: &[u8] = b"{}\n";

pub struct BareH2 {
    pub process: Process,
    address: SocketAddr,
}

impl BareH2 {
    pub fn start(certificates: &Certificates) -> Self {
        let port = ports::free();
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        let serving = &certificates.serving;
        command.args([BECOME_SERVER, &port.to_string()]);
        command.args([&serving.cert, &serving.key]);
        let log = process::temporary_folder("bare-h2").join("log");
        Self {
            process: Process::spawn("bare-h2", &mut command, &log),
            address: ports::loopback(port),
        }
    }

    pub async fn client(&self, certificates: &Certificates) -> Client {
        while TcpStream::connect(self.address).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Client::tls(self.address, &certificates.cluster.cert, None)
    }
}

/// Serves until the process ends, if the command line asks for the server.
pub fn serve_if_asked() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [first, port, certificate, key] = arguments.as_slice() else {
        return;
    };
    if first != BECOME_SERVER {
        return;
    }
    let pair = Pair {
        cert: certificate.into(),
        key: key.into(),
    };
    let mut config = floor::server_config(&pair);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let port: u16 = port.parse().expect("a port");
    super::run(async move {
        let listener = TcpListener::bind(ports::loopback(port)).await;
        let listener = listener.expect("a port");
        loop {
            let (socket, _) = listener.accept().await.expect("a connection");
            tokio::spawn(serve(acceptor.clone(), socket));
        }
    });
}

/// Answers each request with a first piece of a body that does not end.
async fn serve(acceptor: TlsAcceptor, socket: TcpStream) -> anyhow::Result<()> {
    let mut connection = h2::server::handshake(acceptor.accept(socket).await?).await?;
    let mut open = Vec::new();
    while let Some(request) = connection.accept().await {
        let (_, mut respond) = request?;
        let mut body = respond.send_response(Response::new(()), false)?;
        body.send_data(Bytes::from_static(FIRST), false)?;
        open.push(body);
    }
    Ok(())
}
