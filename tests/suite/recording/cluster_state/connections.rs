//! Connections stay open where kube-apiserver keeps them open, and unusual forms of
//! a request keep their meaning.

use super::super::exchange::{Body, BodyFraming, Request, Waits, Wire, fields_of};
use super::Both;
use super::writes::Write;

const OBJECT: &str = "/api/v1/namespaces/{ns}/configmaps/o1";

fn get(wire: Wire, target: &str, fields: &[(&str, &str)]) -> Request {
    Request {
        number: 0,
        wire,
        method: b"GET".to_vec(),
        target: target.as_bytes().to_vec(),
        authority: Some(b"localhost".to_vec()),
        fields: fields_of(fields),
        body: Body::default(),
    }
}

/// Sends each request to both servers in turn, on one connection if they keep it
/// open.
async fn same(requests: Vec<Request>) {
    let mut both = Both::new().await;
    both.create_all().await;
    let mut wrong = Vec::new();
    for request in requests {
        let write = Write::new(request);
        let (_, difference) = both.ask(&write).await;
        wrong.extend(difference.map(|difference| format!("{}\n{difference}", write.shown())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[tokio::test]
async fn a_connection_outlives_expectations_and_declined_upgrades() {
    let host = ("Host", "localhost");
    let mut expecting = get(
        Wire::Http11,
        OBJECT,
        &[
            host,
            ("Content-Type", "application/merge-patch+json"),
            ("Expect", "100-continue"),
        ],
    );
    expecting.method = b"PATCH".to_vec();
    expecting.body.framing = BodyFraming::Length;
    expecting.body.pieces = vec![b"{\"data\":{\"a\":\"d\"}}".to_vec()];
    expecting.body.waits = Waits::Continue;
    let declined = |protocol: &str| {
        let fields = [host, ("Connection", "Upgrade"), ("Upgrade", protocol)];
        get(Wire::Http11, OBJECT, &fields)
    };
    same(vec![
        expecting.clone(),
        get(Wire::Http11, OBJECT, &[host]),
        declined("h2c"),
        declined("websocket"),
        declined("TLS/1.2"),
        declined(""),
        expecting,
        get(Wire::Http11, OBJECT, &[host, ("Connection", "keep-alive")]),
        get(Wire::Http11, OBJECT, &[host, ("Connection", "close")]),
    ])
    .await;
}

#[tokio::test]
async fn an_absolute_target_may_name_any_authority() {
    let host = ("Host", "localhost");
    let authorities = [
        "localhost",
        "localhost:1",
        "elsewhere.example:443",
        "127.0.0.1:6443",
    ];
    let absolute = authorities.iter().flat_map(|authority| {
        ["http", "https"].map(|scheme| {
            let target = format!("{scheme}://{authority}{OBJECT}?pretty=false");
            get(Wire::Http11, &target, &[host])
        })
    });
    same(absolute.collect()).await;
}

/// None of these may end the whole connection, name another object, or reset the
/// stream. kube-apiserver resets a stream for an invalid escape, and ends the
/// connection for a head that is too large. apifront answers these with a Status:
/// see `faults.rs`.
#[tokio::test]
async fn odd_requests_of_http2_concern_their_own_streams() {
    let odd = |target: &str| get(Wire::Http2, target, &[]);
    let with = |name: &str, value: &str| get(Wire::Http2, OBJECT, &[(name, value)]);
    let mut raw = odd(OBJECT);
    raw.target.extend(b"\xff\xc3\xa9");
    let mut nameless = odd(OBJECT);
    nameless.authority = None;
    let mut deleted = odd(&format!("{OBJECT}#old"));
    deleted.method = b"DELETE".to_vec();
    let large = "x".repeat(350_000);
    same(vec![
        odd(OBJECT),
        deleted,
        odd(&format!("{OBJECT}#old")),
        odd(&format!("{OBJECT}<a>\"`")),
        odd(&format!("{OBJECT} b")),
        odd("/api/v1/namespaces/{ns}/configmaps?labelSelector=v%3D1#x"),
        raw,
        nameless,
        with("x-large", &large),
        with("x-control", "a\0b"),
        with("X-Capital", "1"),
        with("x y", "1"),
        with("x-octets", "\u{e4}"),
        odd(&format!("{OBJECT}\u{1}")),
        odd(OBJECT),
    ])
    .await;
}
