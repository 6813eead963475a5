//! The page of the examples, in Chromium behind `kubectl proxy`.

mod ended;
mod shown;

use std::path::Path;

use futures::future::join_all;
use serde_json::{Value, json};
use shown::{SORTED, STATE, Shown, TOTAL};

use super::{enable, front, shared_front};
use crate::harness::apifront::Apifront;
use crate::harness::cluster::{Cluster, unique};
use crate::harness::kubeconfig::{self, Credential};
use crate::harness::objects::pod_on_node;
use crate::harness::process;
use crate::kubectl::kubeconfig_of;

const MARKUP: &str = "<script>window.harmed=1</script><img src=x onerror=window.harmed=1>";

/// A pod of a test: its name, node and phase.
#[derive(Clone)]
struct Pod {
    name: String,
    node: String,
    phase: &'static str,
}

impl Pod {
    fn number(n: usize) -> Self {
        let phases = ["Running", "Running", "Running", "Pending", "Failed"];
        Self {
            name: format!("web-{n:03}"),
            node: format!("node-{}", n % 4 + 1),
            phase: phases[n % phases.len()],
        }
    }
}

fn names(pods: &[Pod]) -> Vec<String> {
    pods.iter().map(|pod| pod.name.clone()).collect()
}

#[tokio::test]
async fn rows_are_sorted_filtered_counted_and_paged() {
    skip_under_oracle!("kube-apiserver has no queries");
    let shown = Shown::open(shared_front()).await;
    let mut pods: Vec<Pod> = (0..240).map(Pod::number).collect();
    let created = pods.iter().map(async |pod| {
        let object = pod_on_node(&pod.name, json!({ "app": "web" }), &pod.node);
        shown.create(&object).await;
        if pod.phase != "Pending" {
            shown.set_phase(&pod.name, pod.phase).await;
        }
    });
    join_all(created).await;
    shown.begin().await;
    // The order of a list, if nobody chose another.
    shown.names(&names(&pods[..50])).await;
    shown.page.shows(TOTAL, &json!("1–50 of 240")).await;
    shown
        .counts(&["Running 144", "Failed 48", "Pending 48"])
        .await;
    // A head sorts one way, the other way, and not at all.
    shown.sort("name", false).await;
    shown
        .page
        .shows(SORTED, &json!({ "name": "ascending" }))
        .await;
    shown.names(&names(&pods[..50])).await;
    shown.sort("name", false).await;
    pods.reverse();
    shown.names(&names(&pods[..50])).await;
    shown
        .page
        .shows(SORTED, &json!({ "name": "descending" }))
        .await;
    shown.sort("name", false).await;
    pods.reverse();
    shown.names(&names(&pods[..50])).await;
    shown.page.shows(SORTED, &json!({})).await;
    // Two heads: nodes down, and names up within a node, as the order of a list is.
    shown.sort("node", false).await;
    shown.sort("node", false).await;
    shown.sort("phase", true).await;
    pods.sort_by_key(|pod| (std::cmp::Reverse(pod.node.clone()), pod.phase));
    shown.names(&names(&pods[..50])).await;
    shown
        .page
        .shows(SORTED, &json!({ "node": "descending" }))
        .await;
    // Pages go on in the same order.
    shown.click("#next").await;
    shown.names(&names(&pods[50..100])).await;
    shown.page.shows(TOTAL, &json!("51–100 of 240")).await;
    shown.click("#last").await;
    shown.names(&names(&pods[200..])).await;
    shown
        .page
        .is_true("document.getElementById('next').disabled")
        .await;
    draw(&shown).await;
    // A count is added to the condition, whose first page is shown.
    shown.fill("count-by", "object.spec.nodeName").await;
    let counts = ["node-1 60", "node-2 60", "node-3 60", "node-4 60"];
    shown.counts(&counts).await;
    shown.click("#counts li:nth-child(2) button").await;
    let condition = "document.getElementById('where').value";
    let expected = r#"object.spec.nodeName == "node-2""#;
    shown.page.shows(condition, &json!(expected)).await;
    let mut on_node = pods.clone();
    on_node.retain(|pod| pod.node == "node-2");
    shown.names(&names(&on_node[..50])).await;
    // A condition that somebody types, with the key that ends it.
    shown
        .page
        .evaluate("(({ where }) => { where.focus(); where.select(); })(document.getElementById('choice').elements)")
        .await;
    let typed = "object.status.phase == 'Failed' && object.metadata.name < 'web-050'";
    let insert = json!(["Input.insertText", { "text": typed }]);
    shown.page.call("send", &insert).await;
    shown.page.call("press", &json!(["Enter", "\r"])).await;
    pods.retain(|pod| pod.phase == "Failed" && pod.name.as_str() < "web-050");
    shown.names(&names(&pods)).await;
    shown.page.shows(TOTAL, &json!("1–10 of 10")).await;
    shown.is_quiet().await;
}

