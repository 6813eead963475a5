//! Compares the requests that a backend receives, and the answers that callers
//! receive, with those of kube-apiserver's aggregator.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use serde_json::Value;

use super::HostileTwins;
use crate::harness::client::{Client, Protocol};
use crate::harness::differential::Differential;
use crate::harness::expect::Expect;
use crate::harness::flow_names;

const THINGS: &str = "/apis/hostile.example.com/v1/things";
/// A time limit that no prompt answer on loopback exceeds.
const SOON: Duration = Duration::from_secs(20);

/// Headers that name one of the two servers, or the moment. Only their presence is
/// compared.
const OF_THE_SERVER: [&str; 4] = ["host", "audit-id", "x-forwarded-host", "traceparent"];

/// Headers of the connection to the backend, which differ between proxies: Go's
/// client asks for compression by itself, and passes `te: trailers`. kube-apiserver
/// does not detect loops.
const OF_THE_CLIENT: [&str; 3] = ["accept-encoding", "te", "cdn-loop"];

/// The request that arrived at the backend.
#[derive(Debug, PartialEq, Eq)]
struct Heard {
    line: String,
    headers: BTreeMap<String, Vec<String>>,
    body: String,
    peer: String,
}

impl Heard {
    fn parse(echo: &Value) -> Self {
        let mut headers: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in echo["headers"].as_array().expect("headers") {
            let [name, value] = [0, 1].map(|n| pair[n].as_str().expect("text").to_owned());
            if OF_THE_CLIENT.contains(&name.as_str()) {
                continue;
            }
            let value = if OF_THE_SERVER.contains(&name.as_str()) {
                "there".to_owned()
            } else {
                value
            };
            // A user has a different certificate at each server.
            let value = match value.split_once("X509SHA256=") {
                Some((before, _)) => format!("{before}X509SHA256"),
                None => value,
            };
            headers.entry(name).or_default().push(value);
        }
        let text = |field: &str| echo[field].as_str().expect("text").to_owned();
        Self {
            line: text("line"),
            headers,
            body: text("body"),
            peer: text("peer"),
        }
    }

    fn values(&self, name: &str) -> Vec<&str> {
        let values = self.headers.get(name).into_iter().flatten();
        values.map(String::as_str).collect()
    }
}

/// Sends the request through both and fails if the backend receives different
/// ones.
async fn heard(
    (direct, front): (&Client, &Client),
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: &'static str,
) -> Heard {
    let path = format!("{THINGS}/echo{path}");
    let mut both = Vec::new();
    for client in [direct, front] {
        let answer = client.send(method.clone(), &path, headers, body).await;
        both.push(Heard::parse(&answer.expect(200)));
    }
    assert_eq!(both[0], both[1], "{method} {path} {headers:?}");
    both.pop().expect("two")
}

#[tokio::test]
async fn a_backend_hears_who_asks_and_nothing_else_of_him() {
    let twins = &HostileTwins::shared().twins;
    let (direct, front) = (twins.direct_client(), twins.front_client());
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let (direct, front) = (direct.over(protocol), front.over(protocol));
        let claims = [
            ("x-remote-user", "somebody-else"),
            ("x-remote-group", "system:masters"),
            ("x-remote-uid", "17"),
            ("x-remote-extra-scopes", "everything"),
            ("authorization", "Bearer token-of-root"),
            ("x-own", "mine"),
            ("x-own", "twice"),
        ];
        // The certificate takes precedence over the token.
        let heard = heard((&direct, &front), Method::GET, "", &claims, "").await;
        assert_eq!(heard.values("x-remote-user"), ["kubernetes-admin"]);
        assert_eq!(
            heard.values("x-remote-group"),
            ["system:masters", "system:authenticated"]
        );
        assert_eq!(heard.values("x-remote-extra-scopes"), [""; 0]);
        assert_eq!(heard.values("authorization"), [""; 0]);
        assert_eq!(heard.values("x-own"), ["mine", "twice"]);
        assert_eq!(heard.peer, "front-proxy");
    }
}

#[tokio::test]
async fn names_of_all_kinds_arrive() {
    let twins = &HostileTwins::shared().twins;
    let (direct, front) = twins.clients_of("Zoë & co/1", &["system:masters", "a b & ü"]);
    let heard_of = heard((&direct, &front), Method::GET, "/1", &[], "").await;
    assert_eq!(heard_of.values("x-remote-group").len(), 3);

    // The user of a token has a uid.
    let (direct, front) = (twins.oracle.client(None), twins.front.client(None));
    let (direct, front) = (direct.token("token-of-tess"), front.token("token-of-tess"));
    // tess has no rights: RBAC refuses her.
    let mut both = Differential::new(direct, front).expecting(Expect::NotAsked);
    both.get(&format!("{THINGS}/echo")).await;
    both.finish();
    let (direct, front) = (twins.oracle.client(None), twins.front.client(None));
    let (direct, front) = (direct.token("token-of-root"), front.token("token-of-root"));
    let root = heard((&direct, &front), Method::GET, "/2", &[], "").await;
    assert_eq!(root.values("x-remote-user"), ["root"]);
    assert_eq!(root.values("x-remote-uid"), ["uid-of-root"]);
}

