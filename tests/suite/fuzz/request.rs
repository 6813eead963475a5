//! Makes random reads. Most are sensible; each part is sometimes nonsense.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::kinds::{APPS, KINDS, Kind, LARGE, NAMES, NAMESPACES};
use super::mutate;
use super::world::Memory;
use crate::harness::media_types::{JSON, TABLE_OR_JSON};

/// The Accept headers with their weights, the greatest for usual ones.
const ACCEPTS: [(u32, &str); 14] = [
    (30, JSON),
    (10, "application/vnd.kubernetes.protobuf,application/json"),
    (10, "application/vnd.kubernetes.protobuf"),
    (12, TABLE_OR_JSON),
    (
        3,
        "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
    ),
    (3, "application/json;as=Table;v=v1;g=meta.k8s.io"),
    (
        5,
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json",
    ),
    (
        5,
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json",
    ),
    (
        4,
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    ),
    (6, "application/yaml"),
    (3, "*/*"),
    (1, "application/json;as=Nonsense;v=v1;g=meta.k8s.io"),
    (1, "text/html"),
    (1, "application/cbor, application/json;q=0.5"),
];
const AGENTS: [&str; 4] = [
    "kubectl/v1.37.1 (linux/amd64) kubernetes/0",
    "curl/8.5.0",
    "Mozilla/5.0 (X11; Linux x86_64)",
    "manager/v0.0.0 (linux/amd64) kubernetes/$Format",
];
/// Selectors that kube-apiserver refuses, or that look as if it refused them.
const ODD_LABELS: [&str; 16] = [
    "a b",
    "=",
    "app=,",
    ",",
    "-bad",
    "app=-bad",
    "(",
    "app in ()",
    "app in (web",
    "weight>x",
    "app notin",
    "!app=web",
    "app===web",
    "app=web,,",
    "in",
    "notin in (in)",
];
const ODD_FIELDS: [&str; 12] = [
    "x",
    "metadata.name",
    "metadata.name=a\\,b",
    "metadata.name>1",
    "metadata.labels.app=web",
    "spec.nodeName=a\\",
    "metadata.name==a",
    "metadata.name=a,metadata.name=b",
    "=",
    ",",
    "metadata.name=A_B",
    "metadata.namespace=NOT VALID",
];
const VERSIONS: [&str; 9] = [
    "1",
    "2",
    "00",
    "-1",
    "abc",
    "1.5",
    "18446744073709551616",
    " ",
    "+7",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    List,
    Watch,
}

