//! Treats requests for the group versions of backends as kube-apiserver's aggregator
//! does (kube-aggregator, `handler_proxy.go`), and refuses changes of the configuration's
//! APIServices.

use std::time::Duration;

use apifront_upstream::long_running::LongRunningBody;
use bytes::Bytes;
use http::header::LOCATION;
use http::{HeaderMap, Method, StatusCode, request, response};
use hyper::Response;
use kubernetes_wire::api::{Reason, Status};

use super::AnswerRefusal;
use crate::aggregation::{InFlight, api_service_objects};
use crate::flow::RETRY_AFTER;
use crate::server::reply::answer::Answer;
use crate::server::reply::refusal;
use crate::server::stage::forwarded::{Authority, Forward};
use crate::server::stage::{Identified, NotGranted, PendingGrant, Received};

/// How long a backend may take to answer a discovery request.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);
const TEXT: &str = "text/plain; charset=utf-8";
const UNAVAILABLE: &str = "service unavailable";
pub(super) const REDIRECTED: &str =
    "the backend attempted to redirect this request, which is not permitted";

/// Answers 503 if the backend is not available and the request needs recent data. A
/// read that accepts old data goes on to the cache, which may still have it.
pub(in crate::server) async fn before_cache(
    request: &request::Parts,
    grant: &mut PendingGrant<'_>,
) -> Option<Answer> {
    let received = grant.identified().clone();
    let remote = received.remote()?;
    let version = received.query().get("resourceVersion");
    let may_be_old = version.is_some_and(|v| !v.is_empty());
    let reads = request.method == Method::GET;
    if remote.availability.is_available() || may_be_old && reads {
        return None;
    }
    match refusal::unless_granted(request, grant).await {
        Ok(_) => Some(text(StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE)),
        Err(refused) => refused,
    }
}

/// Returns the server that authorizes a forwarded request. For a request to a
/// backend, also returns its slot among the backend's requests in flight. A backend
/// trusts that the caller is authorized, so it only gets requests with a grant. The
/// error is the answer to the caller.
pub(in crate::server) async fn authority(
    request: &request::Parts,
    grant: &mut PendingGrant<'_>,
) -> Result<(Authority, Option<InFlight>), Answer> {
    let identified = grant.identified().clone();
    let say = |status: &Status| Answer::from_status(status, &request.headers, identified.query());
    if let Some(status) = changes_ours(&identified) {
        // A caller without the right to write the object learns only that.
        return Err(match grant.ask().await {
            Err(NotGranted::Refused(refused)) => say(&refused),
            Err(NotGranted::OnlyUpstream) | Ok(_) => say(&status),
        });
    }
    let Some(remote) = identified.remote() else {
        return Ok((Authority::Upstream(identified), None));
    };
    let granted = grant.ask().await.map_err(|ungranted| match ungranted {
        NotGranted::Refused(refused) => say(&refused),
        NotGranted::OnlyUpstream => say(&Status::failure(
            403,
            Reason::Forbidden,
            "extension API servers cannot be asked on behalf of an impersonated user here",
        )),
    })?;
    if !remote.availability.is_available() {
        return Err(text(StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE));
    }
    if identified.info().is_long_running() {
        return Ok((Authority::Backend(granted), None));
    }
    let in_flight = remote.backend.admit(granted.user()).map_err(|exceeded| {
        let metrics = &identified.generation().metrics.flow.forwarded;
        metrics.rejected_for_backend(exceeded);
        Answer::too_many_requests(RETRY_AFTER)
    })?;
    Ok((Authority::Backend(granted), Some(in_flight)))
}

/// Returns the refusal of a write to a configured APIService, because the write
/// could have no effect.
fn changes_ours(identified: &Identified) -> Option<Status> {
    let info = identified.info();
    let of_api_services = info.gvr.group == api_service_objects::GROUP
        && info.gvr.resource == api_service_objects::RESOURCE
        && info.is_mutating();
    if !of_api_services {
        return None;
    }
    let registered = identified.generation().aggregation.registered();
    let ours = registered.iter().find(|r| r.service.name == info.name)?;
    Some(api_service_objects::read_only(&ours.service))
}

/// Returns the timeout for a backend's discovery document. Discovery documents are
/// small, and all clients wait for them.
pub(in crate::server) fn timeout(received: &Received) -> Option<Duration> {
    received.route()?;
    let info = received.info();
    let is_discovery =
        !info.is_resource_request && info.path.trim_matches('/').split('/').count() == 3;
    is_discovery.then_some(DISCOVERY_TIMEOUT)
}

/// Records the status of a backend's answer, and refuses a redirect.
pub(super) fn answered(head: &response::Parts, forward: &Forward) -> Result<(), AnswerRefusal> {
    let (Some(_), Some(endpoint)) = (forward.route(), forward.tried.last()) else {
        return Ok(());
    };
    let upstream = &forward.upstream;
    upstream.answered(endpoint, head.status.as_u16());
    match is_redirect(head.status, &head.headers) {
        true => Err(AnswerRefusal::Redirect),
        false => Ok(()),
    }
}

/// Checks a backend's answer that did not come through pingora.
pub(in crate::server) fn checked(
    response: Response<LongRunningBody>,
    forward: &Forward,
) -> Result<Response<LongRunningBody>, Answer> {
    let status = response.status();
    if forward.route().is_none() {
        return Ok(response);
    }
    let upgrading = forward.upgrade().is_some();
    if upgrading && status.as_u16() < 400 && status != StatusCode::SWITCHING_PROTOCOLS {
        let why = format!("invalid upgrade response: status code {}", status.as_u16());
        return Err(unreachable(&why));
    }
    if !upgrading && is_redirect(status, response.headers()) {
        return Err(redirected());
    }
    Ok(response)
}

/// Returns the answer for a refused redirect. It differs from that of `http.Error`,
/// because it replaces the backend's answer.
pub(super) fn redirected() -> Answer {
    Answer::new(StatusCode::BAD_GATEWAY, TEXT, vec![REDIRECTED.into()])
}

/// Tells whether an answer would send clients, with their credentials, to an address
/// that the backend chooses.
fn is_redirect(status: StatusCode, headers: &HeaderMap) -> bool {
    status.is_redirection() && headers.contains_key(LOCATION)
}

pub(in crate::server) fn unreachable(why: &str) -> Answer {
    text(StatusCode::SERVICE_UNAVAILABLE, why)
}

/// Makes an error as Go's `http.Error` writes it. The aggregator's own errors are
/// not a Status.
fn text(status: StatusCode, body: &str) -> Answer {
    let body = vec![Bytes::from(format!("{body}\n"))];
    Answer::new(status, TEXT, body).without_sniffing()
}
