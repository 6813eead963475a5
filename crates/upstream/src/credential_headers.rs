//! The headers that prove apifront's identity to upstream.

use std::sync::Arc;
use std::time::Instant;

use super::token_file::TokenFile;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Request, Response};
use kube::client::{Body, ConfigExt};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceBuilder, ServiceExt};

const IMPERSONATE_USER: &str = "impersonate-user";
const IMPERSONATE_PREFIX: &str = "impersonate-";

/// Gives the credential headers of a kubeconfig user, fresh for each request:
/// `Authorization` (token, token file, exec plugin, basic) and the kubeconfig's
/// own impersonation. kube's request layers do the work; the innermost service
/// returns the headers that they added instead of sending anything. Clones
/// share their state: an exec plugin runs once for all of them.
#[derive(Clone)]
pub struct HeaderSource {
    service: Option<Service>,
    token_file: Option<Arc<TokenFile>>,
}

type Service = BoxCloneSyncService<Request<Body>, Response<HeaderMap>, BoxError>;

impl HeaderSource {
    pub(super) fn new(config: &kube::Config) -> Result<Self, BoxError> {
        let mut config = config.clone();
        // The token file is read here, since kube would send its trailing newline
        // as part of the token.
        let token_file = config
            .auth_info
            .token_file
            .take()
            .map(|path| TokenFile::open(path.into(), Instant::now()).map(Arc::new))
            .transpose()?;
        if token_file.is_some() {
            // The file takes precedence over the token, as in client-go.
            config.auth_info.token = None;
        }
        let auth = config.auth_layer()?;
        let plain =
            auth.is_none() && config.auth_info.impersonate.is_none() && config.headers.is_empty();
        if plain {
            return Ok(Self {
                service: None,
                token_file,
            });
        }
        let echo = tower::service_fn(|request: Request<Body>| async move {
            Ok::<_, BoxError>(Response::new(request.into_parts().0.headers))
        });
        let service = ServiceBuilder::new()
            .map_err(BoxError::from)
            .option_layer(auth)
            .layer(config.extra_headers_layer()?)
            .service(echo);
        Ok(Self {
            service: Some(BoxCloneSyncService::new(service)),
            token_file,
        })
    }

    /// Returns the headers to add to a request that has the headers `request`;
    /// often none. If the request already impersonates somebody, no
    /// impersonation is added, as in client-go: the groups of two users in one
    /// request would make a third user.
    pub async fn headers(&self, request: &HeaderMap) -> Result<HeaderMap, BoxError> {
        let mut own = match &self.service {
            None => HeaderMap::new(),
            Some(service) => {
                let empty = Request::new(Body::empty());
                service.clone().oneshot(empty).await?.into_body()
            }
        };
        if let Some(file) = &self.token_file {
            own.insert(AUTHORIZATION, file.authorization(Instant::now()));
        }
        if request.contains_key(IMPERSONATE_USER) {
            own = own
                .into_iter()
                .scan(None, |last, (name, value)| {
                    *last = name.or(last.take());
                    Some((last.clone()?, value))
                })
                .filter(|(name, _)| !name.as_str().starts_with(IMPERSONATE_PREFIX))
                .collect();
        }
        Ok(own)
    }
}
