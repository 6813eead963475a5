//! The TLS peer of a connection: certificates as presented, and what has been
//! found out about them.

use std::ops::RangeInclusive;
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::pki_types::{CertificateDer, UnixTime};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::ca_bundle::{CaBundle, ChainError};
use super::client_certificate::Subject;

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

/// Whether the chain holds for a bundle: signature checks cost more than the rest
/// of a small request, and a connection carries many. Clients of the API server
/// are no front proxies, which each request would find out anew.
#[derive(Clone, Debug)]
struct Finding {
    bundle: u64,
    /// Unix seconds in which nothing begins or ceases to be valid.
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

    /// The subject of the leaf, if the chain holds for `bundle` at `now`.
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

    /// The time around `now` in which all certificates, those of the bundle too,
    /// stay valid or not as they are. `None` if one cannot be read.
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
