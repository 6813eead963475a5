//! Accept headers and the answers of kube-apiserver 1.36 to them.

use http::HeaderMap;
use http::header::{ACCEPT, HeaderValue, USER_AGENT};

use super::*;
use crate::api::Query;

fn headers(accept: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if !accept.is_empty() {
        headers.insert(ACCEPT, HeaderValue::from_str(accept).unwrap());
    }
    headers
}

fn show(negotiation: Negotiation) -> String {
    let Negotiation::Accepted(r) = negotiation else {
        return match negotiation {
            Negotiation::Unknown => "?",
            _ => "406",
        }
        .to_owned();
    };
    let version = |v| {
        if v == MetaVersion::V1 {
            "v1"
        } else {
            "v1beta1"
        }
    };
    let transform = match r.transform {
        Transform::None => String::new(),
        Transform::Table(v) => format!(" Table {}", version(v)),
        Transform::PartialObjectMetadata(v) => format!(" Partial {}", version(v)),
        Transform::PartialObjectMetadataList(v) => format!(" PartialList {}", version(v)),
    };
    let pretty = if r.pretty { " pretty" } else { "" };
    format!("{:?}{transform}{pretty}", r.media_type)
}

const BUILT_IN: [(&str, &str); 53] = [
    ("", "Json"),
    ("*/*", "Json"),
    ("application/*", "406"),
    ("*", "406"),
    ("application", "406"),
    ("text/html", "406"),
    ("application/json;q=0", "Json"),
    ("application/json;q=0,application/yaml", "Yaml"),
    ("application/yaml;q=0.5,application/json;q=0.4", "Yaml"),
    ("*/*;q=1,application/yaml;q=0.1", "Yaml"),
    ("application/yaml;q=0.1,*/*", "Json"),
    (
        "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
        "Json",
    ),
    ("APPLICATION/JSON", "406"),
    ("application/json;charset=utf-8", "Json"),
    ("application/json; pretty=1", "Json pretty"),
    ("application/json ; pretty=1", "Json pretty"),
    ("application/json;pretty=2", "Json"),
    ("application/json;pretty=1;pretty=0", "Json"),
    ("application/yaml;pretty=1", "Yaml"),
    ("application/json;stream=watch", "Json"),
    ("application/yaml;stream=watch", "406"),
    ("application/json;stream=x", "406"),
    ("application/json;stream=", "Json"),
    ("application/json;sv=v1", "Json"),
    ("application/json;sv=v2", "406"),
    ("application/json;export=1;profile=x", "Json"),
    (
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "Json Table v1",
    ),
    ("application/json;as=Table", "406"),
    ("application/json;as=Table;g=meta.k8s.io", "406"),
    (
        "application/json;as=Table;g=meta.k8s.io;v=v1beta1",
        "Json Table v1beta1",
    ),
    ("application/json;as=Table;g=meta.k8s.io;v=v2", "406"),
    ("application/json;as=\"Table\";v=v1;g=meta.k8s.io", "406"),
    (
        "application/yaml;as=Table;g=meta.k8s.io;v=v1",
        "Yaml Table v1",
    ),
    (
        "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1",
        "406",
    ),
    (
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        "Protobuf PartialList v1",
    ),
    (
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        "Json Partial v1",
    ),
    ("*/*;as=Table;g=meta.k8s.io;v=v1", "Json Table v1"),
    (
        "application/json;as=Foo;g=meta.k8s.io;v=v1,application/yaml",
        "Yaml",
    ),
    (
        "application/vnd.kubernetes.protobuf,application/json",
        "Protobuf",
    ),
    ("application/cbor,application/json", "?"),
    ("application/json;q=x,application/yaml;q=0.001", "Yaml"),
    ("application/json;as=;g=;v=", "Json"),
    ("application/json;v=v1", "406"),
    ("application/json;foo=a=b", "Json"),
    ("application/json;foo=a", "?"),
    ("application/json;drop=metadata.managedFields", "?"),
    ("application/json;drop=spec,application/json", "?"),
    ("application/json;as=Foo;drop=spec,application/json", "?"),
    ("application/json,application/json;drop=spec", "Json"),
    ("text/html;level=1,application/json", "Json"),
    ("application/signed-exchange;v=b3;q=0.9,*/*;q=0.8", "Json"),
    ("application/json/x,application/yaml", "Yaml"),
    (
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
        "Json Table v1",
    ),
];

