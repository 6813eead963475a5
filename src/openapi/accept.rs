//! Chooses the encoding for a client by kube-openapi's rules: goautoneg orders the
//! clauses, and the first encoding that a clause names is taken.

use http::HeaderMap;
use http::header::{ACCEPT, ACCEPT_ENCODING};
use kubernetes_wire::negotiation::parse_accept;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Encoding {
    Json,
    Protobuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Version {
    V2,
    V3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accepted {
    Encoding(Encoding),
    /// The client accepts no encoding: the answer is 406.
    None,
    /// A header without any clause.
    NoClause,
    /// A header whose clauses only Go's own sorting can order.
    Unreadable,
}

impl Version {
    /// Returns the subtypes in the order of trial.
    fn subtypes(self) -> [(&'static str, Encoding); 3] {
        use Encoding::{Json, Protobuf};
        match self {
            Self::V2 => [
                ("json", Json),
                ("com.github.proto-openapi.spec.v2@v1.0+protobuf", Protobuf),
                ("com.github.proto-openapi.spec.v2.v1.0+protobuf", Protobuf),
            ],
            Self::V3 => [
                ("json", Json),
                ("com.github.proto-openapi.spec.v3.v1.0+protobuf", Protobuf),
                ("com.github.proto-openapi.spec.v3@v1.0+protobuf", Protobuf),
            ],
        }
    }

    /// Returns the type to ask an API server for. Servers of any age know the type
    /// with `@`.
    pub(super) fn accept(self, encoding: Encoding) -> &'static str {
        match (self, encoding) {
            (_, Encoding::Json) => "application/json",
            (Self::V2, Encoding::Protobuf) => {
                "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
            }
            (Self::V3, Encoding::Protobuf) => {
                "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
            }
        }
    }

    /// Returns the Content-Type of answers. Older servers answer with the `@`.
    pub(super) fn content_type(self, encoding: Encoding) -> &'static str {
        match (self, encoding) {
            (_, Encoding::Json) => "application/json",
            (Self::V2, Encoding::Protobuf) => {
                "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
            }
            (Self::V3, Encoding::Protobuf) => {
                "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
            }
        }
    }

    pub(super) fn negotiate(self, headers: &HeaderMap) -> Accepted {
        let accept = match headers.get(ACCEPT).map(|v| v.to_str()) {
            None | Some(Ok("")) => "*/*",
            Some(Ok(accept)) => accept,
            Some(Err(_)) => return Accepted::Unreadable,
        };
        let Some(clauses) = parse_accept(accept) else {
            return Accepted::Unreadable;
        };
        if clauses.is_empty() {
            return Accepted::NoClause;
        }
        let subtypes = self.subtypes();
        clauses
            .iter()
            .filter(|clause| matches!(clause.kind, "application" | "*"))
            .find_map(|clause| {
                let named =
                    |(subtype, _): &&(&str, _)| clause.subtype == *subtype || clause.subtype == "*";
                subtypes.iter().find(named)
            })
            .map_or(Accepted::None, |(_, encoding)| {
                Accepted::Encoding(*encoding)
            })
    }
}

/// Tells whether v2 is compressed for this client. In kube-apiserver NYTimes'
/// gziphandler decides so. It reads weights, unlike the handlers of resources. v3 is
/// never compressed.
pub(super) fn wants_gzip(headers: &HeaderMap) -> bool {
    let Some(Ok(text)) = headers.get(ACCEPT_ENCODING).map(|v| v.to_str()) else {
        return false;
    };
    // A later coding of the same name replaces an earlier one.
    let mut weights = text.split(',').filter_map(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        if !parts.next()?.eq_ignore_ascii_case("gzip") {
            return None;
        }
        match parts.next_back().and_then(|p| p.strip_prefix("q=")) {
            Some(weight) => weight.parse::<f64>().ok(),
            None => Some(1.0),
        }
    });
    weights.next_back().is_some_and(|weight| weight > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: http::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    #[test]
    fn the_first_clause_that_fits() {
        use Accepted::{Encoding as Is, NoClause, None, Unreadable};
        use Encoding::{Json, Protobuf};
        const V2: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
        for (accept, expected) in [
            ("", Is(Json)),
            ("*/*", Is(Json)),
            ("application/*", Is(Json)),
            (V2, Is(Protobuf)),
            (
                "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
                Is(Protobuf),
            ),
            ("text/html, application/json;q=0.1", Is(Json)),
            ("*/json", Is(Json)),
            ("text/html", None),
            ("application/yaml", None),
            (",", NoClause),
            ("application/json;q=0x1", Unreadable),
        ] {
            let headers = with(ACCEPT, accept);
            assert_eq!(Version::V2.negotiate(&headers), expected, "{accept}");
        }
        let both = format!("application/json;q=0.5,{V2}");
        assert_eq!(Version::V2.negotiate(&with(ACCEPT, &both)), Is(Protobuf));
        assert_eq!(Version::V3.negotiate(&with(ACCEPT, V2)), None);
        assert_eq!(Version::V3.negotiate(&HeaderMap::new()), Is(Json));
    }

    #[test]
    fn gzip_is_weighed() {
        for (text, expected) in [
            ("gzip", true),
            ("GZIP;q=0.1", true),
            ("gzip;q=0", false),
            ("deflate, gzip;q=1", true),
            ("gzip;q=0, gzip", true),
            ("*", false),
            ("", false),
        ] {
            assert_eq!(wants_gzip(&with(ACCEPT_ENCODING, text)), expected, "{text}");
        }
        assert!(!wants_gzip(&HeaderMap::new()));
    }
}
