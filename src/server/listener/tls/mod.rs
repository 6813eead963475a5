//! TLS of the secure port: the server's certificates, and the client's
//! certificate, which is kept for the authenticator.

pub mod certificates;
pub mod client_certificates;
mod tickets;

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use pingora_core::listeners::TlsAccept;
use pingora_core::listeners::tls::{Acceptor, TlsSettings};
use pingora_core::protocols::tls::TlsRef;
use pingora_core::{ErrorType, OrErr};
use rustls::ServerConfig;
use rustls::server::NoServerSessionStorage;
use rustls::version::{TLS12, TLS13};
use tokio_rustls::TlsAcceptor;

use crate::authn::Peer;

pub use certificates::{CertificateError, CertificateFiles, ServerCertificates};
pub use client_certificates::AnyClientCertificate;
use tickets::Tickets;

/// The tickets that a connection gives its client, to resume its session once each.
/// Go's servers give one, too.
const TICKETS: usize = 1;

/// Returns the acceptor of a listener, which shakes hands. It prefers h2, allows
/// http/1.1, and requires TLS 1.2 or newer.
///
/// Sessions have a [`Peer`] in
/// `session.digest().ssl_digest.extension.get::<Peer>()`. That of a resumed session is
/// in its ticket, and the authenticator checks it as any other.
///
/// rustls would keep the last 256 sessions in memory, which is of no use to a herd.
/// Tickets are kept by clients, and their key only by this process.
pub fn acceptor(
    certificates: Arc<ServerCertificates>,
    clients: Arc<AnyClientCertificate>,
) -> pingora_core::Result<Acceptor> {
    let mut settings = TlsSettings::with_callbacks(Box::new(KeepPeer))?;
    settings.set_cert_resolver(certificates.clone());
    // Only pingora's settings take callbacks, and they have no place for tickets. So
    // the acceptor that they build gets another configuration.
    let mut acceptor = settings.build();
    let mut config = ServerConfig::builder_with_protocol_versions(&[&TLS12, &TLS13])
        .with_client_cert_verifier(clients)
        .with_cert_resolver(certificates);
    config.alpn_protocols = [&b"h2"[..], b"http/1.1"].map(<[u8]>::to_vec).into();
    config.ticketer =
        Arc::new(Tickets::new().explain_err(ErrorType::InternalError, |e| e.to_string())?);
    config.send_tls13_tickets = TICKETS;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    acceptor.acceptor = TlsAcceptor::from(Arc::new(config));
    Ok(acceptor)
}

/// Keeps the client's chain for the authenticator.
struct KeepPeer;

#[async_trait]
impl TlsAccept for KeepPeer {
    async fn handshake_complete_callback(
        &self,
        tls: &TlsRef,
    ) -> Option<Arc<dyn Any + Send + Sync>> {
        let chain = tls.peer_cert_chain_der().unwrap_or_default();
        Some(Arc::new(Peer::new(chain.to_vec())))
    }
}

#[cfg(test)]
mod tests;
