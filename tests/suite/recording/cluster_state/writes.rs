//! Makes random requests about a few objects.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use serde_json::{Value, json};

use super::super::exchange::{Body, BodyFraming, Request, Waits, Wire};
use super::super::faults::{self, Fault};
use super::super::fields::Field;
use super::super::{go_url, request_fields, upgrades};
use crate::harness::media_types::JSON;

pub const NAMES: [&str; 6] = ["o0", "o1", "o2", "o3", "o4", "o5"];

/// Octets after a name, with which it names another object or none.
const BEHIND: [&str; 16] = [
    "#", "#old", "#/x", "<", ">", "\"", "`", "%23", "%20", "/", "//", "/.", "\u{e9}", "|^{}\\",
    "?#", "%2f",
];
/// Selectors of a collection, encoded or not.
const SELECTORS: [&str; 14] = [
    "labelSelector=v%3D1",
    "labelSelector=v=1",
    "labelSelector=v%3D1#x",
    "labelSelector=v%3D1%23x",
    "labelSelector=v+in+(0,1)",
    "labelSelector=v<2",
    "labelSelector=v%3E1",
    "labelSelector=%22",
    "labelSelector=\"",
    "labelSelector=v!=1",
    "fieldSelector=metadata.name%3Do1",
    "fieldSelector=metadata.name=o1#",
    "labelSelector=v%zz",
    "labelSelector=v%3D1;labelSelector=v%3D2",
];
const OPTIONS: [&str; 12] = [
    "dryRun=All",
    "dryRun=All#",
    "dryRun=None",
    "propagationPolicy=Foreground",
    "propagationPolicy=Orphan",
    "propagationPolicy=<>",
    "gracePeriodSeconds=0",
    "fieldManager=me%23",
    "fieldManager=m\u{fc}",
    "fieldValidation=Strict",
    "pretty=1",
    "a=%zz",
];
const OTHER_UID: &str = "00000000-0000-0000-0000-000000000000";

/// A request in which `{ns}` stands for the namespace.
pub struct Write {
    request: Request,
    fault: Option<&'static Fault>,
}

impl Write {
    pub fn new(request: Request) -> Self {
        Self {
            request,
            fault: None,
        }
    }

    pub fn method(&self) -> String {
        String::from_utf8_lossy(&self.request.method).into_owned()
    }

    pub fn is_faulty(&self) -> bool {
        self.fault.is_some()
    }

    pub fn has_body(&self) -> bool {
        self.request.body.framing != BodyFraming::Absent
    }

    pub fn shown(&self) -> String {
        let fault = self.fault.map_or("none", |fault| fault.name);
        let body = self.request.body.octets();
        let body = String::from_utf8_lossy(&body);
        format!("{}\n  fault: {fault}\n  {body}", self.request.shown())
    }

    pub fn request(&self, namespace: &str) -> Request {
        let mut request = self.request.clone();
        let target = &mut request.target;
        while let Some(at) = target.windows(4).position(|part| part == b"{ns}") {
            target.splice(at..at + 4, namespace.bytes());
        }
        request
    }
}

pub fn write(rng: &mut StdRng, number: u64) -> Write {
    let wire = *[
        Wire::Http10,
        Wire::Http11,
        Wire::Http11,
        Wire::Http11,
        Wire::Http2,
    ]
    .choose(rng)
    .expect("wires");
    let (method, target, body, kind) = meaning(rng);
    let mut request = Request {
        number,
        wire,
        method: method.as_bytes().to_vec(),
        target: target.into_bytes(),
        authority: Some(b"localhost".to_vec()),
        fields: Vec::new(),
        body: Body::default(),
    };
    // HTTP/2 can carry such targets, but apifront does not accept them yet.
    if go_url::escaped(&request.target) != request.target && wire == Wire::Http2 {
        request.wire = Wire::Http11;
    }
    form(rng, &mut request, body, kind);
    let mut fault = None;
    if request.wire != Wire::Http2 && rng.random_bool(0.1) {
        request.body = Body::default();
        fault = Some(faults::inject(rng, &mut request));
    }
    // kube-apiserver accepts this request, but a proxy must not.
    if fault.is_some_and(|fault| fault.is_stricter) {
        return write(rng, number);
    }
    Write { request, fault }
}

