//! Tests every kind of credential that a kubeconfig or a configuration can name,
//! before a real kube-apiserver. With each, cached reads, forwarded requests,
//! watches and upgrades must run as the same user.

mod refused;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use base64::Engine;
use http::Method;
use serde_json::{Value, json};

use crate::harness::apifront::{self, Apifront, config_before};
use crate::harness::certificates::Pair;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::kubeconfig;
use crate::harness::objects;
use crate::harness::process;
use crate::harness::watch::Watch;

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// Users who may only read namespaces. A refusal then names the user.
struct Users {
    namespace: String,
    folder: PathBuf,
}

impl Users {
    async fn create() -> Self {
        let cluster = Cluster::shared();
        let namespace = cluster.namespace("credentials").await;
        let admin = cluster.admin_client();
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": { "name": namespace },
            "rules": [{ "apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"] }],
        });
        let path = format!("{rbac}/clusterroles");
        admin.post(&path, &role).await.expect(201);
        let group = format!("system:serviceaccounts:{namespace}");
        let binding = objects::cluster_role_binding(&namespace, &namespace, "Group", &group);
        let path = format!("{rbac}/clusterrolebindings");
        admin.post(&path, &binding).await.expect(201);
        Self {
            namespace,
            folder: process::temporary_folder("credentials"),
        }
    }

    fn group(&self) -> String {
        format!("system:serviceaccounts:{}", self.namespace)
    }

    fn certificate(&self, user: &str) -> Pair {
        Cluster::shared()
            .certificates
            .client(user, &[&self.group()])
    }

    /// Returns a new token and its user's name.
    async fn token(&self, account: &str) -> (String, String) {
        let admin = Cluster::shared().admin_client();
        let path = format!("/api/v1/namespaces/{}/serviceaccounts", self.namespace);
        let object = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": account } });
        admin.post(&path, &object).await.expect(201);
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": { "expirationSeconds": 3600 },
        });
        let answer = admin
            .post(&format!("{path}/{account}/token"), &request)
            .await;
        let token = answer.expect(201)["status"]["token"].take();
        let token = token.as_str().expect("a token").to_owned();
        (
            token,
            format!("system:serviceaccount:{}:{account}", self.namespace),
        )
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.join(name);
        std::fs::write(&path, content).expect("file");
        path
    }

    fn kubeconfig(&self, name: &str, user: Value) -> PathBuf {
        let cluster = Cluster::shared();
        let server =
            json!({ "server": cluster.server_url(), "certificate-authority": cluster.ca() });
        kubeconfig::write_parts(&self.folder, name, server, user)
    }

    /// Makes an exec plugin that records each run and prints the output of `print`.
    fn plugin(&self, name: &str, print: &str) -> (Value, PathBuf) {
        let runs = self.folder.join(format!("{name}.runs"));
        let script = format!(
            "#!/bin/sh\necho \"$FLAVOUR $1 $KUBERNETES_EXEC_INFO\" >> {}\n{print}\n",
            runs.display()
        );
        let path = self.file(&format!("{name}.sh"), script);
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, executable).expect("permissions");
        let user = json!({ "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": path,
            "args": ["argument"],
            "env": [{ "name": "FLAVOUR", "value": "vanilla" }],
            "interactiveMode": "Never",
        }});
        (user, runs)
    }
}

async fn who_am_i(client: &Client) -> String {
    let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let answer = client.post(REVIEWS, &review).await;
    let found = answer.expect(201);
    found["status"]["userInfo"]["username"]
        .as_str()
        .unwrap_or("")
        .to_owned()
}

/// Returns the user named in the refusal of an upgrade.
async fn upgrade_as(client: &Client) -> String {
    let path = "/api/v1/namespaces/default/pods/none/exec?command=true";
    let upgrade = [("connection", "Upgrade"), ("upgrade", "websocket")];
    let answer = client.send(Method::GET, path, &upgrade, "").await;
    assert_eq!(answer.status, 403, "{}", answer.text());
    let text = answer.text().replace("\\\"", "\"");
    let name = text
        .split("User \"")
        .nth(1)
        .and_then(|t| t.split('"').next());
    name.unwrap_or_else(|| panic!("no user in {text}"))
        .to_owned()
}

/// Sends one request of each kind, and fails unless all run as `user`.
async fn acts_as(front: &Apifront, user: &str) {
    let client = Client::plain(front.address);
    assert_eq!(who_am_i(&client).await, user, "forwarded");
    assert_eq!(upgrade_as(&client).await, user, "upgraded");
    front
        .warm(&client, "/api/v1/namespaces?resourceVersion=0")
        .await;
    for path in [
        "/api/v1/namespaces?watch=1",
        "/api/v1/namespaces?watch=1&resourceVersion=0",
    ] {
        let event = Watch::open(&client, path)
            .await
            .next()
            .await
            .expect("an event");
        assert_eq!(event.kind, "ADDED", "{path}");
    }
    let answer = client.get("/api/v1/secrets?resourceVersion=0").await;
    let message = answer.expect(403)["message"].take();
    let expected = format!("secrets is forbidden: User \"{user}\" ");
    assert!(
        message.as_str().is_some_and(|m| m.starts_with(&expected)),
        "{message}"
    );
}