#[tokio::test]
async fn who_is_impersonated_is_who_asks() {
    let twins = &HostileTwins::shared().twins;
    let clients = (&twins.direct_client(), &twins.front_client());
    let headers = [
        ("impersonate-user", "alice"),
        ("impersonate-group", "developers"),
        ("impersonate-group", "system:masters"),
        ("impersonate-uid", "uid-of-alice"),
        ("impersonate-extra-Acme.com%2Fproject", "some project"),
        ("impersonate-extra-scopes", "view"),
        ("impersonate-extra-scopes", "edit"),
    ];
    let heard = heard(clients, Method::GET, "", &headers, "").await;
    assert_eq!(heard.values("x-remote-user"), ["alice"]);
    assert_eq!(heard.values("x-remote-uid"), ["uid-of-alice"]);
    assert_eq!(heard.values("x-remote-extra-scopes"), ["view", "edit"]);
    assert_eq!(heard.values("impersonate-user"), [""; 0]);
}

/// Queries arrive as `url.Values.Encode` writes them: sorted by key, without
/// what cannot be decoded.
#[tokio::test]
async fn paths_and_queries_arrive_as_go_writes_them() {
    let twins = &HostileTwins::shared().twins;
    let clients = (&twins.direct_client(), &twins.front_client());
    for rest in [
        "?b=2&a=1",
        "?b=2&a=1&b=1&a",
        "?a=%zz&b=1",
        "?a;b=1&c=2",
        "?q=a%20b&r=c+d&s=%C3%BC&t=~!*()'",
        "?=x&y=",
        "?",
        "?&&",
        "?a=1#",
        "/",
        "//double",
        "/a%2Fb",
        "/a%20b/%C3%BC",
        "/a+b/~!*()'$@,;:=",
        "/dry?dryRun=All&fieldManager=x&pretty=true",
    ] {
        heard(clients, Method::GET, rest, &[], "").await;
    }
}

#[tokio::test]
async fn methods_and_bodies_arrive() {
    let twins = &HostileTwins::shared().twins;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let clients = (
            &twins.direct_client().over(protocol),
            &twins.front_client().over(protocol),
        );
        for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"] {
            let method = Method::from_bytes(method.as_bytes()).expect("a method");
            let headers = [("content-type", "text/x-any"), ("accept", "x/y")];
            let heard = heard(clients, method, "/m", &headers, "some body").await;
            assert_eq!(heard.body, "some body");
        }
        let headers = [
            ("connection", "x-hop"),
            ("x-hop", "1"),
            ("te", "trailers"),
            ("x-forwarded-for", "10.1.2.3"),
            ("x-forwarded-proto", "gopher"),
            ("x-forwarded-uri", "/claimed"),
            ("forwarded", "for=10.1.2.3"),
            ("user-agent", "a test"),
            ("cookie", "a=b; c=d"),
        ];
        let headers = match protocol {
            Protocol::Http1 => &headers[..],
            // The first three exist only in HTTP/1.1.
            Protocol::Http2 => &headers[3..],
        };
        heard(clients, Method::GET, "/h", headers, "").await;
    }
}

#[tokio::test]
async fn answers_pass_as_they_are() {
    let twins = &HostileTwins::shared().twins;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let direct = twins.direct_client().over(protocol);
        let front = twins.front_client().over(protocol);
        let mut both = Differential::new(direct, front).expecting(Expect::NotAsked);
        for code in [
            200, 201, 204, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 409, 410, 418,
            422, 429, 500, 501, 502, 503, 504, 599,
        ] {
            for method in [Method::GET, Method::POST] {
                both.ask(method, &format!("{THINGS}/status/{code}"), &[], "")
                    .await;
            }
        }
        for rest in ["/slow/300", "/long/65536", "/long/5000000"] {
            both.get(&format!("{THINGS}{rest}")).await;
        }
        // These paths name objects of resources that the backend's discovery does
        // not list.
        for path in [
            &format!("{THINGS}/headers"),
            &format!("{THINGS}/drip"),
            &format!("{THINGS}/nothing"),
            "/apis/hostile.example.com/v2/things",
        ] {
            let not_listed = both.expect(Expect::Bypass("not_watchable"));
            not_listed.get(path).await;
        }
        both.get("/apis/hostile.example.com/v1/").await;
        both.get("/apis/hostile.example.com/v1/others/of/all/kinds")
            .await;
        both.get("/apis/hostile.example.com/v1things").await;
        both.finish();
    }
}

/// kube-apiserver rewrites links in HTML, for user interfaces of services that were
/// once reached through it. For a backend, the rewritten links name the backend's
/// own address, which clients cannot reach. apifront does not rewrite links.
#[tokio::test]
async fn html_passes_as_it_is() {
    skip_under_oracle!("kube-apiserver rewrites links in HTML");
    let shared = HostileTwins::shared();
    let front = shared.twins.front_client();
    let answer = front.get(&format!("{THINGS}/html")).await;
    assert_eq!(answer.status, 200);
    assert!(
        answer.text().contains("\"/elsewhere\""),
        "{}",
        answer.text()
    );
}

