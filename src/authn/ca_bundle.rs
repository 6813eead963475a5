//! The CAs (certificate authorities) that must have issued client certificates.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{CertificateError, DistinguishedName};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Version;

use super::{chain_paths, x509_v1};

/// The most certificates that a caller may present. Real chains have two or three,
/// and each one more is work for the path builder.
pub const MAX_CHAIN: usize = 16;

#[derive(Debug, thiserror::Error)]
pub enum CaBundleError {
    #[error("{origin}: not PEM: {cause}")]
    Pem { origin: String, cause: String },
    #[error("{origin}: certificate {number} cannot be read: {cause}")]
    Certificate {
        origin: String,
        number: usize,
        cause: String,
    },
    #[error("{origin}: holds no certificate")]
    Empty { origin: String },
}

/// The reason why a chain is not accepted. It is logged, but never shown to the
/// caller.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ChainError {
    #[error("the chain is empty or longer than {MAX_CHAIN} certificates")]
    Length,
    #[error("the chain's certificates can be put together in too many ways")]
    ManyPaths,
    #[error("the certificate cannot be read: {0}")]
    Unreadable(String),
    #[error("not issued by a known authority")]
    UnknownIssuer,
    #[error("{0}")]
    Refused(rustls::Error),
}

/// A checked bundle. Each authority has its own verifier, so that one that is
/// expired or may not sign is left out. Go checks trust anchors in this way;
/// `webpki` itself does not.
#[derive(Debug)]
pub struct CaBundle {
    id: u64,
    authorities: Vec<Authority>,
}

#[derive(Debug)]
struct Authority {
    subject: DistinguishedName,
    not_before: i64,
    not_after: i64,
    may_sign_clients: bool,
    certificate: CertificateDer<'static>,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl CaBundle {
    /// Reads a PEM bundle; `origin` names it in errors.
    pub fn from_pem(pem: &[u8], origin: &str) -> Result<Self, CaBundleError> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let mut authorities = Vec::new();
        for (at, certificate) in CertificateDer::pem_slice_iter(pem).enumerate() {
            let certificate = certificate.map_err(|e| CaBundleError::Pem {
                origin: origin.to_owned(),
                cause: e.to_string(),
            })?;
            let authority =
                Authority::new(certificate).map_err(|cause| CaBundleError::Certificate {
                    origin: origin.to_owned(),
                    number: at.saturating_add(1),
                    cause,
                })?;
            authorities.push(authority);
        }
        if authorities.is_empty() {
            return Err(CaBundleError::Empty {
                origin: origin.to_owned(),
            });
        }
        Ok(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            authorities,
        })
    }

    /// Returns the bundle's ID, which changes with every reload.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the Unix seconds at which authorities begin or cease to be valid.
    pub fn changes(&self) -> impl Iterator<Item = i64> + '_ {
        let authorities = self.authorities.iter();
        authorities.flat_map(|a| [a.not_before, a.not_after.saturating_add(1)])
    }

    /// Returns the names that the server sends to help a client choose a
    /// certificate.
    pub fn subjects(&self) -> impl Iterator<Item = DistinguishedName> + '_ {
        self.authorities.iter().map(|a| a.subject.clone())
    }

    /// Checks that `chain` (leaf first) leads to an authority of this bundle,
    /// is valid at `now`, and is meant for client authentication.
    ///
    /// The rules are those of Go's `x509.Certificate.Verify` with
    /// `ExtKeyUsageClientAuth`: a certificate without extended key usages is
    /// good for every use.
    pub fn verify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<(), ChainError> {
        let Some((leaf, intermediates)) = chain.split_first() else {
            return Err(ChainError::Length);
        };
        if chain.len() > MAX_CHAIN {
            return Err(ChainError::Length);
        }
        if !chain_paths::are_few(chain) {
            return Err(ChainError::ManyPaths);
        }
        let mut best = ChainError::UnknownIssuer;
        for authority in self.authorities.iter().filter(|a| a.is_usable(now)) {
            match authority
                .verifier
                .verify_client_cert(leaf, intermediates, now)
            {
                Ok(_) => return Ok(()),
                Err(_) if x509_v1::issued_by(leaf, &authority.certificate, now) => {
                    return Ok(());
                }
                Err(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {}
                Err(error) => best = ChainError::Refused(error),
            }
        }
        Err(best)
    }
}

impl Authority {
    fn new(certificate: CertificateDer<'static>) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).map_err(|e| e.to_string())?;
        let subject = roots.subjects().pop().ok_or("no subject")?;
        let verifier = WebPkiClientVerifier::builder_with_provider(
            Arc::new(roots),
            Arc::new(ring::default_provider()),
        )
        .build()
        .map_err(|e| e.to_string())?;
        let (_, parsed) = X509Certificate::from_der(&certificate).map_err(|e| e.to_string())?;
        let validity = parsed.validity();
        Ok(Self {
            subject,
            not_before: validity.not_before.timestamp(),
            not_after: validity.not_after.timestamp(),
            may_sign_clients: may_sign_clients(&parsed),
            certificate,
            verifier,
        })
    }

    fn is_usable(&self, now: UnixTime) -> bool {
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        self.may_sign_clients && self.not_before <= now && now <= self.not_after
    }
}

/// Tells whether an authority may sign client certificates. The rules are RFC 5280
/// 4.2.1.3 and 4.2.1.9, and Go's: an authority's extended key usages restrict those
/// of the certificates below it.
fn may_sign_clients(authority: &X509Certificate<'_>) -> bool {
    let is_ca = match authority.basic_constraints() {
        Ok(Some(constraints)) => constraints.value.ca,
        Ok(None) => authority.version() != X509Version::V3,
        Err(_) => false,
    };
    let may_sign = match authority.key_usage() {
        Ok(usage) => usage.is_none_or(|u| u.value.key_cert_sign()),
        Err(_) => false,
    };
    let for_clients = match authority.extended_key_usage() {
        Ok(usage) => usage.is_none_or(|u| u.value.client_auth || u.value.any),
        Err(_) => false,
    };
    is_ca && may_sign && for_clients
}
