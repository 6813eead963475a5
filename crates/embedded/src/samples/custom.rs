//! Two extension groups. `stable.example.com` has columns and a deprecated
//! version; `wardle.example.com` is cluster-scoped and plain.

use serde_json::{Value, json};

use crate::server::EmbeddedServer;

pub(super) fn load(server: &EmbeddedServer) {
    for definition in [cron_tabs(), flunders()] {
        server.seed("apiextensions.k8s.io", "v1", definition);
    }
    for i in 0..6 {
        server.seed(
            "stable.example.com",
            "v1",
            json!({
                "apiVersion": "stable.example.com/v1",
                "kind": "CronTab",
                "metadata": {
                    "name": format!("report-{i}"),
                    "namespace": if i % 2 == 0 { "default" } else { "shop" },
                    "labels": {"team": if i < 3 { "billing" } else { "search" }},
                },
                "spec": {"cronSpec": format!("*/{} * * * *", 5 + i), "image": "registry.example.com/report:2.1", "replicas": i % 3},
                "status": {"replicas": i % 3},
            }),
        );
    }
    for (i, name) in ["bolt", "clamp", "lever", "pulley"].iter().enumerate() {
        server.seed(
            "wardle.example.com",
            "v1alpha1",
            json!({
                "apiVersion": "wardle.example.com/v1alpha1",
                "kind": "Flunder",
                "metadata": {"name": name},
                "spec": {"reference": format!("part-{i}"), "referenceType": "Flunder"},
            }),
        );
    }
}

fn cron_tabs() -> Value {
    let schema = json!({"openAPIV3Schema": {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {
                "cronSpec": {"type": "string"},
                "image": {"type": "string"},
                "replicas": {"type": "integer"},
            }},
            "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
        },
    }});
    let columns = json!([
        {"name": "Spec", "type": "string", "description": "The cron spec defining the interval a CronJob is run", "jsonPath": ".spec.cronSpec"},
        {"name": "Replicas", "type": "integer", "description": "The number of jobs launched by the CronJob", "jsonPath": ".spec.replicas"},
        {"name": "Image", "type": "string", "jsonPath": ".spec.image", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    let subresources = json!({
        "status": {},
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
    });
    json!({
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "crontabs.stable.example.com"},
        "spec": {
            "group": "stable.example.com",
            "names": {"plural": "crontabs", "singular": "crontab", "kind": "CronTab", "shortNames": ["ct"], "categories": ["all"]},
            "scope": "Namespaced",
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": subresources, "additionalPrinterColumns": columns},
                {"name": "v1beta1", "served": true, "storage": false, "deprecated": true, "schema": schema, "subresources": subresources, "additionalPrinterColumns": columns},
            ],
        },
    })
}

fn flunders() -> Value {
    json!({
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "flunders.wardle.example.com"},
        "spec": {
            "group": "wardle.example.com",
            "names": {"plural": "flunders", "singular": "flunder", "kind": "Flunder"},
            "scope": "Cluster",
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}