/// Returns a method, a target, a body and its type.
fn meaning(rng: &mut StdRng) -> (&'static str, String, String, &'static str) {
    let name = *NAMES.choose(rng).expect("names");
    let objects = "/api/v1/namespaces/{ns}/configmaps";
    let mut target = format!("{objects}/{name}");
    if rng.random_bool(0.15) {
        target += BEHIND.choose(rng).expect("texts");
    }
    let (method, body, kind) = match rng.random_range(0..20) {
        0..5 => {
            target = objects.to_owned();
            ("POST", object(rng, name).to_string(), JSON)
        }
        5 | 6 => ("PUT", object(rng, name).to_string(), JSON),
        7..10 => {
            let (kind, body) = patch(rng, name);
            ("PATCH", body, kind)
        }
        10..14 => ("DELETE", delete_options(rng), JSON),
        14 | 15 => {
            let selector = SELECTORS.choose(rng).expect("selectors");
            target = format!("{objects}?{selector}");
            let mut body = delete_options(rng);
            if body.is_empty() && rng.random_bool(0.7) {
                body = json!({ "kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"] })
                    .to_string();
            }
            ("DELETE", body, JSON)
        }
        16 => {
            let selector = SELECTORS.choose(rng).expect("selectors");
            target = format!("{objects}?{selector}");
            ("GET", String::new(), JSON)
        }
        17 => ("HEAD", String::new(), JSON),
        18 => ("GET", delete_options(rng), JSON),
        _ => ("GET", String::new(), JSON),
    };
    if rng.random_bool(0.35) {
        target.push(if target.contains('?') { '&' } else { '?' });
        target += OPTIONS.choose(rng).expect("options");
    }
    (method, target, body, kind)
}

fn object(rng: &mut StdRng, name: &str) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "labels": { "v": rng.random_range(0..3).to_string() } },
        "data": { "a": rng.random_range(0..100).to_string(), "text": "<#>\"`" },
    });
    let meta = &mut object["metadata"];
    match rng.random_range(0..12) {
        0 => meta["resourceVersion"] = json!("1"),
        1 => meta["uid"] = json!(OTHER_UID),
        2 => meta["finalizers"] = json!(["example.com/waits"]),
        3 => meta["namespace"] = json!("elsewhere"),
        4 => meta["name"] = json!("other"),
        5 => object["kind"] = json!("Secret"),
        6 => object["unknown"] = json!(1),
        7 => object["data"]["large"] = json!("x".repeat(100_000)),
        _ => {}
    }
    object
}

fn patch(rng: &mut StdRng, name: &str) -> (&'static str, String) {
    let value = rng.random_range(0..100).to_string();
    let apply = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
        "data": { "applied": value },
    });
    let (kind, body) = match rng.random_range(0..6) {
        0 => (
            "application/json-patch+json",
            json!([{ "op": "add", "path": "/data/p", "value": value }]),
        ),
        1 => (
            "application/json-patch+json",
            json!([{ "op": "test", "path": "/data/a", "value": "none" }]),
        ),
        2 => (
            "application/merge-patch+json",
            json!({ "data": { "a": null, "m": value }, "metadata": { "finalizers": null } }),
        ),
        3 => (
            "application/strategic-merge-patch+json",
            json!({ "metadata": { "labels": { "v": "2" } } }),
        ),
        4 => ("application/apply-patch+yaml", apply),
        _ => ("application/odd+json", json!({})),
    };
    (kind, body.to_string())
}

fn delete_options(rng: &mut StdRng) -> String {
    let mut options = json!({ "kind": "DeleteOptions", "apiVersion": "v1" });
    match rng.random_range(0..9) {
        0 | 1 => return String::new(),
        2 | 3 => options["dryRun"] = json!(["All"]),
        4 => options["preconditions"] = json!({ "uid": OTHER_UID }),
        5 => options["preconditions"] = json!({ "resourceVersion": "1" }),
        6 => options["propagationPolicy"] = json!("Background"),
        7 => options["dryRun"] = json!(["Some"]),
        _ => return "{\"kind\":\"DeleteOptions\"".to_owned(),
    }
    options.to_string()
}

/// Adds header fields, and determines the form of the body.
fn form(rng: &mut StdRng, request: &mut Request, body: String, kind: &str) {
    let wire = request.wire;
    let is_http2 = wire == Wire::Http2;
    let mut fields = request_fields::fields(rng, wire);
    // These fields change the meaning of the body.
    fields.retain(|field| !field.is("content-type") && !field.is("content-encoding"));
    let mut add = |name: &str, value: &str| match is_http2 {
        true => fields.push(Field::new(name.to_ascii_lowercase(), value)),
        false => fields.push(Field::new(name, format!(" {value}"))),
    };
    if !is_http2 {
        add("Host", "localhost");
    }
    if !body.is_empty() {
        add("Content-Type", kind);
    }
    if !is_http2 && rng.random_bool(0.3) {
        fields.extend(upgrades::fields(rng));
    }
    fields.shuffle(rng);
    request.fields = fields;
    if body.is_empty() {
        return;
    }
    let is_chunked = wire != Wire::Http10 && rng.random_bool(0.5);
    request.body.framing = match is_chunked {
        true => *[BodyFraming::Open, BodyFraming::Extended]
            .choose(rng)
            .expect("framings"),
        false => BodyFraming::Length,
    };
    let size = *[1_000_000, 40, 7].choose(rng).expect("sizes");
    let size = size.max(body.len() / 50);
    request.body.pieces = body.as_bytes().chunks(size).map(<[u8]>::to_vec).collect();
    if wire == Wire::Http11 && rng.random_bool(0.15) {
        request.fields.push(Field::new("Expect", " 100-continue"));
        request.body.waits = Waits::Continue;
    }
}
