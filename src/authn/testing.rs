//! Certificates and an API server for tests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use apifront_upstream::review::{ReviewClient, ReviewError};
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, DnValue, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::CertificateDer;

use super::{CaBundle, Peer};

pub(crate) const VERSION_ONE_CA: &str = include_str!("testdata/version-one-ca.pem");
pub(crate) const VERSION_ONE: &str = include_str!("testdata/version-one.pem");
pub(crate) const VERSION_ONE_KEY: &str = include_str!("testdata/version-one.key");

pub(crate) struct Authority {
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

pub(crate) struct Certified {
    pub chain: Vec<CertificateDer<'static>>,
    pub pem: String,
    pub key_pem: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        Self::with(name, |_| {})
    }

    pub(crate) fn with(name: &str, change: impl FnOnce(&mut CertificateParams)) -> Self {
        let params = Self::params(name, change);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            pem,
            issuer: Issuer::new(params, key),
        }
    }

    fn params(name: &str, change: impl FnOnce(&mut CertificateParams)) -> CertificateParams {
        let mut params = subject(&[(&[2, 5, 4, 3], name)]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        change(&mut params);
        params
    }

    pub(crate) fn bundle(&self) -> Arc<CaBundle> {
        Arc::new(CaBundle::from_pem(self.pem.as_bytes(), "test").unwrap())
    }

    pub(crate) fn client(&self, attributes: &[(&[u64], &str)]) -> Certified {
        self.issue(attributes, |_| {})
    }

    pub(crate) fn issue(
        &self,
        attributes: &[(&[u64], &str)],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Certified {
        let mut params = subject(attributes);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Certified {
            chain: vec![certificate.der().clone()],
            pem: certificate.pem(),
            key_pem: key.serialize_pem(),
        }
    }

    pub(crate) fn intermediate(&self, name: &str) -> (Self, CertificateDer<'static>) {
        let params = Self::params(name, |_| {});
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let authority = Self {
            pem: certificate.pem(),
            issuer: Issuer::new(params, key),
        };
        (authority, certificate.der().clone())
    }
}

impl Certified {
    pub(crate) fn peer(&self) -> Peer {
        Peer::new(self.chain.clone())
    }
}

/// Makes a subject. rcgen keeps only one value for each kind of attribute. So every
/// second organization is written with a custom OID, which counts as another kind.
fn subject(attributes: &[(&[u64], &str)]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    for (at, (oid, value)) in attributes.iter().enumerate() {
        let known = if *oid == [2, 5, 4, 10] && at.is_multiple_of(2) {
            DnType::OrganizationName
        } else {
            DnType::CustomDnType(oid.to_vec())
        };
        params
            .distinguished_name
            .push(known, DnValue::Utf8String((*value).to_owned()));
    }
    params
}

pub(crate) fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(
            name,
            http::HeaderValue::from_bytes(value.as_bytes()).unwrap(),
        );
    }
    headers
}

type Answers = dyn Fn(&str, &serde_json::Value) -> Result<(u16, String), ReviewError> + Send + Sync;

/// An API server that answers reviews by a function, and records them.
pub(crate) struct FakeApiServer {
    answers: Box<Answers>,
    pub calls: AtomicUsize,
    pub asked: Mutex<Vec<serde_json::Value>>,
}

impl FakeApiServer {
    pub(crate) fn new(
        answers: impl Fn(&str, &serde_json::Value) -> Result<(u16, String), ReviewError>
        + Send
        + Sync
        + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            answers: Box::new(answers),
            calls: AtomicUsize::new(0),
            asked: Mutex::default(),
        })
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl ReviewClient for FakeApiServer {
    async fn create_review(
        &self,
        path: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), ReviewError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        // Lets other tasks ask meanwhile.
        tokio::task::yield_now().await;
        let object: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let (code, answer) = (self.answers)(path, &object)?;
        self.asked.lock().unwrap().push(object);
        Ok((StatusCode::from_u16(code).unwrap(), answer.into()))
    }
}
