//! Requests that are valid HTTP and ask for the absurd.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

const NUMBERS: [&str; 20] = [
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999",
    "9223372036",
    "9223372037",
    "4294967296",
    "2147483648",
    "-1",
    "0",
    "00",
    "+1",
    "1e3",
    "0x10",
    "1.5",
    "NaN",
    " ",
    "",
];
const DURATIONS: [&str; 10] = [
    "9223372036854775807s",
    "2562047h47m16.854775807s",
    "2562048h",
    "-1s",
    "1e9s",
    "0",
    "0.0000000000000000001s",
    "10s",
    "1",
    "junk",
];
const PATHS: [&str; 15] = [
    "/api/v1/configmaps",
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/configmaps/nasty",
    "/api/v1/namespaces",
    "/api/v1/nodes",
    "/api/v1/pods",
    "/api/v1/watch/configmaps",
    "/api/v1/watch/namespaces/default/configmaps/nasty",
    "/apis/nasty.example.test/v1/widgets",
    "/apis/nasty.example.test/v1/namespaces/default/widgets/deep",
    "/api/v1/namespaces/default/events",
    "/api/v1/namespaces/default/pods/none/log",
    "/apis",
    "/openapi/v3",
    "/version",
];
const ACCEPTS: [&str; 9] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;q=1e999999",
    "application/json;q=-0;a=\"\\",
    "*/*;q=0",
    ",;=,",
];
const FLAGS: [&str; 7] = ["1", "true", "false", "", "T", "junk", "0"];
const MATCHES: [&str; 4] = ["Exact", "NotOlderThan", "", "junk"];

#[derive(Clone, Debug)]
pub struct Nasty {
    pub target: String,
    pub headers: Vec<(&'static str, String)>,
}

impl Nasty {
    pub fn fields(&self) -> Vec<(&str, &str)> {
        let headers = self.headers.iter();
        headers.map(|(k, v)| (*k, v.as_str())).collect()
    }

    /// Tells whether the answer may be endless, so that only its head can be read.
    pub fn may_watch(&self) -> bool {
        self.target.contains("watch") || self.target.contains("/log")
    }

