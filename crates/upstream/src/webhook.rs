//! POSTs to the server of a webhook's kubeconfig. kube-apiserver's own webhooks
//! are configured in the same way.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use http::header::{ACCEPT, CONTENT_TYPE};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;

use super::certificates::certificate_only;
use super::{Credentials, HeaderSource, Server, SettingsError};

/// kube-apiserver's timeout for all webhooks.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(30);

/// The most bytes of an answer that are read. The answer is not needed, but its
/// connection can be reused once it has been read.
const MAX_ANSWER: usize = 64 << 10;

pub struct WebhookClient {
    client: kube::Client,
    headers: HeaderSource,
    /// The path of the kubeconfig's URL, with the timeout that client-go sends
    /// along.
    path: String,
}

impl WebhookClient {
    pub async fn from_kubeconfig(file: &Path) -> Result<Self, SettingsError> {
        let server = Server::from_kubeconfig(file, None, &Credentials::Own).await?;
        let url = server.own.cluster_url.clone();
        let wrong = |error: String| SettingsError::Transport {
            server: url.to_string(),
            error,
        };
        let path = match url.path().trim_end_matches('/') {
            "" => "/",
            path => path,
        };
        let headers = HeaderSource::new(&server.own).map_err(|e| wrong(e.to_string()))?;
        let mut config = certificate_only(&server.own);
        config.cluster_url = root(&url).map_err(|e| wrong(e.to_string()))?;
        config.connect_timeout = Some(WEBHOOK_TIMEOUT);
        Ok(Self {
            client: kube::Client::try_from(config).map_err(|e| wrong(e.to_string()))?,
            headers,
            path: format!("{path}?timeout={}s", WEBHOOK_TIMEOUT.as_secs()),
        })
    }

    /// POSTs a JSON object. Any answer but a success is an error.
    pub async fn post(&self, body: Bytes) -> Result<(), String> {
        let post = async {
            let mut request = http::Request::post(&self.path)
                .header(ACCEPT, "application/json, */*")
                .header(CONTENT_TYPE, "application/json")
                .body(Body::from(body))
                .map_err(|e| e.to_string())?;
            let own = self.headers.headers(request.headers()).await;
            let own = own.map_err(|e| e.to_string())?;
            for (name, value) in &own {
                request.headers_mut().append(name, value.clone());
            }
            let response = self.client.send(request).await.map_err(|e| e.to_string())?;
            let status = response.status();
            // The webhook has received the object even if its answer breaks
            // off.
            let _read = Limited::new(response.into_body(), MAX_ANSWER)
                .collect()
                .await;
            if status.is_success() {
                Ok(())
            } else {
                Err(format!("the webhook answered {status}"))
            }
        };
        match tokio::time::timeout(WEBHOOK_TIMEOUT, post).await {
            Ok(result) => result,
            Err(_) => Err(format!("no answer within {WEBHOOK_TIMEOUT:?}")),
        }
    }
}

fn root(url: &Uri) -> Result<Uri, http::Error> {
    let mut parts = url.clone().into_parts();
    parts.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
    Ok(Uri::from_parts(parts)?)
}