#[tokio::test]
async fn each_resource_begins_with_columns_of_its_own() {
    skip_under_oracle!("kube-apiserver has no queries");
    let cluster = Cluster::quiet();
    let front = Apifront::start(cluster, |config| {
        enable(config);
        // Events are not cached otherwise.
        config["cache"] = json!({ "exclude": [] });
    })
    .await;
    let shown = Shown::open_as(&kubeconfig_of(cluster, &front), String::new()).await;
    shown.page.shows(STATE, &json!("Live")).await;
    let heads = "[...document.querySelectorAll('#rows thead th')].map((head) => head.textContent)";
    let rows = "document.querySelectorAll('#rows tbody tr').length > 0";
    for (resource, columns) in [
        (
            "deployments.apps",
            &["namespace", "name", "wanted", "ready", "image", "age"][..],
        ),
        ("nodes", &["name", "ready", "kubelet", "age"]),
        (
            "apps/v1/replicasets",
            &["namespace", "name", "Desired", "Current", "Ready", "Age"],
        ),
        ("v1/configmaps", &["namespace", "name", "Data", "Age"]),
        (
            "widgets.sample.example.test",
            &["namespace", "name", "Color", "Ready", "Age"],
        ),
        (
            "events",
            &[
                "namespace",
                "name",
                "type",
                "reason",
                "about",
                "message",
                "last",
            ],
        ),
        (
            "pods",
            &["namespace", "name", "phase", "node", "restarts", "age"],
        ),
    ] {
        shown.fill("resource", resource).await;
        shown.page.shows(heads, &json!(columns)).await;
        shown.page.shows(STATE, &json!("Live")).await;
        shown.page.is_true(rows).await;
    }
    shown.is_quiet().await;
}

/// Draws the page for the documents, if somebody wants that.
async fn draw(shown: &Shown) {
    let Some(folder) = std::env::var_os("APIFRONT_TEST_PICTURES") else {
        return;
    };
    shown.click("#first").await;
    shown.page.shows(TOTAL, &json!("1–50 of 240")).await;
    let picture = shown.page.picture(1280, 720).await;
    std::fs::write(Path::new(&folder).join("query-page.png"), picture).expect("a picture");
    shown.click("#last").await;
    shown.page.shows(TOTAL, &json!("201–240 of 240")).await;
}

