//! Volumes, claims, storage classes and drivers.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;

use super::NotPrintable;
use super::age::Moment;
use super::meta::{Meta, Object, nullable};
use super::printer::Chosen;
use super::row::{Cell, Row};

/// The annotation for the storage class. It is older than the field
/// `storageClassName` and takes precedence.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

const DEFAULT_CLASS_ANNOTATIONS: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

/// The access modes, in the order in which they are listed.
const ACCESS_MODES: [(&str, &str); 4] = [
    ("ReadWriteOnce", "RWO"),
    ("ReadOnlyMany", "ROX"),
    ("ReadWriteMany", "RWX"),
    ("ReadWriteOncePod", "RWOP"),
];

/// The spec of a volume or of a claim.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    volume_name: String,
    volume_mode: Option<String>,
    storage_class_name: Option<String>,
    volume_attributes_class_name: Option<String>,
    persistent_volume_reclaim_policy: String,
    claim_ref: Option<ClaimRef>,
    #[serde(deserialize_with = "nullable")]
    access_modes: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    capacity: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimRef {
    namespace: String,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: String,
    reason: String,
    #[serde(deserialize_with = "nullable")]
    access_modes: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    capacity: BTreeMap<String, String>,
}

type Volume = Object<Spec, Status>;

pub(crate) fn print_persistent_volume(object: &[u8]) -> Result<Row, NotPrintable> {
    let volume: Volume = serde_json::from_slice(object)?;
    let spec = &volume.spec;
    let claim = spec
        .claim_ref
        .as_ref()
        .map(|claim| format!("{}/{}", claim.namespace, claim.name));
    Ok(Row::new(vec![
        Cell::text(&volume.metadata.name),
        Cell::text(size(&spec.capacity)),
        Cell::text(&access_modes(&spec.access_modes)),
        Cell::text(&spec.persistent_volume_reclaim_policy),
        Cell::text(phase(&volume)),
        Cell::text(claim.as_deref().unwrap_or_default()),
        Cell::text(class(&volume)),
        or_unset(spec.volume_attributes_class_name.as_deref()),
        Cell::text(&volume.status.reason),
        volume.metadata.age(),
        or_unset(spec.volume_mode.as_deref()),
    ]))
}

pub(crate) fn print_persistent_volume_claim(object: &[u8]) -> Result<Row, NotPrintable> {
    let claim: Volume = serde_json::from_slice(object)?;
    let spec = &claim.spec;
    let (capacity, modes) = if spec.volume_name.is_empty() {
        ("", String::new())
    } else {
        let status = &claim.status;
        (size(&status.capacity), access_modes(&status.access_modes))
    };
    Ok(Row::new(vec![
        Cell::text(&claim.metadata.name),
        Cell::text(phase(&claim)),
        Cell::text(&spec.volume_name),
        Cell::text(capacity),
        Cell::text(&modes),
        Cell::text(class(&claim)),
        or_unset(spec.volume_attributes_class_name.as_deref()),
        claim.metadata.age(),
        or_unset(spec.volume_mode.as_deref()),
    ]))
}

/// Returns the size. The server sends quantities in their canonical form, and
/// none is zero.
fn size(capacity: &BTreeMap<String, String>) -> &str {
    capacity.get("storage").map_or("0", String::as_str)
}

fn access_modes(modes: &[String]) -> String {
    let listed: Vec<&str> = ACCESS_MODES
        .iter()
        .filter(|(mode, _)| modes.iter().any(|m| m == mode))
        .map(|(_, short)| *short)
        .collect();
    listed.join(",")
}

fn phase(volume: &Volume) -> &str {
    match volume.metadata.deletion_timestamp {
        Some(_) => "Terminating",
        None => &volume.status.phase,
    }
}

fn class(volume: &Volume) -> &str {
    match volume.metadata.annotations.get(CLASS_ANNOTATION) {
        Some(class) => class,
        None => volume
            .spec
            .storage_class_name
            .as_deref()
            .unwrap_or_default(),
    }
}

