//! `authentication`, `authorization` and `identity`: how callers are
//! authenticated and authorized, and how the upstream learns the user.

use std::path::PathBuf;
use std::time::Duration;

use apifront_upstream::ClientCert;
use apifront_watch_cache::Settings;

use super::check::Check;
use super::degraded::preload_rbac;
use super::raw;
use super::upstream::client_cert;
use crate::authz::{CachedRbacUse, ConstrainedImpersonation};

/// The rights with which requests are made.
#[derive(Clone, Debug, PartialEq)]
pub enum Access {
    /// The rights of the process itself, those of its kubeconfig: personal and demo
    /// mode. No caller is authenticated, so every listener is on loopback.
    Owner,
    /// The caller's own rights.
    Delegated(Box<Delegated>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Delegated {
    pub authentication: Authentication,
    pub authorization: Authorization,
    pub identity: Identity,
    /// The client certificate for aggregated backends, whatever the identity mode.
    pub proxy_client: Option<ClientCert>,
}

/// At least one authenticator is configured.
#[derive(Clone, Debug, PartialEq)]
pub struct Authentication {
    pub client_ca_file: Option<PathBuf>,
    pub token_review: Option<TokenReview>,
    pub request_header: Option<RequestHeader>,
    pub anonymous: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenReview {
    pub success_ttl: Duration,
    pub failure_ttl: Duration,
}

/// Header names are in lower case.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestHeader {
    pub client_ca_file: PathBuf,
    /// Empty means any common name.
    pub allowed_names: Vec<String>,
    pub username_headers: Vec<String>,
    pub uid_headers: Vec<String>,
    pub group_headers: Vec<String>,
    pub extra_headers_prefixes: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authorization {
    pub allow_ttl: Duration,
    pub deny_ttl: Duration,
    pub cached_rbac: CachedRbacUse,
    pub constrained_impersonation: ConstrainedImpersonation,
}

/// The way in which a forwarded request names its user.
#[derive(Clone, Debug, PartialEq)]
pub enum Identity {
    /// `X-Remote-*` headers over a connection with this certificate.
    RequestHeader(ClientCert),
    /// `Impersonate-*` headers with the upstream's own credentials.
    Impersonate,
    /// The caller's bearer token.
    PassThrough,
}

const CACHED_RBAC: &str = "authorization.cachedRBAC";

impl Access {
    /// Adds the resources that authorization needs to the preloaded ones.
    pub(super) fn preload(&self, cache: &mut Settings, check: &mut Check) {
        let authorization = self.delegated().map(|delegated| &delegated.authorization);
        if authorization.is_some_and(|by| by.cached_rbac == CachedRbacUse::Allow) {
            preload_rbac(CACHED_RBAC, cache, check);
        }
    }

    pub fn delegated(&self) -> Option<&Delegated> {
        match self {
            Self::Owner => None,
            Self::Delegated(delegated) => Some(delegated),
        }
    }
}

impl Delegated {
    /// `None` after an error was noted.
    pub(super) fn check(raw: &raw::FrontConfiguration, check: &mut Check) -> Option<Self> {
        let authentication = Authentication::check(&raw.authentication, check);
        let sar = &raw.authorization.subject_access_review;
        let authorization = Authorization {
            allow_ttl: check.duration(
                "authorization.subjectAccessReview.allowTTL",
                &sar.allow_ttl,
                Duration::from_secs(10),
            ),
            deny_ttl: check.duration(
                "authorization.subjectAccessReview.denyTTL",
                &sar.deny_ttl,
                Duration::from_secs(10),
            ),
            cached_rbac: check.one_of(
                CACHED_RBAC,
                &raw.authorization.cached_rbac,
                CachedRbacUse::Disabled,
                &[
                    ("Disabled", CachedRbacUse::Disabled),
                    ("Allow", CachedRbacUse::Allow),
                ],
            ),
            constrained_impersonation: check.one_of(
                "authorization.constrainedImpersonation",
                &raw.authorization.constrained_impersonation,
                ConstrainedImpersonation::Auto,
                &[
                    ("Auto", ConstrainedImpersonation::Auto),
                    ("Enabled", ConstrainedImpersonation::Enabled),
                    ("Disabled", ConstrainedImpersonation::Disabled),
                ],
            ),
        };
        let aggregates = raw.aggregation.api_services.is_some();
        let identity = Identity::check(&raw.identity, aggregates, check)?;
        let proxy_client = match &identity {
            Identity::RequestHeader(cert) => Some(cert.clone()),
            Identity::Impersonate | Identity::PassThrough => client_cert(
                (
                    "identity.proxyClientCertFile",
                    &raw.identity.proxy_client_cert_file,
                ),
                (
                    "identity.proxyClientKeyFile",
                    &raw.identity.proxy_client_key_file,
                ),
                check,
            ),
        };
        if identity == Identity::PassThrough {
            // These callers have no token that could be passed on.
            for (field, value) in [
                (
                    "authentication.clientCAFile",
                    &raw.authentication.client_ca_file,
                ),
                (
                    "authentication.requestHeader.clientCAFile",
                    &raw.authentication.request_header.client_ca_file,
                ),
            ] {
                if let Some(value) = value {
                    check.error(
                        field,
                        value,
                        "cannot be combined with identity.mode PassThrough, which forwards \
                         bearer tokens alone",
                    );
                }
            }
        }
        Some(Self {
            authentication,
            authorization,
            identity,
            proxy_client,
        })
    }
}

impl Authentication {
    fn check(raw: &raw::Authentication, check: &mut Check) -> Self {
        let token_review = TokenReview::check(&raw.token_review, check);
        let checked = Self {
            client_ca_file: check.file("authentication.clientCAFile", &raw.client_ca_file),
            token_review,
            request_header: RequestHeader::check(&raw.request_header, check),
            anonymous: raw.anonymous.enabled.unwrap_or(false),
        };
        if raw.client_ca_file.is_none()
            && checked.token_review.is_none()
            && raw.request_header.client_ca_file.is_none()
            && !checked.anonymous
        {
            check.error(
                "authentication",
                "",
                "nobody could log in: set clientCAFile, tokenReview, requestHeader or anonymous",
            );
        }
        checked
    }
}

impl TokenReview {
    fn check(raw: &raw::TokenReview, check: &mut Check) -> Option<Self> {
        let checked = Self {
            success_ttl: check.duration(
                "authentication.tokenReview.successTTL",
                &raw.success_ttl,
                Duration::from_secs(10),
            ),
            failure_ttl: check.duration(
                "authentication.tokenReview.failureTTL",
                &raw.failure_ttl,
                Duration::from_secs(10),
            ),
        };
        raw.enabled.unwrap_or(true).then_some(checked)
    }
}

impl RequestHeader {
    fn check(raw: &raw::RequestHeader, check: &mut Check) -> Option<Self> {
        const SECTION: &str = "authentication.requestHeader";
        let mut headers = |name: &str, raw: &Option<Vec<String>>, default: &str| {
            let field = format!("{SECTION}.{name}");
            check.header_names(&field, raw, default)
        };
        let username_headers = headers("usernameHeaders", &raw.username_headers, "X-Remote-User");
        let uid_headers = headers("uidHeaders", &raw.uid_headers, "X-Remote-Uid");
        let group_headers = headers("groupHeaders", &raw.group_headers, "X-Remote-Group");
        let extra_headers_prefixes = headers(
            "extraHeadersPrefixes",
            &raw.extra_headers_prefixes,
            "X-Remote-Extra-",
        );
        if raw.client_ca_file.is_none() {
            let set_without_ca = raw.allowed_names.as_ref().is_some_and(|n| !n.is_empty());
            if set_without_ca {
                check.error(
                    "authentication.requestHeader.clientCAFile",
                    "",
                    "needed with allowedNames",
                );
            }
            return None;
        }
        if username_headers.is_empty() {
            check.error(
                "authentication.requestHeader.usernameHeaders",
                "[]",
                "needs at least one header name",
            );
        }
        Some(Self {
            client_ca_file: check.file(
                "authentication.requestHeader.clientCAFile",
                &raw.client_ca_file,
            )?,
            allowed_names: raw.allowed_names.clone().unwrap_or_default(),
            username_headers,
            uid_headers,
            group_headers,
            extra_headers_prefixes,
        })
    }
}

#[derive(Clone, Copy)]
enum IdentityMode {
    RequestHeader,
    Impersonate,
    PassThrough,
}

impl Identity {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::RequestHeader(_) => "RequestHeader",
            Self::Impersonate => "Impersonate",
            Self::PassThrough => "PassThrough",
        }
    }

    /// With aggregated backends, every mode may have the certificate.
    fn check(raw: &raw::Identity, aggregates: bool, check: &mut Check) -> Option<Self> {
        let mode = check.one_of(
            "identity.mode",
            &raw.mode,
            IdentityMode::RequestHeader,
            &[
                ("RequestHeader", IdentityMode::RequestHeader),
                ("Impersonate", IdentityMode::Impersonate),
                ("PassThrough", IdentityMode::PassThrough),
            ],
        );
        let cert = ("identity.proxyClientCertFile", &raw.proxy_client_cert_file);
        let key = ("identity.proxyClientKeyFile", &raw.proxy_client_key_file);
        match mode {
            IdentityMode::RequestHeader => {
                if cert.1.is_none() && key.1.is_none() {
                    for (field, _) in [cert, key] {
                        check.error(
                            field,
                            "",
                            "needed by identity.mode RequestHeader \
                             (other modes are Impersonate and PassThrough)",
                        );
                    }
                }
                client_cert(cert, key, check).map(Self::RequestHeader)
            }
            IdentityMode::Impersonate | IdentityMode::PassThrough => {
                for (field, value) in [cert, key] {
                    if let Some(value) = value
                        && !aggregates
                    {
                        check.error(field, value, "belongs to identity.mode RequestHeader");
                    }
                }
                Some(match mode {
                    IdentityMode::PassThrough => Self::PassThrough,
                    _ => Self::Impersonate,
                })
            }
        }
    }
}
