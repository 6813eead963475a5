//! Custom resources, beside the API server of Kubernetes 1.38 with the feature gate
//! `ManagedFieldsOptOut`, on the same etcd.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use http::Method;
use serde_json::json;

use super::{DROP, JSON, PARTIAL, PARTIAL_LIST, TABLE, YAML, always, ask_both, lines_until};
use crate::harness::apifront::{Apifront, oracle};
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::expect::Expect;
use crate::harness::objects::{widget, widget_definition};
use crate::harness::process::Process;
use crate::harness::{binaries, eventually, ports};

const GROUP: &str = "dropped.test";
const GATE: &str = "ManagedFieldsOptOut";
const SOON: Duration = Duration::from_secs(120);
const OBJECTS: usize = 90;

/// An API server of 1.38 that serves a cluster's custom resources.
struct Newer {
    address: SocketAddr,
    process: Process,
}

impl Newer {
    fn start(cluster: &Cluster, gate: bool) -> Self {
        let port = ports::free();
        let folder = cluster.folder.join(format!("apiextensions-{port}"));
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = |path: &Path| path.display().to_string();
        let kubeconfig = file(&cluster.admin_kubeconfig);
        let serving = cluster.certificates.another_serving("apiextensions");
        let flags = [
            (
                "etcd-servers",
                format!("http://127.0.0.1:{}", cluster.etcd.client_port),
            ),
            ("etcd-prefix", "/registry".into()),
            ("bind-address", "127.0.0.1".into()),
            ("secure-port", port.to_string()),
            ("tls-cert-file", file(&serving.cert)),
            ("tls-private-key-file", file(&serving.key)),
            ("kubeconfig", kubeconfig.clone()),
            ("authentication-kubeconfig", kubeconfig.clone()),
            ("authorization-kubeconfig", kubeconfig),
            ("client-ca-file", file(cluster.ca())),
            ("feature-gates", format!("{GATE}={gate}")),
        ]
        .map(|(flag, value)| format!("--{flag}={value}"));
        let mut command = Command::new(binaries::program("apiextensions"));
        let log = folder.join("apiextensions.log");
        Self {
            address: ports::loopback(port),
            process: Process::spawn("apiextensions-apiserver", command.args(flags), &log),
        }
    }

    fn client(&self, cluster: &Cluster) -> Client {
        Client::tls(self.address, cluster.ca(), Some(&cluster.admin))
    }

    async fn serves(&mut self, client: &Client, path: &str, count: usize) {
        let deadline = tokio::time::Instant::now() + SOON;
        loop {
            let got = client.separate().try_send(Method::GET, path, &[], "").await;
            if let Ok(got) = &got
                && got.status == 200
                && got.json()["items"]
                    .as_array()
                    .is_some_and(|all| all.len() == count)
            {
                return;
            }
            assert!(
                self.process.alive() && tokio::time::Instant::now() < deadline,
                "{got:?}\n{}",
                self.process.log_tail()
            );
            crate::harness::pace::of_tries(Duration::from_millis(100)).await;
        }
    }
}

async fn fill(admin: &Client) {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    admin
        .post(path, &widget_definition(GROUP))
        .await
        .expect(201);
    let widgets = format!("/apis/{GROUP}/v1/namespaces/default/widgets");
    eventually("served widgets", SOON, || async {
        admin.get(&widgets).await.status == 200
    })
    .await;
    for n in 0..OBJECTS {
        let name = format!("w-{n:02}");
        let mut object = widget(GROUP, &name, "red", 1);
        if n % 2 == 0 {
            object["metadata"]["labels"] = json!({ "even": "yes" });
        }
        admin.post(&widgets, &object).await.expect(201);
        if n % 3 == 0 {
            let change = json!({ "spec": { "color": "blue" } });
            let path = format!("{widgets}/{name}?fieldManager=another");
            admin
                .patch(&path, "merge-patch+json", &change)
                .await
                .expect(200);
        }
    }
}

