//! The kubectl plugin of the examples.

use std::path::Path;

use serde_json::json;
use tokio::process::Command;

use super::front;
use crate::harness::binaries;
use crate::harness::cluster::Cluster;
use crate::harness::objects::config_map;
use crate::kubectl::kubeconfig_of;

/// Runs `kubectl query`, and returns what it prints, and its errors.
async fn kubectl_query(arguments: &[&str]) -> (bool, String, String) {
    let kubectl = binaries::path("kubectl");
    let examples = std::env::current_dir().unwrap().join("examples");
    let folder = kubectl.parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{}:{path}", examples.display(), folder.display());
    let kubeconfig = kubeconfig_of(Cluster::quiet(), front());
    let output = Command::new(Path::new(&kubectl))
        .arg("query")
        .args(arguments)
        .env("PATH", path)
        .env("KUBECONFIG", kubeconfig)
        .output()
        .await
        .expect("kubectl");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (printed, errors) = (text(&output.stdout), text(&output.stderr));
    (output.status.success(), printed, errors)
}

#[tokio::test]
async fn the_plugin_prints_rows_and_counts() {
    skip_under_oracle!("kube-apiserver has no queries");
    let cluster = Cluster::quiet();
    let namespace = cluster.namespace("plugin").await;
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    for (name, n) in [("a", "3"), ("b", "1234567"), ("c", "20")] {
        let map = config_map(name, json!({ "of": "plugin" }), json!({ "n": n }));
        cluster.admin_client().post(&maps, &map).await.expect(201);
    }
    let (succeeded, printed, errors) = kubectl_query(&[
        "cm",
        "-n",
        &namespace,
        "-l",
        "of=plugin",
        "--where",
        "object.data.n != \"20\"",
        "--column",
        "number=int(object.data.n)",
        "--column",
        "none=object.absent",
        "--sort-down",
        "int(object.data.n)",
        "--count-by",
        "object.kind",
    ])
    .await;
    assert!(succeeded, "{errors}");
    let words: Vec<Vec<&str>> = printed
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let (first, second) = (format!("{namespace}/b"), format!("{namespace}/a"));
    let expected = [
        vec!["NAME", "number", "none"],
        vec![&first, "1234567", "<none>"],
        vec![&second, "3", "<none>"],
        vec!["2", "ConfigMap"],
    ];
    assert_eq!(words, expected, "{printed}");
    assert!(errors.starts_with("2 of 2, version "), "{errors}");
    let (succeeded, _, errors) = kubectl_query(&["nothings"]).await;
    assert!(
        !succeeded && errors.contains("no resource nothings"),
        "{errors}"
    );
    let (succeeded, _, errors) = kubectl_query(&["pods", "--where", "("]).await;
    assert!(!succeeded && errors.contains("spec.where"), "{errors}");
    let (succeeded, printed, errors) = kubectl_query(&["nodes.v1", "--sort"]).await;
    assert!(
        !succeeded && printed.is_empty() && errors.contains("usage:"),
        "{errors}"
    );
    let (succeeded, printed, errors) =
        kubectl_query(&["flowschemas.flowcontrol.apiserver.k8s.io", "--limit", "1"]).await;
    assert!(
        succeeded && printed.lines().count() == 2,
        "{printed}{errors}"
    );
}
