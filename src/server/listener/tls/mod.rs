//! TLS of the secure port: the server's certificates, and the client's
//! certificate, which is kept for the authenticator.

pub mod certificates;
pub mod client_certificates;

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use pingora_core::listeners::TlsAccept;
use pingora_core::listeners::tls::TlsSettings;
use pingora_core::protocols::tls::TlsRef;

use crate::authn::Peer;

pub use certificates::{CertificateError, CertificateFiles, ServerCertificates};
pub use client_certificates::AnyClientCertificate;

/// Returns the settings of a listener. It prefers h2, allows http/1.1, and requires
/// TLS 1.2 or newer (pingora offers no older version).
///
/// Sessions have a [`Peer`] in
/// `session.digest().ssl_digest.extension.get::<Peer>()`.
pub fn settings(
    certificates: Arc<ServerCertificates>,
    clients: Arc<AnyClientCertificate>,
) -> pingora_core::Result<TlsSettings> {
    let mut settings = TlsSettings::with_callbacks(Box::new(KeepPeer))?;
    settings.set_cert_resolver(certificates);
    settings.set_client_cert_verifier(clients);
    settings.enable_h2();
    Ok(settings)
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
