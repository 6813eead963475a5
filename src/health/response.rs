//! The answers to health paths, byte for byte those of kube-apiserver.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode, header};
use kubernetes_wire::api::Query;
use kubernetes_wire::api::query::go_quote;

use super::{Check, Endpoint};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthResponse {
    pub status: StatusCode,
    /// Whether `X-Content-Type-Options: nosniff` is sent. Go's server adds it to
    /// errors, and kube-apiserver adds it to the summaries.
    pub nosniff: bool,
    pub body: Bytes,
}

impl HealthResponse {
    pub fn content_type(&self) -> &'static str {
        "text/plain; charset=utf-8"
    }

    /// Returns the headers of the answer, except Content-Length.
    pub fn headers(&self) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
        let content_type = HeaderValue::from_static(self.content_type());
        let nosniff = HeaderValue::from_static("nosniff");
        [
            Some((header::CONTENT_TYPE, content_type)),
            self.nosniff
                .then_some((header::X_CONTENT_TYPE_OPTIONS, nosniff)),
        ]
        .into_iter()
        .flatten()
    }

    fn summary(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self {
            status,
            nosniff: true,
            body: body.into(),
        }
    }
}

/// Answers a whole health path: with `ok`, or with one line for each check if the
/// query asks for it or a check fails.
pub(super) fn all(
    endpoint: Endpoint,
    checks: &[&Check],
    in_grace: bool,
    query: &str,
) -> HealthResponse {
    let query = Query::parse(query);
    let mut excluded: BTreeSet<&str> = query.all("exclude").collect();
    let mut lines = String::new();
    let mut failed = Vec::new();
    for check in checks {
        let name = check.name();
        if excluded.remove(name) {
            lines.push_str(&format!("[+]{name} excluded: ok\n"));
            continue;
        }
        match check.look(endpoint, in_grace) {
            Ok(()) => lines.push_str(&format!("[+]{name} ok\n")),
            Err(_) if check.is_informational() => {
                lines.push_str(&format!(
                    "[+]{name} failed but not needed: reason withheld\n"
                ));
            }
            // Every caller may see the summary, but not a check's reason.
            Err(reason) => {
                lines.push_str(&format!("[-]{name} failed: reason withheld\n"));
                failed.push(format!("{name}: {reason}"));
            }
        }
    }
    if !excluded.is_empty() {
        let names: Vec<String> = excluded.into_iter().map(go_quote).collect();
        lines.push_str(&format!(
            "warn: some health checks cannot be excluded: no matches for {}\n",
            names.join(",")
        ));
    }
    let endpoint = endpoint.as_str();
    if !failed.is_empty() {
        tracing::debug!(endpoint, failed = failed.join("; "), "health check failed");
        lines.push_str(&format!("{endpoint} check failed\n"));
        return HealthResponse::summary(StatusCode::INTERNAL_SERVER_ERROR, lines);
    }
    if query.contains("verbose") {
        lines.push_str(&format!("{endpoint} check passed\n"));
        return HealthResponse::summary(StatusCode::OK, lines);
    }
    HealthResponse::summary(StatusCode::OK, "ok")
}

/// Answers `/readyz/<check>`, whatever the query.
pub(super) fn one(
    endpoint: Endpoint,
    checks: &[&Check],
    in_grace: bool,
    name: &str,
) -> HealthResponse {
    let Some(check) = checks.iter().find(|c| c.name() == name) else {
        return HealthResponse::summary(StatusCode::NOT_FOUND, "404 page not found\n");
    };
    match check.look(endpoint, in_grace) {
        Ok(()) => HealthResponse {
            status: StatusCode::OK,
            nosniff: false,
            body: Bytes::from_static(b"ok"),
        },
        Err(reason) => HealthResponse::summary(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("internal server error: {reason}\n"),
        ),
    }
}
