//! Reads custom resources at once after their definition has changed. kube-apiserver
//! then shows objects and columns in another form, under their old versions.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::harness::apifront::Apifront;
use crate::harness::client::{Answer, Client};
use crate::harness::cluster::{Cluster, unique};
use crate::harness::differential::compare;
use crate::harness::expect::{DEBUG, Expect};
use crate::harness::media_types::{JSON, PARTIAL_LIST, TABLE_OR_JSON};
use crate::harness::{eventually, volume};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SOON: Duration = Duration::from_secs(30);

/// The variable with the number of changes of the definition.
const CHANGES: &str = "APIFRONT_TEST_REDEFINITIONS";

/// The number of objects. Most of them are never written after their creation.
const OBJECTS: usize = 40;

/// Returns the definition's version after this many changes. Each change has another
/// default. Some prune a field, show another field in the same column, rename the
/// column, or make another field selectable.
fn version(change: usize) -> Value {
    let mut spec = json!({
        "color": { "type": "string", "default": format!("color-{change}") },
        "size": { "type": "string" },
        "shape": { "type": "string" },
    });
    if change % 3 == 1 {
        spec["extra"] = json!({ "type": "string" });
    }
    let shown = [".spec.color", ".spec.size", ".spec.shape"][change % 3];
    let column = ["Value", "Value", "Other"][change / 3 % 3];
    let selected = [".spec.size", ".spec.shape"][change / 2 % 2];
    json!({
        "name": "v1", "served": true, "storage": true,
        "additionalPrinterColumns": [{ "name": column, "type": "string", "jsonPath": shown }],
        "selectableFields": [{ "jsonPath": selected }],
        "schema": { "openAPIV3Schema": {
            "type": "object",
            "properties": { "spec": { "type": "object", "properties": spec } },
        }},
    })
}

fn definition(group: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("widgets.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced", "versions": [version(1)],
            "names": { "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" },
        },
    })
}

fn widget(group: &str, number: usize) -> Value {
    let size = ["big", "small"][number % 2];
    json!({
        "apiVersion": format!("{group}/v1"), "kind": "Widget",
        "metadata": { "name": format!("w{number:03}") },
        "spec": { "size": size, "shape": "round", "extra": "kept" },
    })
}

/// A resource, read directly and through apifront.
struct Redefined {
    direct: Client,
    front: Client,
    hits: usize,
    asked: usize,
    differences: Vec<String>,
}

impl Redefined {
    /// Asks kube-apiserver before and after apifront. kube-apiserver never goes back
    /// to an earlier definition, so apifront's answer must equal one of the two.
    async fn ask(&mut self, path: &str, accept: &str) -> Answer {
        let before = self.direct.get_as(path, accept).await;
        let front = self.answered(path, accept).await;
        let after = self.direct.get_as(path, accept).await;
        self.asked += 1;
        self.hits += usize::from(front.is_hit());
        let difference = compare(&after, &front);
        if !difference.is_empty() && !compare(&before, &front).is_empty() {
            let who = front.header("x-apifront-cache");
            self.differences
                .push(format!("{path} {accept} ({who})\n{difference}"));
        }
        front
    }

    /// Asks apifront until kube-apiserver's storage of the resource exists. That is
    /// recreated for each definition, and refuses requests in the meantime.
    async fn answered(&self, path: &str, accept: &str) -> Answer {
        let headers = [("accept", accept), DEBUG];
        let deadline = tokio::time::Instant::now() + SOON;
        loop {
            let answer = self.front.send(Method::GET, path, &headers, "").await;
            if answer.status != 429 || tokio::time::Instant::now() > deadline {
                return answer;
            }
            let told = answer.text();
            assert!(told.contains("storage is (re)initializing"), "{told}");
        }
    }
}

#[tokio::test]
async fn a_list_right_after_a_change_has_the_new_form() {
    // This test compares versions of lists, which any write would change.
    let cluster = Cluster::leased(&[]).await;
    let front = Apifront::start(&cluster, |_| {}).await;
    let admin = cluster.admin_client();
    let group = format!("{}.example.test", unique("redefined"));
    let namespace = cluster.namespace("redefined").await;
    admin
        .post(DEFINITIONS, &definition(&group))
        .await
        .expect(201);
    let all = format!("/apis/{group}/v1/widgets");
    let mine = format!("/apis/{group}/v1/namespaces/{namespace}/widgets");
    eventually("served", SOON, || async {
        admin.get(&all).await.status == 200
    })
    .await;
    for number in 0..OBJECTS {
        let widget = widget(&group, number);
        admin.post(&mine, &widget).await.expect(201);
    }
    let mut asked = Redefined {
        direct: admin.clone(),
        front: front.admin_client(),
        hits: 0,
        asked: 0,
        differences: Vec::new(),
    };
    front.warm(&asked.front, &all).await;
    let changes = volume::work(CHANGES, 12);
    let name = format!("{DEFINITIONS}/widgets.{group}");
    let mut noticed = 0;
    for change in 2..changes + 2 {
        let versions = json!({ "spec": { "versions": [version(change)] } });
        let patched = admin.patch(&name, "merge-patch+json", &versions).await;
        assert_eq!(patched.status, 200, "{}", patched.text());
        asked.ask(&all, JSON).await;
        asked.ask(&all, TABLE_OR_JSON).await;
        // One object is written after the change, and so gets a new version.
        let written = json!({ "metadata": { "labels": { "change": change.to_string() } } });
        let path = format!("{mine}/w000");
        let answer = admin.patch(&path, "merge-patch+json", &written).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        asked.ask(&mine, JSON).await;
        asked.ask(&format!("{mine}?limit=3"), JSON).await;
        for selector in ["spec.size%3Dbig", "spec.shape%3Dround"] {
            let path = format!("{all}?fieldSelector={selector}");
            asked.ask(&path, JSON).await;
        }
        asked.ask(&all, PARTIAL_LIST).await;
        asked.ask(&path, JSON).await;
        asked.ask(&path, TABLE_OR_JSON).await;
        asked
            .ask(&format!("{mine}?labelSelector=change"), TABLE_OR_JSON)
            .await;
        // The next change comes at once, or after apifront has noticed this one.
        if change % 2 == 0 {
            eventually("a Table from the cache", SOON, || async {
                let headers = [("accept", TABLE_OR_JSON), DEBUG];
                let table = asked.front.send(Method::GET, &all, &headers, "").await;
                table.is_hit()
            })
            .await;
            // Nothing changes now, so the cache must answer everything.
            for (path, accept) in [
                (&all, TABLE_OR_JSON),
                (&all, JSON),
                (&mine, JSON),
                (&all, PARTIAL_LIST),
            ] {
                let answer = asked.ask(path, accept).await;
                let unmet = Expect::Hit.unmet(&answer);
                assert!(unmet.is_empty(), "{path} {accept}: {unmet}");
            }
            noticed += 1;
        }
    }
    let Redefined {
        hits,
        asked,
        differences,
        ..
    } = asked;
    println!(
        "{changes} changes: {asked} answers, {hits} from the cache, {noticed} changes noticed before the next"
    );
    let shown: String = differences.iter().take(10).cloned().collect();
    assert!(
        differences.is_empty(),
        "{} of {asked} answers differ (- direct, + front):\n{shown}",
        differences.len()
    );
    assert!(noticed * 2 >= changes, "{noticed} of {changes} changes");
    front.stop().await;
}
