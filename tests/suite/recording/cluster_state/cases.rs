//! Small requests that must not destroy what they only ask about, each with
//! kube-apiserver's status.

use serde_json::{Value, json};

use super::super::exchange::{Body, BodyFraming, Request, Wire, fields_of};
use super::Both;
use super::side::is_there;
use super::writes::Write;

const OTHER_UID: &str = "00000000-0000-0000-0000-000000000000";
const OBJECTS: &str = "/api/v1/namespaces/{ns}/configmaps";

/// Header fields that ask for an upgrade. kube-apiserver declines it.
const UPGRADES: [&[(&str, &str)]; 4] = [
    &[],
    &[
        ("Connection", "Upgrade, HTTP2-Settings"),
        ("Upgrade", "h2c"),
        ("HTTP2-Settings", "AAMAAABkAARAAAAAAAIAAAAA"),
    ],
    &[("Connection", "Upgrade"), ("Upgrade", "websocket")],
    &[("Connection", "Upgrade"), ("Upgrade", "TLS/1.2")],
];

struct Case {
    method: &'static str,
    target: &'static str,
    fields: &'static [(&'static str, &'static str)],
    body: Value,
    status: u16,
}

fn cases() -> Vec<Case> {
    let options = |name: &str, value: Value| {
        let mut options = json!({ "kind": "DeleteOptions", "apiVersion": "v1" });
        options[name] = value;
        options
    };
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "o1" },
        "data": { "a": "c" },
    });
    let mut cases = Vec::new();
    for fields in UPGRADES {
        let bodies = [
            ("DELETE", "/o1", options("dryRun", json!(["All"])), 200),
            (
                "DELETE",
                "/o1",
                options("preconditions", json!({ "uid": OTHER_UID })),
                409,
            ),
            (
                "DELETE",
                "?labelSelector=v%3D1",
                options("dryRun", json!(["All"])),
                200,
            ),
            ("PUT", "/o1?dryRun=All", object.clone(), 200),
        ];
        for (method, target, body, status) in bodies {
            cases.push(Case {
                method,
                target,
                fields,
                body,
                status,
            });
        }
    }
    for (method, target, fields, status) in [
        ("DELETE", "/o1#old", &[][..], 404),
        ("GET", "/o1#old", &[], 404),
        ("GET", "?labelSelector=v%3D1#x", &[], 400),
        ("GET", "/o1", &[("Expect", "something")], 417),
    ] {
        cases.push(Case {
            method,
            target,
            fields,
            body: Value::Null,
            status,
        });
    }
    cases
}

#[tokio::test]
async fn a_dry_run_deletes_nothing_and_a_fragment_is_part_of_a_name() {
    let mut both = Both::new().await;
    both.create_all().await;
    let mut wrong = Vec::new();
    for (number, case) in cases().into_iter().enumerate() {
        let mut fields = fields_of(&[("Host", "localhost")]);
        fields.extend(fields_of(case.fields));
        let mut body = Body::default();
        if !case.body.is_null() {
            fields.extend(fields_of(&[("Content-Type", "application/json")]));
            body.framing = BodyFraming::Length;
            body.pieces = vec![case.body.to_string().into_bytes()];
        }
        let write = Write::new(Request {
            number: number as u64,
            wire: Wire::Http11,
            method: case.method.as_bytes().to_vec(),
            target: format!("{OBJECTS}{}", case.target).into_bytes(),
            authority: None,
            fields,
            body,
        });
        let (status, difference) = both.ask(&write).await;
        assert_eq!(status, case.status, "{}", write.shown());
        for namespace in [&both.direct.namespace, &both.front.namespace] {
            if !is_there(namespace, "o1").await {
                wrong.push(format!("{}: the object is gone", write.shown()));
            }
        }
        if let Some(difference) = difference {
            wrong.push(format!("{}\n{difference}", write.shown()));
            both = Both::new().await;
            both.create_all().await;
        }
    }
    println!(
        "recording::cluster_state::cases: {} things wrong in 20 cases",
        wrong.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
