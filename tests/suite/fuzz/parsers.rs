//! No parser panics, whatever a client writes into a request. (Watch frames, which
//! come from the upstream, are fuzzed where they are read:
//! `crates/watch-cache/src/reflector/watch_decoder.rs`.)

use apifront_watch_cache::read;
use http::{HeaderMap, HeaderValue, Method};
use kubernetes_wire::api::{FieldSelector, LabelSelector, ListOptions, Query};
use kubernetes_wire::negotiation;
use kubernetes_wire::request::RequestInfo;
use proptest::prelude::*;

/// Generates text from the alphabet of query strings, and sometimes other text.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            "app", "=", "==", "!=", "!", ",", "(", ")", " in ", " notin ", ">", "<", " ", "a/b",
            "metadata.name", "\\", "\\,", "\\=", "-", ".", "0", "-1", "18446744073709551616",
            "true", "false", "",
        ]).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat())
}

/// Generates a query string with the keys of reads, correctly encoded or not.
fn query() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![
        "labelSelector",
        "fieldSelector",
        "resourceVersion",
        "resourceVersionMatch",
        "limit",
        "continue",
        "watch",
        "timeoutSeconds",
        "sendInitialEvents",
        "allowWatchBookmarks",
        "pretty",
        "includeObject",
        "timeout",
        "%zz",
        "",
    ]);
    let value = prop_oneof![
        text(),
        text().prop_map(|t| {
            let set = percent_encoding::NON_ALPHANUMERIC;
            percent_encoding::utf8_percent_encode(&t, set).to_string()
        }),
    ];
    let pair = (key, prop::sample::select(vec!["=", "", "=="]), value)
        .prop_map(|(key, equals, value)| format!("{key}{equals}{value}"));
    prop::collection::vec(pair, 0..8).prop_map(|pairs| pairs.join("&"))
}

fn path() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => prop::sample::select(vec![
            "api", "apis", "v1", "apps", "namespaces", "pods", "watch", "proxy", "x", "", ".", "..",
            "%2e", "%2F", "%", "%zz", "status",
        ]).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    prop::collection::vec(part, 0..9).prop_map(|parts| format!("/{}", parts.join("/")))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn selectors_never_panic(text in text()) {
        let _ = LabelSelector::parse(&text);
        let _ = FieldSelector::parse(&text);
    }

    #[test]
    fn options_never_panic(query in query()) {
        let query = Query::parse(&query);
        let _ = read::get(&query);
        if let Ok(options) = ListOptions::from_query(&query) {
            let _ = options.version_match();
            let _ = read::list(&options);
            let _ = read::watch(&options);
        }
    }

    #[test]
    fn paths_never_panic(path in path(), query in query()) {
        let query = Query::parse(&query);
        for method in [Method::GET, Method::POST, Method::DELETE] {
            if let Ok(info) = RequestInfo::parse(&method, &path, &query) {
                let _ = (info.attributes(), info.is_canonical(), info.scope());
            }
        }
    }

    #[test]
    fn accept_never_panics(header in text()) {
        let mut headers = HeaderMap::new();
        if let Ok(value) = HeaderValue::from_str(&header) {
            headers.insert("accept", value);
            let query = Query::parse(&header);
            let _ = negotiation::error_encoding(&headers, &query);
            let _ = negotiation::accepts_gzip(&headers);
        }
    }
}
