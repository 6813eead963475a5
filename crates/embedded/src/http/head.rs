//! A request without its path and body, and the state that its answer needs.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, header, request::Parts};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use kubernetes_wire::{
    api::{Query, Reason, Status, warning},
    negotiation::{
        DiscoveryOffer, DiscoveryRepresentation, MediaType, Representation, error_encoding,
    },
    representation::whole,
};
use parking_lot::Mutex;

use super::{
    accept::{self, PathTraits},
    reply::{self, Body, full},
};

pub(crate) struct Head {
    /// The name by which the client calls this server.
    pub host: String,
    pub method: Method,
    pub headers: HeaderMap,
    pub query: Query,
    /// The warnings that the answer will carry.
    warnings: Mutex<Vec<HeaderValue>>,
    /// Encoding and layout of the answer, once a handler has negotiated them.
    chosen: Mutex<Option<(MediaType, bool)>>,
}

impl Head {
    pub(crate) fn from_parts(parts: Parts) -> Self {
        let host = parts.headers.get(header::HOST);
        let host = host
            .and_then(|value| value.to_str().ok())
            .or(parts.uri.authority().map(|authority| authority.as_str()))
            .unwrap_or_default()
            .to_owned();
        Self {
            host,
            query: Query::parse(parts.uri.query().unwrap_or_default()),
            method: parts.method,
            headers: parts.headers,
            warnings: Mutex::default(),
            chosen: Mutex::default(),
        }
    }

    pub(crate) fn warn(&self, text: &str) {
        warning::add(&mut self.warnings.lock(), text);
    }

    pub(crate) fn warnings(&self) -> Vec<HeaderValue> {
        std::mem::take(&mut self.warnings.lock())
    }

    pub(crate) fn negotiate(&self, place: PathTraits) -> Result<Representation, Status> {
        let representation = accept::whole(&self.headers, &self.query, place)?;
        self.choose(representation.media_type, representation.pretty);
        Ok(representation)
    }

    /// Negotiates a watch. A stream encodes itself, so the choice is not stored.
    pub(crate) fn negotiate_watch(&self, place: PathTraits) -> Result<Representation, Status> {
        accept::watch(&self.headers, &self.query, place)
    }

    pub(crate) fn negotiate_discovery(
        &self,
        offer: DiscoveryOffer,
    ) -> Result<DiscoveryRepresentation, Status> {
        let representation = accept::discovery(&self.headers, &self.query, offer)?;
        self.choose(representation.media_type, representation.pretty);
        Ok(representation)
    }

    fn choose(&self, media_type: MediaType, pretty: bool) {
        *self.chosen.lock() = Some((media_type, pretty));
    }

    /// The last step of every answer: turns the compact JSON of handlers into
    /// the negotiated encoding. Streams and texts pass unchanged.
    pub(crate) async fn encoded(&self, response: Response<Body>) -> Response<Body> {
        let Some((media_type, pretty)) = *self.chosen.lock() else {
            return response;
        };
        let is_json = response
            .headers()
            .get(header::CONTENT_TYPE)
            .is_some_and(|value| value == MediaType::Json.as_str());
        if !is_json || response.body().size_hint().exact().is_none() {
            return response;
        }
        let (mut parts, body) = response.into_parts();
        let json = match body.collect().await {
            Ok(whole) => whole.to_bytes(),
            Err(never) => match never {},
        };
        match self.body(&json, media_type, pretty) {
            Ok(encoded) => {
                let content_type = HeaderValue::from_static(media_type.as_str());
                parts.headers.insert(header::CONTENT_TYPE, content_type);
                Response::from_parts(parts, full(encoded))
            }
            Err(status) => self.refused(&status),
        }
    }

    pub(crate) fn body(
        &self,
        json: &Bytes,
        media_type: MediaType,
        pretty: bool,
    ) -> Result<Bytes, Status> {
        whole::encode(json, media_type, pretty).ok_or_else(|| {
            let message = format!("the object cannot be written as {}", media_type.as_str());
            Status::failure(406, Reason::NotAcceptable, message)
        })
    }

    /// Returns an error in the encoding that is negotiated for errors.
    pub(crate) fn refused(&self, status: &Status) -> Response<Body> {
        reply::failure(status, error_encoding(&self.headers, &self.query))
    }
}
