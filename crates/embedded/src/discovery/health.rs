//! `/healthz`, `/livez`, `/readyz`. A server in memory that answers is healthy.

use http::{Response, StatusCode};
use kubernetes_wire::api::{Query, query::go_quote};

use crate::http::reply::{Body, page_not_found, text, with_type};

const CHECKS: &[&str] = &["ping", "log"];

pub(crate) fn health(probe: &str, check: Option<&str>, query: &Query) -> Response<Body> {
    if let Some(name) = check {
        return if CHECKS.contains(&name) {
            with_type(StatusCode::OK, "text/plain; charset=utf-8", "ok")
        } else {
            page_not_found()
        };
    }
    if !query.contains("verbose") {
        return plain("ok".to_owned());
    }
    let excluded: Vec<&str> = query.all("exclude").collect();
    let mut lines: String = CHECKS
        .iter()
        .map(|check| {
            if excluded.contains(check) {
                format!("[+]{check} excluded: ok\n")
            } else {
                format!("[+]{check} ok\n")
            }
        })
        .collect();
    let mut unknown: Vec<String> = excluded
        .iter()
        .filter(|check| !CHECKS.contains(check))
        .map(|check| go_quote(check))
        .collect();
    if !unknown.is_empty() {
        unknown.sort();
        lines.push_str(&format!(
            "warn: some health checks cannot be excluded: no matches for {}\n",
            unknown.join(",")
        ));
    }
    plain(format!("{lines}{probe} check passed\n"))
}

fn plain(body: String) -> Response<Body> {
    let mut response = text(StatusCode::OK, "");
    *response.body_mut() = with_type(StatusCode::OK, "text/plain", body).into_body();
    response
}
