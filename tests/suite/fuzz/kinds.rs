//! The objects of the fuzzed cluster: a few kinds under a few names that sort
//! in unexpected ways.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};

use crate::harness::objects;

pub const GROUP: &str = "fuzz.example.test";
/// The namespaces. As keys, `fuzz-b/…` sorts before `fuzz/…`.
pub const NAMESPACES: [&str; 2] = ["fuzz", "fuzz-b"];
/// A namespace with large objects, whose lists are compressed. Nobody writes to it.
pub const LARGE: &str = "fuzz-large";
pub const NAMES: [&str; 8] = ["a", "a-b", "a.b", "b", "c0", "c1", "c2", "d"];
pub const APPS: [&str; 4] = ["web", "db", "cache", ""];
pub const NODES: [&str; 3] = ["node-1", "node-2", ""];
pub const PHASES: [&str; 3] = ["Pending", "Running", "Failed"];
pub const COLORS: [&str; 3] = ["red", "green", ""];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    ConfigMaps,
    Secrets,
    Pods,
    Nodes,
    Widgets,
}

pub const KINDS: [Kind; 5] = [
    Kind::ConfigMaps,
    Kind::Secrets,
    Kind::Pods,
    Kind::Nodes,
    Kind::Widgets,
];

impl Kind {
    pub fn namespaced(self) -> bool {
        self != Self::Nodes
    }

    /// Returns the path of the list over all namespaces.
    pub fn everywhere(self) -> String {
        match self {
            Self::ConfigMaps => "/api/v1/configmaps".to_owned(),
            Self::Secrets => "/api/v1/secrets".to_owned(),
            Self::Pods => "/api/v1/pods".to_owned(),
            Self::Nodes => "/api/v1/nodes".to_owned(),
            Self::Widgets => format!("/apis/{GROUP}/v1/widgets"),
        }
    }

    /// Returns the path of the list in one namespace, or of the only list if
    /// the kind has no namespaces.
    pub fn list(self, namespace: &str) -> String {
        let everywhere = self.everywhere();
        match everywhere.rsplit_once('/') {
            Some((base, plural)) if self.namespaced() => {
                format!("{base}/namespaces/{namespace}/{plural}")
            }
            _ => everywhere,
        }
    }

    /// Returns a field of this kind and a value that occurs, for a selector.
    pub fn field(self, rng: &mut StdRng) -> (&'static str, &'static str) {
        fn one_of(rng: &mut StdRng, values: &'static [&'static str]) -> &'static str {
            values.choose(rng).expect("values")
        }
        match (self, rng.random_range(0..4)) {
            (_, 0) => ("metadata.name", one_of(rng, &NAMES)),
            (Self::Nodes, 1) => ("spec.unschedulable", one_of(rng, &["true", "false"])),
            (_, 1) if self != Self::Nodes => ("metadata.namespace", one_of(rng, &NAMESPACES)),
            (Self::Secrets, _) => ("type", one_of(rng, &["Opaque", "example.test/other"])),
            (Self::Pods, 2) => ("spec.nodeName", one_of(rng, &NODES)),
            (Self::Pods, _) => ("status.phase", one_of(rng, &PHASES)),
            (Self::Widgets, _) => ("spec.color", one_of(rng, &COLORS)),
            _ => ("metadata.name", one_of(rng, &NAMES)),
        }
    }

    pub fn object(self, rng: &mut StdRng, name: &str) -> Value {
        let mut object = match self {
            Self::ConfigMaps => objects::config_map(name, json!({}), json!({"k": text(rng)})),
            Self::Secrets => json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
                "type": (*["Opaque", "example.test/other"].choose(rng).expect("types")),
                "stringData": {"k": text(rng)},
            }),
            Self::Pods => {
                let node = NODES.choose(rng).expect("nodes");
                objects::pod_on_node(name, json!({}), node)
            }
            Self::Nodes => json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
                "spec": {"unschedulable": rng.random_bool(0.5)},
            }),
            Self::Widgets => {
                let color = COLORS.choose(rng).expect("colors");
                objects::widget(GROUP, name, color, rng.random_range(0..9))
            }
        };
        object["metadata"]["labels"] = labels(rng);
        object
    }

    /// Returns a merge patch that changes more than labels, and the subresource that
    /// takes it.
    pub fn change(self, rng: &mut StdRng) -> (&'static str, Value) {
        match self {
            Self::ConfigMaps => ("", json!({"data": {"k": text(rng)}})),
            Self::Secrets => ("", json!({"stringData": {"k": text(rng)}})),
            Self::Pods => {
                let phase = PHASES.choose(rng).expect("phases");
                ("/status", json!({"status": {"phase": phase}}))
            }
            Self::Nodes => ("", json!({"spec": {"unschedulable": rng.random_bool(0.5)}})),
            Self::Widgets => {
                let color = COLORS.choose(rng).expect("colors");
                ("", json!({"spec": {"color": color}}))
            }
        }
    }
}

/// Returns random labels that the selectors of [`super::request`] use.
pub fn labels(rng: &mut StdRng) -> Value {
    let mut labels = json!({});
    if rng.random_bool(0.8) {
        labels["app"] = json!(APPS.choose(rng).expect("apps"));
    }
    if rng.random_bool(0.3) {
        labels["weight"] = json!(rng.random_range(0..9).to_string());
    }
    if rng.random_bool(0.3) {
        labels["example.test/kind"] = json!("x.Y_z-1");
    }
    labels
}

/// Returns text with characters that Go's JSON and protobuf encoders handle
/// specially.
fn text(rng: &mut StdRng) -> String {
    let pieces = [
        "plain",
        "<b>&",
        "\u{2028}",
        "ü€",
        "😀",
        "\"\\",
        "\n\t",
        "\u{7f}",
        "{\"metadata\":{",
    ];
    let n = rng.random_range(0..5);
    (0..n)
        .map(|_| *pieces.choose(rng).expect("pieces"))
        .collect()
}
