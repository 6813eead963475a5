//! The kubectl plugin: the program itself, and the script of the examples.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{ChildStdout, Command};

use super::{front, shared_front};
use crate::harness::apifront::built;
use crate::harness::binaries;
use crate::harness::cluster::Cluster;
use crate::harness::objects::config_map;
use crate::harness::process;
use crate::kubectl::kubeconfig_of;
use crate::views::world::SOON;

/// What kubectl finds as `kubectl-query` in PATH.
struct Plugin {
    folder: PathBuf,
}

struct Printed {
    code: Option<i32>,
    out: String,
    errors: String,
}

impl Plugin {
    fn script() -> Self {
        let folder = std::env::current_dir().unwrap().join("examples");
        Self { folder }
    }

    fn program() -> Self {
        let folder = process::temporary_folder("plugin");
        std::os::unix::fs::symlink(built(), folder.join("kubectl-query")).unwrap();
        Self { folder }
    }

    async fn run(&self, arguments: &[&str]) -> Printed {
        let kubeconfig = kubeconfig_of(Cluster::quiet(), front());
        self.run_with(&kubeconfig, arguments).await
    }

    /// Returns the command `kubectl query`.
    fn command(&self, kubeconfig: &Path, arguments: &[&str]) -> Command {
        let kubectl = binaries::path("kubectl");
        let others = std::env::var("PATH").unwrap();
        let folders = [&self.folder, kubectl.parent().unwrap()];
        let path = format!("{}:{}:{others}", folders[0].display(), folders[1].display());
        let mut command = Command::new(&kubectl);
        command
            .arg("query")
            .args(arguments)
            .env("PATH", path)
            .env("KUBECONFIG", kubeconfig);
        command
    }

    async fn run_with(&self, kubeconfig: &Path, arguments: &[&str]) -> Printed {
        let output = self.command(kubeconfig, arguments).output().await;
        let output = output.expect("kubectl");
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Printed {
            code: output.status.code(),
            out: text(&output.stdout),
            errors: text(&output.stderr),
        }
    }
}

/// Reads lines until one is this.
async fn read_until(lines: &mut Lines<BufReader<ChildStdout>>, expected: &[&str]) {
    let read = async {
        while let Some(line) = lines.next_line().await.expect("UTF-8") {
            if line.split_whitespace().eq(expected.iter().copied()) {
                return;
            }
        }
        panic!("no line {expected:?}");
    };
    let in_time = tokio::time::timeout(SOON, read).await;
    in_time.unwrap_or_else(|_| panic!("no line {expected:?} within {SOON:?}"));
}

#[tokio::test]
async fn the_program_follows_a_live_answer() {
    skip_under_oracle!("kube-apiserver has no queries");
    let cluster = Cluster::shared();
    let admin = cluster.admin_client();
    let namespace = cluster.namespace("plugin").await;
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let map = |name: &str, n: &str| config_map(name, json!({ "of": "plugin" }), json!({ "n": n }));
    admin.post(&maps, &map("a", "1")).await.expect(201);
    let kubeconfig = kubeconfig_of(cluster, shared_front());
    let arguments = [
        "cm",
        "-n",
        &namespace,
        "-l",
        "of=plugin",
        "--column",
        "n=object.data.n",
        "--sort",
        "object.data.n",
        "--watch",
    ];
    let mut command = Plugin::program().command(&kubeconfig, &arguments);
    command.stdout(Stdio::piped()).kill_on_drop(true);
    let mut followed = command.spawn().expect("kubectl");
    let out = followed.stdout.take().expect("a pipe");
    let mut lines = BufReader::new(out).lines();
    let name = |name: &str| format!("{namespace}/{name}");
    read_until(&mut lines, &["NAME", "n"]).await;
    read_until(&mut lines, &[&name("a"), "1"]).await;
    admin.post(&maps, &map("b", "2")).await.expect(201);
    read_until(&mut lines, &["+", &name("b"), "2"]).await;
    let path = format!("{maps}/a");
    admin.put(&path, &map("a", "3")).await.expect(200);
    read_until(&mut lines, &["~", &name("a"), "3"]).await;
    admin.delete(&path).await.expect(200);
    read_until(&mut lines, &["-", &name("a"), "3"]).await;
    followed.kill().await.expect("a process");
}

