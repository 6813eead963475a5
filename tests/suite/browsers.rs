//! The headers for browsers that kube-apiserver's flags add: CORS and HSTS.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use futures::future::join_all;
use http::Method;
use serde_json::json;

use crate::harness::apifront::Apifront;
use crate::harness::client::{Answer, Client, Protocol};
use crate::harness::cluster::Cluster;
use crate::harness::expect::DEBUG;
use crate::harness::pool::Lease;
use crate::harness::ports;

pub const ORIGINS: &str = r"^https://ui\.example\.test(:|$)";
pub const ALLOWED: &str = "https://ui.example.test:8443";
const DIRECTIVES: [&str; 2] = ["max-age=31536000", "includeSubDomains"];

/// The origins of the requesting pages. An empty one stands for a program.
const FROM: [&str; 4] = [ALLOWED, "https://ui.example.test.evil.test", "null", ""];

/// Returns the headers for browsers.
fn told(answer: &Answer) -> BTreeMap<String, Vec<String>> {
    let mut told = BTreeMap::<String, Vec<String>>::new();
    for (name, value) in &answer.headers {
        let name = name.as_str();
        if name.starts_with("access-control-") || name == "strict-transport-security" {
            let value = format!("{value:?}");
            told.entry(name.to_owned()).or_default().push(value);
        }
    }
    told
}

/// The requests: method, target, whether the caller has credentials, and whether
/// apifront answers from memory.
const REQUESTS: [(&str, &str, bool, bool); 14] = [
    ("GET", "/api/v1/namespaces?resourceVersion=0", true, true),
    (
        "GET",
        "/api/v1/namespaces/default?resourceVersion=0",
        true,
        true,
    ),
    (
        "GET",
        "/api/v1/namespaces/none?resourceVersion=0",
        true,
        true,
    ),
    (
        "GET",
        "/api/v1/namespaces?watch=1&resourceVersion=0&timeoutSeconds=1",
        true,
        true,
    ),
    ("GET", "/apis", true, false),
    ("GET", "/api/v1/events?limit=1", true, false),
    (
        "GET",
        "/api/v1/events?watch=1&timeoutSeconds=1",
        true,
        false,
    ),
    ("POST", "/api/v1/namespaces", true, false),
    ("GET", "/livez", true, false),
    ("GET", "/api/v1/namespaces", false, false),
    ("OPTIONS", "/api/v1/namespaces", false, false),
    ("OPTIONS", "/api/v1/namespaces", true, false),
    ("OPTIONS", "/apis/none.test/v1/nothing?a=b", false, false),
    ("HEAD", "/api/v1/namespaces", true, false),
];

/// Sends a request with this origin to both servers and compares the answers.
async fn compare(
    (method, target, _, is_cached): (&str, &str, bool, bool),
    origin: &str,
    protocol: Protocol,
    [direct, through]: &[Client; 2],
) {
    let mut headers = vec![DEBUG];
    if !origin.is_empty() {
        headers.push(("origin", origin));
    }
    let ask = async |client: &Client| {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let client = client.over(protocol);
        client.send(method, target, &headers, "").await
    };
    let (theirs, ours) = tokio::join!(ask(direct), ask(through));
    let what = format!("{method} {target} from {origin:?}");
    assert_eq!(theirs.status, ours.status, "{what}: {}", ours.text());
    assert_eq!(told(&theirs), told(&ours), "{what}");
    let length = |answer: &Answer| answer.headers.contains_key("content-length");
    assert!(
        ours.status != 204 || length(&ours) == length(&theirs),
        "{what}"
    );
    let preflight = method == "OPTIONS" && origin == ALLOWED;
    assert_eq!(ours.status == 204, preflight, "{what}");
    let of_origin = ours.headers.contains_key("access-control-allow-origin");
    assert_eq!(of_origin, origin == ALLOWED, "{what}");
    assert_eq!(ours.is_hit(), is_cached, "{what}");
}

/// Starts both servers with the headers for browsers. apifront has the namespaces in
/// its cache.
pub async fn servers_for_browsers() -> (Lease, Apifront) {
    let flags = [
        format!("--cors-allowed-origins={ORIGINS}"),
        format!(
            "--strict-transport-security-directives={}",
            DIRECTIVES.join(",")
        ),
        // Callers without credentials get 401.
        "--anonymous-auth=false".to_owned(),
    ];
    let cluster = Cluster::leased(&flags).await;
    let front = Apifront::start(&cluster, |config| {
        config["serving"]["corsAllowedOrigins"] = json!([ORIGINS]);
        config["serving"]["strictTransportSecurityDirectives"] = json!(DIRECTIVES);
    })
    .await;
    front
        .warm(&front.admin_client(), "/api/v1/namespaces")
        .await;
    (cluster, front)
}

#[tokio::test]
async fn browsers_are_told_what_kube_apiserver_tells_them() {
    skip_under_oracle!("it needs a kube-apiserver with flags of its own");
    let (cluster, front) = servers_for_browsers().await;
    let known = [cluster.admin_client(), front.admin_client()];
    let unknown = [cluster.client(None), front.client(None)];
    for protocol in [Protocol::Http1, Protocol::Http2] {
        for request in REQUESTS {
            let clients = if request.2 { &known } else { &unknown };
            let asked = FROM.map(|origin| compare(request, origin, protocol, clients));
            join_all(asked).await;
        }
    }
    front.stop().await;
}

/// RFC 6797 forbids HSTS over plain HTTP.
#[tokio::test]
async fn plain_http_has_no_strict_transport_security() {
    skip_under_oracle!("kube-apiserver has no plain HTTP");
    let port = ports::free();
    let front = Apifront::start(Cluster::shared(), |config| {
        config["serving"]["insecurePort"] = json!(port);
        config["serving"]["strictTransportSecurityDirectives"] = json!(DIRECTIVES);
    })
    .await;
    let secure = front.admin_client().get("/livez").await;
    assert_eq!(
        secure.header("strict-transport-security"),
        DIRECTIVES.join("; ")
    );
    let plain = Client::plain((Ipv4Addr::LOCALHOST, port).into())
        .get("/livez")
        .await;
    assert!(told(&plain).is_empty(), "{:?}", plain.headers);
    front.stop().await;
}
