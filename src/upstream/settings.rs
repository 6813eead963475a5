//! Which API servers, with which credentials: from a kubeconfig or a list.

use std::path::{Path, PathBuf};

use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;

use super::exec;
use super::kubeconfig::{self, KubeconfigFieldError};
use crate::config::upstream::Timing;

/// The identity shown upstream on connections that carry callers' requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// Those of apifront itself.
    Own,
    /// The front-proxy client certificate, which lets us name callers.
    FrontProxy {
        cert_file: PathBuf,
        key_file: PathBuf,
    },
    /// None: each request carries its caller's own token.
    None,
}

/// One API server.
#[derive(Clone, Debug)]
pub struct Server {
    /// For reflectors, reviews and health checks.
    pub own: kube::Config,
    /// For callers' requests.
    pub forward: kube::Config,
    /// Both show the same credentials.
    pub(super) forwards_as_own: bool,
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub servers: Vec<Server>,
    pub timing: Timing,
}

#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("kubeconfig {file:?}: {error}")]
    Kubeconfig {
        file: PathBuf,
        error: Box<kube::config::KubeconfigError>,
    },
    #[error(transparent)]
    KubeconfigField(#[from] KubeconfigFieldError),
    #[error("kubeconfig {file:?}: exec credential plugin: {error}")]
    Exec {
        file: PathBuf,
        error: exec::ExecError,
    },
    #[error("{field}: cannot read {file:?}: {error}")]
    Read {
        field: &'static str,
        file: PathBuf,
        error: std::io::Error,
    },
    #[error("{field}: {file:?} holds no PEM certificate")]
    NoCertificate { field: &'static str, file: PathBuf },
    #[error("{field}: {file:?} holds no PEM private key")]
    NoKey { field: &'static str, file: PathBuf },
    #[error("upstream server {server:?}: {error}")]
    Transport { server: String, error: String },
}

impl Server {
    /// The server that a kubeconfig's context names, by default its current one.
    pub async fn from_kubeconfig(
        file: &Path,
        context: Option<&str>,
        forward: &Credentials,
    ) -> Result<Self, SettingsError> {
        let wrong = |error| SettingsError::Kubeconfig {
            file: file.to_owned(),
            error: Box::new(error),
        };
        let kubeconfig = Kubeconfig::read_from(file).map_err(wrong)?;
        kubeconfig::check(file, &kubeconfig, context)?;
        let options = KubeConfigOptions {
            context: context.map(str::to_owned),
            ..KubeConfigOptions::default()
        };
        let mut own = kube::Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .map_err(wrong)?;
        exec::resolve_certificate(&mut own.auth_info)
            .await
            .map_err(|error| SettingsError::Exec {
                file: file.to_owned(),
                error,
            })?;
        Self::with_forward(own, forward)
    }

    /// A server given by its address and files.
    pub fn from_files(
        url: http::Uri,
        ca_file: Option<&Path>,
        cert_and_key: Option<(&Path, &Path)>,
        token_file: Option<&Path>,
        forward: &Credentials,
    ) -> Result<Self, SettingsError> {
        let mut own = kube::Config::new(url);
        if let Some(file) = ca_file {
            own.root_cert = Some(certificates("upstream.caFile", file)?);
        }
        if let Some((cert_file, key_file)) = cert_and_key {
            certificates("upstream.clientCertFile", cert_file)?;
            private_key("upstream.clientKeyFile", key_file)?;
        }
        if let Some(file) = token_file {
            read("upstream.tokenFile", file)?;
        }
        let text = |p: &Path| p.to_string_lossy().into_owned();
        own.auth_info = AuthInfo {
            client_certificate: cert_and_key.map(|(c, _)| text(c)),
            client_key: cert_and_key.map(|(_, k)| text(k)),
            token_file: token_file.map(text),
            ..AuthInfo::default()
        };
        Self::with_forward(own, forward)
    }

    fn with_forward(
        mut own: kube::Config,
        credentials: &Credentials,
    ) -> Result<Self, SettingsError> {
        // Answers pass through as they are; a retry is the caller's business.
        own.default_retry = false;
        own.disable_compression = true;
        let mut forward = own.clone();
        match credentials {
            Credentials::Own => {}
            Credentials::None => forward.auth_info = AuthInfo::default(),
            Credentials::FrontProxy {
                cert_file,
                key_file,
            } => {
                certificates("identity.proxyClientCertFile", cert_file)?;
                private_key("identity.proxyClientKeyFile", key_file)?;
                forward.auth_info = AuthInfo {
                    client_certificate: Some(cert_file.to_string_lossy().into_owned()),
                    client_key: Some(key_file.to_string_lossy().into_owned()),
                    ..AuthInfo::default()
                };
            }
        }
        Ok(Self {
            own,
            forward,
            forwards_as_own: *credentials == Credentials::Own,
        })
    }
}

fn certificates(field: &'static str, file: &Path) -> Result<Vec<Vec<u8>>, SettingsError> {
    let pem = read(field, file)?;
    let found: Vec<_> = super::transport::pem_certificates(&pem);
    if found.is_empty() {
        return Err(SettingsError::NoCertificate {
            field,
            file: file.to_owned(),
        });
    }
    Ok(found)
}

fn private_key(field: &'static str, file: &Path) -> Result<(), SettingsError> {
    let pem = read(field, file)?;
    match PrivateKeyDer::from_pem_slice(&pem) {
        Ok(_) => Ok(()),
        Err(_) => Err(SettingsError::NoKey {
            field,
            file: file.to_owned(),
        }),
    }
}

fn read(field: &'static str, file: &Path) -> Result<Vec<u8>, SettingsError> {
    std::fs::read(file).map_err(|error| SettingsError::Read {
        field,
        file: file.to_owned(),
        error,
    })
}
