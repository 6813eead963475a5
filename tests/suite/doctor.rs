//! `apifront doctor` before a healthy cluster, and before clusters with one fault
//! each. It must name the fault and its remedy.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::apifront::{self, Apifront, config_before};
use crate::harness::cluster::{Cluster, unique};
use crate::harness::kubeconfig::{self, Credential};
use crate::harness::{ports, process};

const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// A report as JSON, with the exit status.
pub(super) struct Report {
    status: i32,
    document: Value,
}

impl Report {
    pub(super) fn findings(&self) -> impl Iterator<Item = &Value> {
        self.document["findings"]
            .as_array()
            .expect("findings")
            .iter()
    }

    fn faults(&self) -> Vec<&Value> {
        self.findings()
            .filter(|f| f["verdict"] == "fault")
            .collect()
    }

    pub(super) fn of_section<'r>(&'r self, section: &'r str) -> impl Iterator<Item = &'r Value> {
        self.findings().filter(move |f| f["section"] == section)
    }
}

fn folder() -> PathBuf {
    process::temporary_folder("doctor")
}

async fn run(arguments: &[&str]) -> (i32, String) {
    let mut command = tokio::process::Command::new(apifront::built());
    let command = command.arg("doctor").args(arguments).kill_on_drop(true);
    let output = tokio::time::timeout(ENDS_WITHIN, command.output());
    let output = output.await.expect("it ends").expect("apifront");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    (output.status.code().expect("no signal"), text)
}

pub(super) async fn report(config: &Value) -> Report {
    let file = folder().join("config.yaml");
    std::fs::write(&file, config.to_string()).expect("config");
    let file = file.display().to_string();
    let (status, text) = run(&["--config", &file, "-o", "json"]).await;
    let document = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    Report { status, document }
}

/// Fails unless the doctor finds faults only in this section, one of them with these
/// words, and with these words in its remedy.
async fn names(what: &str, config: &Value, section: &str, found: &str, remedy: &str) {
    let report = report(config).await;
    let faults = report.faults();
    let named = |f: &&&Value| {
        let text = |field: &str| f[field].as_str().unwrap_or_default().to_owned();
        let whole = format!("{}: {}", text("subject"), text("found"));
        whole.contains(found) && text("remedy").contains(remedy)
    };
    assert!(
        faults.iter().any(|f| named(&f)),
        "{what}: not named: {faults:#?}"
    );
    assert!(
        faults.iter().all(|f| f["section"] == section),
        "{what}: other faults too: {faults:#?}"
    );
    assert_eq!(report.status, 1, "{what}");
    assert_eq!(report.document["healthy"], false, "{what}");
}

#[tokio::test]
async fn queries_are_examined_if_they_are_on() {
    skip_under_oracle!("kube-apiserver has no doctor");
    let mut config = config_before(Cluster::quiet());
    assert_eq!(report(&config).await.of_section("queries").count(), 0);
    config["queries"] = json!({ "enabled": true });
    let report = report(&config).await;
    let findings: Vec<&Value> = report.of_section("queries").collect();
    let [group, right] = &findings[..] else {
        panic!("{findings:?}");
    };
    assert_eq!(group["verdict"], "good", "{group}");
    assert_eq!(right["subject"], "the right to ask queries");
    let found = right["found"].as_str().expect("text");
    assert!(!found.starts_with("cannot be examined"), "{found}");
}

#[tokio::test]
async fn rules_about_shapes_are_weighed() {
    skip_under_oracle!("kube-apiserver has no doctor");
    let mut config = config_before(Cluster::quiet());
    assert_eq!(report(&config).await.of_section("shapes").count(), 0);
    config["shapes"] = json!([
        { "name": "kept", "groups": ["*"], "managedFields": "Keep" },
        { "name": "maps", "groups": ["*"], "resources": ["configmaps"], "managedFields": "Drop" },
        { "name": "none", "groups": ["*"], "resources": ["no.such"], "managedFields": "Drop" },
    ]);
    let report = report(&config).await;
    let findings: Vec<&Value> = report.of_section("shapes").collect();
    let [maps, none] = &findings[..] else {
        panic!("{findings:?}");
    };
    assert_eq!(
        (&maps["subject"], &maps["verdict"]),
        (&json!("rule maps"), &json!("good"))
    );
    let found = maps["found"].as_str().expect("text");
    let words: Vec<&str> = found.split(' ').collect();
    let [
        "managedFields",
        "are",
        percent,
        "%",
        "of",
        objects,
        "objects",
        ..,
    ] = words[..]
    else {
        panic!("{found}");
    };
    let number = |text: &str| text.parse::<usize>().expect("a number");
    assert!(
        (1..100).contains(&number(percent)) && number(objects) > 10,
        "{found}"
    );
    assert_eq!(
        (&none["subject"], &none["verdict"]),
        (&json!("rule none"), &json!("neutral"))
    );
}

