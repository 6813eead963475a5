//! A CustomResourceDefinition and the resource that it defines.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::cluster::unique;
use crate::harness::eventually;
use crate::harness::media_types::TABLE_OR_JSON;
use crate::harness::objects::{widget, widget_definition};
use crate::harness::subject::Subject;
use crate::harness::watch::Watch;

conformance!(
    define_and_use,
    printer_columns,
    selectable_fields,
    status_is_apart,
    appears_in_discovery,
    disappears_with_its_definition,
);

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

struct Widgets {
    group: String,
    list: String,
}

async fn defined(subject: &Subject) -> Widgets {
    let group = format!("{}.example.test", unique("crd"));
    let ns = subject.namespace("widgets").await;
    let list = format!("/apis/{group}/v1/namespaces/{ns}/widgets");
    let admin = &subject.admin;
    let made = admin.post(DEFINITIONS, &widget_definition(&group)).await;
    assert_eq!(made.expect(201)["kind"], "CustomResourceDefinition");
    let path = format!("{DEFINITIONS}/widgets.{group}");
    eventually("established", Duration::from_secs(30), || async {
        let definition = admin.get(&path).await.expect(200);
        let conditions = definition["status"]["conditions"].as_array().cloned();
        conditions
            .unwrap_or_default()
            .iter()
            .any(|c| c["type"] == "Established" && c["status"] == "True")
    })
    .await;
    eventually("served", Duration::from_secs(30), || async {
        admin.get(&list).await.status == 200
    })
    .await;
    Widgets { group, list }
}

async fn define_and_use(subject: Subject) {
    let admin = &subject.admin;
    let Widgets { group, list } = defined(&subject).await;
    let from = admin.get(&list).await.expect(200);
    assert_eq!(from["kind"], "WidgetList");
    assert_eq!(from["items"], json!([]));
    let from = from["metadata"]["resourceVersion"]
        .as_str()
        .expect("version");
    let mut watch = Watch::open(admin, &format!("{list}?watch=1&resourceVersion={from}")).await;

    let made = admin
        .post(&list, &widget(&group, "a", "red", 3))
        .await
        .expect(201);
    assert_eq!(made["metadata"]["generation"], 1);
    let change = json!({"spec": {"size": 4}});
    let path = format!("{list}/a");
    let changed = admin
        .patch(&path, "merge-patch+json", &change)
        .await
        .expect(200);
    assert_eq!(changed["metadata"]["generation"], 2);
    assert_eq!(changed["spec"]["color"], "red");
    admin.delete(&path).await.expect(200);
    assert_eq!(
        watch.take_short(3).await,
        ["ADDED a", "MODIFIED a", "DELETED a"]
    );

    let bad = admin.post(&list, &widget(&group, "b", "red", -1)).await;
    let status = bad.expect(422);
    assert_eq!(status["reason"], "Invalid");
    assert_eq!(status["details"]["causes"][0]["field"], "spec.size");
    // Fields that the schema does not know are pruned.
    let mut unknown = widget(&group, "c", "red", 1);
    unknown["spec"]["unknown"] = json!(1);
    let made = admin.post(&list, &unknown).await.expect(201);
    assert!(made["spec"].get("unknown").is_none());
}

async fn printer_columns(subject: Subject) {
    let admin = &subject.admin;
    let Widgets { group, list } = defined(&subject).await;
    admin
        .post(&list, &widget(&group, "a", "red", 3))
        .await
        .expect(201);
    let table = admin.get_as(&list, TABLE_OR_JSON).await.expect(200);
    let columns: Vec<Value> = table["columnDefinitions"]
        .as_array()
        .expect("columns")
        .clone();
    let names: Vec<&str> = columns
        .iter()
        .map(|c| c["name"].as_str().unwrap_or(""))
        .collect();
    assert_eq!(names, ["Name", "Color", "Size", "Ready", "Age"]);
    assert_eq!(columns[2]["priority"], 1);
    assert_eq!(columns[2]["description"], "How large it is");
    let cells = &table["rows"][0]["cells"];
    assert_eq!(cells[0], "a");
    assert_eq!(cells[1], "red");
    assert_eq!(cells[2], 3);
    assert_eq!(cells[3], Value::Null);
    assert!(cells[4].is_string());
}

async fn selectable_fields(subject: Subject) {
    let admin = &subject.admin;
    let Widgets { group, list } = defined(&subject).await;
    for (name, color) in [("a", "red"), ("b", "blue")] {
        admin
            .post(&list, &widget(&group, name, color, 1))
            .await
            .expect(201);
    }
    let found = admin
        .get(&format!("{list}?fieldSelector=spec.color%3Dblue"))
        .await
        .expect(200);
    assert_eq!(found["items"].as_array().expect("items").len(), 1);
    assert_eq!(found["items"][0]["metadata"]["name"], "b");
    let answer = admin
        .get(&format!("{list}?fieldSelector=spec.size%3D1"))
        .await;
    assert_eq!(
        answer.expect(400)["message"],
        "field label not supported: spec.size"
    );
}

async fn status_is_apart(subject: Subject) {
    let admin = &subject.admin;
    let Widgets { group, list } = defined(&subject).await;
    let mut body = widget(&group, "a", "red", 1);
    body["status"] = json!({"ready": true});
    let made = admin.post(&list, &body).await.expect(201);
    assert!(made.get("status").is_none());
    let patch = json!({"spec": {"size": 9}, "status": {"ready": true}});
    let path = format!("{list}/a/status");
    let patched = admin
        .patch(&path, "merge-patch+json", &patch)
        .await
        .expect(200);
    assert_eq!(patched["status"]["ready"], true);
    assert_eq!(patched["spec"]["size"], 1);
    assert_eq!(patched["metadata"]["generation"], 1);
}

async fn appears_in_discovery(subject: Subject) {
    let admin = &subject.admin;
    let Widgets { group, .. } = defined(&subject).await;
    eventually("the group is listed", Duration::from_secs(30), || async {
        let groups = admin.get("/apis").await.expect(200);
        let groups = groups["groups"].as_array().cloned().unwrap_or_default();
        groups.iter().any(|g| g["name"] == group)
    })
    .await;
    let resources = admin.get(&format!("/apis/{group}/v1")).await.expect(200);
    assert_eq!(resources["kind"], "APIResourceList");
    let widgets = &resources["resources"][0];
    assert_eq!(widgets["name"], "widgets");
    assert_eq!(widgets["shortNames"], json!(["wd"]));
    assert_eq!(resources["resources"][1]["name"], "widgets/status");
}

async fn disappears_with_its_definition(subject: Subject) {
    let admin = &subject.admin;
    let Widgets { group, list } = defined(&subject).await;
    admin
        .post(&list, &widget(&group, "a", "red", 1))
        .await
        .expect(201);
    admin
        .get(&format!("{list}?resourceVersion=0"))
        .await
        .expect(200);
    admin
        .delete(&format!("{DEFINITIONS}/widgets.{group}"))
        .await
        .expect(200);
    eventually("the path is gone", Duration::from_secs(30), || async {
        let fresh = admin.get(&list).await.status;
        let cached = admin.get(&format!("{list}?resourceVersion=0")).await.status;
        fresh == 404 && cached == 404
    })
    .await;
}
