//! kubectl prints the same directly and through apifront.

use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};

use crate::harness::apifront::Apifront;
use crate::harness::cluster::Cluster;
use crate::harness::kubeconfig::{self, Credential};
use crate::harness::kubectl::{Both, Kubectl};
use crate::harness::process;
use crate::harness::sample::NAMESPACE;

pub fn kubeconfig_of(cluster: &Cluster, front: &Apifront) -> PathBuf {
    let folder = process::temporary_folder("kubectl");
    let who = Credential::Certificate(&cluster.admin);
    kubeconfig::write(&folder, "front", &front.url(), Some(cluster.ca()), who)
}

pub fn both(cluster: &Cluster, front: &Apifront) -> Both {
    Both::new(
        (&cluster.admin_kubeconfig, cluster.server_url()),
        (&kubeconfig_of(cluster, front), front.url()),
    )
}

/// Compares read-only commands on the quiet cluster.
async fn same(commands: &[&[&str]]) {
    let both = both(Cluster::quiet(), Apifront::quiet());
    let mut differences = Vec::new();
    for command in commands {
        differences.extend(both.same(command, |_| true).await.err());
    }
    assert!(
        differences.is_empty(),
        "(- direct, + through apifront)\n{}",
        differences.join("\n")
    );
}

#[tokio::test]
async fn get() {
    same(&[
        &["get", "pods", "-A"],
        &["get", "pods", "-n", NAMESPACE, "-o", "wide"],
        &["get", "pods", "-n", NAMESPACE, "-o", "yaml"],
        &[
            "get",
            "pods",
            "-n",
            NAMESPACE,
            "-o",
            "name",
            "-l",
            "app=sample",
        ],
        &["get", "pod", "running", "-n", NAMESPACE, "-o", "json"],
        &["get", "pod", "none", "-n", NAMESPACE],
        &[
            "get",
            "pods",
            "-n",
            NAMESPACE,
            "--field-selector",
            "spec.nodeName=node-1",
        ],
        &["get", "pods", "-A", "--chunk-size=2"],
        &[
            "get",
            "pods",
            "-n",
            NAMESPACE,
            "--show-managed-fields",
            "-o",
            "yaml",
        ],
        &["get", "all", "-n", NAMESPACE],
        &["get", "nodes,pv,storageclasses", "-o", "wide"],
        &["get", "widgets", "-n", NAMESPACE],
        &["get", "wd", "-A", "-o", "wide"],
        &["get", "no-such-things"],
        &["get", "--raw", "/version"],
        &[
            "get",
            "--raw",
            "/api/v1/namespaces/sample/services/sample?resourceVersion=0",
        ],
    ])
    .await;
}

#[tokio::test]
async fn describe() {
    same(&[
        &["describe", "pod", "running", "-n", NAMESPACE],
        &["describe", "deployment", "sample", "-n", NAMESPACE],
        &["describe", "node", "node-1"],
        &["describe", "widget", "red", "-n", NAMESPACE],
        &["describe", "service", "sample", "-n", NAMESPACE],
    ])
    .await;
}

#[tokio::test]
async fn discovery() {
    same(&[
        &["api-resources"],
        &["api-resources", "-o", "wide", "--sort-by=name"],
        &["api-resources", "--api-group=apps"],
        &["api-versions"],
        &["explain", "pod.spec.containers"],
        &["explain", "widget.spec"],
        &["explain", "deployments", "--recursive"],
        &["version", "-o", "yaml"],
        &["cluster-info"],
        &["auth", "can-i", "create", "pods"],
        &["auth", "can-i", "--list"],
        &[
            "auth",
            "whoami",
            "-o",
            "jsonpath={.status.userInfo.username}",
        ],
    ])
    .await;
}