#[tokio::test]
async fn a_cluster_in_order_has_no_fault() {
    skip_under_oracle!("kube-apiserver has no doctor");
    let cluster = Cluster::quiet();
    let config = config_before(cluster);
    let healthy = report(&config).await;
    assert_eq!(healthy.faults(), Vec::<&Value>::new());
    assert_eq!(healthy.status, 0);
    for section in [
        "configuration",
        "certificates",
        "ports",
        "apiServers",
        "rights",
        "callers",
        "features",
        "resources",
        "backends",
    ] {
        assert!(healthy.of_section(section).count() > 0, "{section}");
    }
    let caller = healthy.of_section("callers").next().expect("callers");
    assert_eq!(caller["verdict"], "good", "{caller}");
    let memory = healthy
        .of_section("resources")
        .find(|f| f["subject"] == "answered from memory");
    let found = memory.expect("a count")["found"].as_str().expect("text");
    assert!(!found.starts_with('0'), "{found}");
    // The text for people says the same.
    let file = folder().join("config.yaml");
    std::fs::write(&file, config.to_string()).expect("config");
    let (status, text) = run(&["--config", &file.display().to_string()]).await;
    assert_eq!(status, 0, "{text}");
    assert!(
        text.starts_with("Configuration\n  ✓ ") && text.ends_with("0 ✗\n"),
        "{text}"
    );
    println!("{text}");
}

#[tokio::test]
async fn a_kubeconfig_alone_can_be_examined() {
    skip_under_oracle!("kube-apiserver has no doctor");
    let cluster = Cluster::quiet();
    let kubeconfig = cluster.admin_kubeconfig.display().to_string();
    let port = ports::free().to_string();
    let (status, text) = run(&["--kubeconfig", &kubeconfig, "--insecure-port", &port]).await;
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("allowed for all resources"), "{text}");
    // It is no fault if there is nothing to examine.
    let (status, text) = run(&["--insecure-port", &port]).await;
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("the demo's, in the process"), "{text}");
}

#[tokio::test]
async fn a_running_apifront_is_known_by_its_ports() {
    skip_under_oracle!("kube-apiserver has no doctor");
    let cluster = Cluster::quiet();
    let front = Apifront::start_directly(cluster, |_| {}).await;
    let report = report(&front.read_config()).await;
    assert_eq!(report.faults(), Vec::<&Value>::new());
    let mut ports = report.of_section("ports");
    assert!(ports.all(|f| f["found"] == "in use by an apifront that runs"));
    front.stop().await;
}

#[tokio::test]
async fn faults_of_files_and_ports_are_named() {
    skip_under_oracle!("kube-apiserver has no doctor");
    let cluster = Cluster::quiet();
    let with = |change: &dyn Fn(&mut Value)| {
        let mut config = config_before(cluster);
        change(&mut config);
        config
    };
    let config = with(&|c| c["serving"]["securePort"] = json!(99_999));
    names(
        "a wrong port",
        &config,
        "configuration",
        "serving.securePort",
        "",
    )
    .await;

    let expired = cluster.certificates.expired_serving("doctor-expired");
    let config = with(&|c| {
        c["serving"]["tlsCertFile"] = json!(expired.cert);
        c["serving"]["tlsPrivateKeyFile"] = json!(expired.key);
    });
    let words = "has expired on";
    names(
        "an expired certificate",
        &config,
        "certificates",
        words,
        "renew it",
    )
    .await;

    let held = ports::listen();
    let port = held.local_addr().expect("an address").port();
    let config = with(&|c| c["serving"]["securePort"] = json!(port));
    let words = format!("127.0.0.1:{port}");
    names("a taken port", &config, "ports", &words, "ss -ltnp").await;
}

