//! Items without managedFields.

use bytes::Bytes;
use kubernetes_wire::representation::{Encoding, managed_fields};

/// Returns the item without `metadata.managedFields`, and the bytes that it lacks then.
pub(crate) fn without_managed_fields(item: &Bytes, encoding: Encoding) -> Option<(Bytes, usize)> {
    let rest = managed_fields::without(encoding, item)?;
    let bytes = item.len().saturating_sub(rest.len());
    Some((rest, bytes))
}
