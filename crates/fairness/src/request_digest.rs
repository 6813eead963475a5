//! The digest by which a request is classified (KEP-1040): what is requested, and
//! by whom.

use kubernetes_wire::api::UserInfo;
use kubernetes_wire::request::RequestInfo;

/// A request that can be classified. Classifications keep it, because dumps show
/// the words of requests in flight.
pub trait RequestDigest: Send + Sync {
    fn info(&self) -> &RequestInfo;

    /// Returns the caller, if it is known.
    fn user(&self) -> Option<&UserInfo>;
}

impl RequestDigest for (RequestInfo, UserInfo) {
    fn info(&self) -> &RequestInfo {
        &self.0
    }

    fn user(&self) -> Option<&UserInfo> {
        Some(&self.1)
    }
}
