//! Makes the parts of a server from a checked configuration, at start and again on
//! every reload.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use apifront_upstream::review::ReviewClient;
use apifront_upstream::{Credentials, Server, Settings, SettingsError};
use apifront_watch_cache::saved::{OpenError, SavedStores};
use kubernetes_wire::api::GroupVersion;
use kubernetes_wire::schema::Schema;
use prometheus::Registry;

use crate::aggregation::{AggregationError, Prepared};
use crate::authn::{
    Authenticator, AuthnMetrics, AuthnSettings, CaBundle, CaBundleError, RequestHeaderNames,
    RequestHeaderSettings, TokenReviewSettings,
};
use crate::authz::rbac::SavedRbac;
use crate::authz::{
    Authorizer, AuthzMetrics, AuthzSettings, ConstrainedImpersonation, DegradedAuthorization,
    ImpersonationAuthorizer,
};
use crate::config::access;
use crate::config::serving::SecureServing;
use crate::config::{self, Config};
use crate::identity;
use crate::metrics::{Metrics, SavedMetrics};
use crate::server::listener::tls::{CertificateError, CertificateFiles};
use crate::server::state::gate::{Delegated, Gate};
use crate::views::ViewsSettings;

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error(transparent)]
    Upstream(#[from] SettingsError),
    #[error("{field}: cannot read {file:?}: {error}")]
    Read {
        field: &'static str,
        file: std::path::PathBuf,
        error: std::io::Error,
    },
    #[error("{field}: {error}")]
    CaBundle {
        field: &'static str,
        error: CaBundleError,
    },
    /// The file in `error` tells which of the fields is wrong.
    #[error("serving (tlsCertFile, tlsPrivateKeyFile, sniCerts): {error}")]
    Certificate { error: CertificateError },
    #[error("cache.directory: {0}")]
    SavedStores(#[from] OpenError),
    #[error(transparent)]
    Metrics(#[from] prometheus::Error),
    #[error("aggregation.apiServices: {0}")]
    Aggregation(#[from] AggregationError),
}

impl From<CertificateError> for BuildError {
    fn from(error: CertificateError) -> Self {
        Self::Certificate { error }
    }
}

/// `demo` is the address of the API server of the demo, if the configuration asks for
/// it and it runs.
pub(in crate::server) async fn upstream(
    config: &Config,
    demo: Option<std::net::SocketAddr>,
) -> Result<Settings, BuildError> {
    let forward = match config.access.delegated().map(|d| &d.identity) {
        None | Some(access::Identity::Impersonate) => Credentials::Own,
        Some(access::Identity::PassThrough) => Credentials::None,
        Some(access::Identity::RequestHeader(client)) => Credentials::FrontProxy(client.clone()),
    };
    let servers = match &config.upstream {
        config::Upstream::Demo => demo
            .into_iter()
            .map(|address| {
                let url = http::Uri::try_from(format!("http://{address}")).map_err(|e| {
                    SettingsError::Transport {
                        server: address.to_string(),
                        error: e.to_string(),
                    }
                })?;
                Server::from_files(url, None, None, None, &forward)
            })
            .collect::<Result<_, _>>()?,
        config::Upstream::Kubeconfig { path, context, .. } => {
            vec![Server::from_kubeconfig(path, context.as_deref(), &forward).await?]
        }
        config::Upstream::Servers {
            servers,
            ca_file,
            client_cert,
            token_file,
            ..
        } => servers
            .iter()
            .map(|url| {
                let uri =
                    http::Uri::try_from(url.as_str()).map_err(|e| SettingsError::Transport {
                        server: url.to_string(),
                        error: e.to_string(),
                    })?;
                Server::from_files(
                    uri,
                    Some(ca_file),
                    client_cert.as_ref(),
                    token_file.as_deref(),
                    &forward,
                )
            })
            .collect::<Result<_, _>>()?,
    };
    Ok(Settings {
        servers,
        timing: config.upstream.timing(),
        ..Settings::default()
    })
}

pub(in crate::server) fn views(config: &Config) -> Option<ViewsSettings> {
    let views = config.views.as_ref()?;
    Some(ViewsSettings {
        review_ttl: views.review_ttl,
        outage: config.cache.max_staleness,
        max_views: views.max_views,
        max_grants: views.max_grants,
        max_names: views.max_names,
    })
}

pub(in crate::server) fn saved_stores(
    config: &Config,
    registry: &Registry,
) -> Result<Option<SavedStores>, BuildError> {
    let Some(persistence) = &config.cache.persistence else {
        return Ok(None);
    };
    let key_file = persistence.encryption_key_file.as_deref();
    let metrics = SavedMetrics::register(registry, &SavedStores::REFUSALS)?;
    let opened = SavedStores::open(&persistence.directory, key_file, Arc::new(metrics))?;
    Ok(Some(opened))
}

/// Checks the directory of saved stores without changing anything.
pub(in crate::server) fn check_saved_stores(config: &Config) -> Result<(), BuildError> {
    if let Some(persistence) = &config.cache.persistence {
        let key_file = persistence.encryption_key_file.as_deref();
        SavedStores::check(&persistence.directory, key_file)?;
    }
    Ok(())
}

pub(in crate::server) fn aggregation(
    config: &Config,
    metrics: &Metrics,
) -> Result<Prepared, BuildError> {
    let is_built_in = |group_version: &GroupVersion| {
        let api_version = group_version.to_string();
        Schema::builtin().kinds().any(|(of, ..)| of == api_version)
    };
    let prepared = Prepared::new(&config.aggregation, is_built_in, &metrics.upstream)?;
    Ok(prepared)
}

fn bundle(field: &'static str, file: &Path) -> Result<Arc<CaBundle>, BuildError> {
    let pem = std::fs::read(file).map_err(|error| BuildError::Read {
        field,
        file: file.to_owned(),
        error,
    })?;
    CaBundle::from_pem(&pem, &file.to_string_lossy())
        .map(Arc::new)
        .map_err(|error| BuildError::CaBundle { field, error })
}

fn header_names(header: &access::RequestHeader) -> RequestHeaderNames {
    RequestHeaderNames {
        username: header.username_headers.clone(),
        uid: header.uid_headers.clone(),
        group: header.group_headers.clone(),
        extra_prefix: header.extra_headers_prefixes.clone(),
    }
}

/// `max_age` is `cache.degraded.maxAge`, or zero without degraded mode.
fn authn(
    authentication: &access::Authentication,
    max_age: Duration,
) -> Result<AuthnSettings, BuildError> {
    let client_ca = authentication
        .client_ca_file
        .as_deref()
        .map(|file| bundle("authentication.clientCAFile", file))
        .transpose()?;
    let request_header = authentication
        .request_header
        .as_ref()
        .map(|header| {
            Ok::<_, BuildError>(RequestHeaderSettings {
                client_ca: bundle(
                    "authentication.requestHeader.clientCAFile",
                    &header.client_ca_file,
                )?,
                allowed_names: header.allowed_names.clone(),
                names: header_names(header),
            })
        })
        .transpose()?;
    Ok(AuthnSettings {
        client_ca,
        request_header,
        token_review: authentication.token_review.map(|t| TokenReviewSettings {
            success_ttl: t.success_ttl,
            failure_ttl: t.failure_ttl,
            degraded: max_age,
        }),
        anonymous: authentication.anonymous,
    })
}

/// The configured access control, with its files read, but not in force yet.
pub(in crate::server) struct PreparedAccess {
    authn: AuthnSettings,
    authz: AuthzSettings,
    constrained_impersonation: ConstrainedImpersonation,
    front_proxy: Option<RequestHeaderNames>,
    forward_as: identity::Mode,
}

impl PreparedAccess {
    /// Reads the configured access control. Returns `None` if every caller who
    /// reaches the listener acts as apifront's own user.
    pub(in crate::server) fn new(config: &Config) -> Result<Option<Self>, BuildError> {
        let Some(delegated) = config.access.delegated() else {
            return Ok(None);
        };
        let request_header = delegated.authentication.request_header.as_ref();
        let degraded = config.degraded.as_ref().map(|degraded| degraded.bounds);
        let max_age = degraded.map_or(Duration::ZERO, |bounds| bounds.max_age);
        Ok(Some(Self {
            authn: authn(&delegated.authentication, max_age)?,
            authz: AuthzSettings {
                allow_ttl: delegated.authorization.allow_ttl,
                deny_ttl: delegated.authorization.deny_ttl,
                outage: config.cache.max_staleness,
                degraded: degraded.map_or(Duration::ZERO, |bounds| match bounds.authorization {
                    DegradedAuthorization::Cached => bounds.max_age,
                    DegradedAuthorization::Rbac => Duration::ZERO,
                }),
                cached_rbac: delegated.authorization.cached_rbac,
            },
            constrained_impersonation: delegated.authorization.constrained_impersonation,
            front_proxy: request_header.map(header_names),
            forward_as: match &delegated.identity {
                access::Identity::RequestHeader(_) => identity::Mode::RequestHeader,
                access::Identity::Impersonate => identity::Mode::Impersonate,
                access::Identity::PassThrough => identity::Mode::PassThrough,
            },
        }))
    }

    pub(in crate::server) fn client_authorities(&self) -> impl Iterator<Item = &CaBundle> {
        let front_proxy = self.authn.request_header.as_ref().map(|r| &*r.client_ca);
        self.authn
            .client_ca
            .as_deref()
            .into_iter()
            .chain(front_proxy)
    }
}

/// The parts of access control that keep across reloads what they have learnt.
#[derive(Clone)]
pub(in crate::server) struct AccessControl {
    authenticator: Arc<Authenticator>,
    authorizer: Arc<Authorizer>,
    impersonator: Arc<ImpersonationAuthorizer>,
}

impl AccessControl {
    pub(in crate::server) fn new(
        reviews: Arc<dyn ReviewClient>,
        authn_metrics: AuthnMetrics,
        authz_metrics: AuthzMetrics,
        saved: Arc<dyn SavedRbac>,
        release: impl Fn() -> Option<(u32, u32)> + Send + Sync + 'static,
    ) -> Self {
        let settings = AuthzSettings::default();
        let authorizer = Authorizer::new(reviews.clone(), settings, authz_metrics, saved);
        let authorizer = Arc::new(authorizer);
        Self {
            authenticator: Arc::new(Authenticator::new(
                AuthnSettings::default(),
                reviews,
                authn_metrics,
            )),
            impersonator: Arc::new(ImpersonationAuthorizer::new(authorizer.clone(), release)),
            authorizer,
        }
    }

    pub(in crate::server) fn authorizer(&self) -> Arc<Authorizer> {
        self.authorizer.clone()
    }

    /// Forgets what was learnt, because upstream may be another cluster now.
    pub(in crate::server) fn forget(&self) {
        self.authenticator.forget();
        self.authorizer.forget();
    }

    /// Puts the settings in force. This cannot fail.
    pub(in crate::server) fn gate(&self, prepared: Option<PreparedAccess>) -> Gate {
        let Some(prepared) = prepared else {
            return Gate::Owner;
        };
        self.authenticator.reload(prepared.authn);
        self.authorizer.reload(prepared.authz);
        self.impersonator.reload(prepared.constrained_impersonation);
        Gate::Delegated(Box::new(Delegated {
            authenticator: self.authenticator.clone(),
            authorizer: self.authorizer.clone(),
            impersonator: self.impersonator.clone(),
            front_proxy: prepared.front_proxy,
            forward_as: prepared.forward_as,
        }))
    }
}

/// Returns the certificate files of the secure port: the default certificate, and
/// those for server names.
pub(in crate::server) fn certificate_files(
    secure: &SecureServing,
) -> (CertificateFiles, Vec<CertificateFiles>) {
    let default = CertificateFiles {
        certificate: secure.tls_cert_file.clone(),
        key: secure.tls_private_key_file.clone(),
        names: Vec::new(),
    };
    let named = secure
        .sni_certs
        .iter()
        .map(|sni| CertificateFiles {
            certificate: sni.cert_file.clone(),
            key: sni.key_file.clone(),
            names: sni.names.clone(),
        })
        .collect();
    (default, named)
}