    /// Tells whether the request exceeds apifront's default limits.
    pub fn is_too_large(&self) -> bool {
        let headers = self.headers.iter().map(|(k, v)| k.len() + v.len());
        self.target.len() + headers.sum::<usize>() > 60_000
    }
}

/// Returns requests that did harm in the past. Every run sends them.
pub fn known() -> Vec<Nasty> {
    let long = "a,".repeat(13_000) + "b";
    let deep = "[".repeat(20_000);
    [
        "/api/v1/configmaps?watch=1&timeoutSeconds=9223372036854775807".to_owned(),
        "/api/v1/configmaps?watch=1&resourceVersion=0&timeoutSeconds=9223372036854775807"
            .to_owned(),
        "/api/v1/watch/configmaps?timeoutSeconds=9223372036854775807".to_owned(),
        "/api/v1/events?watch=1&timeoutSeconds=9223372036854775807".to_owned(),
        "/api/v1/configmaps?resourceVersion=0&limit=-9223372036854775808".to_owned(),
        "/api/v1/configmaps?resourceVersion=18446744073709551615&watch=1&timeoutSeconds=1"
            .to_owned(),
        format!("/api/v1/configmaps?resourceVersion=0&labelSelector={long}"),
        format!(
            "/api/v1/configmaps?watch=1&resourceVersion=0&timeoutSeconds=1&labelSelector={long}"
        ),
        format!(
            "/api/v1/configmaps?limit=1&continue={}",
            URL_SAFE_NO_PAD.encode(deep)
        ),
        "/apis/nasty.example.test/v1/widgets?resourceVersion=0&pretty=true".to_owned(),
    ]
    .into_iter()
    .map(|target| Nasty {
        target,
        headers: vec![("accept", "application/json".to_owned())],
    })
    .collect()
}

pub fn random(rng: &mut StdRng) -> Nasty {
    let mut target = pick(rng, &PATHS).to_owned();
    if rng.random_bool(0.05) {
        let times = *[3, 50, 5_000].choose(rng).expect("counts");
        let segment = pick(rng, &["x", "", ".", "%2e", "namespaces", "%00"]);
        target += &format!("/{segment}").repeat(times);
    }
    let mut separator = '?';
    for _ in 0..rng.random_range(0..6) {
        let (mut key, value) = parameter(rng);
        // apifront's own documents ignore `timeout`.
        if key == "timeout" && !target.contains("/v1/") {
            key = "timeoutSeconds";
        }
        target.push(separator);
        target += &format!("{key}={}", utf8_percent_encode(&value, NON_ALPHANUMERIC));
        separator = '&';
    }
    if rng.random_bool(0.03) {
        target.push(separator);
        target += pick(rng, &["%zz", "%", "a;b", "&&&&", "=", "watch"]);
    }
    let mut headers = vec![("accept", pick(rng, &ACCEPTS).to_owned())];
    if rng.random_bool(0.2) {
        headers.push(header(rng));
    }
    Nasty { target, headers }
}

fn parameter(rng: &mut StdRng) -> (&'static str, String) {
    let number = pick(rng, &NUMBERS).to_owned();
    let flag = pick(rng, &FLAGS).to_owned();
    match rng.random_range(0..18) {
        0 | 1 => ("timeoutSeconds", number),
        2 | 3 => ("limit", number),
        4 | 5 => ("resourceVersion", number),
        6 => ("resourceVersion", "0".to_owned()),
        7 => ("resourceVersionMatch", pick(rng, &MATCHES).to_owned()),
        8 => ("watch", flag),
        9 => ("sendInitialEvents", flag),
        10 => ("allowWatchBookmarks", flag),
        11 => ("pretty", flag),
        12 => ("continue", token(rng)),
        13 => ("labelSelector", labels(rng)),
        14 => ("fieldSelector", fields(rng)),
        15 => ("timeout", pick(rng, &DURATIONS).to_owned()),
        16 => (
            *["tailLines", "sinceSeconds", "limitBytes", "sinceTime"]
                .choose(rng)
                .expect("keys"),
            number,
        ),
        _ => (
            "includeObject",
            pick(rng, &["None", "Object", "junk"]).to_owned(),
        ),
    }
}

fn token(rng: &mut StdRng) -> String {
    let times = *[1, 1_000, 20_000].choose(rng).expect("counts");
    let number = pick(rng, &NUMBERS);
    let text = match rng.random_range(0..6) {
        0 => format!("{{\"v\":\"meta.k8s.io/v1\",\"rv\":{number},\"start\":\"a\"}}"),
        1 => format!(
            "{{\"v\":\"meta.k8s.io/v1\",\"rv\":1,\"start\":\"{}\"}}",
            "../".repeat(times)
        ),
        2 => "[".repeat(times),
        3 => "{\"v\":".repeat(times),
        4 => "\"\\u".repeat(times),
        _ => return "*".repeat(times),
    };
    URL_SAFE_NO_PAD.encode(text)
}

fn labels(rng: &mut StdRng) -> String {
    let times = *[1, 100, 8_000].choose(rng).expect("counts");
    match rng.random_range(0..6) {
        0 => "a,".repeat(times) + "b",
        1 => format!("a in ({}b)", "c,".repeat(times)),
        2 => "!a,".repeat(times) + "!b",
        3 => "(".repeat(times),
        4 => format!("a>{}", pick(rng, &NUMBERS)),
        _ => "a=b,".repeat(times / 2) + "a=b",
    }
}

fn fields(rng: &mut StdRng) -> String {
    let times = *[1, 50, 900].choose(rng).expect("counts");
    match rng.random_range(0..4) {
        0 => "metadata.name=nasty,".repeat(times) + "metadata.namespace=default",
        1 => "metadata.name!=a,".repeat(times) + "metadata.name!=b",
        2 => "\\".repeat(times),
        _ => format!("metadata.name={}", "x".repeat(times)),
    }
}

fn header(rng: &mut StdRng) -> (&'static str, String) {
    let times = *[1, 100, 3_000].choose(rng).expect("counts");
    match rng.random_range(0..8) {
        0 => ("accept-encoding", "gzip;q=1e99,".repeat(times)),
        1 => ("range", "bytes=0-18446744073709551615".to_owned()),
        2 => ("if-none-match", "\"x\",".repeat(times)),
        3 => ("accept", "a/b;q=0.1,".repeat(times)),
        4 => ("x-forwarded-for", "1.2.3.4,".repeat(times)),
        5 => ("audit-id", "x".repeat(times)),
        6 => ("x-remote-user", "admin".to_owned()),
        _ => ("traceparent", "00-".repeat(times)),
    }
}

fn pick(rng: &mut StdRng, words: &[&'static str]) -> &'static str {
    words.choose(rng).copied().expect("words")
}
