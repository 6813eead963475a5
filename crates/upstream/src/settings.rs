//! The API servers and their credentials, from a kubeconfig or a list of
//! servers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kubernetes_wire::api::user::MASTERS;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;

use super::exec_certificate;
use super::kubeconfig::{self, KubeconfigFieldError};
use crate::Timeouts;

/// A client certificate and its key, PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCert {
    pub cert_file: PathBuf,
    pub key_file: PathBuf,
}

/// The identity that connections with callers' requests show to upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// apifront's own identity.
    Own,
    /// The front-proxy client certificate, which allows apifront to name
    /// callers in headers.
    FrontProxy(ClientCert),
    /// No identity: each request carries its caller's own token.
    None,
}

/// One API server.
#[derive(Clone, Debug)]
pub struct Server {
    /// The configuration for reflectors, reviews and health checks.
    pub own: kube::Config,
    /// The configuration for callers' requests.
    pub forward: kube::Config,
    /// True if `own` and `forward` have the same credentials.
    pub(super) forwards_as_own: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub servers: Vec<Server>,
    pub timing: Timeouts,
    /// Connections of different groups are never shared, even to one address.
    pub group: u64,
    pub outliers: OutlierDetection,
}

/// When to pass over a server that answers with errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutlierDetection {
    /// The number of consecutive errors after which a server is passed over; 0
    /// for never.
    pub consecutive_errors: u32,
    pub ejection_time: Duration,
}

/// The address, trust and credentials for the server of an aggregated API.
#[derive(Clone, Copy, Debug)]
pub struct BackendSettings<'a> {
    /// The name in the server's certificate.
    pub server_name: &'a str,
    /// PEM. If empty, the system's certificate authorities are used.
    pub ca_bundle: &'a [u8],
    pub insecure_skip_tls_verify: bool,
    /// The certificate that allows apifront to name callers.
    pub proxy_client: &'a ClientCert,
}

/// apifront's identity for its own requests to a backend. The aggregator of
/// kube-apiserver uses the same one (kube-aggregator, `handler_discovery.go`).
const AGGREGATOR: [(&str, &str); 2] = [
    ("x-remote-user", "system:kube-aggregator"),
    ("x-remote-group", MASTERS),
];

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
        error: exec_certificate::ExecError,
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
    /// Reads the server that a kubeconfig's context names, by default the
    /// current context.
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
        exec_certificate::resolve_certificate(&mut own.auth_info)
            .await
            .map_err(|error| SettingsError::Exec {
                file: file.to_owned(),
                error,
            })?;
        Self::with_forward(own, forward)
    }

    /// Builds a server from its address and files.
    pub fn from_files(
        url: http::Uri,
        ca_file: Option<&Path>,
        client_cert: Option<&ClientCert>,
        token_file: Option<&Path>,
        forward: &Credentials,
    ) -> Result<Self, SettingsError> {
        let mut own = kube::Config::new(url);
        if let Some(file) = ca_file {
            own.root_cert = Some(certificates("upstream.caFile", file)?);
        }
        if let Some(client) = client_cert {
            certificates("upstream.clientCertFile", &client.cert_file)?;
            private_key("upstream.clientKeyFile", &client.key_file)?;
        }
        if let Some(file) = token_file {
            read("upstream.tokenFile", file)?;
        }
        let text = |p: &Path| p.to_string_lossy().into_owned();
        own.auth_info = AuthInfo {
            client_certificate: client_cert.map(|c| text(&c.cert_file)),
            client_key: client_cert.map(|c| text(&c.key_file)),
            token_file: token_file.map(text),
            ..AuthInfo::default()
        };
        Self::with_forward(own, forward)
    }

    /// Builds the server of an aggregated API. Headers name the caller, or
    /// apifront itself; the server trusts them because of the client
    /// certificate.
    pub fn of_backend(url: http::Uri, backend: BackendSettings<'_>) -> Result<Self, SettingsError> {
        let mut own = kube::Config::new(url);
        own.tls_server_name = Some(backend.server_name.to_owned());
        own.accept_invalid_certs = backend.insecure_skip_tls_verify;
        if !backend.ca_bundle.is_empty() {
            let found = super::pem::certificates_in(backend.ca_bundle);
            if found.is_empty() {
                return Err(SettingsError::Transport {
                    server: own.cluster_url.to_string(),
                    error: "spec.caBundle holds no PEM certificate".to_owned(),
                });
            }
            own.root_cert = Some(found);
        }
        let credentials = Credentials::FrontProxy(backend.proxy_client.clone());
        let mut server = Self::with_forward(own, &credentials)?;
        server.own = server.forward.clone();
        server.own.headers = AGGREGATOR
            .map(|(name, value)| {
                let name = http::HeaderName::from_static(name);
                (name, http::HeaderValue::from_static(value))
            })
            .to_vec();
        Ok(server)
    }

    fn with_forward(
        mut own: kube::Config,
        credentials: &Credentials,
    ) -> Result<Self, SettingsError> {
        // Answers are forwarded unchanged, and the code that sends a request
        // decides about retries.
        own.default_retry = false;
        own.disable_compression = true;
        let mut forward = own.clone();
        match credentials {
            Credentials::Own => {}
            Credentials::None => forward.auth_info = AuthInfo::default(),
            Credentials::FrontProxy(client) => {
                certificates("identity.proxyClientCertFile", &client.cert_file)?;
                private_key("identity.proxyClientKeyFile", &client.key_file)?;
                forward.auth_info = AuthInfo {
                    client_certificate: Some(client.cert_file.to_string_lossy().into_owned()),
                    client_key: Some(client.key_file.to_string_lossy().into_owned()),
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
    let found: Vec<_> = super::pem::certificates_in(&pem);
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
