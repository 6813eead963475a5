//! Accepts client certificates in the handshake without trusting them.
//!
//! kube-apiserver asks for a certificate, accepts any, and lets the authenticator
//! answer 401 to a certificate that it refuses. A handshake that fails would tell
//! the client nothing, and would not follow a reloaded CA.

use std::sync::OnceLock;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, PeerMisbehaved,
    SignatureScheme,
};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use crate::authn::CaBundle;
use crate::authn::ca_bundle::MAX_CHAIN;
use crate::authn::der::PublicKey;

/// Accepts every certificate, if the client proves that it holds the key.
#[derive(Debug)]
pub struct AnyClientCertificate {
    hints: Hints,
    algorithms: WebPkiSupportedAlgorithms,
}

/// The names of authorities that are sent to clients as hints. rustls borrows the
/// names for as long as the verifier lives. So a reload keeps them and puts newer
/// names into `next`.
#[derive(Debug, Default)]
struct Hints {
    names: Vec<DistinguishedName>,
    next: OnceLock<Box<Hints>>,
}

/// How many sets of names are kept. Reloads after that send no hints, so that
/// clients may offer any certificate.
const MAX_HINTS: usize = 256;

impl AnyClientCertificate {
    /// Makes a verifier that sends the subjects of `bundles` as hints. Nothing is
    /// verified with them. Some clients, such as Go's TLS client, offer only a
    /// certificate that fits a hint.
    pub fn new<'a>(bundles: impl IntoIterator<Item = &'a CaBundle>) -> Self {
        Self {
            hints: Hints {
                names: names(bundles),
                next: OnceLock::new(),
            },
            algorithms: ring::default_provider().signature_verification_algorithms,
        }
    }

    /// Sends the subjects of `bundles` from the next handshake on.
    pub fn reload<'a>(&self, bundles: impl IntoIterator<Item = &'a CaBundle>) {
        let (at, current) = self.hints.last();
        let names = if at.saturating_add(1) < MAX_HINTS {
            names(bundles)
        } else {
            Vec::new()
        };
        let known = current.names.iter().map(DistinguishedName::as_ref);
        if !names.iter().map(DistinguishedName::as_ref).eq(known) {
            // This fails only if another reload runs at the same time.
            let _ = current.next.set(Box::new(Hints {
                names,
                next: OnceLock::new(),
            }));
        }
    }
}

impl Hints {
    fn last(&self) -> (usize, &Self) {
        let mut last = (0usize, self);
        while let Some(next) = last.1.next.get() {
            last = (last.0.saturating_add(1), next);
        }
        last
    }
}

fn names<'a>(bundles: impl IntoIterator<Item = &'a CaBundle>) -> Vec<DistinguishedName> {
    bundles.into_iter().flat_map(CaBundle::subjects).collect()
}

impl ClientCertVerifier for AnyClientCertificate {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints.last().1.names
    }

    /// Refuses only a chain that is too long, and a leaf that cannot be parsed,
    /// because pingora also parses the leaf and expects that to succeed.
    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        key(leaf)?;
        if intermediates.len() >= MAX_CHAIN {
            return Err(CertificateError::BadEncoding.into());
        }
        Ok(ClientCertVerified::assertion())
    }

    /// This and the next function do not use
    /// `rustls::crypto::verify_tls12_signature`, because it parses the certificate
    /// with `webpki`, which refuses version 1.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = key(leaf)?;
        let (_, candidates) = self
            .algorithms
            .mapping
            .iter()
            .find(|(scheme, _)| *scheme == signed.scheme)
            .ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
        let verified = candidates
            .iter()
            .filter(|a| *a.public_key_alg_id() == *key.algorithm)
            .any(|a| {
                a.verify_signature(key.bits, message, signed.signature())
                    .is_ok()
            });
        if !verified {
            return Err(CertificateError::BadSignature.into());
        }
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(key(leaf)?.whole);
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn key<'a>(leaf: &'a CertificateDer<'_>) -> Result<PublicKey<'a>, Error> {
    let (_, parsed) =
        X509Certificate::from_der(leaf.as_ref()).map_err(|_| CertificateError::BadEncoding)?;
    PublicKey::parse(parsed.tbs_certificate.subject_pki.raw)
        .ok_or_else(|| CertificateError::BadEncoding.into())
}
