//! Answers discovery from memory (`crate::discovery`), and refuses requests for APIs
//! that `apis.runtimeConfig` hides.
//!
//! The other requests are forwarded: those for documents that upstream does not
//! have, those whose error upstream's router words, and those that only upstream can
//! read.

use std::sync::Arc;

use http::header::{
    ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, IF_NONE_MATCH, VARY,
};
use http::{HeaderMap, Method, StatusCode, request};
use kubernetes_wire::api::Query;
use kubernetes_wire::negotiation::{
    self, Aggregated, DiscoveryNegotiation, DiscoveryOffer, DiscoveryRepresentation, accepts_gzip,
    negotiate_discovery,
};
use kubernetes_wire::request::Deadline;

use crate::discovery::{Discovery, DiscoveryPath, EncodedDocument, Found, Missing};
use crate::server::offload::OffloadUser;
use crate::server::reply::answer::Answer;
use crate::server::reply::refusal;
use crate::server::stage::context::CacheResult;
use crate::server::stage::{Granted, NotGranted, PendingGrant, Received};

/// The headers from which upstream takes the client's address
/// (`utilnet.GetClientIP`). The server's address in `/api` depends on it.
const CLIENT_ADDRESS: [HeaderName; 2] = [
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-real-ip"),
];

/// The size above which documents are made by the room `offload`.
const LARGE_DOCUMENT_BYTES: usize = 64 << 10;

/// Answers a request for discovery. Returns `None` if the request is not about
/// discovery, or must be forwarded.
pub(in crate::server) async fn answer(
    request: &request::Parts,
    grant: &mut PendingGrant<'_>,
) -> Option<Answer> {
    let received = grant.identified().clone();
    let info = received.info();
    if info.is_resource_request || received.deadline() == Deadline::Unclear {
        return None;
    }
    let path = DiscoveryPath::parse(request.uri.path())?;
    let known = &received.generation().discovery;
    if let DiscoveryPath::Version(version) = &path
        && let Some(missing) = known.hidden(version)
    {
        return match refusal::unless_granted(request, grant).await {
            Ok(_) => Some(not_found(missing, request, &received)),
            Err(refused) => refused,
        };
    }
    let headers = &request.headers;
    let is_upstreams = known.is_upstreams(&path);
    let mut representation = negotiate(&path, headers, received.query(), true, is_upstreams)?;
    // The router's paths accept only GET. The other paths accept any method.
    if is_routed(&path) && info.method != Method::GET {
        return None;
    }
    let aggregated = |r: Option<DiscoveryRepresentation>| r.and_then(|r| r.aggregated);
    let by_address =
        path == DiscoveryPath::Api && CLIENT_ADDRESS.iter().any(|name| headers.contains_key(name));
    if by_address && aggregated(representation).is_none() {
        return None;
    }
    // There are many documents of versions, and a caller reads most of them just
    // once.
    let of_version = matches!(path, DiscoveryPath::Version(_));
    if of_version && !known.changes_documents() && grant.is_first_read() {
        return None;
    }
    let granted = match refusal::unless_granted(request, grant).await {
        Ok(granted) => granted,
        Err(refused) => return refused,
    };
    let known = &granted.generation().discovery;
    // Only upstream knows whether it still serves this version.
    if aggregated(representation) == Some(Aggregated::V2Beta1)
        && !known.serves_v2beta1(&path).await?
    {
        representation = negotiate(&path, headers, received.query(), false, is_upstreams)?;
        if by_address && aggregated(representation).is_none() {
            return None;
        }
    }
    found(request, &granted, &path, representation).await
}

/// Returns the document in the form that the client accepts, or the answer if there
/// is none.
async fn found(
    request: &request::Parts,
    granted: &Granted,
    path: &DiscoveryPath,
    representation: Option<DiscoveryRepresentation>,
) -> Option<Answer> {
    let headers = &request.headers;
    let known = &granted.generation().discovery;
    let everything = representation.and_then(|representation| representation.aggregated);
    match known.find(path, everything).await {
        Found::Document(encoded) => {
            let answer = match representation {
                Some(representation) => {
                    write(&encoded, representation, headers, OffloadUser::new(granted)).await?
                }
                // Upstream's error lists the forms that it offers, which may include
                // CBOR.
                None if known.is_upstreams(path) && !wants_changed_cbor(known, headers) => {
                    return None;
                }
                None => {
                    let status = negotiation::not_acceptable(false);
                    Answer::from_status(&status, headers, granted.query())
                }
            };
            Some(answer.out_of(CacheResult::Document))
        }
        Found::Missing(missing) => Some(not_found(missing, request, granted)),
        Found::Elsewhere => None,
    }
}