#[tokio::test]
async fn faults_of_the_way_to_the_api_server_are_named() {
    skip_under_oracle!("kube-apiserver has no doctor");
    let cluster = Cluster::quiet();
    let folder = folder();
    let user = json!({ "client-certificate": cluster.front.cert, "client-key": cluster.front.key });
    let with = |name: &str, server: Value, user: &Value| {
        let mut config = config_before(cluster);
        let file = kubeconfig::write_parts(&folder, name, server, user.clone());
        config["upstream"]["kubeconfig"] = json!(file);
        config
    };
    let (url, ca) = (cluster.server_url(), cluster.ca());

    let nowhere = format!("https://127.0.0.1:{}", ports::free());
    let config = with(
        "nowhere",
        json!({ "server": nowhere, "certificate-authority": ca }),
        &user,
    );
    let words = "cannot be reached";
    names(
        "no server",
        &config,
        "apiServers",
        words,
        "start kube-apiserver",
    )
    .await;

    let other = &cluster.certificates.front_proxy.cert;
    let config = with(
        "ca",
        json!({ "server": url, "certificate-authority": other }),
        &user,
    );
    names("another CA", &config, "apiServers", "unknown CA", "ca.crt").await;

    let config = with(
        "name",
        json!({ "server": url, "certificate-authority": ca, "tls-server-name": "other.example" }),
        &user,
    );
    let words = "not for \"other.example\"";
    names("another name", &config, "apiServers", words, "certificate").await;

    let stranger = cluster.certificates.stranger("apifront", &[]);
    let pair = json!({ "client-certificate": stranger.cert, "client-key": stranger.key });
    let server = json!({ "server": url, "certificate-authority": ca });
    let config = with("stranger", server.clone(), &pair);
    names(
        "a stranger",
        &config,
        "apiServers",
        "(401)",
        "renew the client certificate",
    )
    .await;

    let expired = cluster.certificates.expired_client("apifront");
    let who = Credential::Certificate(&expired);
    let file = kubeconfig::write(&folder, "expired", &url, Some(ca), who);
    let mut config = config_before(cluster);
    config["upstream"]["kubeconfig"] = json!(file);
    let named = report(&config).await;
    for (section, words) in [("certificates", "has expired on"), ("apiServers", "(401)")] {
        let mut faults = named.faults().into_iter();
        let fault = faults.find(|f| f["section"] == section);
        let fault = fault.unwrap_or_else(|| panic!("{section}: {:#?}", named.document));
        assert!(
            fault["found"].as_str().is_some_and(|f| f.contains(words)),
            "{fault}"
        );
    }

    let nobody = cluster.certificates.client("nobody-at-all", &[]);
    let pair = json!({ "client-certificate": nobody.cert, "client-key": nobody.key });
    let config = with("nobody", server, &pair);
    let report = report(&config).await;
    let rights: Vec<_> = report.faults();
    let of = |subject: &str| rights.iter().find(|f| f["subject"] == subject);
    for subject in [
        "get, list and watch what is cached",
        "create subjectaccessreviews.authorization.k8s.io",
        "create tokenreviews.authentication.k8s.io",
    ] {
        let fault = of(subject).unwrap_or_else(|| panic!("{subject}: {rights:#?}"));
        let remedy = fault["remedy"].as_str().expect("a remedy");
        assert!(remedy.contains("rbac.yaml"), "{fault}");
    }
    assert_eq!(report.status, 1);
}