fn or_unset(text: Option<&str>) -> Cell {
    Cell::text(text.unwrap_or("<unset>"))
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StorageClass {
    metadata: Meta,
    provisioner: String,
    reclaim_policy: Option<String>,
    volume_binding_mode: Option<String>,
    allow_volume_expansion: Option<bool>,
}

impl StorageClass {
    fn is_default(&self) -> bool {
        let annotations = &self.metadata.annotations;
        let mut names = DEFAULT_CLASS_ANNOTATIONS.iter();
        names.any(|name| annotations.get(*name).is_some_and(|v| v == "true"))
    }

    fn row(&self, suffix: &str) -> Row {
        Row::new(vec![
            Cell::text(&format!("{}{suffix}", self.metadata.name)),
            Cell::text(&self.provisioner),
            Cell::text(self.reclaim_policy.as_deref().unwrap_or("Delete")),
            Cell::text(self.volume_binding_mode.as_deref().unwrap_or("Immediate")),
            Cell::boolean(self.allow_volume_expansion.unwrap_or(false)),
            self.metadata.age(),
        ])
    }
}

/// Prints a class without the mark of the default. This is for a class alone, and
/// for all classes of a list but one.
pub(crate) fn print_storage_class(object: &[u8]) -> Result<Row, NotPrintable> {
    let class: StorageClass = serde_json::from_slice(object)?;
    Ok(class.row(""))
}

/// Prints a storage class as releases before 1.37 do, which mark all default
/// classes.
pub(crate) fn print_storage_class_before_1_37(object: &[u8]) -> Result<Row, NotPrintable> {
    let class: StorageClass = serde_json::from_slice(object)?;
    Ok(class.row(if class.is_default() { " (default)" } else { "" }))
}

/// The default class of a list, which alone is marked.
pub(super) const DEFAULT_CLASS: Chosen = Chosen {
    choose: default_class,
    print: |object| {
        let class: StorageClass = serde_json::from_slice(object)?;
        Ok(class.row(" (default)"))
    },
};

/// Returns the position of the newest default class, or of the one with the
/// first name if several are equally old.
fn default_class(objects: &[Bytes]) -> Result<Option<usize>, NotPrintable> {
    let mut newest: Option<(Reverse<Option<Moment>>, String, usize)> = None;
    for (at, object) in objects.iter().enumerate() {
        let class: StorageClass = serde_json::from_slice(object)?;
        if class.is_default() {
            let created = Reverse(class.metadata.creation_timestamp);
            let found = (created, class.metadata.name, at);
            newest = Some(newest.map_or(found.clone(), |newest| newest.min(found)));
        }
    }
    Ok(newest.map(|(_, _, at)| at))
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DriverSpec {
    attach_required: Option<bool>,
    pod_info_on_mount: Option<bool>,
    storage_capacity: Option<bool>,
    token_requests: Option<Vec<TokenRequest>>,
    requires_republish: Option<bool>,
    #[serde(deserialize_with = "nullable")]
    volume_lifecycle_modes: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TokenRequest {
    audience: String,
}

pub(crate) fn print_csi_driver(object: &[u8]) -> Result<Row, NotPrintable> {
    let driver: Object<DriverSpec, serde::de::IgnoredAny> = serde_json::from_slice(object)?;
    let spec = &driver.spec;
    let audiences = spec.token_requests.as_ref().map(|requests| {
        let audiences: Vec<&str> = requests.iter().map(|r| r.audience.as_str()).collect();
        audiences.join(",")
    });
    let modes = spec.volume_lifecycle_modes.join(",");
    Ok(Row::new(vec![
        Cell::text(&driver.metadata.name),
        Cell::boolean(spec.attach_required.unwrap_or(true)),
        Cell::boolean(spec.pod_info_on_mount.unwrap_or(false)),
        Cell::boolean(spec.storage_capacity.unwrap_or(false)),
        or_unset(audiences.as_deref()),
        Cell::boolean(spec.requires_republish.unwrap_or(false)),
        Cell::text(if modes.is_empty() { "<none>" } else { &modes }),
        driver.metadata.age(),
    ]))
}