#[test]
fn built_in_resources() {
    for (accept, expected) in BUILT_IN {
        let got = negotiate(&headers(accept), &Query::default(), Offer::BUILT_IN);
        assert_eq!(show(got), expected, "{accept}");
    }
}

#[test]
fn custom_resources() {
    for (accept, expected) in [
        ("", "Json"),
        ("application/*", "Json"),
        ("*", "Json"),
        ("text/html", "406"),
        ("application/vnd.kubernetes.protobuf", "406"),
        (
            "application/vnd.kubernetes.protobuf,application/json",
            "Json",
        ),
        (
            "*/*;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            "Json PartialList v1",
        ),
        (
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            "Protobuf PartialList v1",
        ),
        ("application/json;sv=v1", "Json"),
        ("application/json;sv=v2", "406"),
        ("application/json/,application/yaml", "Json"),
    ] {
        let got = negotiate(&headers(accept), &Query::default(), Offer::CUSTOM_RESOURCE);
        assert_eq!(show(got), expected, "{accept}");
    }
}

#[test]
fn watches() {
    for (accept, expected) in [
        ("", "Json"),
        ("application/yaml", "406"),
        ("application/yaml,application/json", "406"),
        ("application/json;pretty=1", "Json"),
        (
            "application/vnd.kubernetes.protobuf;stream=watch",
            "Protobuf",
        ),
        (
            "application/json;as=Table;v=v1;g=meta.k8s.io",
            "Json Table v1",
        ),
        (
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            "?",
        ),
        (
            "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1",
            "406",
        ),
    ] {
        let got = negotiate_watch(&headers(accept), Offer::BUILT_IN);
        assert_eq!(show(got), expected, "{accept}");
    }
}

#[test]
fn errors_are_negotiated_without_transforms() {
    use ErrorEncoding::*;
    for (accept, query, expected) in [
        ("", "", Json),
        ("*", "", Json),
        ("application/*", "", Json),
        ("application/yaml", "", Yaml),
        ("application/vnd.kubernetes.protobuf", "", Protobuf),
        ("text/html", "", IndentedJson),
        (
            "application/json;as=Table;g=meta.k8s.io;v=v1",
            "",
            IndentedJson,
        ),
        (
            "application/json;as=Table;g=meta.k8s.io;v=v1,application/json",
            "",
            Json,
        ),
        ("application/json;sv=v1", "", IndentedJson),
        ("application/json;pretty=1", "", IndentedJson),
        ("", "pretty=true", IndentedJson),
    ] {
        let got = error_encoding(&headers(accept), &Query::parse(query));
        assert_eq!(got, expected, "{accept}");
    }
}

#[test]
fn pretty_by_query_then_by_user_agent() {
    for (query, agent, expected) in [
        ("", "kubectl/v1.36", false),
        ("", "curl/8", true),
        ("", "Wget/1", true),
        ("", "Mozilla/5.0 (X)", true),
        ("pretty=0", "curl/8", false),
        ("pretty=yes", "curl/8", false),
        ("pretty=", "curl/8", true),
        ("pretty=T", "x", true),
    ] {
        let mut h = headers("application/json");
        h.insert(USER_AGENT, HeaderValue::from_static(agent));
        let got = negotiate(&h, &Query::parse(query), Offer::BUILT_IN);
        let expected = if expected { "Json pretty" } else { "Json" };
        assert_eq!(show(got), expected, "{query} {agent}");
    }
}

#[test]
fn only_the_first_accept_line_counts() {
    let mut h = headers("application/yaml");
    h.append(ACCEPT, HeaderValue::from_static("application/json"));
    let got = negotiate(&h, &Query::default(), Offer::BUILT_IN);
    assert_eq!(show(got), "Yaml");
}

#[test]
fn a_server_passes_over_what_it_does_not_know() {
    let offer = Offer {
        perhaps_more: false,
        ..Offer::BUILT_IN
    };
    for (accept, expected) in [
        ("application/cbor,application/json", "Json"),
        ("application/cbor", "406"),
        ("application/cbor,*/*", "Json"),
        ("application/json;drop=spec", "Json"),
    ] {
        let got = negotiate(&headers(accept), &Query::default(), offer);
        assert_eq!(show(got), expected, "{accept}");
    }
}

#[test]
fn the_filter_looks_at_names_alone() {
    for (accept, expected) in [
        ("", true),
        ("*/*", true),
        ("application/json;as=Table", true),
        ("text/html,application/yaml;q=0", true),
        ("application/*", false),
        ("text/html", false),
    ] {
        assert_eq!(passes_filter(&headers(accept)), expected, "{accept}");
    }
}
