//! Negotiates the representation of discovery: the aggregated document
//! (apidiscovery.k8s.io) or the plain documents (k8s.io/apiserver
//! `endpoints/discovery/aggregated`).

use http::HeaderMap;

use super::{
    Clause, MediaType, OFFERED, accept, first_accept, first_match, media_pretty, stream_allowed,
    transform_of, wants_pretty,
};
use crate::api::Query;

/// The kind that a client names for the aggregated document. 1.35 removed
/// v2beta1: a client that asks for it gets the next choice in its header.
const AGGREGATED: (&str, &str, &str) = ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2");

/// The representations that a discovery path has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiscoveryOffer {
    /// True if the path has an aggregated document.
    pub aggregated: bool,
    /// See [`super::Offer::routed`].
    pub routed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiscoveryRepresentation {
    pub aggregated: bool,
    /// Set for the aggregated document if it lists only the APIs of this API
    /// server, without those of its peers.
    pub without_peers: bool,
    pub media_type: MediaType,
    pub pretty: bool,
}

impl DiscoveryRepresentation {
    pub fn content_type(self) -> &'static str {
        match (self.aggregated, self.media_type) {
            (false, media_type) => media_type.as_str(),
            (true, MediaType::Json) => {
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            }
            (true, MediaType::Yaml) => {
                "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            }
            (true, MediaType::Protobuf) => {
                "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscoveryNegotiation {
    Accepted(DiscoveryRepresentation),
    NotAcceptable,
    /// Only the API server can decide.
    Unknown,
}

pub fn negotiate_discovery(
    headers: &HeaderMap,
    query: &Query,
    offer: DiscoveryOffer,
) -> DiscoveryNegotiation {
    let Some(header) = first_accept(headers) else {
        return DiscoveryNegotiation::Unknown;
    };
    let accepted = |aggregated, without_peers, media_type, pretty| {
        DiscoveryNegotiation::Accepted(DiscoveryRepresentation {
            aggregated,
            without_peers,
            media_type,
            pretty: media_type == MediaType::Json && (pretty || wants_pretty(headers, query)),
        })
    };
    if header.is_empty() {
        return accepted(false, false, MediaType::Json, false);
    }
    if offer.routed && !accept::route_matches(header, &OFFERED.map(MediaType::as_str)) {
        return DiscoveryNegotiation::NotAcceptable;
    }
    let Some(clauses) = accept::parse(header) else {
        return DiscoveryNegotiation::Unknown;
    };
    let allowed = |clause: &Clause<'_>, media_type, transforms: bool| {
        let transform = transform_of(clause);
        transform.is_none_or(|t| transforms && t == AGGREGATED)
            && clause.param("sv").is_none_or(str::is_empty)
            && stream_allowed(clause, media_type)
    };
    // The first search finds out whether the aggregated document is wanted. If
    // not, a second search finds the encoding of the plain document.
    if offer.aggregated
        && let Some((clause, media_type)) = first_match(&clauses, |c, m| allowed(c, m, true))
        && transform_of(clause).is_some()
    {
        let without_peers = clause.param("profile") == Some("nopeer");
        return accepted(true, without_peers, media_type, media_pretty(clause));
    }
    match first_match(&clauses, |c, m| allowed(c, m, false)) {
        Some((clause, media_type)) => accepted(false, false, media_type, media_pretty(clause)),
        None => DiscoveryNegotiation::NotAcceptable,
    }
}

#[cfg(test)]
mod tests {
    use http::header::{ACCEPT, HeaderValue};

    use super::*;

    /// The answers of kube-apiserver 1.36 at `/apis`.
    #[test]
    fn the_document_of_everything_is_named_by_its_kind() {
        const V2: &str = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let offer = DiscoveryOffer {
            aggregated: true,
            routed: false,
        };
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
            ("application/json,application/json;{V2}", "plain Json"),
            ("application/cbor;{V2},application/yaml", "plain Yaml"),
            (
                "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
                "406",
            ),
            (
                "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json;{V2}",
                "all Json",
            ),
            ("application/json;as=Table;g=meta.k8s.io;v=v1", "406"),
        ] {
            let accept = accept.replace("{V2}", V2);
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_str(&accept).unwrap());
            let shown = match negotiate_discovery(&headers, &Query::default(), offer) {
                DiscoveryNegotiation::Accepted(r) => {
                    let what = match (r.aggregated, r.without_peers) {
                        (true, false) => "all",
                        (true, true) => "nopeer",
                        (false, _) => "plain",
                    };
                    let pretty = if r.pretty { " pretty" } else { "" };
                    format!("{what} {:?}{pretty}", r.media_type)
                }
                DiscoveryNegotiation::NotAcceptable => "406".to_owned(),
                DiscoveryNegotiation::Unknown => "?".to_owned(),
            };
            assert_eq!(shown, expected, "{accept}");
        }
    }
}
