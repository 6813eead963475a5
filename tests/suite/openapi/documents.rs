//! Compares every document in every encoding, with all relevant headers.

use http::Method;

use super::{V2_PROTOBUF, V3_PROTOBUF, ask, none};
use crate::harness::apifront::Apifront;
use crate::harness::client::{Client, Protocol};
use crate::harness::cluster::Cluster;

fn both() -> (Client, Client) {
    let direct = Cluster::quiet().admin_client();
    (direct, Apifront::quiet().admin_client())
}

/// Returns the keys and their URLs.
async fn keys(client: &Client) -> Vec<(String, String)> {
    let root = client.get("/openapi/v3").await.expect(200);
    let paths = root["paths"].as_object().expect("paths");
    let url = |item: &serde_json::Value| item["serverRelativeURL"].as_str().map(str::to_owned);
    paths
        .iter()
        .map(|(key, item)| (key.clone(), url(item).expect("a URL")))
        .collect()
}

#[tokio::test]
async fn every_document_of_v3() {
    let (direct, front) = both();
    let mut differences = Vec::new();
    let keys = keys(&direct).await;
    assert!(keys.len() > 40, "{}", keys.len());
    for (_, url) in &keys {
        for accept in ["application/json", V3_PROTOBUF] {
            // Each document is read twice: first it is fetched, then it comes from
            // memory.
            for _ in 0..2 {
                let headers = [("accept", accept), ("accept-encoding", "gzip")];
                ask(
                    &direct,
                    &front,
                    Method::GET,
                    url,
                    &headers,
                    &mut differences,
                )
                .await;
            }
        }
    }
    none(&differences);
}

#[tokio::test]
async fn hashes_conditions_and_accept_of_v3() {
    let (direct, front) = both();
    let mut differences = Vec::new();
    let keys = keys(&direct).await;
    let of = |wanted: &str| {
        let found = keys.iter().find(|(key, _)| key == wanted);
        found.expect("a known key").1.clone()
    };
    let (right, core) = (of("apis/apps/v1"), of("api/v1"));
    let etag = format!("\"{}\"", right.split_once("hash=").expect("a hash").1);
    let weak = format!("W/{etag}");
    let several = format!("\"x\", {etag}");
    let paths = [
        right.as_str(),
        core.as_str(),
        "/openapi/v3/apis/apps/v1",
        "/openapi/v3/apis/apps/v1?hash=",
        "/openapi/v3/apis/apps/v1?hash=WRONG",
        "/openapi/v3/apis/apps/v1?hash=WRONG&hash=x&y=z",
        "/openapi/v3/apis/apps/v1/",
        "/openapi/v3/apis/apps",
        "/openapi/v3/apis",
        "/openapi/v3/version",
        "/openapi/v3/no/such/key",
        "/openapi/v3/",
        "/openapi/v3",
        "/openapi/v3?hash=x",
        "/openapi/v",
        "/openapi/v1",
        "/openapi",
        "/openapi/",
        "/swagger.json",
    ];
    let old = "Sat, 21 Nov 2015 12:40:33 GMT";
    let future = "Sat, 21 Nov 2099 12:40:33 GMT";
    for path in paths {
        for headers in [
            &[][..],
            &[("if-none-match", etag.as_str())],
            &[("if-none-match", weak.as_str())],
            &[("if-none-match", several.as_str())],
            &[("if-none-match", "\"other\"")],
            &[("if-none-match", "*")],
            &[("if-match", etag.as_str())],
            &[("if-match", "\"other\"")],
            &[("if-modified-since", old)],
            &[("if-modified-since", future)],
            &[("if-unmodified-since", old)],
            &[("if-unmodified-since", future)],
            &[("if-none-match", "\"x\""), ("if-modified-since", future)],
            &[("range", "bytes=0-9")],
            &[("accept", "*/*")],
            &[("accept", "application/*")],
            &[("accept", "*/json")],
            &[("accept", "text/html")],
            &[("accept", "text/html, application/json;q=0.1")],
            &[(
                "accept",
                "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
            )],
            &[(
                "accept",
                "application/json;q=0.2, application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
            )],
            &[(
                "accept",
                "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
            )],
            &[("accept", "application/yaml")],
            &[("accept", "")],
            &[("accept", ",")],
            &[("accept-encoding", "gzip")],
        ] {
            ask(
                &direct,
                &front,
                Method::GET,
                path,
                headers,
                &mut differences,
            )
            .await;
        }
        for method in [Method::HEAD, Method::OPTIONS, Method::POST] {
            ask(&direct, &front, method, path, &[], &mut differences).await;
        }
    }
    none(&differences);
}

#[tokio::test]
async fn v2_in_every_way() {
    let (direct, front) = both();
    let mut differences = Vec::new();
    let known = direct.get("/openapi/v2").await;
    let etag = known.header("etag").to_owned();
    let modified = known.header("last-modified").to_owned();
    let weak = format!("W/{etag}");
    for accept in [
        "application/json",
        V2_PROTOBUF,
        "*/*",
        "text/html",
        "application/xml;q=1,*/*;q=0.1",
        "",
        ",",
        "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
        V3_PROTOBUF,
    ] {
        for more in [
            &[][..],
            &[("accept-encoding", "gzip")],
            &[("accept-encoding", "gzip;q=0")],
            &[("accept-encoding", "deflate, GZIP;q=0.5")],
            &[("if-none-match", etag.as_str())],
            &[
                ("if-none-match", etag.as_str()),
                ("accept-encoding", "gzip"),
            ],
            &[("if-none-match", weak.as_str())],
            &[("if-none-match", "\"other\"")],
            &[("if-modified-since", modified.as_str())],
            &[("if-match", "\"other\"")],
            &[("range", "bytes=0-9")],
        ] {
            let mut headers = vec![("accept", accept)];
            headers.extend_from_slice(more);
            for method in [Method::GET, Method::HEAD] {
                ask(
                    &direct,
                    &front,
                    method,
                    "/openapi/v2",
                    &headers,
                    &mut differences,
                )
                .await;
            }
        }
    }
    for path in ["/openapi/v2?timeout=3s", "/openapi/v2/"] {
        ask(&direct, &front, Method::GET, path, &[], &mut differences).await;
    }
    for method in [Method::POST, Method::OPTIONS] {
        ask(
            &direct,
            &front,
            method,
            "/openapi/v2",
            &[],
            &mut differences,
        )
        .await;
    }
    none(&differences);
}

#[tokio::test]
async fn over_http_1_1_too() {
    let (direct, front) = both();
    let mut differences = Vec::new();
    let (direct, front) = (direct.over(Protocol::Http1), front.over(Protocol::Http1));
    let etag = direct.get("/openapi/v2").await.header("etag").to_owned();
    for path in [
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/api/v1",
        "/openapi/v3/api/v1?hash=x",
    ] {
        for headers in [&[][..], &[("if-none-match", etag.as_str())]] {
            for method in [Method::GET, Method::HEAD] {
                ask(&direct, &front, method, path, headers, &mut differences).await;
            }
        }
    }
    none(&differences);
}