async fn personal_acts_as(kubeconfig: &Path, user: &str) {
    let front = Apifront::personal_alive(kubeconfig, &[]).await;
    acts_as(&front, user).await;
    front.stop().await;
}

fn base64(file: &Path) -> String {
    let bytes = std::fs::read(file).expect("file");
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[tokio::test]
async fn client_certificates() {
    skip_under_oracle!("it is about apifront's credentials for API servers");
    let users = Users::create().await;
    let pair = users.certificate("carla");
    let files = json!({ "client-certificate": pair.cert, "client-key": pair.key });
    let inline = json!({
        "client-certificate-data": base64(&pair.cert),
        "client-key-data": base64(&pair.key),
    });
    // The files are beside the kubeconfig, where kubectl resolves relative paths.
    for (name, file) in [("relative.crt", &pair.cert), ("relative.key", &pair.key)] {
        std::fs::copy(file, users.folder.join(name)).expect("copy");
    }
    let relative = json!({ "client-certificate": "relative.crt", "client-key": "relative.key" });
    for (name, user) in [("files", files), ("inline", inline), ("relative", relative)] {
        personal_acts_as(&users.kubeconfig(name, user), "carla").await;
    }
}

/// A kubelet renews the certificate that its kubeconfig names, and leaves the
/// kubeconfig as it is.
#[tokio::test]
async fn certificate_files_are_read_again() {
    skip_under_oracle!("it is about apifront's credentials for API servers");
    let users = Users::create().await;
    let renew = |pair: &Pair| {
        for (name, file) in [("current.crt", &pair.cert), ("current.key", &pair.key)] {
            let new = users.folder.join(format!("{name}.new"));
            std::fs::copy(file, &new).expect("copy");
            std::fs::rename(new, users.folder.join(name)).expect("rename");
        }
    };
    renew(&users.certificate("carla"));
    let user = json!({ "client-certificate": "current.crt", "client-key": "current.key" });
    let config = users.kubeconfig("renewed", user);
    let front = Apifront::personal_alive(&config, &[]).await;
    acts_as(&front, "carla").await;
    renew(&users.certificate("dora"));
    let client = Client::plain(front.address);
    eventually(
        "the second certificate",
        Duration::from_secs(30),
        || async { who_am_i(&client).await == "dora" && upgrade_as(&client).await == "dora" },
    )
    .await;
    acts_as(&front, "dora").await;
    front.stop().await;
}

#[tokio::test]
async fn a_token() {
    skip_under_oracle!("it is about apifront's credentials for API servers");
    let users = Users::create().await;
    let (token, user) = users.token("tim").await;
    personal_acts_as(&users.kubeconfig("token", json!({ "token": token })), &user).await;
}

/// A token file may be replaced at any time.
#[tokio::test]
async fn a_token_file_is_read_again() {
    skip_under_oracle!("it is about apifront's credentials for API servers");
    let users = Users::create().await;
    let (first, first_user) = users.token("first").await;
    let (second, second_user) = users.token("second").await;
    let file = users.file("token", format!("{first}\n"));
    let config = users.kubeconfig("token-file", json!({ "tokenFile": file }));
    let front = Apifront::personal_alive(&config, &[]).await;
    acts_as(&front, &first_user).await;
    users.file("token", format!("{second}\n"));
    let client = Client::plain(front.address);
    eventually("the second token", Duration::from_secs(30), || async {
        who_am_i(&client).await == second_user && upgrade_as(&client).await == second_user
    })
    .await;
    front.stop().await;
}

#[tokio::test]
async fn exec_plugins_that_print_tokens() {
    skip_under_oracle!("it is about apifront's credentials for API servers");
    let users = Users::create().await;
    let (first, first_user) = users.token("first").await;
    let (second, second_user) = users.token("second").await;
    let printed = |token: &str, expires: &str| {
        let credential = json!({
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": { "token": token, "expirationTimestamp": expires },
        });
        credential.to_string()
    };
    // The first plugin's token stays valid.
    let answer = users.file("lasts.json", printed(&first, "2099-01-01T00:00:00Z"));
    let (user, runs) = users.plugin("lasts", &format!("cat {}", answer.display()));
    personal_acts_as(&users.kubeconfig("exec-lasts", user), &first_user).await;
    let runs = std::fs::read_to_string(runs).expect("it ran");
    assert!(runs.lines().count() <= 2, "{runs}");
    for line in runs.lines() {
        assert!(line.starts_with("vanilla argument {"), "{line}");
        let info = line.split_once('{').map(|(_, rest)| format!("{{{rest}"));
        let info: Value = serde_json::from_str(&info.unwrap_or_default()).expect("JSON");
        assert_eq!(info["kind"], "ExecCredential");
        assert_eq!(info["apiVersion"], "client.authentication.k8s.io/v1");
    }
    // The second plugin's token has already expired.
    let answer = users.file("ends.json", printed(&first, "2020-01-01T00:00:00Z"));
    let (user, _) = users.plugin("ends", &format!("cat {}", answer.display()));
    let config = users.kubeconfig("exec-ends", user);
    let front = Apifront::personal_alive(&config, &[]).await;
    acts_as(&front, &first_user).await;
    users.file("ends.json", printed(&second, "2020-01-01T00:00:00Z"));
    acts_as(&front, &second_user).await;
    front.stop().await;
}

#[tokio::test]
async fn exec_plugins_that_print_certificates() {
    skip_under_oracle!("it is about apifront's credentials for API servers");
    let users = Users::create().await;
    let pair = users.certificate("paula");
    let text = |file: &Path| std::fs::read_to_string(file).expect("PEM");
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {
            "clientCertificateData": text(&pair.cert),
            "clientKeyData": text(&pair.key),
        },
    });
    let answer = users.file("certificate.json", credential.to_string());
    let (user, _) = users.plugin("certificate", &format!("cat {}", answer.display()));
    personal_acts_as(&users.kubeconfig("exec-certificate", user), "paula").await;
}