/// Runs the same commands in two namespaces of the shared cluster, directly in one
/// and through apifront in the other.
#[tokio::test]
async fn writes() {
    let cluster = Cluster::shared();
    let Both { direct, front, .. } = both(cluster, Apifront::shared());
    let manifest = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data: {k: v}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: \"example.test/image:1\"}]}
";
    let changed = manifest.replace("k: v", "k: w");
    let session = async |kubectl: Kubectl| {
        let ns = cluster.namespace("kubectl").await;
        let mut said = Vec::new();
        for (command, input) in [
            (&["apply", "-f", "-"][..], manifest),
            (&["apply", "-f", "-"], manifest),
            (&["diff", "-f", "-"], manifest),
            (&["apply", "-f", "-"], changed.as_str()),
            (
                &["apply", "--server-side", "--force-conflicts", "-f", "-"],
                manifest,
            ),
            (
                &["patch", "configmap", "a", "-p", "{\"data\":{\"x\":\"1\"}}"],
                "",
            ),
            (
                &[
                    "patch",
                    "configmap",
                    "a",
                    "--type=json",
                    "-p",
                    "[{\"op\":\"remove\",\"path\":\"/data/x\"}]",
                ],
                "",
            ),
            (&["label", "configmap", "a", "l=1"], ""),
            (&["annotate", "deployment", "web", "n=1"], ""),
            (&["scale", "deployment", "web", "--replicas=3"], ""),
            (
                &[
                    "get",
                    "deployment",
                    "web",
                    "-o",
                    "jsonpath={.spec.replicas}",
                ],
                "",
            ),
            (&["create", "configmap", "a"], ""),
            (&["create", "-f", "-"], "not: an object"),
            (&["delete", "configmap", "a"], ""),
            (&["delete", "configmap", "a"], ""),
            (&["delete", "deployment", "web", "--wait=false"], ""),
            (&["get", "configmap,deployment"], ""),
        ] {
            let arguments = [&["-n", ns.as_str()], command].concat();
            let mut printed = kubectl.run_with_input(&arguments, input).await;
            printed.stdout = printed.stdout.replace(&ns, "NAMESPACE");
            printed.stderr = printed.stderr.replace(&ns, "NAMESPACE");
            said.push((command.join(" "), printed));
        }
        said
    };
    let (expected, got) = tokio::join!(session(direct), session(front));
    assert_eq!(expected[0].1.code, Some(0), "{:?}", expected[0]);
    for (expected, got) in expected.iter().zip(&got) {
        assert_eq!(got, expected);
    }
}

#[tokio::test]
async fn get_watch() {
    let cluster = Cluster::shared();
    let Both { direct, front, .. } = both(cluster, Apifront::shared());
    let ns = cluster.namespace("kubectl-watch").await;
    let arguments = [
        "get",
        "configmaps",
        "-n",
        &ns,
        "--watch-only",
        "--output-watch-events",
        "--no-headers",
    ];
    let mut children = [direct.start(&arguments), front.start(&arguments)];
    let mut outputs: Vec<_> = children
        .iter_mut()
        .map(|c| BufReader::new(c.stdout.take().expect("piped")).lines())
        .collect();
    // Both commands are watching as soon as both have printed the first event.
    let next = async |lines: &mut tokio::io::Lines<BufReader<_>>, wait| {
        let line = tokio::time::timeout(wait, lines.next_line()).await.ok()?;
        line.expect("stdout")
    };
    let long = Duration::from_secs(20);
    for (index, output) in outputs.iter_mut().enumerate() {
        for n in 0.. {
            assert!(n < 100, "kubectl get -w shows nothing");
            let name = format!("probe-{index}-{n}");
            direct
                .run(&["create", "configmap", &name, "-n", &ns])
                .await
                .ok();
            if next(output, Duration::from_millis(300)).await.is_some() {
                break;
            }
        }
    }
    direct
        .run(&["create", "configmap", "a", "-n", &ns, "--from-literal=k=1"])
        .await
        .ok();
    direct
        .run(&[
            "patch",
            "configmap",
            "a",
            "-n",
            &ns,
            "-p",
            "{\"data\":{\"l\":\"2\"}}",
        ])
        .await
        .ok();
    direct
        .run(&["delete", "configmap", "a", "-n", &ns])
        .await
        .ok();
    for output in &mut outputs {
        let mut seen = Vec::new();
        while seen.len() < 3 {
            let line = next(output, long).await.expect("an event");
            if !line.contains("probe-") {
                // The line has the event, the name and the number of entries. The
                // age is not compared.
                let words: Vec<&str> = line.split_whitespace().take(3).collect();
                seen.push(words.join(" "));
            }
        }
        assert_eq!(seen, ["ADDED a 1", "MODIFIED a 2", "DELETED a 2"]);
    }
    for child in &mut children {
        child.kill().await.expect("kubectl");
    }
}
