//! Negotiates the representation of discovery: the aggregated document
//! (apidiscovery.k8s.io) or the plain documents (k8s.io/apiserver
//! `endpoints/discovery/aggregated`).

use http::HeaderMap;

use super::accept_header::{self, first_accept, first_match, is_read_otherwise};
use super::clause::Clause;
use super::pretty::wants_pretty;
use super::representation::{MediaType, OFFERED};
use crate::api::Query;

/// The kind that a client names for the aggregated document.
const AGGREGATED: (&str, &str, &str) = ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2");

/// The same kind in the version that releases before 1.33 also serve. If a client
/// asks a newer server for it, it gets the next choice in its header.
const BETA: (&str, &str, &str) = (AGGREGATED.0, AGGREGATED.1, "v2beta1");

/// The aggregated documents at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregated {
    /// All APIs, including those that only peers of the API server have.
    V2,
    /// Only the API server's own APIs.
    V2WithoutPeers,
    /// Only the API server's own APIs, in version v2beta1.
    V2Beta1,
}

impl Aggregated {
    /// Returns the `apiVersion` of the document.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V2 | Self::V2WithoutPeers => "apidiscovery.k8s.io/v2",
            Self::V2Beta1 => "apidiscovery.k8s.io/v2beta1",
        }
    }
}

/// The representations that a discovery path has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiscoveryOffer {
    /// True if the path has an aggregated document.
    pub aggregated: bool,
    /// True if the path has that document in version v2beta1, too.
    pub v2beta1: bool,
    /// See [`super::Offer::routed`].
    pub routed: bool,
    /// See [`super::Offer::perhaps_more`].
    pub perhaps_more: bool,
}

/// The form of an answer to a discovery request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiscoveryRepresentation {
    /// The aggregated document that is wanted, or `None` for the plain one.
    pub aggregated: Option<Aggregated>,
    /// The encoding.
    pub media_type: MediaType,
    /// True for indented output. It exists only in JSON.
    pub pretty: bool,
}

impl DiscoveryRepresentation {
    /// Returns the Content-Type of the answer.
    pub fn content_type(self) -> &'static str {
        use Aggregated::{V2, V2Beta1, V2WithoutPeers};
        match (self.aggregated, self.media_type) {
            (None, media_type) => media_type.as_str(),
            (Some(V2 | V2WithoutPeers), MediaType::Json) => {
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            }
            (Some(V2 | V2WithoutPeers), MediaType::Yaml) => {
                "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            }
            (Some(V2 | V2WithoutPeers), MediaType::Protobuf) => {
                "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            }
            (Some(V2Beta1), MediaType::Json) => {
                "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
            }
            (Some(V2Beta1), MediaType::Yaml) => {
                "application/yaml;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
            }
            (Some(V2Beta1), MediaType::Protobuf) => {
                "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
            }
        }
    }
}

/// The outcome of a negotiation about discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscoveryNegotiation {
    /// The client accepts this representation.
    Accepted(DiscoveryRepresentation),
    /// kube-apiserver answers 406.
    NotAcceptable,
    /// Only the API server can decide.
    Unknown,
}

/// Chooses the representation of a discovery document.
pub fn negotiate_discovery(
    headers: &HeaderMap,
    query: &Query,
    offer: DiscoveryOffer,
) -> DiscoveryNegotiation {
    let Some(header) = first_accept(headers) else {
        return DiscoveryNegotiation::Unknown;
    };
    let accepted = |aggregated, media_type, pretty| {
        DiscoveryNegotiation::Accepted(DiscoveryRepresentation {
            aggregated,
            media_type,
            pretty: media_type == MediaType::Json && (pretty || wants_pretty(headers, query)),
        })
    };
    if header.is_empty() {
        return accepted(None, MediaType::Json, false);
    }
    if offer.routed && !accept_header::route_matches(header, &OFFERED.map(MediaType::as_str)) {
        return DiscoveryNegotiation::NotAcceptable;
    }
    let Some(clauses) = accept_header::parse(header) else {
        return DiscoveryNegotiation::Unknown;
    };
    let is_served = |kind: (&str, &str, &str)| kind == AGGREGATED || offer.v2beta1 && kind == BETA;
    let read = |clause: &Clause<'_>, media_type| {
        clause.param("sv").is_none_or(str::is_empty) && clause.stream_allowed(media_type)
    };
    // The first search decides whether the aggregated document is wanted. It skips
    // clauses that name no kind (`DiscoveryEndpointRestrictions`). If it finds
    // nothing, a second search finds the encoding of the plain document.
    let aggregated = |clause: &Clause<'_>, media_type| {
        clause.transform().is_some_and(is_served) && read(clause, media_type)
    };
    let plain =
        |clause: &Clause<'_>, media_type| clause.transform().is_none() && read(clause, media_type);
    let wanted = offer
        .aggregated
        .then(|| first_match(&clauses, aggregated))
        .flatten();
    let found = wanted.or_else(|| first_match(&clauses, plain));
    if offer.perhaps_more && is_read_otherwise(&clauses, wanted.map(|(clause, _)| clause), false) {
        return DiscoveryNegotiation::Unknown;
    }
    let Some((clause, media_type)) = found else {
        return DiscoveryNegotiation::NotAcceptable;
    };
    let aggregated = clause
        .transform()
        .map(|kind| match clause.param("profile") {
            _ if kind == BETA => Aggregated::V2Beta1,
            Some("nopeer") => Aggregated::V2WithoutPeers,
            _ => Aggregated::V2,
        });
    accepted(aggregated, media_type, clause.asks_for_pretty())
}

