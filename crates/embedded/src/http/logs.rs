//! Pod logs. There are no containers, so the text is invented and always the
//! same.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Response, StatusCode};
use kubernetes_wire::api::Status;
use serde_json::Value;

use super::{
    call::Call,
    reply::{self, Body, with_type},
};
use crate::meta;

/// The number of past lines in every container's log.
const PAST_LINES: usize = 20;
/// The time between the lines of a followed log.
const FOLLOW_PERIOD: Duration = Duration::from_secs(1);
/// The number of lines after which a followed log ends, so that no stream is
/// endless.
const FOLLOW_LINES: usize = 3600;

const TEXT: &str = "text/plain";

pub(super) fn get(call: &Call<'_>) -> Result<Response<Body>, Status> {
    let pod = call.find()?;
    let query = &call.head.query;
    let container = container(call, &pod.value)?;
    let tail = query
        .get("tailLines")
        .and_then(|text| text.parse::<usize>().ok())
        .unwrap_or(PAST_LINES)
        .min(PAST_LINES);
    let name = meta::name(&pod.value).to_owned();
    let line = move |n: usize| format!("{name}/{container} line {n}: handled GET /healthz 200\n");
    let past: String = (PAST_LINES.saturating_sub(tail)..PAST_LINES)
        .map(&line)
        .collect();
    if !query.truthy("follow") {
        return Ok(with_type(StatusCode::OK, TEXT, past));
    }
    let coming = PAST_LINES..PAST_LINES.saturating_add(FOLLOW_LINES);
    let later = stream::iter(coming).then(move |n| {
        let line = line(n);
        async move {
            tokio::time::sleep(FOLLOW_PERIOD).await;
            Bytes::from(line)
        }
    });
    let lines = stream::iter([Bytes::from(past)]).chain(later);
    Ok(reply::stream(TEXT, lines))
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