#[tokio::test]
async fn custom_resources_are_those_of_a_server_with_the_feature() {
    skip_under_oracle!("kube-apiserver ignores the parameter");
    let cluster = Cluster::leased(&[]).await;
    let admin = cluster.admin_client();
    fill(&admin).await;
    let mut newer = Newer::start(&cluster, true);
    let direct = newer.client(&cluster);
    let list = format!("/apis/{GROUP}/v1/namespaces/default/widgets");
    newer.serves(&direct, &list, OBJECTS).await;
    let front = Apifront::start(&cluster, always).await;
    let through = front.admin_client();
    front.warm(&through, &list).await;
    let (hit, bypass) = (Expect::Hit, Expect::Bypass("representation"));
    let mut shorter = 0;
    for path in [
        list.clone(),
        format!("{list}?limit=7"),
        format!("{list}?labelSelector=even%3Dyes"),
        format!("{list}?fieldSelector=metadata.name%3Dw-03"),
        format!("{list}?pretty=1"),
        format!("{list}/w-00"),
        format!("{list}/w-03?pretty=true"),
        format!("{list}/no-such-widget"),
        format!("/apis/{GROUP}/v1/widgets"),
    ] {
        for (accept, expected) in [
            (JSON, hit),
            (YAML, hit),
            ("application/json;drop=", hit),
            ("application/json;drop=metadata.managedFields;q=0.5", hit),
            (
                "application/json;drop=spec;drop=metadata.managedFields",
                hit,
            ),
            (
                "application/json,application/yaml;drop=metadata.managedFields",
                hit,
            ),
            (
                "application/yaml;q=0.1,application/json;drop=metadata.managedFields",
                hit,
            ),
            ("*/*;drop=metadata.managedFields", hit),
        ] {
            let (its, got) = ask_both((&direct, accept), (&through, accept), &path).await;
            assert_eq!(
                (got.status, got.header("content-type")),
                (its.status, its.header("content-type")),
                "{path} {accept}"
            );
            let texts = (got.text(), its.text());
            assert_eq!(
                without_tokens(&texts.0),
                without_tokens(&texts.1),
                "{path} {accept}"
            );
            let unmet = expected.unmet(&got);
            assert!(unmet.is_empty(), "{path} {accept}: {unmet}");
            shorter += usize::from(!texts.0.contains("managedFields"));
        }
        for accept in other_forms(path.contains("/w-") || path.ends_with("no-such-widget")) {
            let (its, got) = ask_both((&direct, &accept), (&through, &accept), &path).await;
            assert_eq!(
                (got.status, got.header("content-type")),
                (its.status, its.header("content-type")),
                "{path} {accept}"
            );
            let texts = (got.text(), its.text());
            match its.status == 200 && accept.contains("protobuf") {
                true if path.contains("limit") => {}
                true => assert!(got.body == its.body, "{path} {accept} {texts:?}"),
                false => assert_eq!(
                    without_tokens(&texts.0),
                    without_tokens(&texts.1),
                    "{path} {accept}"
                ),
            }
            assert!(!texts.0.contains("managedFields"), "{path} {accept}");
            let unmet = hit.unmet(&got);
            assert!(unmet.is_empty(), "{path} {accept}: {unmet}");
        }
        // Upstream answers what only the newer server refuses.
        for accept in [
            "application/json;drop=spec",
            "application/yaml;drop=metadata",
        ] {
            let (its, got) = ask_both((&direct, accept), (&through, accept), &path).await;
            assert_eq!(its.status, 406, "{path} {accept}");
            let unmet = bypass.unmet(&got);
            assert!(unmet.is_empty(), "{path} {accept}: {unmet}");
        }
    }
    assert!(shorter > 40, "{shorter}");
    watches(&admin, &direct, &through, &list).await;
    front.stop().await;
}

/// Without the feature gate, the newer server ignores the parameter as kube-apiserver
/// of today does, before which apifront forwards such reads.
#[tokio::test]
async fn a_server_without_the_feature_sends_whole_objects() {
    let cluster = Cluster::leased(&[]).await;
    let admin = cluster.admin_client();
    fill(&admin).await;
    let mut newer = Newer::start(&cluster, false);
    let direct = newer.client(&cluster);
    let list = format!("/apis/{GROUP}/v1/namespaces/default/widgets");
    newer.serves(&direct, &list, OBJECTS).await;
    let front = Apifront::start(&cluster, |_| {}).await;
    let through = front.admin_client();
    front.warm(&through, &list).await;
    for accept in [JSON, YAML, "application/json;drop=spec"] {
        for path in [list.clone(), format!("{list}/w-00")] {
            let (its, got) = ask_both((&direct, accept), (&through, accept), &path).await;
            assert!(its.text().contains("managedFields"), "{path} {accept}");
            assert_eq!(
                (got.status, got.text()),
                (its.status, its.text()),
                "{path} {accept}"
            );
            let unmet = Expect::Bypass("representation").unmet(&got);
            assert!(unmet.is_empty() || oracle(), "{path} {accept}: {unmet}");
        }
    }
    front.stop().await;
}

/// Returns Accept headers for Tables and metadata, of an object or of a list.
fn other_forms(of_one: bool) -> Vec<String> {
    let partial = if of_one { PARTIAL } else { PARTIAL_LIST };
    let protobuf = partial.replace("json", "vnd.kubernetes.protobuf");
    let forms = [TABLE, partial, &protobuf];
    forms.map(|form| format!("{form}{DROP}")).into()
}

/// Compares watches while objects change.
async fn watches(admin: &Client, direct: &Client, through: &Client, list: &str) {
    let version = admin.get(list).await.expect(200);
    let version = version["metadata"]["resourceVersion"]
        .as_str()
        .expect("a version");
    let path = format!("{list}?watch=1&resourceVersion={version}");
    let write = async {
        for n in 0..30 {
            let path = format!("{list}/w-{n:02}?fieldManager=m-{n}");
            let change = json!({ "spec": { "size": n + 10 } });
            admin
                .patch(&path, "merge-patch+json", &change)
                .await
                .expect(200);
            if n % 5 == 0 {
                admin.delete(&format!("{list}/w-{n:02}")).await.expect(200);
            }
        }
        let last = widget(GROUP, "last", "red", 1);
        admin.post(list, &last).await.expect(201);
    };
    let partial = format!("{PARTIAL}{DROP}");
    let dropped = |client: &Client, accept: &str| client.clone().with_header("accept", accept);
    let whole = (dropped(direct, JSON), dropped(through, JSON));
    let partial = (dropped(direct, &partial), dropped(through, &partial));
    let (_, expected, got, expected_partial, got_partial) = tokio::join!(
        write,
        lines_until(&whole.0, &path, "last"),
        lines_until(&whole.1, &path, "last"),
        lines_until(&partial.0, &path, "last"),
        lines_until(&partial.1, &path, "last"),
    );
    assert!(expected.len() > 30 && !expected.concat().contains("managedFields"));
    assert_eq!(got, expected);
    assert!(expected_partial.len() > 30 && !expected_partial.concat().contains("managedFields"));
    assert_eq!(got_partial, expected_partial);
}

/// Tokens of pages hold the version of the server that cut the page.
fn without_tokens(text: &str) -> String {
    let lines = text.split_inclusive(['\n', ',', '{']);
    let lines = lines.filter(|line| !line.contains("continue"));
    lines.collect()
}
