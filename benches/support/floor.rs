//! Measures the least that deliveries can cost on this machine: their bytes through
//! rustls and a socket, and nothing else.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};

use super::cores;
use harness::certificates::{Certificates, Pair};
use harness::ports;

/// The most bytes per write to rustls, as many as it takes.
const PIECE: usize = 64 << 10;

/// Writes `size` bytes to each of `watchers`, `updates` times; `streams` of them
/// share a connection. Each update begins after all deliveries of the one before.
/// Returns the writer's CPU time per delivery in microseconds.
pub fn per_delivery(
    certificates: &Certificates,
    watchers: usize,
    streams: usize,
    updates: usize,
    size: usize,
) -> f64 {
    let listener = ports::listen();
    let address = listener.local_addr().expect("an address");
    let on_each: Vec<usize> = (0..watchers)
        .step_by(streams)
        .map(|first| (watchers - first).min(streams) * size)
        .collect();
    let server = Arc::new(server_config(&certificates.serving));
    let client = Arc::new(client_config(certificates));
    let (arrived, all_arrived) = channel();
    let number = on_each.len();
    let writer = {
        let on_each = on_each.clone();
        thread::spawn(move || {
            cores::pin_thread(gettid(), cores::SERVER);
            let open = |_| {
                let (socket, _) = listener.accept().expect("a connection");
                socket.set_nodelay(true).expect("no delay");
                let tls = ServerConnection::new(server.clone()).expect("TLS");
                StreamOwned::new(tls, socket)
            };
            let streams: Vec<_> = (0..number).map(open).collect();
            write(streams, &on_each, updates, &all_arrived)
        })
    };
    let reader = thread::spawn(move || {
        cores::pin_thread(gettid(), cores::CLIENT);
        let open = |_| {
            let socket = TcpStream::connect(address).expect("the listener");
            let name = ServerName::try_from("127.0.0.1").expect("a name");
            let tls = ClientConnection::new(client.clone(), name).expect("TLS");
            StreamOwned::new(tls, socket)
        };
        let streams: Vec<_> = (0..number).map(open).collect();
        read(streams, &on_each, updates, &arrived);
    });
    let spent = writer.join().expect("the writer");
    reader.join().expect("the reader");
    spent.as_secs_f64() * 1e6 / (watchers * updates) as f64
}

/// Returns the CPU time of all updates except the first, which includes the
/// handshakes.
fn write(
    mut streams: Vec<StreamOwned<ServerConnection, TcpStream>>,
    on_each: &[usize],
    updates: usize,
    all_arrived: &Receiver<()>,
) -> Duration {
    let now = || clock_gettime(ClockId::ThreadCPUTime);
    // A long answer is read from memory, not from the processor's cache.
    let body = vec![b'x'; on_each.iter().copied().max().unwrap_or_default()];
    let mut before = now();
    for update in 0..=updates {
        if update == 1 {
            before = now();
        }
        for (stream, bytes) in streams.iter_mut().zip(on_each) {
            for piece in body[..*bytes].chunks(PIECE) {
                stream.write_all(piece).expect("written");
            }
            stream.flush().expect("written");
        }
        all_arrived.recv().expect("the reader");
    }
    Duration::try_from(now() - before).expect("time goes on")
}

fn read(
    mut streams: Vec<StreamOwned<ClientConnection, TcpStream>>,
    on_each: &[usize],
    updates: usize,
    arrived: &Sender<()>,
) {
    let mut buffer = vec![0; PIECE];
    for _ in 0..=updates {
        for (stream, bytes) in streams.iter_mut().zip(on_each) {
            let mut left = *bytes;
            while left > 0 {
                let most = left.min(PIECE);
                left -= stream.read(&mut buffer[..most]).expect("bytes");
            }
        }
        arrived.send(()).expect("the writer");
    }
}

pub fn server_config(serving: &Pair) -> ServerConfig {
    let chain = CertificateDer::pem_file_iter(&serving.cert).expect("a certificate");
    let chain = chain.map(|c| c.expect("a certificate")).collect();
    let key = PrivateKeyDer::from_pem_file(&serving.key).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS versions")
        .with_no_client_auth();
    builder.with_single_cert(chain, key).expect("a pair")
}

fn client_config(certificates: &Certificates) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_file_iter(&certificates.cluster.cert).expect("a CA") {
        roots.add(root.expect("a CA")).expect("a CA");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}