/// A role that names the users whom apifront may impersonate is no fault, since
/// somebody wrote it deliberately.
#[tokio::test]
async fn callers_whom_a_role_names_are_told_of() {
    skip_under_oracle!("kube-apiserver has no doctor");
    let cluster = Cluster::shared();
    let admin = cluster.admin_client();
    let own = unique("doctor-names");
    let named = |resource: &str, names: &[&str]| {
        json!({
            "apiGroups": [""], "resources": [resource], "resourceNames": names,
            "verbs": ["impersonate"],
        })
    };
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": own },
        "rules": [
            named("users", &["dora", "emil"]),
            named("groups", &["developers"]),
            {
                "apiGroups": ["authentication.k8s.io"], "verbs": ["impersonate"],
                "resources": ["uids", "userextras/authentication.kubernetes.io/credential-id"],
            },
        ],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": own },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": own },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": own }],
    });
    for (path, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        admin
            .post(&format!("{rbac}/{path}"), &object)
            .await
            .expect(201);
    }

    let pair = cluster.certificates.client(&own, &[]);
    let file = kubeconfig::write(
        &folder(),
        "named",
        &cluster.server_url(),
        Some(cluster.ca()),
        Credential::Certificate(&pair),
    );
    let mut config = config_before(cluster);
    config["identity"] = json!({ "mode": "Impersonate" });
    config["upstream"]["kubeconfig"] = json!(file);
    let report = report(&config).await;
    let of = |subject: &str| {
        let mut all = report.findings();
        let found = all.find(|f| f["subject"] == format!("impersonate {subject}"));
        let found = found.unwrap_or_else(|| panic!("{subject}: {:#?}", report.document));
        (
            found["verdict"].as_str().expect("a verdict"),
            found["found"].as_str().expect("what was found"),
        )
    };
    assert_eq!(
        of("users"),
        ("neutral", "allowed for the 2 that roles name")
    );
    assert_eq!(
        of("groups"),
        ("neutral", "allowed for the 1 that roles name")
    );
    assert_eq!(of("serviceaccounts").0, "neutral");
    assert_eq!(of("uids.authentication.k8s.io").0, "good");
    let callers: Vec<_> = report.of_section("callers").collect();
    assert!(
        callers.iter().all(|f| f["verdict"] == "good"),
        "{callers:#?}"
    );
}

#[tokio::test]
async fn faults_of_identities_and_servers_are_named() {
    skip_under_oracle!("kube-apiserver has no doctor");
    let cluster = Cluster::quiet();
    let folder = folder();

    // This is a client's certificate, not the front proxy's.
    let pair = cluster.certificates.client("front-proxy", &[]);
    let mut config = config_before(cluster);
    config["identity"]["proxyClientCertFile"] = json!(pair.cert);
    config["identity"]["proxyClientKeyFile"] = json!(pair.key);
    let flags = "--requestheader-client-ca-file";
    names(
        "another proxy",
        &config,
        "callers",
        "ignores the headers",
        flags,
    )
    .await;

    // There are rights to read, but none to impersonate.
    let mut config = config_before(cluster);
    config["identity"] = json!({ "mode": "Impersonate" });
    let reader = cluster.certificates.client("kubernetes-reader", &[]);
    let who = Credential::Certificate(&reader);
    let file = kubeconfig::write(
        &folder,
        "reader",
        &cluster.server_url(),
        Some(cluster.ca()),
        who,
    );
    config["upstream"]["kubeconfig"] = json!(file);
    let report = report(&config).await;
    let impersonate = |f: &&&Value| f["subject"] == "impersonate users";
    assert!(report.faults().iter().any(|f| impersonate(&f)));
    assert!(report.faults().iter().any(|f| f["section"] == "callers"));

    // One list of servers leads to two clusters.
    let other = Cluster::shared();
    let mut authorities = std::fs::read_to_string(cluster.ca()).expect("a CA");
    authorities += &std::fs::read_to_string(other.ca()).expect("a CA");
    let ca = folder.join("both.crt");
    std::fs::write(&ca, authorities).expect("a file");
    let mut config = config_before(cluster);
    config["upstream"] = json!({
        "servers": [cluster.server_url(), other.server_url()],
        "caFile": ca,
        "tokenFile": folder.join("token"),
    });
    std::fs::write(folder.join("token"), "token-of-root").expect("a file");
    let words = "different clusters";
    names("two clusters", &config, "apiServers", words, "one cluster").await;

    let mut config = config_before(cluster);
    config["aggregation"] = json!({
        "backends": [{
            "name": "api",
            "namespace": "wardle",
            "servers": [format!("https://127.0.0.1:{}", ports::free())],
        }],
    });
    let objects = folder.join("apiservices.yaml");
    let object = json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": { "name": "v1.doctor.example.com" },
        "spec": {
            "group": "doctor.example.com",
            "version": "v1",
            "groupPriorityMinimum": 1000,
            "versionPriority": 15,
            "insecureSkipTLSVerify": true,
            "service": { "namespace": "wardle", "name": "api" },
        },
    });
    std::fs::write(&objects, object.to_string()).expect("a file");
    config["aggregation"]["apiServices"] = json!([objects]);
    let words = "wardle/api does not";
    names(
        "a silent backend",
        &config,
        "backends",
        words,
        "start the backend",
    )
    .await;
}
