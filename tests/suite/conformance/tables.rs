//! Answers in the form of a Table or of PartialObjectMetadata.

use serde_json::{Value, json};

use crate::harness::media_types::{PARTIAL_LIST_OR_JSON, PARTIAL_OR_JSON, TABLE_OR_JSON};
use crate::harness::objects::pod_on_node;
use crate::harness::subject::Subject;
use crate::harness::watch::Watch;

conformance!(
    table_of_pods,
    table_of_one_pod,
    table_include_object,
    table_watch,
    partial_metadata,
    not_acceptable,
);

async fn two_pods(subject: &Subject) -> String {
    let ns = subject.namespace("table").await;
    let list = format!("/api/v1/namespaces/{ns}/pods");
    for name in ["a", "b"] {
        let body = pod_on_node(name, json!({"app": "x"}), "somewhere");
        subject.admin.post(&list, &body).await.expect(201);
    }
    list
}

fn columns(table: &Value) -> Vec<&str> {
    let columns = table["columnDefinitions"].as_array().expect("columns");
    columns
        .iter()
        .map(|c| c["name"].as_str().unwrap_or(""))
        .collect()
}

const POD_COLUMNS: [&str; 9] = [
    "Name",
    "Ready",
    "Status",
    "Restarts",
    "Age",
    "IP",
    "Node",
    "Nominated Node",
    "Readiness Gates",
];

async fn table_of_pods(subject: Subject) {
    let list = two_pods(&subject).await;
    for version in ["", "?resourceVersion=0"] {
        let answer = subject
            .admin
            .get_as(&format!("{list}{version}"), TABLE_OR_JSON)
            .await;
        assert_eq!(answer.header("content-type"), "application/json");
        let table = answer.expect(200);
        assert_eq!(table["kind"], "Table");
        assert_eq!(table["apiVersion"], "meta.k8s.io/v1");
        assert!(table["metadata"]["resourceVersion"].is_string());
        assert_eq!(columns(&table), POD_COLUMNS);
        if version.is_empty() {
            assert_eq!(table["rows"].as_array().expect("rows").len(), 2);
            let row = &table["rows"][0];
            assert_eq!(row["cells"][0], "a");
            assert_eq!(row["cells"][1], "0/1");
            assert_eq!(row["cells"][2], "Pending");
            assert_eq!(row["cells"][6], "somewhere");
            assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
            assert_eq!(row["object"]["metadata"]["labels"], json!({"app": "x"}));
        }
    }
}

async fn table_of_one_pod(subject: Subject) {
    let list = two_pods(&subject).await;
    let answer = subject
        .admin
        .get_as(&format!("{list}/b"), TABLE_OR_JSON)
        .await;
    let table = answer.expect(200);
    assert_eq!(table["kind"], "Table");
    assert_eq!(table["rows"].as_array().expect("rows").len(), 1);
    assert_eq!(table["rows"][0]["cells"][0], "b");
    // An answer that cannot be a Table, such as an error, stays as it is.
    let answer = subject
        .admin
        .get_as(&format!("{list}/none"), TABLE_OR_JSON)
        .await;
    answer.expect_status(404, "NotFound", "pods \"none\" not found");
}

async fn table_include_object(subject: Subject) {
    let admin = &subject.admin;
    let list = two_pods(&subject).await;
    let table = admin
        .get_as(&format!("{list}?includeObject=Object"), TABLE_OR_JSON)
        .await
        .expect(200);
    assert_eq!(table["rows"][0]["object"]["kind"], "Pod");
    let table = admin
        .get_as(&format!("{list}?includeObject=None"), TABLE_OR_JSON)
        .await
        .expect(200);
    assert_eq!(table["rows"][0]["object"], Value::Null);
    let answer = admin
        .get_as(&format!("{list}?includeObject=x"), TABLE_OR_JSON)
        .await;
    answer.expect_status(
        400,
        "BadRequest",
        "Unable to convert to Table as requested: includeObject: Invalid value: \"x\": \
         must be 'Metadata', 'Object', 'None', or empty",
    );
}

async fn table_watch(subject: Subject) {
    let list = two_pods(&subject).await;
    let from = subject.admin.get(&list).await.expect(200);
    let from = from["metadata"]["resourceVersion"]
        .as_str()
        .expect("version");
    let admin = subject.admin.clone().with_header("accept", TABLE_OR_JSON);
    let mut watch = Watch::open(&admin, &format!("{list}?watch=1&resourceVersion={from}")).await;
    for name in ["c", "d"] {
        let body = pod_on_node(name, json!({}), "somewhere");
        subject.admin.post(&list, &body).await.expect(201);
    }
    let events = watch.take(2).await;
    assert_eq!(events[0].object["kind"], "Table");
    assert_eq!(columns(&events[0].object), POD_COLUMNS);
    assert_eq!(events[0].object["rows"][0]["cells"][0], "c");
    // The columns are sent once.
    assert_eq!(events[1].object["columnDefinitions"], Value::Null);
    assert_eq!(events[1].object["rows"][0]["cells"][0], "d");
}

async fn partial_metadata(subject: Subject) {
    let admin = &subject.admin;
    let list = two_pods(&subject).await;
    let full = admin.get(&list).await.expect(200);
    let partial = admin.get_as(&list, PARTIAL_LIST_OR_JSON).await.expect(200);
    assert_eq!(partial["kind"], "PartialObjectMetadataList");
    assert!(partial["metadata"]["resourceVersion"].is_string());
    assert_eq!(partial["items"].as_array().map(Vec::len), Some(2));
    let item = &partial["items"][0];
    assert_eq!(item["kind"], "PartialObjectMetadata");
    assert_eq!(item["apiVersion"], "meta.k8s.io/v1");
    assert_eq!(item["metadata"], full["items"][0]["metadata"]);
    assert!(item.get("spec").is_none());
    let one = admin
        .get_as(&format!("{list}/a"), PARTIAL_OR_JSON)
        .await
        .expect(200);
    assert_eq!(one["kind"], "PartialObjectMetadata");
    assert_eq!(one["metadata"]["name"], "a");
}

async fn not_acceptable(subject: Subject) {
    let admin = &subject.admin;
    let list = two_pods(&subject).await;
    let answer = admin.get_as(&list, "text/html").await;
    let (cbor, sequence) = match subject.has_cbor {
        true => (", application/cbor", ", application/cbor-seq"),
        false => ("", ""),
    };
    let message = format!(
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
         application/vnd.kubernetes.protobuf{cbor}, application/json;stream=watch, \
         application/vnd.kubernetes.protobuf;stream=watch{sequence}"
    );
    answer.expect_status(406, "NotAcceptable", &message);
    // The answer is indented, since no representation was negotiated.
    assert!(answer.text().starts_with("{\n  \"kind\": \"Status\",\n"));
    // A list cannot be PartialObjectMetadata, which is a single object.
    let answer = admin.get_as(&list, PARTIAL_OR_JSON).await;
    assert_eq!(answer.expect(406)["reason"], "NotAcceptable");
    // YAML cannot be streamed.
    let answer = admin
        .get_as(&format!("{list}?watch=1"), "application/yaml")
        .await;
    assert_eq!(answer.status, 406);
}
