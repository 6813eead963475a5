//! The TLS peer of a connection: its certificates, and the results of verifying
//! them.

use std::ops::RangeInclusive;
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::pki_types::{CertificateDer, UnixTime};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::ca_bundle::{CaBundle, ChainError};
use super::client_certificate::Subject;

/// The most findings per connection: one for the client CA, one for the front
/// proxy's CA, and two more while both are being replaced. The oldest go first.
const MAX_FINDINGS: usize = 4;

/// The other end of a connection. The handshake does **not** verify the
/// certificates: only [`Peer::verify`] does.
#[derive(Debug, Default)]
pub struct Peer {
    certificates: Vec<CertificateDer<'static>>,
    findings: Mutex<Vec<Finding>>,
}

/// The result of verifying the chain against a bundle. It is kept because a
/// connection carries many requests, and signature checks cost more than the rest of
/// a small request. Failures are kept too: most clients are no front proxies, and
/// each request would verify that again.
#[derive(Clone, Debug)]
struct Finding {
    bundle: u64,
    /// The Unix seconds around the check in which no certificate begins or ceases to
    /// be valid.
    within: RangeInclusive<i64>,
    found: Result<Arc<Subject>, ChainError>,
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

    /// Returns the leaf's subject, if the chain is valid for `bundle` at `now`.
    pub fn verify(&self, bundle: &CaBundle, now: UnixTime) -> Result<Arc<Subject>, ChainError> {
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let known = self.findings.lock().iter().find_map(|f| {
            let holds = f.bundle == bundle.id() && f.within.contains(&seconds);
            holds.then(|| f.found.clone())
        });
        if let Some(found) = known {
            return found;
        }
        let found = self.find(bundle, now);
        if let Some(within) = self.unchanged(bundle, seconds) {
            let mut findings = self.findings.lock();
            findings.retain(|f| f.bundle != bundle.id());
            if findings.len() >= MAX_FINDINGS {
                findings.remove(0);
            }
            findings.push(Finding {
                bundle: bundle.id(),
                within,
                found: found.clone(),
            });
        }
        found
    }

    fn find(&self, bundle: &CaBundle, now: UnixTime) -> Result<Arc<Subject>, ChainError> {
        bundle.verify(&self.certificates, now)?;
        let leaf = self.certificates.first().ok_or(ChainError::Length)?;
        Ok(Arc::new(Subject::parse(leaf)?))
    }

    /// Returns the time around `now` in which no certificate of the chain or the
    /// bundle begins or ceases to be valid. `None` if a certificate is malformed.
    fn unchanged(&self, bundle: &CaBundle, now: i64) -> Option<RangeInclusive<i64>> {
        let (mut from, mut until) = (i64::MIN, i64::MAX);
        let mut at = |change: i64| {
            if change <= now {
                from = from.max(change);
            } else {
                until = until.min(change.saturating_sub(1));
            }
        };
        for certificate in &self.certificates {
            let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
            let validity = parsed.validity();
            at(validity.not_before.timestamp());
            at(validity.not_after.timestamp().saturating_add(1));
        }
        bundle.changes().for_each(at);
        Some(from..=until)
    }
}