/// Refuses a request for a hidden resource as if the resource did not exist.
pub(in crate::server) async fn refuse_hidden(
    request: &request::Parts,
    grant: &mut PendingGrant<'_>,
) -> Option<Answer> {
    let received = grant.identified().clone();
    let info = received.info();
    let generation = received.generation();
    let config = &generation.settings.runtime_config;
    if !info.is_resource_request || config.is_resource_enabled(&info.gvr) {
        return None;
    }
    if let Err(NotGranted::Refused(status)) = grant.ask().await {
        return Some(Answer::from_status(
            &status,
            &request.headers,
            received.query(),
        ));
    }
    let missing = generation.discovery.missing(&info.gvr.group_version());
    Some(not_found(missing, request, &received))
}

fn not_found(missing: Missing, request: &request::Parts, received: &Received) -> Answer {
    match missing {
        Missing::Page => Answer::new(
            StatusCode::NOT_FOUND,
            "text/plain; charset=utf-8",
            vec!["404 page not found\n".into()],
        )
        .without_sniffing(),
        Missing::Status => {
            let status = refusal::no_such_resource();
            Answer::from_status(&status, &request.headers, received.query())
        }
    }
}

/// Tells whether go-restful's router handles the path before the handler does. Among
/// group paths, only that of the aggregator's own group belongs to the router.
fn is_routed(path: &DiscoveryPath) -> bool {
    match path {
        DiscoveryPath::Api | DiscoveryPath::Version(_) => true,
        DiscoveryPath::Apis | DiscoveryPath::ApisSlash => false,
        DiscoveryPath::Group(group) => group == "apiregistration.k8s.io",
    }
}

/// Returns the wanted representation, or `Some(None)` if no representation is
/// acceptable. Returns `None` if upstream must answer.
fn negotiate(
    path: &DiscoveryPath,
    headers: &HeaderMap,
    query: &Query,
    v2beta1: bool,
    is_upstreams: bool,
) -> Option<Option<DiscoveryRepresentation>> {
    let offer = DiscoveryOffer {
        aggregated: matches!(path, DiscoveryPath::Api | DiscoveryPath::Apis),
        v2beta1,
        routed: is_routed(path),
        perhaps_more: true,
    };
    match negotiate_discovery(headers, query, offer) {
        DiscoveryNegotiation::Accepted(representation) => Some(Some(representation)),
        // Upstream words the router's errors at its own paths.
        DiscoveryNegotiation::NotAcceptable if !offer.routed || !is_upstreams => Some(None),
        DiscoveryNegotiation::NotAcceptable | DiscoveryNegotiation::Unknown => None,
    }
}

/// Tells whether upstream might answer with a CBOR document that shows other APIs
/// than the documents here.
fn wants_changed_cbor(known: &Discovery, headers: &HeaderMap) -> bool {
    let names_cbor = |accept: &HeaderValue| {
        let accept = accept.as_bytes().to_ascii_lowercase();
        accept.windows(4).any(|four| four == b"cbor")
    };
    known.changes_documents() && headers.get_all(ACCEPT).iter().any(names_cbor)
}

/// Makes the answer. Returns `None` if the document has no exact form in that
/// encoding.
async fn write(
    encoded: &Arc<EncodedDocument>,
    wanted: DiscoveryRepresentation,
    headers: &HeaderMap,
    by: OffloadUser<'_>,
) -> Option<Answer> {
    let content_type = wanted.content_type();
    let etag = encoded.etag().map(HeaderValue::from_str);
    let etag = etag
        .transpose()
        .ok()?
        .filter(|_| wanted.aggregated.is_some());
    if let Some(etag) = &etag
        && headers.get(IF_NONE_MATCH) == Some(etag)
    {
        let mut answer = Answer::new(StatusCode::NOT_MODIFIED, content_type, Vec::new());
        answer.headers.remove(CONTENT_TYPE);
        tag(&mut answer, etag);
        return Some(answer);
    }
    let (media_type, pretty) = (wanted.media_type, wanted.pretty);
    let gzip = accepts_gzip(headers);
    let make = move |encoded: &EncodedDocument| {
        let body = encoded.body(media_type, pretty);
        (
            body,
            gzip.then(|| encoded.gzip(media_type, pretty)).flatten(),
        )
    };
    let (body, compressed) =
        if encoded.size() <= LARGE_DOCUMENT_BYTES || encoded.is_ready(media_type, pretty, gzip) {
            make(encoded)
        } else {
            let encoded = encoded.clone();
            by.run(move || make(&encoded)).await.ok()??
        };
    let mut answer = Answer::new(StatusCode::OK, content_type, vec![body?]);
    if let Some(etag) = &etag {
        tag(&mut answer, etag);
    }
    if let Some(compressed) = compressed {
        answer.body = vec![compressed];
        let headers = &mut answer.headers;
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    Some(answer)
}

/// Sets the headers that k8s.io/apiserver `ServeHTTPWithETag` sets.
fn tag(answer: &mut Answer, etag: &HeaderValue) {
    let headers = &mut answer.headers;
    headers.insert(ETAG, etag.clone());
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(
        http::header::CACHE_CONTROL,
        HeaderValue::from_static("public"),
    );
}
