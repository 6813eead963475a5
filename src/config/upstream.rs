//! `upstream`: the API servers behind apifront.

use std::path::PathBuf;

use apifront_upstream::{ClientCert, Timeouts};
use url::Url;

use super::check::Check;
use super::raw;

/// The CA of the cluster, as pods have it.
const SERVICE_ACCOUNT_CA: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";

#[derive(Clone, Debug, PartialEq)]
pub enum Upstream {
    /// The API server of the demo, whose address the start of the server brings.
    Demo,
    /// Server and credentials of a kubeconfig.
    Kubeconfig {
        path: PathBuf,
        /// `None` means the file's current-context.
        context: Option<String>,
        timing: Timeouts,
    },
    /// API servers of one cluster with one credential.
    Servers {
        /// At least one URL, each with scheme, host and port alone.
        servers: Vec<Url>,
        ca_file: PathBuf,
        client_cert: Option<ClientCert>,
        token_file: Option<PathBuf>,
        timing: Timeouts,
    },
}

impl Upstream {
    pub fn timing(&self) -> Timeouts {
        match self {
            Self::Demo => Timeouts::default(),
            Self::Kubeconfig { timing, .. } | Self::Servers { timing, .. } => *timing,
        }
    }

    /// `None` after an error was noted.
    pub(super) fn check(raw: &raw::Upstream, check: &mut Check) -> Option<Self> {
        let timing = timing(raw, check);
        let servers = check_servers("upstream.servers", &raw.servers, check);
        match (&raw.kubeconfig, servers.is_empty()) {
            (Some(kubeconfig), true) => {
                for (field, set) in [
                    ("upstream.caFile", &raw.ca_file),
                    ("upstream.clientCertFile", &raw.client_cert_file),
                    ("upstream.clientKeyFile", &raw.client_key_file),
                    ("upstream.tokenFile", &raw.token_file),
                ] {
                    if let Some(value) = set {
                        check.error(
                            field,
                            value,
                            "belongs to upstream.servers; a kubeconfig has its own",
                        );
                    }
                }
                Some(Self::Kubeconfig {
                    path: check.needed_file(
                        "upstream.kubeconfig",
                        &Some(kubeconfig.clone()),
                        "",
                    )?,
                    context: raw.context.clone(),
                    timing,
                })
            }
            (None, false) => Self::check_credentials(raw, servers, timing, check),
            (Some(kubeconfig), false) => {
                check.error(
                    "upstream.kubeconfig",
                    kubeconfig,
                    "cannot be combined with upstream.servers",
                );
                None
            }
            (None, true) => {
                if raw.servers.is_none() {
                    check.error("upstream", "", "needs kubeconfig or servers");
                }
                None
            }
        }
    }

    fn check_credentials(
        raw: &raw::Upstream,
        servers: Vec<Url>,
        timing: Timeouts,
        check: &mut Check,
    ) -> Option<Self> {
        if let Some(context) = &raw.context {
            check.error(
                "upstream.context",
                context,
                "belongs to upstream.kubeconfig",
            );
        }
        let client_cert = client_cert(
            ("upstream.clientCertFile", &raw.client_cert_file),
            ("upstream.clientKeyFile", &raw.client_key_file),
            check,
        );
        let ca_file = raw
            .ca_file
            .clone()
            .unwrap_or_else(|| SERVICE_ACCOUNT_CA.to_owned());
        let ca_file = check.needed_file("upstream.caFile", &Some(ca_file), "")?;
        Some(Self::Servers {
            servers,
            ca_file,
            client_cert,
            token_file: check.file("upstream.tokenFile", &raw.token_file),
            timing,
        })
    }
}

fn timing(raw: &raw::Upstream, check: &mut Check) -> Timeouts {
    let default = Timeouts::default();
    Timeouts {
        health_check_interval: check.positive_duration(
            "upstream.healthCheckInterval",
            &raw.health_check_interval,
            default.health_check_interval,
        ),
        connect_timeout: check.positive_duration(
            "upstream.connectTimeout",
            &raw.connect_timeout,
            default.connect_timeout,
        ),
        request_timeout: check.positive_duration(
            "upstream.requestTimeout",
            &raw.request_timeout,
            default.request_timeout,
        ),
    }
}

/// Both files must be named, or neither.
pub(super) fn client_cert(
    (cert_field, cert): (&str, &Option<String>),
    (key_field, key): (&str, &Option<String>),
    check: &mut Check,
) -> Option<ClientCert> {
    match (cert, key) {
        (None, None) => None,
        (Some(_), Some(_)) => {
            let cert_file = check.file(cert_field, cert);
            let key_file = check.file(key_field, key);
            Some(ClientCert {
                cert_file: cert_file?,
                key_file: key_file?,
            })
        }
        (Some(_), None) => {
            check.error(key_field, "", &format!("needed with {cert_field}"));
            None
        }
        (None, Some(_)) => {
            check.error(cert_field, "", &format!("needed with {key_field}"));
            None
        }
    }
}

/// Checks the base URLs of servers. A path or a query is refused, because the
/// request's own would replace it.
pub(super) fn check_servers(field: &str, raw: &Option<Vec<String>>, check: &mut Check) -> Vec<Url> {
    let Some(list) = raw else { return Vec::new() };
    if list.is_empty() {
        check.error(field, "[]", "needs at least one URL");
    }
    let mut urls = Vec::with_capacity(list.len());
    for (i, text) in list.iter().enumerate() {
        match server_url(text) {
            Ok(url) => urls.push(url),
            Err(problem) => check.error(&format!("{field}[{i}]"), text, problem),
        }
    }
    urls
}

fn server_url(text: &str) -> Result<Url, &'static str> {
    let url = Url::parse(text).map_err(|_| "must be a URL like https://10.0.0.1:6443")?;
    let host = url.host().ok_or("must name a host")?;
    let loopback = match host {
        url::Host::Ipv4(ip) => ip.is_loopback(),
        url::Host::Ipv6(ip) => ip.is_loopback(),
        url::Host::Domain(name) => name == "localhost",
    };
    match url.scheme() {
        "https" => {}
        "http" if loopback => {}
        "http" => return Err("must be https; plain http only to a loopback address"),
        _ => return Err("must be https"),
    }
    if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
        return Err("must have neither path nor query");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not contain credentials");
    }
    Ok(url)
}
