//! A query without columns shows those of a Table, and its answer can be a Table.

use serde_json::{Value, json};

use super::{QUERIES, query, shared_front};
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::media_types::TABLE;
use crate::harness::objects::{config_map, pod_on_node};

/// Returns the names of a Table's columns that kubectl prints, and the cells by row.
fn printed(table: &Value) -> (Vec<Value>, Vec<Vec<Value>>) {
    let columns = table["columnDefinitions"].as_array().unwrap();
    let is_shown: Vec<bool> = columns.iter().map(|c| c["priority"] == 0).collect();
    let shown = |of: &[Value]| -> Vec<Value> {
        let both = of.iter().zip(&is_shown);
        both.filter(|(_, shown)| **shown)
            .map(|(value, _)| value.clone())
            .collect()
    };
    let names: Vec<Value> = columns.iter().map(|c| c["name"].clone()).collect();
    let rows = table["rows"].as_array().unwrap().iter();
    let cells = rows.map(|row| shown(row["cells"].as_array().unwrap()));
    (shown(&names), cells.collect())
}

/// Returns the cells without those that change by the second.
fn ageless(columns: &[Value], cells: &[Vec<Value>]) -> Vec<Vec<Value>> {
    let cells = cells.iter();
    cells
        .map(|row| {
            let both = row.iter().zip(columns);
            both.filter(|(_, column)| **column != "Age")
                .map(|(cell, _)| cell.clone())
                .collect()
        })
        .collect()
}

async fn ask_as(client: &Client, accept: &str, spec: &Value) -> Value {
    let headers = [("accept", accept), ("content-type", "application/json")];
    let body = query(spec).to_string();
    let answer = client
        .send(http::Method::POST, QUERIES, &headers, body)
        .await;
    answer.expect(201)
}

#[tokio::test]
async fn rows_without_columns_are_those_of_a_table() {
    skip_under_oracle!("kube-apiserver has no queries");
    let cluster = Cluster::shared();
    let (admin, through) = (cluster.admin_client(), shared_front().admin_client());
    let namespace = cluster.namespace("tables").await;
    for n in 0..5 {
        let pod = pod_on_node(&format!("p{n}"), json!({}), &format!("n{n}"));
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        admin.post(&path, &pod).await.expect(201);
        let map = config_map(&format!("m{n}"), json!({}), json!({ "n": "1" }));
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        admin.post(&path, &map).await.expect(201);
    }
    for resource in ["pods", "configmaps", "serviceaccounts"] {
        let path = format!("/api/v1/namespaces/{namespace}/{resource}");
        let table = admin.get_as(&path, TABLE).await.expect(200);
        let (columns, cells) = printed(&table);
        let spec = json!({
            "resource": { "version": "v1", "resource": resource },
            "namespaces": [namespace],
            "orderBy": [{ "expression": "object.metadata.name", "descending": true }],
        });
        let status = ask_as(&through, "application/json", &spec).await["status"].take();
        let names = status["columns"].as_array().unwrap().iter();
        let names: Vec<Value> = names.map(|column| column["name"].clone()).collect();
        assert_eq!(names, columns, "{status}");
        let rows = status["rows"].as_array().unwrap().iter();
        let mut shown: Vec<Vec<Value>> = rows
            .map(|row| row["cells"].as_array().unwrap().clone())
            .collect();
        // The list is in the order of names.
        shown.reverse();
        assert_eq!(ageless(&columns, &shown), ageless(&columns, &cells));
        assert!(status.get("warnings").is_none(), "{status}");
    }
}

#[tokio::test]
async fn an_answer_is_a_table_if_its_client_wants_one() {
    skip_under_oracle!("kube-apiserver has no queries");
    let cluster = Cluster::shared();
    let (admin, through) = (cluster.admin_client(), shared_front().admin_client());
    let namespace = cluster.namespace("tables").await;
    for n in 0..5 {
        let map = config_map(&format!("m{n}"), json!({}), json!({ "n": n.to_string() }));
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        admin.post(&path, &map).await.expect(201);
    }
    let mut spec = json!({
        "resource": { "version": "v1", "resource": "configmaps" },
        "namespaces": [namespace],
        "where": "has(object.data.n)",
        "columns": [{ "name": "n", "expression": "int(object.data.n)" }],
        "orderBy": [{ "column": "n", "descending": true }],
        "limit": 2,
    });
    let first = ask_as(&through, TABLE, &spec).await;
    assert_eq!(
        (&first["kind"], &first["apiVersion"]),
        (&json!("Table"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!(
        printed(&first),
        (vec![json!("n")], vec![vec![json!(4)], vec![json!(3)]])
    );
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    let object = &first["rows"][0]["object"];
    assert_eq!(object["kind"], "PartialObjectMetadata");
    assert_eq!(object["metadata"]["name"], "m4");
    assert_eq!(object["metadata"]["namespace"], namespace);
    // Another one may write meanwhile.
    spec["continue"] = first["metadata"]["continue"].clone();
    spec["limit"] = json!(10);
    let last = ask_as(&through, TABLE, &spec).await;
    assert_eq!(last["rows"].as_array().unwrap().len(), 3, "{last}");
    assert_eq!(
        last["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    assert!(last["metadata"].get("continue").is_none(), "{last}");
}