/// The aggregator removes these headers from answers.
#[tokio::test]
async fn headers_of_answers_that_stay_behind() {
    let twins = &HostileTwins::shared().twins;
    let mut both = Vec::new();
    for client in [twins.direct_client(), twins.front_client()] {
        let answer = client.get(&format!("{THINGS}/headers")).await;
        let mut names: Vec<String> = answer
            .headers
            .iter()
            .map(|(name, value)| {
                let value = String::from_utf8_lossy(value.as_bytes());
                let value = flow_names::name(&value);
                format!("{name}: {value}")
            })
            .filter(|line| {
                let name = line.split(':').next().unwrap_or("");
                // The date depends on the moment.
                name != "date"
            })
            .map(|line| {
                if line.starts_with("audit-id: ") && !line.contains("of-the-backend") {
                    "audit-id: ours".to_owned()
                } else {
                    line
                }
            })
            .collect();
        names.sort();
        both.push(names);
    }
    assert_eq!(both[0], both[1]);
}

/// A failed connection becomes a 503. Its text differs between the servers.
#[tokio::test]
async fn a_broken_connection_is_an_error_of_the_backend() {
    let twins = &HostileTwins::shared().twins;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        for (rest, whole) in [
            ("/close", true),
            ("/no-http", true),
            ("/half", false),
            ("/half-chunked", false),
        ] {
            let mut both = Vec::new();
            for client in [twins.direct_client(), twins.front_client()] {
                let client = client.over(protocol);
                let path = format!("{THINGS}{rest}");
                let answer = client.try_send(Method::GET, &path, &[], "").await;
                both.push(match answer {
                    Ok(answer) => format!(
                        "{} {} {}",
                        answer.status,
                        answer.header("content-type"),
                        answer.header("x-content-type-options")
                    ),
                    // The reader of half an answer must notice that it is
                    // incomplete.
                    Err(_) => "broken off".to_owned(),
                });
            }
            assert_eq!(both[0], both[1], "{protocol:?} {rest}");
            assert_eq!(both[0] == "broken off", !whole, "{both:?}");
        }
    }
}

#[tokio::test]
async fn upgrades_lead_to_the_backend() {
    let twins = &HostileTwins::shared().twins;
    let mut both = Vec::new();
    for client in [twins.direct_client(), twins.front_client()] {
        let mut told = Vec::new();
        for (method, protocol) in [
            ("GET", "websocket"),
            ("POST", "SPDY/3.1"),
            ("GET", "something-else"),
        ] {
            let mut connection = client.raw().await.expect("a connection");
            let request = format!(
                "{method} {THINGS}/upgrade?z=1&a=2 HTTP/1.1\r\nHost: localhost\r\n\
                 Connection: Upgrade\r\nUpgrade: {protocol}\r\nX-Remote-User: liar\r\n\r\n"
            );
            connection.write(request.as_bytes()).await.expect("write");
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                let byte = connection.read_exact(1).await.expect("the head");
                head.push(char::from(byte[0]));
            }
            assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
            let head = head.to_ascii_lowercase();
            assert!(head.contains("\r\nx-seen: kubernetes-admin\r\n"), "{head}");
            assert_eq!(connection.read_exact(5).await.expect("hello"), b"hello");
            let ping = "ping ".repeat(10_000);
            connection.write(ping.as_bytes()).await.expect("write");
            let pong = tokio::time::timeout(SOON, connection.read_exact(ping.len()));
            let pong = pong.await.expect("an echo").expect("an echo");
            assert!(pong == ping.as_bytes());
            told.push(head.lines().next().map(str::to_owned));
        }
        for code in [200, 302, 403, 500] {
            let mut connection = client.raw().await.expect("a connection");
            let request = format!(
                "GET {THINGS}/upgrade-refused/{code} HTTP/1.1\r\nHost: localhost\r\n\
                 Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
            );
            connection.write(request.as_bytes()).await.expect("write");
            let mut line = String::new();
            while !line.ends_with("\r\n") {
                let byte = connection.read_exact(1).await.expect("the head");
                line.push(char::from(byte[0]));
            }
            // The reason phrase does not matter.
            told.push(line.get(..12).map(str::to_owned));
        }
        both.push(told);
    }
    assert_eq!(both[0], both[1]);
}

#[tokio::test]
async fn a_slow_backend_holds_nobody_else() {
    let hostile = HostileTwins::shared();
    let front = hostile.twins.front_client();
    let hang = format!("{THINGS}/hang");
    let waiting: Vec<_> = (0..20)
        .map(|_| {
            let client = front.clone();
            let path = hang.clone();
            tokio::spawn(async move { client.try_send(Method::GET, &path, &[], "").await })
        })
        .collect();
    let began = std::time::Instant::now();
    for n in 0..50 {
        let answer = front.get(&format!("{THINGS}/echo/{n}")).await;
        assert_eq!(answer.status, 200);
    }
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    for task in waiting {
        task.abort();
    }
    assert!(hostile.backend.seen().len() > 50);
}
