//! The headers that prove who we are upstream.

use http::{HeaderMap, Request, Response};
use kube::client::{Body, ConfigExt};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceBuilder, ServiceExt};

const IMPERSONATE_USER: &str = "impersonate-user";
const IMPERSONATE_PREFIX: &str = "impersonate-";

/// Gives the credential headers of a kubeconfig user, fresh for each request:
/// `Authorization` (token, token file, exec plugin, basic) and the kubeconfig's
/// own impersonation. kube's request layers do the work; the innermost service
/// hands back what they added instead of sending anything.
#[derive(Clone)]
pub struct HeaderSource(Option<BoxCloneSyncService<Request<Body>, Response<HeaderMap>, BoxError>>);

impl HeaderSource {
    pub(super) fn new(config: &kube::Config) -> Result<Self, kube::Error> {
        let auth = config.auth_layer()?;
        let plain = auth.is_none() && config.auth_info.impersonate.is_none();
        if plain {
            return Ok(Self(None));
        }
        let echo = tower::service_fn(|request: Request<Body>| async move {
            Ok::<_, BoxError>(Response::new(request.into_parts().0.headers))
        });
        let service = ServiceBuilder::new()
            .map_err(BoxError::from)
            .option_layer(auth)
            .layer(config.extra_headers_layer()?)
            .service(echo);
        Ok(Self(Some(BoxCloneSyncService::new(service))))
    }

    /// The headers to add to a request that has those of `request`; often
    /// none. One that already asks to act as somebody keeps to that, as in
    /// client-go: groups of two users in one request would make a third.
    pub async fn headers(&self, request: &HeaderMap) -> Result<HeaderMap, BoxError> {
        let Some(service) = &self.0 else {
            return Ok(HeaderMap::new());
        };
        let empty = Request::new(Body::empty());
        let mut own = service.clone().oneshot(empty).await?.into_body();
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
