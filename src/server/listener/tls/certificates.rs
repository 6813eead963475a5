//! The server's own certificates: a default one, and others for the server name that
//! a client asks for (SNI). A reload reads the files again.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

/// A certificate chain and its key, both PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The chain of `--tls-cert-file`, with the leaf first.
    pub certificate: PathBuf,
    /// The key of `--tls-private-key-file`, as PKCS#8, PKCS#1 or SEC1.
    pub key: PathBuf,
    /// The server names of the certificate, including wildcards like
    /// `*.example.com`. If empty, the names in the certificate are used. The default
    /// certificate needs no names.
    pub names: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("{path}: {cause}")]
    Read { path: String, cause: std::io::Error },
    #[error("{path}: {cause}")]
    Pem { path: String, cause: String },
    #[error("{path}: holds no certificate")]
    NoCertificate { path: String },
    #[error("{certificate}: is not for the key in {key}: {cause}")]
    Mismatch {
        certificate: String,
        key: String,
        cause: String,
    },
}

/// The certificates that [`ResolvesServerCert`] chooses from.
#[derive(Debug)]
struct Loaded {
    default: Arc<CertifiedKey>,
    /// The other certificates by lower-case name; wildcards are kept as
    /// `*.example.com`.
    by_name: HashMap<String, Arc<CertifiedKey>>,
}

pub struct ServerCertificates {
    loaded: ArcSwap<Loaded>,
}

impl fmt::Debug for ServerCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerCertificates").finish_non_exhaustive()
    }
}

impl ServerCertificates {
    pub fn load(
        default: &CertificateFiles,
        sni: &[CertificateFiles],
    ) -> Result<Self, CertificateError> {
        let loaded = Loaded::read(default, sni)?;
        Ok(Self {
            loaded: ArcSwap::from_pointee(loaded),
        })
    }

    /// Uses the certificates of `fresh` from now on.
    pub fn replace(&self, fresh: &Self) {
        self.loaded.store(fresh.loaded.load_full());
    }

    fn choose(&self, server_name: Option<&str>) -> Arc<CertifiedKey> {
        let loaded = self.loaded.load();
        let named = server_name.and_then(|name| {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            let wildcard = name
                .split_once('.')
                .map(|(_, parent)| format!("*.{parent}"));
            let by_name = &loaded.by_name;
            by_name
                .get(&name)
                .or_else(|| by_name.get(wildcard.as_deref()?))
        });
        named.unwrap_or(&loaded.default).clone()
    }
}

impl ResolvesServerCert for ServerCertificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.choose(hello.server_name()))
    }
}

impl Loaded {
    fn read(
        default: &CertificateFiles,
        sni: &[CertificateFiles],
    ) -> Result<Self, CertificateError> {
        let mut by_name = HashMap::new();
        for files in sni {
            let certified = Arc::new(read(files)?);
            let names = if files.names.is_empty() {
                dns_names(&certified)
            } else {
                files.names.clone()
            };
            for name in names {
                // As with kube-apiserver's --tls-sni-cert-key, the first certificate
                // for a name wins.
                by_name
                    .entry(name.to_ascii_lowercase())
                    .or_insert_with(|| certified.clone());
            }
        }
        Ok(Self {
            default: Arc::new(read(default)?),
            by_name,
        })
    }
}

fn read(files: &CertificateFiles) -> Result<CertifiedKey, CertificateError> {
    let path = files.certificate.display().to_string();
    let pem = contents(&files.certificate)?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|e| CertificateError::Pem {
            path: path.clone(),
            cause: e.to_string(),
        })?;
    if chain.is_empty() {
        return Err(CertificateError::NoCertificate { path });
    }
    let key_path = files.key.display().to_string();
    let key = PrivateKeyDer::from_pem_slice(&contents(&files.key)?).map_err(|e| {
        CertificateError::Pem {
            path: key_path.clone(),
            cause: format!("no private key: {e}"),
        }
    })?;
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|e| {
        CertificateError::Mismatch {
            certificate: path,
            key: key_path,
            cause: e.to_string(),
        }
    })
}

fn contents(path: &Path) -> Result<Vec<u8>, CertificateError> {
    std::fs::read(path).map_err(|cause| CertificateError::Read {
        path: path.display().to_string(),
        cause,
    })
}

/// Returns the DNS names of the leaf, or its common name if it has none, as
/// kube-apiserver does for `--tls-sni-cert-key`.
fn dns_names(certified: &CertifiedKey) -> Vec<String> {
    let Some(Ok((_, leaf))) = certified.cert.first().map(|c| X509Certificate::from_der(c)) else {
        return Vec::new();
    };
    let mut names: Vec<String> = match leaf.subject_alternative_name() {
        Ok(Some(alternatives)) => alternatives
            .value
            .general_names
            .iter()
            .filter_map(|name| match name {
                GeneralName::DNSName(name) => Some((*name).to_owned()),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    };
    if names.is_empty() {
        let common = leaf.subject().iter_common_name();
        names.extend(common.filter_map(|n| n.as_str().ok()).map(str::to_owned));
    }
    names
}
