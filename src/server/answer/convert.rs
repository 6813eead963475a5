//! Converts JSON into the forms that people read: YAML, or indented JSON.

use apifront_watch_cache::read::BypassReason;
use bytes::Bytes;
use kubernetes_wire::representation::{pretty, yaml};

use crate::flow::HeldBytes;
use crate::server::offload::{OffloadRefusal, OffloadUser};

/// The longest JSON that is converted at once, which takes about a millisecond.
/// Longer JSON is converted on a thread that serves no other request.
const AT_ONCE: usize = 64 << 10;

/// The longest JSON that is converted to YAML at once. Keys with digits are compared
/// with each other, which takes ten times as long as usual.
const YAML_AT_ONCE: usize = 16 << 10;

/// YAML or indented JSON is about this many times as long as its JSON.
const GROWTH_FACTOR: usize = 2;

/// The longest indented JSON that is made at once. Short but deep JSON becomes long:
/// with 10,000 levels, as many as kube-apiserver reads, it becomes 200 MB. Longer
/// results are made by the room `offload`.
const INDENTED_AT_ONCE: usize = 512 << 10;

/// The longest indented body. A list of 100 MB becomes 180 MB. A request for a
/// longer body is forwarded, so that kube-apiserver makes it and its API Priority
/// and Fairness accounts for it.
const INDENTED_MAX: usize = 256 << 20;

/// A body, and the [`HeldBytes`] that account for its bytes.
type Converted = (Vec<Bytes>, HeldBytes);

fn length(json: &[Bytes]) -> usize {
    json.iter().map(Bytes::len).sum()
}

pub(in crate::server) async fn to_yaml(
    json: Vec<Bytes>,
    by: OffloadUser<'_>,
) -> Result<Converted, OffloadRefusal> {
    let length = length(&json);
    let convert = move || yaml::from_json(&json.concat()).ok();
    let mut held = HeldBytes::default();
    let yaml = if length <= YAML_AT_ONCE {
        convert()
    } else {
        held = by.hold(length.saturating_mul(GROWTH_FACTOR)).await?;
        by.run(convert).await?.flatten()
    };
    let yaml = yaml.ok_or(BypassReason::Representation)?;
    held.settle(yaml.len());
    Ok((vec![yaml.into()], held))
}

pub(in crate::server) async fn indented(
    json: Vec<Bytes>,
    by: OffloadUser<'_>,
) -> Result<Converted, OffloadRefusal> {
    let length = length(&json);
    if length <= AT_ONCE
        && let Some(indented) = pretty::indent_within(&json.concat(), INDENTED_AT_ONCE)
    {
        return Ok((vec![indented.into()], HeldBytes::default()));
    }
    let mut held = by.hold(length.saturating_mul(GROWTH_FACTOR)).await?;
    let indent = move || pretty::indent_within(&json.concat(), INDENTED_MAX);
    let indented = by.run(indent).await?.flatten();
    let indented = indented.ok_or(BypassReason::TooCostly)?;
    held.settle(indented.len());
    Ok((vec![indented.into()], held))
}