#[tokio::test]
async fn changes_show_without_a_reload() {
    skip_under_oracle!("kube-apiserver has no queries");
    let shown = Shown::open(shared_front()).await;
    for (name, node) in [("a", "node-1"), ("c", "node-2")] {
        shown.create(&pod_on_node(name, json!({}), node)).await;
    }
    shown.begin().await;
    let named = |names: &[&str]| -> Vec<String> { names.iter().map(|n| n.to_string()).collect() };
    shown.names(&named(&["a", "c"])).await;
    shown.counts(&["Pending 2"]).await;
    shown
        .page
        .evaluate(
            "(() => {
               window.marked = [];
               const note = (row) => row.matches?.('tr.changed') && marked.push(row.querySelector('th').textContent);
               new MutationObserver((changes) => {
                 for (const { target, addedNodes } of changes) [target, ...addedNodes].forEach(note);
               }).observe(document.querySelector('#rows tbody'), { subtree: true, childList: true, attributes: true });
             })()",
        )
        .await;
    shown.create(&pod_on_node("b", json!({}), "node-1")).await;
    shown.names(&named(&["a", "b", "c"])).await;
    shown.counts(&["Pending 3"]).await;
    shown.set_phase("c", "Running").await;
    shown.counts(&["Pending 2", "Running 1"]).await;
    let phase = "document.querySelector('#rows tbody tr:last-child td:nth-child(3)').textContent";
    shown.page.shows(phase, &json!("Running")).await;
    shown
        .page
        .shows("[...new Set(marked)]", &json!(["b", "c"]))
        .await;
    // The marks go.
    let marks = "document.querySelectorAll('#rows .changed').length";
    shown.page.shows(marks, &json!(0)).await;
    // A row moves as what it is sorted by changes, and keeps the focus.
    shown.sort("phase", false).await;
    shown
        .page
        .shows(SORTED, &json!({ "phase": "ascending" }))
        .await;
    shown.names(&named(&["a", "b", "c"])).await;
    shown
        .page
        .evaluate("document.querySelector('#rows tbody button').focus()")
        .await;
    shown.set_phase("a", "Running").await;
    shown.names(&named(&["b", "a", "c"])).await;
    let focused = "document.activeElement.textContent";
    shown.page.shows(focused, &json!("a")).await;
    for (name, left) in [("b", &["a", "c"][..]), ("a", &["c"]), ("c", &[])] {
        let path = format!("{}/{name}?gracePeriodSeconds=0", shown.pods);
        shown.admin.delete(&path).await.expect(200);
        shown.names(&named(left)).await;
    }
    let nothing = "document.getElementById('nothing').hidden";
    shown.page.shows(nothing, &json!(false)).await;
    // Nothing was asked for again: the observer is still there, and each choice was a
    // request.
    let requests = shown.page.call("requests", &json!([])).await;
    let requests = requests.as_array().unwrap().iter();
    let queries = requests.filter(|request| request.as_str().unwrap().ends_with("?watch=true"));
    assert_eq!(queries.count(), 3, "all pods, the namespace, and its order");
    assert!(shown.page.evaluate("marked.length > 0").await == json!(true));
    shown.is_quiet().await;
}

/// The page's own window, in the page.
#[tokio::test]
async fn changes_are_applied_in_their_order() {
    skip_under_oracle!("kube-apiserver has no queries");
    let shown = Shown::open(shared_front()).await;
    shown.page.shows(STATE, &json!("Live")).await;
    let row = |name: &str| json!({ "name": name, "cells": [] });
    let begun = ["a", "b", "c", "d"].map(row);
    for (changes, expected) in [
        (
            json!([
                { "type": "Removed", "index": 1 },
                { "type": "Added", "index": 0, "row": row("x") },
                { "type": "Moved", "from": 3, "index": 1 },
                { "type": "Changed", "index": 2, "row": row("A") },
                { "type": "Added", "index": 4, "row": row("y") },
                { "type": "Moved", "from": 0, "index": 4 },
            ]),
            "d A c y x",
        ),
        (json!([{ "type": "Removed", "index": 4 }]), "misfit"),
        (json!([{ "type": "Removed" }]), "misfit"),
        (
            json!([{ "type": "Changed", "index": 4, "row": row("x") }]),
            "misfit",
        ),
        (
            json!([{ "type": "Added", "index": 5, "row": row("x") }]),
            "misfit",
        ),
        (
            json!([{ "type": "Moved", "from": 0, "index": 4 }]),
            "misfit",
        ),
        (json!([{ "type": "Vanished", "index": 0 }]), "misfit"),
    ] {
        let status = |more: Value| json!({ "object": { "status": more } });
        let mut first = status(json!({ "columns": [], "rows": begun }));
        first["type"] = json!("ADDED");
        let mut next = status(json!({ "changes": changes }));
        next["type"] = json!("MODIFIED");
        let script = format!(
            "import('./window.js').then(({{ QueryWindow }}) => {{ \
               const seen = new QueryWindow(); \
               seen.take({first}); \
               try {{ seen.take({next}); }} catch {{ return 'misfit'; }} \
               return seen.rows.map((row) => row.name).join(' '); \
             }})"
        );
        let rows = shown.page.evaluate(&script).await;
        assert_eq!(rows, expected, "{next}");
    }
}