#[cfg(test)]
mod tests {
    use http::header::{ACCEPT, HeaderValue};

    use super::*;

    const V2: &str = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    const V2BETA1: &str = "g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

    fn shown(accept: &str, v2beta1: bool) -> String {
        let offer = DiscoveryOffer {
            aggregated: true,
            v2beta1,
            routed: false,
            perhaps_more: true,
        };
        let accept = accept.replace("{V2}", V2).replace("{V2BETA1}", V2BETA1);
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_str(&accept).unwrap());
        match negotiate_discovery(&headers, &Query::default(), offer) {
            DiscoveryNegotiation::Accepted(r) => {
                let what = match r.aggregated {
                    Some(Aggregated::V2) => "all",
                    Some(Aggregated::V2WithoutPeers) => "nopeer",
                    Some(Aggregated::V2Beta1) => "beta",
                    None => "plain",
                };
                let pretty = if r.pretty { " pretty" } else { "" };
                format!("{what} {:?}{pretty}", r.media_type)
            }
            DiscoveryNegotiation::NotAcceptable => "406".to_owned(),
            DiscoveryNegotiation::Unknown => "?".to_owned(),
        }
    }

    /// The answers of kube-apiserver 1.36 at `/apis`.
    #[test]
    fn the_document_of_everything_is_named_by_its_kind() {
        for (accept, expected) in [
            ("", "plain Json"),
            ("application/json", "plain Json"),
            ("application/*", "plain Json"),
            ("application/yaml", "plain Yaml"),
            ("text/html", "406"),
            ("application/cbor", "406"),
            ("application/json;{V2}", "all Json"),
            ("application/yaml;{V2}", "all Yaml"),
            ("application/vnd.kubernetes.protobuf;{V2}", "all Protobuf"),
            ("*/*;{V2}", "all Json"),
            ("application/json;{V2};stream=watch", "all Json"),
            ("application/json;{V2};pretty=1", "all Json pretty"),
            ("application/json;{V2};profile=nopeer", "nopeer Json"),
            ("application/json;{V2};sv=v1", "406"),
            ("application/json;{V2},application/json", "all Json"),
            ("application/json,application/json;{V2}", "all Json"),
            ("*/*,application/yaml;{V2};q=0.1", "all Yaml"),
            ("application/json;sv=v1,application/yaml;{V2}", "all Yaml"),
            ("application/json;{V2};drop=x", "?"),
            ("application/json;{V2},application/json;drop=x", "all Json"),
            ("text/html;level=1,application/json", "plain Json"),
            ("application/json,application/json;drop=x", "?"),
            ("application/cbor;{V2},application/yaml", "plain Yaml"),
            ("application/json;{V2BETA1}", "406"),
            (
                "application/json;{V2BETA1},application/json;{V2}",
                "all Json",
            ),
            ("application/json;as=Table;g=meta.k8s.io;v=v1", "406"),
        ] {
            assert_eq!(shown(accept, false), expected, "{accept}");
        }
    }

    /// The answers of kube-apiserver 1.32.
    #[test]
    fn releases_before_1_33_serve_v2beta1() {
        for (accept, expected) in [
            ("application/json;{V2BETA1}", "beta Json"),
            ("application/yaml;{V2BETA1}", "beta Yaml"),
            ("application/json;{V2BETA1};profile=nopeer", "beta Json"),
            (
                "application/json;{V2BETA1},application/json;{V2}",
                "beta Json",
            ),
            (
                "application/json;{V2},application/json;{V2BETA1}",
                "all Json",
            ),
            ("application/json;{V2}", "all Json"),
            (
                "application/json;g=apidiscovery.k8s.io;v=v1;as=APIGroupDiscoveryList",
                "406",
            ),
        ] {
            assert_eq!(shown(accept, true), expected, "{accept}");
        }
    }
}
