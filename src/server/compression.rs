//! gzip of answers, as kube-apiserver compresses them
//! (k8s.io/apiserver `endpoints/handlers/responsewriters`): GETs and LISTs of
//! more than 128 KiB. Of watches it compresses none, in 1.36; nor do we.

use bytes::Bytes;

use super::aside;
use crate::read::GzipList;
use crate::representation::deflate;

/// Bodies of more bytes are compressed.
pub(super) const ABOVE: usize = 128 << 10;

/// `None` if it cannot be compressed.
pub(super) async fn body(pieces: Vec<Bytes>) -> Option<Vec<Bytes>> {
    let compressed = aside::run(move || deflate::gzip(&pieces)).await??;
    Some(vec![compressed.into()])
}

/// `None` if it cannot be compressed.
pub(super) async fn list(list: GzipList) -> Option<Vec<Bytes>> {
    if let Some(ready) = list.from_kept() {
        return Some(ready);
    }
    aside::run(move || list.deflate().ok()).await?
}
