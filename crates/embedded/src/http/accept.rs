//! Refusals of representations. [`kubernetes_wire::negotiation`] decides the
//! encoding of an answer; this module refuses requests that cannot be
//! satisfied.

use http::HeaderMap;
use kubernetes_wire::{
    api::{Query, Status},
    negotiation::{
        self, DiscoveryNegotiation, DiscoveryOffer, DiscoveryRepresentation, Negotiation, Offer,
        Representation,
    },
};

/// The properties of a path that decide which representations it has.
#[derive(Clone, Copy)]
pub(crate) struct PathTraits {
    /// True for custom resources. All other paths are behind go-restful's
    /// router.
    pub custom: bool,
    /// True for lists, whose routes can be watched.
    pub collection: bool,
}

impl PathTraits {
    /// Returns the representations of this path. Like kube-apiserver by
    /// default, this server has no CBOR, and it ignores unknown parameters.
    fn offer(self) -> Offer {
        let offer = if self.custom {
            Offer::CUSTOM_RESOURCE
        } else {
            Offer::BUILT_IN
        };
        Offer {
            perhaps_more: false,
            ..offer
        }
    }

    fn refusal(self, headers: &HeaderMap, watch: bool) -> Status {
        if self.custom || negotiation::passes_filter(headers) {
            negotiation::not_acceptable(watch)
        } else {
            negotiation::not_acceptable_to_filter(self.collection)
        }
    }
}

/// Decides the representation of a whole answer. A header is refused if its order
/// depends on the details of Go's sorting.
pub(super) fn whole(
    headers: &HeaderMap,
    query: &Query,
    place: PathTraits,
) -> Result<Representation, Status> {
    match negotiation::negotiate(headers, query, place.offer()) {
        Negotiation::Accepted(representation) => Ok(representation),
        Negotiation::NotAcceptable | Negotiation::Unknown => Err(place.refusal(headers, false)),
    }
}

pub(super) fn watch(
    headers: &HeaderMap,
    query: &Query,
    place: PathTraits,
) -> Result<Representation, Status> {
    let refused = || place.refusal(headers, true);
    match negotiation::negotiate_watch(headers, place.offer()) {
        Negotiation::Accepted(representation) => Ok(representation),
        Negotiation::NotAcceptable => Err(refused()),
        // The client asked for the metadata of a list, and no event is a list.
        // The error comes with the first event.
        Negotiation::Unknown => whole(headers, query, place).map_err(|_| refused()),
    }
}

pub(super) fn discovery(
    headers: &HeaderMap,
    query: &Query,
    offer: DiscoveryOffer,
) -> Result<DiscoveryRepresentation, Status> {
    match negotiation::negotiate_discovery(headers, query, offer) {
        DiscoveryNegotiation::Accepted(representation) => Ok(representation),
        DiscoveryNegotiation::NotAcceptable | DiscoveryNegotiation::Unknown => {
            let place = PathTraits {
                custom: !offer.routed,
                collection: false,
            };
            Err(place.refusal(headers, false))
        }
    }
}

#[cfg(test)]
mod tests {
    use http::header::{ACCEPT, HeaderValue};
    use kubernetes_wire::negotiation::{MediaType, MetaVersion, Transform};

    use super::*;

    fn headers(accept: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        headers
    }

    #[test]
    fn router_and_handler_refuse_in_their_own_words() {
        const ROUTER: &str = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf";
        const HANDLER: &str = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf";
        for (accept, custom, expected) in [
            ("text/html", false, ROUTER),
            ("application/*", false, ROUTER),
            ("text/html", true, HANDLER),
            ("application/json;as=Foo", false, HANDLER),
            ("application/cbor", false, ROUTER),
            // The header has more clauses than Go sorts stably.
            (
                "a/b,a/b,a/b,a/b,a/b,a/b,a/b,a/b,a/b,a/b,a/b,a/b,*/*",
                false,
                HANDLER,
            ),
        ] {
            let place = PathTraits {
                custom,
                collection: false,
            };
            let refused = whole(&headers(accept), &Query::default(), place).unwrap_err();
            assert_eq!(refused.message, expected, "{accept}");
            assert_eq!(refused.code, 406);
        }
    }

    #[test]
    fn watches_of_a_lists_metadata_begin() {
        let place = PathTraits {
            custom: false,
            collection: true,
        };
        let accept =
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
        let got = watch(&headers(accept), &Query::default(), place).unwrap();
        let transform = Transform::PartialObjectMetadataList(MetaVersion::V1);
        assert_eq!(
            (got.media_type, got.transform),
            (MediaType::Protobuf, transform)
        );
        assert!(watch(&headers("application/yaml"), &Query::default(), place).is_err());
    }
}
