//! Which representation a request asks for.
//!
//! The rules are those of apiserver `handlers/negotiation/negotiate.go`: the
//! first clause, by descending q, that can be satisfied wins.

use http::{HeaderMap, header::ACCEPT};

use kubernetes_wire::{
    api::{Reason, Status, status::Details},
    negotiation::{MediaType, MetaVersion},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    Json,
    Table(MetaVersion),
    Metadata(MetaVersion),
    MetadataList(MetaVersion),
    /// apidiscovery.k8s.io/v2 APIGroupDiscoveryList.
    Discovery,
}

/// What the request's place can offer beside plain JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Nothing: errors, answers of subresources.
    Json,
    /// Objects in every shape.
    Object,
    /// Lists, whose routes also stream.
    Collection,
    Discovery,
    /// Streams, which name other types in their refusal.
    Watch,
}

/// What can be had.
const ALL: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// `routed` tells whether go-restful's router stands before the handler: it does
/// for everything but custom resources.
pub fn negotiate(
    headers: &HeaderMap,
    offer: Offer,
    routed: bool,
) -> Result<(Media, MediaType), Status> {
    // Only the first header line counts, as Go's Header.Get has it.
    let accept = headers
        .get(ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    if accept.trim().is_empty() {
        return Ok((Media::Json, MediaType::Json));
    }
    let mut clauses: Vec<Clause> = accept.split(',').map(Clause::parse).collect();
    // By q, then exact types before wildcards, otherwise as written.
    clauses.sort_by(|a, b| {
        b.quality
            .total_cmp(&a.quality)
            .then(a.wildcards().cmp(&b.wildcards()))
    });
    clauses
        .iter()
        .find_map(|clause| clause.choose(offer, routed))
        .ok_or_else(|| not_acceptable(&clauses, offer, routed))
}

/// The router knows the types of a route without their parameters and refuses
/// first, in words of its own.
fn not_acceptable(clauses: &[Clause<'_>], offer: Offer, routed: bool) -> Status {
    if routed && !clauses.iter().any(Clause::is_routed) {
        let streams = match offer {
            Offer::Watch | Offer::Collection => {
                ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
            }
            _ => "",
        };
        return Status::failure(
            406,
            Reason::NotAcceptable,
            format!("406: Not Acceptable\n\nAvailable representations: {ALL}{streams}"),
        )
        .with_details(Details::default());
    }
    let types = match offer {
        Offer::Watch => {
            "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
        }
        _ => ALL,
    };
    Status::failure(
        406,
        Reason::NotAcceptable,
        format!("only the following media types are accepted: {types}"),
    )
}

struct Clause<'a> {
    media_type: &'a str,
    quality: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let parameters: Vec<_> = parts.filter_map(|p| p.split_once('=')).collect();
        let quality = parameters
            .iter()
            .find(|(key, _)| *key == "q")
            .and_then(|(_, value)| value.parse().ok())
            .unwrap_or(1.0);
        Self {
            media_type,
            quality,
            parameters,
        }
    }

    fn wildcards(&self) -> usize {
        self.media_type.matches('*').count()
    }

    fn is_routed(&self) -> bool {
        ALL.split(", ").any(|known| known == self.media_type)
            || matches!(self.media_type, "application/*" | "*/*")
    }

    fn parameter(&self, key: &str) -> &str {
        self.parameters
            .iter()
            .find(|(k, _)| *k == key)
            .map_or("", |(_, value)| value)
    }

    /// In the order in which they are offered.
    fn choose(&self, offer: Offer, routed: bool) -> Option<(Media, MediaType)> {
        let types = [MediaType::Json, MediaType::Yaml, MediaType::Protobuf];
        let named = types
            .into_iter()
            .filter(|t| self.media_type == t.as_str() || self.wildcards() > 0)
            .filter(|_| self.wildcards() == 0 || self.is_wildcard());
        named.into_iter().find_map(|media_type| {
            let media = self.shape(offer, media_type, routed)?;
            Some((media, media_type))
        })
    }

    fn is_wildcard(&self) -> bool {
        matches!(self.media_type, "application/*" | "*/*")
    }

    fn shape(&self, offer: Offer, media_type: MediaType, routed: bool) -> Option<Media> {
        let stream = self.parameter("stream");
        let watch = offer == Offer::Watch && media_type != MediaType::Yaml;
        let streams = stream.is_empty() || (stream == "watch" && watch);
        // The choice of what cannot be streamed is refused, not passed over:
        // nobody asks for a watch in YAML.
        if !streams || (offer == Offer::Watch && !watch) {
            return None;
        }
        let protobuf = media_type == MediaType::Protobuf;
        let transform = (
            self.parameter("as"),
            self.parameter("g"),
            self.parameter("v"),
        );
        match (transform, offer) {
            // Custom resources have no messages.
            (("", "", ""), _) => (routed || !protobuf).then_some(Media::Json),
            ((shape, "meta.k8s.io", version), Offer::Object | Offer::Collection | Offer::Watch) => {
                let version = match version {
                    "v1" => MetaVersion::V1,
                    "v1beta1" => MetaVersion::V1Beta1,
                    _ => return None,
                };
                match shape {
                    "Table" if !protobuf => Some(Media::Table(version)),
                    "PartialObjectMetadata" => Some(Media::Metadata(version)),
                    "PartialObjectMetadataList" => Some(Media::MetadataList(version)),
                    _ => None,
                }
            }
            (("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2"), Offer::Discovery)
                if media_type == MediaType::Json =>
            {
                Some(Media::Discovery)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

    #[test]
    fn clauses() {
        let pick = |accept: &str, offer| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            negotiate(&headers, offer, true)
                .ok()
                .map(|(media, _)| media)
        };
        let both = format!("{TABLE},application/json");
        for (accept, offer, expected) in [
            ("", Offer::Json, Some(Media::Json)),
            ("*/*", Offer::Json, Some(Media::Json)),
            ("text/html", Offer::Json, None),
            (
                "application/vnd.kubernetes.protobuf",
                Offer::Json,
                Some(Media::Json),
            ),
            (
                "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
                Offer::Object,
                None,
            ),
            (
                "application/vnd.kubernetes.protobuf,application/json",
                Offer::Json,
                Some(Media::Json),
            ),
            (TABLE, Offer::Json, None),
            (TABLE, Offer::Object, Some(Media::Table(MetaVersion::V1))),
            (&both, Offer::Json, Some(Media::Json)),
            (
                "application/json;q=0.1,application/json;as=Table;v=v1;g=meta.k8s.io",
                Offer::Object,
                Some(Media::Table(MetaVersion::V1)),
            ),
            (
                "application/json;stream=watch",
                Offer::Watch,
                Some(Media::Json),
            ),
            (
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
                Offer::Discovery,
                Some(Media::Discovery),
            ),
            (
                "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json",
                Offer::Discovery,
                Some(Media::Json),
            ),
        ] {
            assert_eq!(pick(accept, offer), expected, "{accept} {offer:?}");
        }
    }
}