#[derive(Clone, Debug)]
pub struct Read {
    pub kind: Kind,
    pub verb: Verb,
    pub path: String,
    /// The query's keys and values, not yet encoded.
    pub query: Vec<(&'static str, String)>,
    pub headers: Vec<(&'static str, String)>,
}

impl Read {
    pub fn target(&self) -> String {
        let mut target = self.path.clone();
        for (n, (key, value)) in self.query.iter().enumerate() {
            target.push(if n == 0 { '?' } else { '&' });
            target += &format!("{key}={}", utf8_percent_encode(value, NON_ALPHANUMERIC));
        }
        target
    }

    pub fn headers(&self) -> Vec<(&str, &str)> {
        self.headers.iter().map(|(k, v)| (*k, v.as_str())).collect()
    }

    pub fn value(&self, key: &str) -> Option<&str> {
        let found = self.query.iter().find(|(k, _)| *k == key);
        found.map(|(_, v)| v.as_str())
    }

    /// Tells whether the read is a page of the pods of a node. kube-apiserver looks
    /// these pods up in an index, and then knows whether a page is the last. It does
    /// not know this for the same page at an exact version, and returns a token that
    /// leads to nothing. Only pages of the same version can be compared.
    pub fn is_page_of_index(&self) -> bool {
        let selector = self.value("fieldSelector").unwrap_or_default();
        let mut terms = selector.split(',').map(str::trim);
        self.value("limit").is_some() && terms.any(|t| t.starts_with("spec.nodeName="))
    }

    /// Returns the same list at exactly `version`.
    pub fn at(&self, version: u64) -> Self {
        let mut read = self.clone();
        // A limit is ignored only at version 0.
        let drop_limit = self.value("resourceVersion") == Some("0");
        read.query.retain(|(key, _)| match *key {
            "resourceVersion" | "resourceVersionMatch" => false,
            "limit" => !drop_limit,
            _ => true,
        });
        match self.value("continue") {
            // The page must be of the newest state, since its token would otherwise
            // name a version.
            Some(token) if !token.is_empty() => {
                read.query.retain(|(key, _)| *key != "continue");
                read.query.push(("continue", mutate::at(token, version)));
            }
            // An empty token counts as none.
            _ => {
                read.query.push(("resourceVersion", version.to_string()));
                read.query
                    .push(("resourceVersionMatch", "Exact".to_owned()));
            }
        }
        read
    }
}

/// Returns a random GET or LIST.
pub fn read(rng: &mut StdRng, memory: &Memory) -> Read {
    let kind = *KINDS.choose(rng).expect("kinds");
    if rng.random_bool(0.25) {
        return get(rng, kind, memory);
    }
    let mut read = list_of(rng, kind);
    if rng.random_bool(0.01) {
        read.path = Kind::ConfigMaps.list(LARGE);
        read.kind = Kind::ConfigMaps;
    }
    if rng.random_bool(0.15)
        && let Some((list, token)) = memory.token(rng)
    {
        if rng.random_bool(0.9) {
            read.path = list;
        }
        let token = match rng.random_bool(0.25) {
            true => mutate::token(rng, &token),
            false => token,
        };
        read.query.push(("continue", token));
        if rng.random_bool(0.05) {
            read.query.push(("resourceVersion", "0".to_owned()));
        }
    } else {
        version(rng, &mut read, memory);
    }
    if rng.random_bool(0.35) {
        let limits = ["1", "2", "3", "5", "7", "500", "0", "-1", "x", ""];
        read.query
            .push(("limit", limits.choose(rng).expect("limits").to_string()));
    }
    if rng.random_bool(0.03) {
        read.query.push(("timeoutSeconds", "5".to_owned()));
    }
    if rng.random_bool(0.02) {
        let values = ["true", "false", ""];
        let value = values.choose(rng).expect("values").to_string();
        read.query.push(("sendInitialEvents", value));
    }
    presentation(rng, &mut read);
    read
}

/// Returns a random WATCH that ends after a second. Without `anything`, its events
/// can be compared while writers are at work.
pub fn watch(rng: &mut StdRng, memory: &Memory, anything: bool) -> Read {
    let kind = *KINDS.choose(rng).expect("kinds");
    let mut read = list_of(rng, kind);
    read.verb = Verb::Watch;
    read.query.push(("watch", "1".to_owned()));
    read.query.push(("timeoutSeconds", "1".to_owned()));
    let from = memory.version(read.kind, rng);
    if !anything {
        read.query.retain(|(_, v)| !v.is_empty());
        if let Some(from) = from.filter(|_| rng.random_bool(0.6)) {
            read.query.push(("resourceVersion", from.to_string()));
        } else {
            if rng.random_bool(0.5) {
                read.query.push(("resourceVersion", "0".to_owned()));
            }
            read.query.push(("sendInitialEvents", "true".to_owned()));
            read.query
                .push(("resourceVersionMatch", "NotOlderThan".to_owned()));
            read.query.push(("allowWatchBookmarks", "true".to_owned()));
        }
        read.headers.push(("accept", JSON.to_owned()));
        return read;
    }
    version(rng, &mut read, memory);
    if rng.random_bool(0.4) {
        read.query.push(("allowWatchBookmarks", "true".to_owned()));
    }
    if rng.random_bool(0.25) {
        let value = ["true", "false", ""].choose(rng).expect("values");
        read.query.push(("sendInitialEvents", value.to_string()));
        if read.value("resourceVersionMatch").is_none() && rng.random_bool(0.8) {
            read.query
                .push(("resourceVersionMatch", "NotOlderThan".to_owned()));
        }
    }
    presentation(rng, &mut read);
    // Protobuf frames are compared as a whole, and the time of bookmarks is not
    // fixed.
    if read.headers().iter().any(|(_, v)| v.contains("protobuf")) {
        read.query.retain(|(key, _)| *key != "allowWatchBookmarks");
    }
    read
}

fn get(rng: &mut StdRng, kind: Kind, memory: &Memory) -> Read {
    let namespace = NAMESPACES.choose(rng).expect("namespaces");
    let name = match rng.random_range(0..20) {
        0 => "none",
        1 => "NOT%20valid",
        _ => NAMES.choose(rng).expect("names"),
    };
    let mut read = Read {
        kind,
        verb: Verb::Get,
        path: format!("{}/{name}", kind.list(namespace)),
        query: Vec::new(),
        headers: Vec::new(),
    };
    version(rng, &mut read, memory);
    read.query.retain(|(key, _)| *key != "resourceVersionMatch");
    presentation(rng, &mut read);
    read
}

fn list_of(rng: &mut StdRng, kind: Kind) -> Read {
    let path = match rng.random_range(0..20) {
        0..5 => kind.everywhere(),
        5 => kind.list("nowhere"),
        _ => kind.list(NAMESPACES.choose(rng).expect("namespaces")),
    };
    let mut query = Vec::new();
    if rng.random_bool(0.3) {
        query.push(("labelSelector", label_selector(rng)));
    }
    if rng.random_bool(0.25) {
        query.push(("fieldSelector", field_selector(rng, kind)));
    }
    Read {
        kind,
        verb: Verb::List,
        path,
        query,
        headers: Vec::new(),
    }
}

fn version(rng: &mut StdRng, read: &mut Read, memory: &Memory) {
    let version = match rng.random_range(0..1000) {
        0..350 => None,
        350..700 => Some("0".to_owned()),
        // The API server waits three seconds before it answers that the version does
        // not exist yet.
        700 => Some("999999999".to_owned()),
        701..730 => Some((*VERSIONS.choose(rng).expect("versions")).to_owned()),
        _ => memory.version(read.kind, rng).map(|v| v.to_string()),
    };
    if let Some(version) = version {
        read.query.push(("resourceVersion", version));
    }
    let version_match = match rng.random_range(0..100) {
        0..12 => "NotOlderThan",
        12..24 => "Exact",
        24 => "Foo",
        25 => "",
        _ => return,
    };
    let sensible = read.value("resourceVersion").is_some() && read.verb == Verb::List;
    if sensible || rng.random_bool(0.1) {
        read.query
            .push(("resourceVersionMatch", version_match.to_owned()));
    }
}

fn label_selector(rng: &mut StdRng) -> String {
    let one = |rng: &mut StdRng| {
        let app = APPS.choose(rng).expect("apps");
        let other = APPS.choose(rng).expect("apps");
        let number = rng.random_range(0..9);
        match rng.random_range(0..10) {
            0 => format!("app={app}"),
            1 => format!("app!={app}"),
            2 => format!("app in ({app},{other})"),
            3 => format!("app notin ({app}, {other})"),
            4 => "app".to_owned(),
            5 => "!app".to_owned(),
            6 => format!("weight>{number}"),
            7 => format!("weight<{number}"),
            8 => "example.test/kind=x.Y_z-1".to_owned(),
            _ => format!("app=={app}"),
        }
    };
    let n = rng.random_range(1..3);
    let mut selector = (0..n).map(|_| one(rng)).collect::<Vec<_>>().join(",");
    match rng.random_range(0..20) {
        0 => selector = (*ODD_LABELS.choose(rng).expect("selectors")).to_owned(),
        1 => selector = mutate::text(rng, &selector),
        _ => {}
    }
    selector
}

fn field_selector(rng: &mut StdRng, kind: Kind) -> String {
    let one = |rng: &mut StdRng| {
        // Sometimes the field belongs to another kind.
        let kind = match rng.random_bool(0.03) {
            true => *KINDS.choose(rng).expect("kinds"),
            false => kind,
        };
        let (field, value) = kind.field(rng);
        let operator = ["=", "==", "!="].choose(rng).expect("operators");
        format!("{field}{operator}{value}")
    };
    let n = rng.random_range(1..3);
    let mut selector = (0..n).map(|_| one(rng)).collect::<Vec<_>>().join(",");
    match rng.random_range(0..20) {
        0 => selector = (*ODD_FIELDS.choose(rng).expect("selectors")).to_owned(),
        1 => selector = mutate::text(rng, &selector),
        _ => {}
    }
    selector
}

fn presentation(rng: &mut StdRng, read: &mut Read) {
    let total = ACCEPTS.iter().map(|a| a.0).sum();
    let mut at: u32 = rng.random_range(0..total);
    let accept = ACCEPTS.iter().find(|(weight, _)| {
        let here = at < *weight;
        at = at.saturating_sub(*weight);
        here
    });
    let accept = accept.map_or(JSON, |a| a.1);
    if rng.random_bool(0.95) {
        read.headers.push(("accept", accept.to_owned()));
    }
    if accept.contains("Table") && rng.random_bool(0.3) {
        let values = ["Object", "None", "Metadata", "Nonsense", ""];
        let value = values.choose(rng).expect("values").to_string();
        read.query.push(("includeObject", value));
    }
    if rng.random_bool(0.3) {
        read.headers.push(("accept-encoding", "gzip".to_owned()));
    }
    if rng.random_bool(0.05) {
        let value = ["true", "1", "false", "0", ""].choose(rng).expect("values");
        read.query.push(("pretty", value.to_string()));
    }
    if rng.random_bool(0.2) {
        let agent = AGENTS.choose(rng).expect("agents");
        read.headers.push(("user-agent", (*agent).to_owned()));
    }
}
