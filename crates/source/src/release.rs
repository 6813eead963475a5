//! Reads the release of Kubernetes in the answer to `/version`.

use http::{Response, StatusCode};
use kubernetes_wire::api::Release;

use crate::{BodyLimit, ResponseBody};

/// The path whose answer tells the release.
pub const VERSION: &str = "/version";

/// Returns the release that an answer to [`VERSION`] tells.
pub async fn release_in(answer: Response<ResponseBody>) -> Option<Release> {
    if answer.status() != StatusCode::OK {
        return None;
    }
    let body = answer.into_body().collect_bytes(BodyLimit::DOCUMENT);
    Release::of_server(&body.await.ok()?)
}
