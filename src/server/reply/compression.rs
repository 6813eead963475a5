//! Which answers are compressed with gzip: those of more than 128 KiB, as in
//! kube-apiserver (k8s.io/apiserver `endpoints/handlers/responsewriters`).
//! Watches that begin with a list are compressed batch by batch
//! (`answer/cached/watch.rs`). Other watches are not compressed. Discovery and OpenAPI keep
//! their documents compressed (`discovery/encoded_document.rs`, `openapi/document.rs`).

use apifront_watch_cache::read::{BypassReason, GzipList};
use bytes::Bytes;
use http::HeaderMap;
use kubernetes_wire::negotiation::{self, MediaType, Representation};
use kubernetes_wire::representation::deflate;

use crate::flow::HeldBytes;
use crate::server::offload::{OffloadRefusal, OffloadUser};

/// The size in bytes above which bodies are compressed.
pub(in crate::server) const COMPRESSED_ABOVE_BYTES: usize = 128 << 10;

/// Compression makes Kubernetes' JSON shorter by about this factor, or more.
const COMPRESSION_FACTOR: usize = 3;

/// Tells whether a body of this length is compressed for a client with these headers.
pub(in crate::server) fn is_due(headers: &HeaderMap, length: usize) -> bool {
    length > COMPRESSED_ABOVE_BYTES && negotiation::accepts_gzip(headers)
}

/// Tells whether a list, if it is long, is sent as gzip that [`GzipList`] joins from
/// compressed parts. The bytes of these parts cannot be converted.
pub(in crate::server) fn is_of_parts(representation: Representation, headers: &HeaderMap) -> bool {
    representation.media_type != MediaType::Yaml
        && !representation.pretty
        && negotiation::accepts_gzip(headers)
}

/// Compresses a body. Returns `None` if that fails. Then the uncompressed body can
/// be sent.
pub(in crate::server) async fn body(
    pieces: &[Bytes],
    by: OffloadUser<'_>,
) -> Result<Option<(Vec<Bytes>, HeldBytes)>, OffloadRefusal> {
    let length: usize = pieces.iter().map(Bytes::len).sum();
    let mut held = by.hold(length / COMPRESSION_FACTOR).await?;
    let pieces = pieces.to_vec();
    let compressed = by.run(move || deflate::gzip(&pieces)).await?;
    let Some(compressed) = compressed.flatten() else {
        return Ok(None);
    };
    held.settle(compressed.len());
    Ok(Some((vec![compressed.into()], held)))
}

pub(in crate::server) async fn list(
    list: GzipList,
    by: OffloadUser<'_>,
) -> Result<(Vec<Bytes>, HeldBytes), OffloadRefusal> {
    let mut held = by.hold(COMPRESSED_ABOVE_BYTES).await?;
    let body = match list.from_ready() {
        Some(ready) => ready,
        None => {
            let deflated = by.run(move || list.deflate().ok()).await?;
            deflated.flatten().ok_or(BypassReason::Representation)?
        }
    };
    held.settle(body.iter().map(Bytes::len).sum());
    Ok((body, held))
}
