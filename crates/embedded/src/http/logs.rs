//! Pod logs. There is no container: the text is made up and deterministic.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use serde_json::Value;

use super::{Body, call::Call, with_type};
use crate::meta;
use kubernetes_wire::api::Status;

/// Lines in the past of every container.
const LINES: usize = 20;
/// A followed log gets a line this often…
const FOLLOW_PERIOD: Duration = Duration::from_secs(1);
/// …and ends after this many, so that no stream lives for ever.
const FOLLOW_LINES: usize = 3600;

const TEXT: &str = "text/plain";

pub fn get(call: &Call<'_>) -> Result<Response<Body>, Status> {
    let pod = call.find()?;
    let query = &call.head.query;
    let container = container(call, &pod.value)?;
    let tail = query
        .get("tailLines")
        .and_then(|text| text.parse::<usize>().ok())
        .unwrap_or(LINES)
        .min(LINES);
    let name = meta::name(&pod.value).to_owned();
    let line = move |n: usize| format!("{name}/{container} line {n}: handled GET /healthz 200\n");
    let past: String = (LINES - tail..LINES).map(&line).collect();
    if !query.truthy("follow") {
        return Ok(with_type(StatusCode::OK, TEXT, past));
    }
    let frames = stream::unfold(LINES, move |n| {
        let chunk = if n == LINES { past.clone() } else { line(n) };
        async move {
            if n > LINES {
                tokio::time::sleep(FOLLOW_PERIOD).await;
            }
            let frame = Ok::<_, Infallible>(Frame::data(Bytes::from(chunk)));
            (n < LINES + FOLLOW_LINES).then_some((frame, n + 1))
        }
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(TEXT));
    Ok(response)
}

fn container(call: &Call<'_>, pod: &Value) -> Result<String, Status> {
    let names: Vec<&str> = pod
        .pointer("/spec/containers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|container| container.get("name")?.as_str())
        .collect();
    let pod_name = &call.target.name;
    match (call.head.query.get("container"), names.as_slice()) {
        (Some(wanted), _) if names.contains(&wanted) => Ok(wanted.to_owned()),
        (Some(wanted), _) if !wanted.is_empty() => Err(Status::bad_request(format!(
            "container {wanted} is not valid for pod {pod_name}"
        ))),
        (_, [first]) => Ok((*first).to_owned()),
        (_, [first, ..])
            if pod
                .pointer("/metadata/annotations/kubectl.kubernetes.io~1default-container")
                .is_some() =>
        {
            Ok((*first).to_owned())
        }
        _ => Err(Status::bad_request(format!(
            "a container name must be specified for pod {pod_name}, choose one of: [{}]",
            names.join(" ")
        ))),
    }
}