#[tokio::test]
async fn the_script_prints_rows_and_counts() {
    skip_under_oracle!("kube-apiserver has no queries");
    rows_and_counts(&Plugin::script()).await;
}

#[tokio::test]
async fn the_program_prints_rows_and_counts() {
    skip_under_oracle!("kube-apiserver has no queries");
    rows_and_counts(&Plugin::program()).await;
}

async fn rows_and_counts(plugin: &Plugin) {
    let cluster = Cluster::shared();
    let namespace = cluster.namespace("plugin").await;
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    for (name, n) in [("a", "3"), ("b", "1234567"), ("c", "20")] {
        let map = config_map(name, json!({ "of": "plugin" }), json!({ "n": n }));
        cluster.admin_client().post(&maps, &map).await.expect(201);
    }
    let kubeconfig = kubeconfig_of(cluster, shared_front());
    let run = async |arguments: &[&str]| plugin.run_with(&kubeconfig, arguments).await;
    let printed = run(&[
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
    assert_eq!(printed.code, Some(0), "{}", printed.errors);
    let lines = printed.out.lines().filter(|line| !line.is_empty());
    let words: Vec<Vec<&str>> = lines
        .map(|line| line.split_whitespace().collect())
        .collect();
    let (first, second) = (format!("{namespace}/b"), format!("{namespace}/a"));
    let expected = [
        vec!["NAME", "number", "none"],
        vec![&first, "1234567", "<none>"],
        vec![&second, "3", "<none>"],
        vec!["2", "ConfigMap"],
    ];
    assert_eq!(words, expected, "{}", printed.out);
    let errors = printed.errors;
    assert!(errors.starts_with("2 of 2, version "), "{errors}");
    for (arguments, code, expected) in [
        (&["nothings"][..], 1, "no resource nothings"),
        (&["pods", "--where", "("], 1, "spec.where"),
        (&["nodes.v1", "--sort"], 2, ""),
        (&["pods", "--nothing", "x"], 2, "--nothing"),
        (&[], 2, "RESOURCE[.GROUP]"),
    ] {
        let Printed {
            code: got,
            out,
            errors,
        } = run(arguments).await;
        assert_eq!(got, Some(code), "{arguments:?}: {errors}");
        assert!(out.is_empty() && errors.contains(expected), "{errors}");
    }
    let schemas = "flowschemas.flowcontrol.apiserver.k8s.io";
    let Printed { code, out, errors } = run(&[schemas, "--limit", "1"]).await;
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(out.lines().count(), 2, "{out}");
}

#[tokio::test]
async fn the_program_finds_resources_as_kubectl_does() {
    skip_under_oracle!("kube-apiserver has no queries");
    let plugin = Plugin::program();
    for (name, expected) in [
        ("po", "pods"),
        ("Pod", "pods"),
        ("pods.v1.", "pods"),
        ("deploy", "deployments"),
        ("deployments.v1.apps", "deployments"),
        ("wd", "widgets"),
    ] {
        let printed = plugin.run(&[name, "--limit=1", "-o", "json"]).await;
        assert_eq!(printed.code, Some(0), "{name}: {}", printed.errors);
        let answer: Value = serde_json::from_str(&printed.out).expect("JSON");
        let resource = &answer["spec"]["resource"]["resource"];
        assert_eq!(resource, expected, "{name}");
    }
}

#[tokio::test]
async fn the_program_says_that_a_server_has_no_queries() {
    let cluster = Cluster::quiet();
    let plugin = Plugin::program();
    let printed = plugin.run_with(&cluster.admin_kubeconfig, &["pods"]).await;
    assert_eq!(printed.code, Some(1), "{}", printed.errors);
    let expected = "is no apifront with `queries.enabled: true`";
    assert!(printed.errors.contains(expected), "{}", printed.errors);
}