/// Tests `as` and `as-groups`, and a caller who impersonates another user.
#[tokio::test]
async fn impersonation_of_the_kubeconfig() {
    skip_under_oracle!("it is about apifront's credentials for API servers");
    let users = Users::create().await;
    let admin = &Cluster::shared().admin;
    let user = json!({
        "client-certificate": admin.cert, "client-key": admin.key,
        "as": "ivan", "as-groups": [users.group()],
    });
    let config = users.kubeconfig("as", user);
    let front = Apifront::personal_alive(&config, &[]).await;
    acts_as(&front, "ivan").await;

    // kubectl's --as replaces the kubeconfig's `as`: its groups are not added.
    let client = Client::plain(front.address);
    let other = client.clone().with_header("impersonate-user", "olga");
    assert_eq!(who_am_i(&other).await, "olga");
    assert_eq!(upgrade_as(&other).await, "olga");
    for path in [
        "/api/v1/namespaces?resourceVersion=0",
        "/api/v1/namespaces",
        "/api/v1/namespaces?watch=1",
        "/api/v1/namespaces?watch=1&resourceVersion=0",
    ] {
        let answer = other.get(path).await;
        let message = answer.expect(403)["message"].to_string();
        assert!(
            message.contains("User \\\"olga\\\" cannot"),
            "{path}: {message}"
        );
    }
    front.stop().await;
}

#[tokio::test]
async fn unverified_servers_and_contexts() {
    skip_under_oracle!("it is about apifront's credentials for API servers");
    let users = Users::create().await;
    let pair = users.certificate("ursula");
    let (token, token_user) = users.token("other").await;
    let user = json!({ "client-certificate": pair.cert, "client-key": pair.key });
    // There is no authority, and the certificate is for another name.
    let insecure = json!({
        "server": Cluster::shared().server_url(),
        "insecure-skip-tls-verify": true,
        "tls-server-name": "example.test",
    });
    let config = kubeconfig::write_parts(&users.folder, "insecure", insecure, user.clone());
    personal_acts_as(&config, "ursula").await;

    let config = users.kubeconfig("contexts", user);
    let text = std::fs::read_to_string(&config).expect("kubeconfig");
    let mut document: Value = serde_json::from_str(&text).expect("JSON");
    let add = |list: &mut Value, entry: Value| list.as_array_mut().expect("a list").push(entry);
    add(
        &mut document["users"],
        json!({ "name": "other", "user": { "token": token } }),
    );
    let context = json!({ "name": "other", "context": { "cluster": "test", "user": "other" } });
    add(&mut document["contexts"], context);
    let config = users.file("contexts.kubeconfig", document.to_string());
    for (flags, expected) in [
        (&[][..], "ursula"),
        (&["--context", "other"], token_user.as_str()),
    ] {
        let front = Apifront::personal_alive(&config, flags).await;
        assert_eq!(who_am_i(&Client::plain(front.address)).await, expected);
        front.stop().await;
    }
}

/// Tests `upstream.servers` with a token, and impersonation of callers.
#[tokio::test]
async fn servers_with_a_token_file() {
    skip_under_oracle!("it is about apifront's credentials for API servers");
    let cluster = Cluster::shared();
    let folder = process::temporary_folder("servers");
    let token = folder.join("token");
    std::fs::write(&token, "token-of-root\n").expect("token");
    let front = Apifront::start(cluster, |config| {
        config["upstream"] = json!({
            "servers": [cluster.server_url()], "caFile": cluster.ca(), "tokenFile": token,
        });
        config["identity"] = json!({ "mode": "Impersonate" });
    })
    .await;
    let users = Users::create().await;
    let client = front.client(Some(&users.certificate("sofia")));
    assert_eq!(who_am_i(&client).await, "sofia");
    assert_eq!(
        upgrade_as(&client.over(crate::harness::client::Protocol::Http1)).await,
        "sofia"
    );
    front
        .warm(&client, "/api/v1/namespaces?resourceVersion=0")
        .await;
    let watch = Watch::open(&client, "/api/v1/namespaces?watch=1")
        .await
        .next()
        .await;
    assert_eq!(watch.expect("an event").kind, "ADDED");
    front.stop().await;
}
