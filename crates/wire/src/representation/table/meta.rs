//! The parts of objects that several printers read.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use super::NotPrintable;
use super::age::Moment;
use super::row::Cell;

/// Reads null as the empty value: Go writes nil slices and maps as null.
pub(crate) fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads a `metav1.Time` or `MicroTime`, null included.
pub(crate) fn moment<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Moment>, D::Error> {
    match Option::<String>::deserialize(deserializer)? {
        None => Ok(None),
        Some(text) => Moment::parse(&text).map_err(serde::de::Error::custom),
    }
}

/// Lowercases a text. Kinds and resources are ASCII; other text is refused,
/// since Go's and Rust's tables may differ.
pub(crate) fn lower(text: &str) -> Result<String, NotPrintable> {
    if text.is_ascii() {
        Ok(text.to_ascii_lowercase())
    } else {
        Err(NotPrintable)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Meta {
    pub(crate) name: String,
    #[serde(deserialize_with = "moment")]
    pub(crate) creation_timestamp: Option<Moment>,
    #[serde(deserialize_with = "moment")]
    pub(crate) deletion_timestamp: Option<Moment>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) annotations: BTreeMap<String, String>,
}

impl Meta {
    pub(crate) fn age(&self) -> Cell {
        Cell::age(self.creation_timestamp)
    }
}

/// An object with metadata, spec and status, each with only the fields that a
/// printer reads.
#[derive(Debug, Default, Deserialize)]
#[serde(
    default,
    bound = "Spec: Default + Deserialize<'de>, Status: Default + Deserialize<'de>"
)]
pub(crate) struct Object<Spec, Status> {
    pub(crate) metadata: Meta,
    pub(crate) spec: Spec,
    pub(crate) status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodTemplate {
    pub(crate) metadata: Meta,
    pub(crate) spec: PodTemplateSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodTemplateSpec {
    #[serde(deserialize_with = "nullable")]
    pub(crate) containers: Vec<Container>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) node_selector: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Container {
    pub(crate) name: String,
    pub(crate) image: String,
    pub(crate) restart_policy: Option<String>,
}

impl PodTemplate {
    pub(crate) fn container_cells(&self) -> [Cell; 2] {
        let joined = |text: fn(&Container) -> &str| {
            let all: Vec<&str> = self.spec.containers.iter().map(text).collect();
            Cell::text(&all.join(","))
        };
        [joined(|c| &c.name), joined(|c| &c.image)]
    }
}
