//! The TLS peer of a connection: certificates as presented, and what has been
//! found out about them.

use std::sync::Arc;

use parking_lot::Mutex;
use rustls::pki_types::{CertificateDer, UnixTime};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::ca_bundle::{CaBundle, ChainError};
use super::subject::Subject;

/// Findings kept per connection: one for the client CA, one for the front
/// proxy CA, and as many again while both are being replaced. Older ones go.
const MAX_FINDINGS: usize = 4;

/// Who is at the other end of a connection. The certificates are **not**
/// verified by the handshake: only [`Peer::verify`] says whether they hold.
#[derive(Debug, Default)]
pub struct Peer {
    certificates: Vec<CertificateDer<'static>>,
    findings: Mutex<Vec<Finding>>,
}

/// A chain that held: signature checks cost more than the rest of a small
/// request, and a connection carries many.
#[derive(Clone, Debug)]
struct Finding {
    bundle: u64,
    not_before: i64,
    not_after: i64,
    subject: Arc<Subject>,
}

impl Peer {
    /// `certificates` are DER, the leaf first.
    pub fn new(certificates: Vec<CertificateDer<'static>>) -> Self {
        Self {
            certificates,
            findings: Mutex::default(),
        }
    }

    /// A peer without a certificate, or without TLS.
    pub fn unknown() -> Self {
        Self::default()
    }

    pub fn has_certificate(&self) -> bool {
        !self.certificates.is_empty()
    }

    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.certificates
    }

    /// The subject of the leaf, if the chain holds for `bundle` at `now`.
    pub fn verify(&self, bundle: &CaBundle, now: UnixTime) -> Result<Arc<Subject>, ChainError> {
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let known = self.findings.lock().iter().find_map(|f| {
            let holds = f.bundle == bundle.id() && (f.not_before..=f.not_after).contains(&seconds);
            holds.then(|| f.subject.clone())
        });
        if let Some(subject) = known {
            return Ok(subject);
        }
        bundle.verify(&self.certificates, now)?;
        let leaf = self.certificates.first().ok_or(ChainError::Length)?;
        let subject = Arc::new(Subject::parse(leaf)?);
        if let Some((not_before, not_after)) = self.validity() {
            let mut findings = self.findings.lock();
            findings.retain(|f| f.bundle != bundle.id());
            if findings.len() >= MAX_FINDINGS {
                findings.remove(0);
            }
            findings.push(Finding {
                bundle: bundle.id(),
                not_before,
                not_after: not_after.min(bundle.usable_until(now)),
                subject: subject.clone(),
            });
        }
        Ok(subject)
    }

    /// When every certificate presented is valid.
    fn validity(&self) -> Option<(i64, i64)> {
        let mut both = (i64::MIN, i64::MAX);
        for certificate in &self.certificates {
            let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
            let validity = parsed.validity();
            both.0 = both.0.max(validity.not_before.timestamp());
            both.1 = both.1.min(validity.not_after.timestamp());
        }
        Some(both)
    }
}
