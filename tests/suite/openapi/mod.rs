//! OpenAPI through apifront has the same status, headers and bytes as from
//! kube-apiserver.

mod backends;
mod documents;
mod kubectl;
mod live;

use http::Method;

use crate::harness::client::{Answer, Client};
use crate::harness::differential::{compare_bytes, unpacked};
use crate::harness::flow_names;

const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const V3_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";

/// Headers that depend on the moment, the request or the connection. They are not
/// compared.
const INCOMPARABLE: [&str; 6] = [
    "date",
    "audit-id",
    "content-length",
    "transfer-encoding",
    "connection",
    "expires",
];

/// Returns the difference between two answers to the same request.
fn difference(direct: &Answer, front: &Answer) -> String {
    let mut out = String::new();
    if direct.status != front.status {
        out += &format!("  status: - {} + {}\n", direct.status, front.status);
    }
    let compared = |answer: &Answer| -> Vec<String> {
        let headers = answer.headers.iter();
        let mut shown: Vec<String> = headers
            .filter(|(name, _)| !INCOMPARABLE.contains(&name.as_str()))
            .map(|(name, value)| match name.as_str() {
                // kube-apiserver makes the root for each request. While it starts,
                // it makes other documents again, with the same bytes.
                "last-modified" => format!("{name}: {} bytes", value.len()),
                pf if flow_names::HEADERS.contains(&pf) => {
                    let uid = String::from_utf8_lossy(value.as_bytes());
                    format!("{name}: {}", flow_names::name(&uid))
                }
                name => format!("{name}: {value:?}"),
            })
            .collect();
        shown.sort();
        shown
    };
    let (d, f) = (compared(direct), compared(front));
    if d != f {
        out += &format!("  headers: - {d:#?}\n  headers: + {f:#?}\n");
    }
    // Only the length is compared, in case a second passes between the answers.
    let expires = |answer: &Answer| answer.header("expires").len();
    if expires(direct) != expires(front) {
        out += &format!(
            "  expires: - {} + {}\n",
            direct.header("expires"),
            front.header("expires")
        );
    }
    let (d, f) = (unpacked(direct), unpacked(front));
    if d != f {
        out += &compare_bytes(&d, &f);
    }
    out
}

/// Asks both servers, and adds any difference to `differences`.
async fn ask(
    direct: &Client,
    front: &Client,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    differences: &mut Vec<String>,
) {
    let mut with_debug = headers.to_vec();
    with_debug.push(("x-apifront-debug", "cache"));
    let (d, mut f) = tokio::join!(
        direct.send(method.clone(), path, headers, ""),
        front.send(method.clone(), path, &with_debug, ""),
    );
    let hit = f.headers.remove("x-apifront-cache");
    let mut found = difference(&d, &f);
    let forwarded = headers.iter().any(|(name, _)| *name == "range")
        || headers.contains(&("accept", ","))
        || !(path.starts_with("/openapi/v3")
            || path.trim_end_matches("?timeout=3s") == "/openapi/v2")
        || !matches!(method, Method::GET | Method::HEAD);
    if !forwarded && hit.is_none_or(|v| v != "hit; document") && !crate::harness::apifront::oracle()
    {
        found += "  not answered from memory\n";
    }
    if !found.is_empty() {
        differences.push(format!("{method} {path} {headers:?}\n{found}"));
    }
}

#[track_caller]
fn none(differences: &[String]) {
    let shown: Vec<&str> = differences.iter().take(10).map(String::as_str).collect();
    assert!(
        differences.is_empty(),
        "{} answers differ (- direct, + front):\n{}",
        differences.len(),
        shown.join("\n")
    );
}