#[tokio::test]
async fn what_the_server_refuses_is_told_beside_the_old_table() {
    skip_under_oracle!("kube-apiserver has no queries");
    let shown = Shown::open(shared_front()).await;
    shown.create(&pod_on_node("a", json!({}), "node-1")).await;
    shown.begin().await;
    let pod = ["a".to_owned()];
    shown.names(&pod).await;
    for (field, wrong, told) in [
        ("where", "object.metadata.", "Invalid value: "),
        (
            "columns",
            "node=object.spec.nodeName\nbad=(",
            "spec.columns[1].expression: ",
        ),
        ("count-by", "nothing", "nothing"),
        ("namespaces", "Wrong", "spec.namespaces[0]: "),
        ("resource", "v1/Pods", "spec.resource.resource: "),
    ] {
        let value = format!("document.getElementById('{field}').value");
        let right = shown.page.evaluate(&value).await;
        shown.fill(field, wrong).await;
        let error = format!("document.getElementById('{field}-error').textContent");
        let is_told = format!("{error}.includes({})", json!(told));
        shown.page.is_true(&is_told).await;
        shown.page.shows(STATE, &json!("Not live")).await;
        let invalid = "[...document.querySelectorAll('[aria-invalid]')].map((field) => field.id)";
        shown.page.shows(invalid, &json!([field])).await;
        shown.names(&pod).await;
        shown.fill(field, right.as_str().unwrap()).await;
        shown.page.shows(STATE, &json!("Live")).await;
        shown.page.shows(&error, &json!("")).await;
        shown.names(&pod).await;
    }
    // What is about no field is told in one line.
    let line = "document.getElementById('refusal').textContent";
    shown.fill("labels", "a=b=c").await;
    shown.page.is_true(&format!("{line} !== ''")).await;
    shown.names(&pod).await;
    shown.fill("labels", "").await;
    shown.page.shows(line, &json!("")).await;
    shown.fill("resource", "things.example.org").await;
    shown.page.is_true(&format!("{line} !== ''")).await;
    shown.names(&pod).await;
}

#[tokio::test]
async fn a_stranger_is_told_which_right_is_missing() {
    skip_under_oracle!("kube-apiserver has no queries");
    let cluster = Cluster::quiet();
    let certificate = cluster.certificates.client(&unique("stranger"), &[]);
    let folder = process::temporary_folder("stranger");
    let who = Credential::Certificate(&certificate);
    let url = front().url();
    let kubeconfig = kubeconfig::write(&folder, "stranger", &url, Some(cluster.ca()), who);
    let shown = Shown::open_as(&kubeconfig, String::new()).await;
    let told = "document.getElementById('refusal').textContent.includes('cannot create resource \"queries\"')";
    shown.page.is_true(told).await;
    shown.page.shows(STATE, &json!("Not live")).await;
}

#[tokio::test]
async fn text_of_the_cluster_stays_text() {
    skip_under_oracle!("kube-apiserver has no queries");
    let shown = Shown::open(shared_front()).await;
    let mut pod = pod_on_node("a", json!({ "is": "marked" }), "node-1");
    pod["metadata"]["annotations"] = json!({ "note": MARKUP });
    shown.create(&pod).await;
    shown.begin().await;
    shown.fill("labels", "is=marked").await;
    shown
        .fill("columns", "note=object.metadata.annotations.note")
        .await;
    shown
        .fill("count-by", "object.metadata.annotations.note")
        .await;
    let cells = "[...document.querySelectorAll('#rows tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))";
    let expected = json!([[shown.namespace, "a", MARKUP]]);
    shown.page.shows(cells, &expected).await;
    shown.counts(&[&format!("{MARKUP} 1")]).await;
    // It is a value in a condition, too.
    shown.click("#counts button").await;
    shown
        .page
        .is_true("document.getElementById('where').value.includes('script')")
        .await;
    shown.page.shows(STATE, &json!("Live")).await;
    shown.page.shows(cells, &expected).await;
    // A click on the row shows the object.
    shown.click("#rows tbody td").await;
    let yaml = "document.querySelector('#object pre').textContent";
    let is_shown = format!(
        "{yaml}.includes('kind: Pod') && {yaml}.includes({})",
        json!(MARKUP)
    );
    shown.page.is_true(&is_shown).await;
    shown.page.call("press", &json!(["Escape"])).await;
    shown
        .page
        .shows("document.getElementById('object').open", &json!(false))
        .await;
    let harm = "[document.images.length, document.scripts.length, window.harmed ?? null]";
    assert_eq!(shown.page.evaluate(harm).await, json!([0, 1, null]));
    shown.is_quiet().await;
}

