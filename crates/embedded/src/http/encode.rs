//! JSON answers in the encoding that was negotiated, as the last step.

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use parking_lot::Mutex;
use serde::Deserialize;

use super::{Body, answer, full};
use crate::encoding;
use kubernetes_wire::{
    api::{Reason, Status},
    negotiation::MediaType,
    representation::{
        EventType,
        protobuf_envelope::{Answer, Type},
        transcode, yaml,
    },
    schema::Schema,
};

/// What a handler negotiated; JSON if it did not.
pub struct Chosen(Mutex<MediaType>);

impl Default for Chosen {
    fn default() -> Self {
        Self(Mutex::new(MediaType::Json))
    }
}

impl Chosen {
    pub fn set(&self, media_type: MediaType) {
        *self.0.lock() = media_type;
    }

    pub fn get(&self) -> MediaType {
        *self.0.lock()
    }
}

/// A whole JSON answer in another encoding; streams and others pass untouched.
pub async fn answer_in(response: Response<Body>, media_type: MediaType) -> Response<Body> {
    let is_json = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value == MediaType::Json.as_str());
    if !is_json || media_type == MediaType::Json || response.body().size_hint().exact().is_none() {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let json = match body.collect().await {
        Ok(whole) => whole.to_bytes(),
        Err(never) => match never {},
    };
    let encoded = match media_type {
        MediaType::Yaml => yaml::from_json(&json).ok(),
        MediaType::Protobuf | MediaType::Json => {
            message(&json).map(|(kind, message)| kind.answer(&message).to_vec())
        }
    };
    let Some(encoded) = encoded else {
        return answer::failure(&Status::failure(
            406,
            Reason::NotAcceptable,
            format!("the object cannot be written as {}", media_type.as_str()),
        ));
    };
    let content_type = HeaderValue::from_static(media_type.as_str());
    parts.headers.insert(header::CONTENT_TYPE, content_type);
    Response::from_parts(parts, full(encoded))
}

/// A frame of a watch around an object of a built-in kind.
pub fn protobuf_frame(event: EventType, json: &[u8]) -> Option<Bytes> {
    let (kind, message) = message(json)?;
    Some(kind.watch_frame(event, &message))
}

fn message(json: &[u8]) -> Option<(Type, Vec<u8>)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct TypeMeta<'a> {
        kind: &'a str,
        api_version: &'a str,
    }
    let TypeMeta { kind, api_version } = serde_json::from_slice(json).ok()?;
    let message = Schema::builtin().kind(api_version, kind)?;
    let mut out = Vec::new();
    transcode::to_protobuf(message, json, &mut out).ok()?;
    Some((Type::new(api_version, kind), out))
}

/// A protobuf body as the JSON it stands for.
pub fn json(body: &[u8]) -> Option<Vec<u8>> {
    let Answer {
        api_version,
        kind,
        message,
    } = Answer::parse(body)?;
    let described = Schema::builtin().kind(api_version, kind)?;
    let mut item = Vec::new();
    transcode::to_json(described, message, &mut item).ok()?;
    Some(encoding::with_type(kind, api_version, &item).to_vec())
}
