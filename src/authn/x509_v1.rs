//! X.509 version 1 client certificates.
//!
//! `openssl x509 -req` without an extension file made them for decades. Go accepts
//! them, but `webpki` does not. Only the simple case is handled: a leaf without
//! extensions that an authority of the bundle signed itself.

use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, UnixTime};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Version;

use super::der::{PublicKey, SignedCertificate};

/// Tells whether `leaf` is a version 1 certificate that is valid at `now` and signed
/// by `authority`.
pub(super) fn issued_by(
    leaf: &CertificateDer<'_>,
    authority: &CertificateDer<'_>,
    now: UnixTime,
) -> bool {
    let (Ok((rest, parsed)), Ok((_, issuer))) = (
        X509Certificate::from_der(leaf),
        X509Certificate::from_der(authority),
    ) else {
        return false;
    };
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let validity = parsed.validity();
    rest.is_empty()
        && parsed.version() == X509Version::V1
        && parsed.extensions().is_empty()
        && validity.not_before.timestamp() <= now
        && now <= validity.not_after.timestamp()
        && parsed.issuer().as_raw() == issuer.subject().as_raw()
        // Name constraints would have to be evaluated, so they are refused.
        && matches!(issuer.name_constraints(), Ok(None))
        && signed_by(leaf, issuer.public_key().raw).unwrap_or(false)
}

/// Verifies the signature. `None` if the encoding is not DER.
fn signed_by(certificate: &[u8], public_key: &[u8]) -> Option<bool> {
    let signed = SignedCertificate::parse(certificate)?;
    let key = PublicKey::parse(public_key)?;
    let algorithms = ring::default_provider().signature_verification_algorithms;
    let verified = algorithms
        .all
        .iter()
        .filter(|a| *a.signature_alg_id() == *signed.algorithm)
        .filter(|a| *a.public_key_alg_id() == *key.algorithm)
        .any(|a| {
            a.verify_signature(key.bits, signed.to_be_signed, signed.signature)
                .is_ok()
        });
    Some(verified)
}
