//! Discovery through apifront equals kube-apiserver's to the byte. This also holds
//! for groups that are registered only at apifront, and for hidden APIs.

mod backends;
mod changes;
mod documents;
mod runtime_config;

use http::{Method, StatusCode};

use crate::harness::apifront::oracle;
use crate::harness::client::{Answer, Client};
use crate::harness::differential::compare_exactly;
use crate::harness::expect::{DEBUG, Expect};
use crate::harness::gates;
use crate::harness::media_types::GROUP_DISCOVERY;
use crate::harness::release::tell_left_out;

/// Groups that only backends of apifront have.
const BACKENDS_GROUPS: [&str; 2] = ["/apis/wardle.example.com", "/apis/hostile.example.com"];

/// The Accept headers that clients send, and some that test the rules.
pub const ACCEPTS: [&str; 25] = [
    "",
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "*/*",
    "application/*",
    "text/html",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    GROUP_DISCOVERY,
    "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;pretty=1",
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json",
    // Clauses without a kind are skipped if there is a document of everything.
    "application/json, application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "*/*, application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;q=0.1",
    "application/yaml, application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer",
    "application/json;sv=v1, application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "application/json, application/json;as=APIGroupDiscoveryList",
    "application/json, application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList",
    "application/json, application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
    "text/html;level=1, application/json;charset=utf-8",
    "application/json;pretty=1, application/*;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
];

/// Sends the same request to both and returns the difference, if any. Bodies and
/// ETags must be equal to the byte. A document must come from memory.
pub async fn difference(
    direct: &Client,
    front: &Client,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
) -> String {
    let debug = [headers, &[DEBUG]].concat();
    let (d, f) = tokio::join!(
        direct.send(method.clone(), path, headers, ""),
        front.send(method.clone(), path, &debug, ""),
    );
    let mut found = compare_exactly(&d, &f);
    // This document contains a server address that depends on the caller's.
    let by_caller = path == "/api" && headers.iter().any(|(name, _)| *name == "x-forwarded-for");
    let is_document = d.status.is_success() || d.status == StatusCode::NOT_MODIFIED;
    if is_document && !by_caller && !oracle() {
        found += &Expect::Document.unmet(&f);
    }
    if d.header("etag") != f.header("etag") {
        found += &format!(
            "  etag: - {}\n  etag: + {}\n",
            d.header("etag"),
            f.header("etag")
        );
    }
    if is_own_refusal(path, &d, &f) {
        tell_left_out(&format!("the text of the 406 at {path}"));
        return String::new();
    }
    if found.is_empty() {
        return found;
    }
    format!("{method} {path} {headers:?}\n{found}")
}

/// Tells whether both refuse to show a group that only a backend of apifront has.
/// apifront has its own words for that, and does not list CBOR among the accepted
/// types.
fn is_own_refusal(path: &str, direct: &Answer, front: &Answer) -> bool {
    let refused = [direct, front].iter().all(|answer| answer.status == 406);
    refused && gates::are_all_on() && BACKENDS_GROUPS.iter().any(|group| path.starts_with(group))
}

/// Asks with all of [`ACCEPTS`] at each path, and fails on a difference.
pub async fn compare_all(direct: &Client, front: &Client, paths: &[&str]) {
    let mut found = Vec::new();
    for path in paths {
        for accept in ACCEPTS {
            let headers = [("accept", accept)];
            let headers = if accept.is_empty() {
                &headers[..0]
            } else {
                &headers
            };
            found.push(difference(direct, front, Method::GET, path, headers).await);
        }
    }
    let asked = found.len();
    found.retain(|difference| !difference.is_empty());
    let shown: Vec<&String> = found.iter().take(12).collect();
    assert!(
        found.is_empty(),
        "{} of {asked} answers differ (- direct, + front):\n\n{}",
        found.len(),
        shown
            .into_iter()
            .map(|d| format!("{d}\n"))
            .collect::<String>(),
    );
}

pub async fn everything(client: &Client) -> Answer {
    client.get_as("/apis", GROUP_DISCOVERY).await
}

/// Returns the groups and their versions, with the freshness of each.
pub async fn versions(client: &Client) -> Vec<String> {
    let document = everything(client).await.expect(200);
    let items = document["items"].as_array().expect("items").clone();
    let mut found = Vec::new();
    for group in items {
        for version in group["versions"].as_array().expect("versions") {
            found.push(format!(
                "{}/{} {}",
                group["metadata"]["name"].as_str().unwrap_or(""),
                version["version"].as_str().unwrap_or(""),
                version["freshness"].as_str().unwrap_or(""),
            ));
        }
    }
    found
}