#[tokio::test]
async fn the_page_can_be_read_and_used_by_everybody() {
    skip_under_oracle!("kube-apiserver has no queries");
    let shown = Shown::open(shared_front()).await;
    let page = &shown.page;
    for name in ["a", "b"] {
        shown.create(&pod_on_node(name, json!({}), "node-1")).await;
    }
    shown.begin().await;
    let up = ["a".to_owned(), "b".to_owned()];
    let down = ["b".to_owned(), "a".to_owned()];
    shown.names(&up).await;
    // Names in the tree that screen readers get.
    let tree = page
        .call("send", &json!(["Accessibility.getFullAXTree"]))
        .await;
    let nodes: Vec<&Value> = tree["nodes"].as_array().unwrap().iter().collect();
    let of = |role: &str| {
        let nodes = nodes.iter().filter(|node| node["ignored"] != true);
        let its: Vec<&&Value> = nodes.filter(|node| node["role"]["value"] == role).collect();
        let is_named = |node: &&&Value| {
            node["name"]["value"]
                .as_str()
                .is_some_and(|n| !n.is_empty())
        };
        assert!(its.iter().all(is_named), "a {role} without a name");
        its.len()
    };
    for (role, count) in [
        ("table", 1),
        ("region", 3),
        ("combobox", 2),
        ("columnheader", 6),
        ("rowheader", 2),
    ] {
        assert_eq!(of(role), count, "{role}");
    }
    assert!(of("button") >= 10 && of("textbox") >= 3);
    // The keyboard sorts, and the focus stays.
    let focused = "document.activeElement.title";
    page.evaluate("document.querySelector('[title=\"object.metadata.name\"]').focus()")
        .await;
    for expected in [&up, &down] {
        page.call("press", &json!(["Enter", "\r"])).await;
        shown.names(expected).await;
        page.shows(focused, &json!("object.metadata.name")).await;
    }
    page.shows(SORTED, &json!({ "name": "descending" })).await;
    page.evaluate("document.querySelector('#rows tbody button').focus()")
        .await;
    page.call("press", &json!(["Enter", "\r"])).await;
    page.is_true("document.querySelector('#object pre').textContent.includes('name: b')")
        .await;
    page.call("press", &json!(["Escape"])).await;
    page.shows("document.activeElement.textContent", &json!("b"))
        .await;
    // Light and dark, wide and narrow.
    let mut backs = Vec::new();
    for scheme in ["light", "dark"] {
        page.call("prefer", &json!([scheme])).await;
        let back = "getComputedStyle(document.body).backgroundColor";
        backs.push(page.evaluate(back).await);
        let texts = json!([["body", ".note", "thead th", ".good", ".bad", ".link"]]);
        let contrasts = page.call("contrasts", &texts).await;
        for contrast in contrasts.as_array().unwrap() {
            assert!(contrast.as_f64().unwrap() >= 4.5, "{scheme}: {contrasts}");
        }
        for width in [1280, 800, 390, 320] {
            page.call("resize", &json!([width, 844, width < 800])).await;
            let fits = format!(
                "innerWidth === {width} && document.documentElement.scrollWidth <= {width}"
            );
            page.is_true(&fits).await;
        }
    }
    assert_ne!(backs[0], backs[1]);
    shown.is_quiet().await;
}
