//! Saved stores that must not be used: each is refused with its reason, and the
//! resource is listed.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::saved_file::SavedFile;
use super::{directory, files, loads, same, same_hit, save, start};
use crate::harness::apifront::{self, Apifront, config_before};
use crate::harness::cluster::{Cluster, unique};
use crate::harness::eventually;
use crate::harness::media_types::JSON;
use crate::harness::objects::{config_map, widget, widget_definition};

const FILE: &str = "configmaps_v1_.store";

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("mode");
}

fn put(directory: &Path, name: &str, bytes: &[u8]) {
    fs::create_dir_all(directory).expect("the directory");
    set_mode(directory, 0o700);
    let path = directory.join(name);
    fs::write(&path, bytes).expect("a file");
    set_mode(&path, 0o600);
}

/// Starts an apifront, which must refuse its saved store for this reason and still
/// answer correctly.
async fn is_refused(cluster: &Cluster, directory: &Path, list: &str, reason: &str, what: &str) {
    let front = start(cluster, directory, |_| {}).await;
    refused_by(cluster, &front, list, reason, what).await;
    front.stop().await;
}

async fn refused_by(cluster: &Cluster, front: &Apifront, list: &str, reason: &str, what: &str) {
    let log = front.process.log();
    assert_eq!(loads(front, reason).await, 1.0, "{what}\n{log}");
    assert_eq!(loads(front, "resumed").await, 0.0, "{what}");
    assert!(
        log.contains(&format!("reason=\"{reason}\"")),
        "{what}\n{log}"
    );
    assert!(!log.contains("panicked"), "{what}\n{log}");
    let client = front.admin_client();
    same(cluster, &client, list, JSON).await;
    front.warm(&client, list).await;
    same_hit(cluster, &client, list, JSON).await;
}

type Edit = Box<dyn Fn(&mut Value)>;

#[tokio::test]
async fn files_that_are_wrong_are_refused_and_named() {
    skip_under_oracle!("kube-apiserver saves nothing there");
    let cluster = Cluster::shared();
    let ns = cluster.namespace("warm").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    for n in 0..3 {
        let map = config_map(&format!("c{n}"), json!({}), json!({ "k": "v".repeat(300) }));
        cluster.admin_client().post(&list, &map).await.expect(201);
    }
    let saved = directory();
    save(cluster, &saved, &list).await;
    let right = fs::read(saved.join(FILE)).expect("the file");

    let torn = |length: usize| right[..length].to_vec();
    let flipped = |at: usize| {
        let mut wrong = right.clone();
        wrong[at] ^= 4;
        wrong
    };
    let longer = [&right[..], b"more"].concat();
    let edited = |edit: Edit| {
        let mut file = SavedFile::parse(&right);
        edit(&mut file.header);
        file.bytes()
    };
    let set = |field: &'static str, value: Value| -> Vec<u8> {
        edited(Box::new(move |header| header[field] = value.clone()))
    };
    let older = edited(Box::new(|header| {
        drop(header.as_object_mut().expect("an object").remove("columns"));
    }));
    let half = right.len() / 2;
    // Editing alone is no reason: with an unchanged header the file is used.
    let control = directory();
    put(&control, FILE, &edited(Box::new(|_| {})));
    let front = start(cluster, &control, |_| {}).await;
    assert_eq!(
        loads(&front, "resumed").await,
        1.0,
        "{}",
        front.process.log()
    );
    front.stop().await;
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("an empty file", torn(0), "torn"),
        ("torn in the preamble", torn(20), "torn"),
        ("torn in the header", torn(200), "torn"),
        ("torn in a block", torn(half), "torn"),
        ("torn before the last byte", torn(right.len() - 1), "torn"),
        ("bytes after the end", longer, "torn"),
        ("a changed byte of the magic", flipped(3), "format"),
        ("another format", flipped(8), "format"),
        ("a changed byte of the header", flipped(300), "checksum"),
        ("a changed byte of an object", flipped(half), "checksum"),
        (
            "another cluster's",
            set("cluster", json!("x")),
            "other_cluster",
        ),
        (
            "another release's",
            set("gitVersion", json!("v1.36.99")),
            "other_release",
        ),
        ("a field less", older, "malformed"),
        (
            "objects after their version",
            set("since", json!(1)),
            "malformed",
        ),
        (
            "a version to come",
            set("resourceVersion", json!(1u64 << 60)),
            "ahead",
        ),
    ];
    for (what, bytes, reason) in &cases {
        let directory = directory();
        put(&directory, FILE, bytes);
        is_refused(cluster, &directory, &list, reason, what).await;
        // The stop has replaced it with a valid file.
        let front = start(cluster, &directory, |_| {}).await;
        assert_eq!(loads(&front, "resumed").await, 1.0, "{what}");
        same_hit(
            cluster,
            &front.admin_client(),
            &format!("{list}?resourceVersion=0"),
            JSON,
        )
        .await;
        front.stop().await;
    }

    let renamed = directory();
    put(&renamed, "services_v1_.store", &right);
    let services = format!("/api/v1/namespaces/{ns}/services");
    is_refused(
        cluster,
        &renamed,
        &services,
        "other_resource",
        "another resource's",
    )
    .await;
    let readable = directory();
    put(&readable, FILE, &right);
    set_mode(&readable.join(FILE), 0o644);
    is_refused(
        cluster,
        &readable,
        &list,
        "permissions",
        "readable by others",
    )
    .await;
    let linked = directory();
    put(&linked, "elsewhere", &right);
    symlink(linked.join("elsewhere"), linked.join(FILE)).expect("a link");
    is_refused(cluster, &linked, &list, "permissions", "a symbolic link").await;
}

/// Only a watch can show that the upstream has another history, or none that is old
/// enough.
#[tokio::test]
async fn what_upstream_does_not_continue_is_refused() {
    skip_under_oracle!("kube-apiserver saves nothing there");
    let mut cluster = Cluster::leased(&[]).await;
    let admin = cluster.admin_client();
    let ns = cluster.namespace("warm").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let map = |name: &str| config_map(name, json!({}), json!({}));
    admin.post(&list, &map("a")).await.expect(201);
    let saved = directory();
    save(&cluster, &saved, &list).await;
    let right = fs::read(saved.join(FILE)).expect("the file");

    let shared = Cluster::shared();
    let theirs = format!(
        "/api/v1/namespaces/{}/configmaps",
        shared.namespace("warm").await
    );
    let elsewhere = directory();
    put(&elsewhere, FILE, &right);
    is_refused(
        shared,
        &elsewhere,
        &theirs,
        "other_cluster",
        "another cluster's",
    )
    .await;

    // This is the state after a restore of etcd from a backup: the newest saved
    // object exists, but its version is another one below the saved one.
    let mut file = SavedFile::parse(&right);
    for n in 0..3 {
        let merge = json!({ "metadata": { "labels": { "n": n.to_string() } } });
        let path = format!("{list}/a");
        admin
            .patch(&path, "merge-patch+json", &merge)
            .await
            .expect(200);
    }
    let now = admin.post(&list, &map("b")).await.expect(201);
    let now = super::version(&now);
    file.header["resourceVersion"] = json!(now);
    let diverged = directory();
    put(&diverged, FILE, &file.bytes());
    is_refused(&cluster, &diverged, &list, "diverged", "another history").await;

    // A restarted kube-apiserver has no history from before its start.
    cluster.restart_apiserver().await;
    for n in 0..3 {
        admin
            .post(&list, &map(&format!("later-{n}")))
            .await
            .expect(201);
    }
    let old = directory();
    put(&old, FILE, &right);
    is_refused(&cluster, &old, &list, "too_old", "a compacted version").await;
}

#[tokio::test]
async fn a_key_protects_what_is_saved() {
    skip_under_oracle!("kube-apiserver saves nothing there");
    let cluster = Cluster::shared();
    let ns = cluster.namespace("warm").await;
    let list = format!("/api/v1/namespaces/{ns}/secrets");
    let marker = unique("a-marker-in-a-secret");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": "s", "labels": { "marker": marker } },
    });
    cluster
        .admin_client()
        .post(&list, &secret)
        .await
        .expect(201);
    let directory = directory();
    let keys = crate::harness::process::temporary_folder("keys");
    let key = |name: &str, text: &str| {
        put(&keys, name, text.as_bytes());
        keys.join(name)
    };
    let first = key("first", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n");
    let second = key("second", "0123456789abcdef0123456789abcdef");
    let with = |file: &Path| json!({ "encryptionKeyFile": file, "exclude": [] });

    let front = start(cluster, &directory, |c| c["persistence"] = with(&first)).await;
    front.warm(&front.admin_client(), &list).await;
    front.stop().await;
    assert_eq!(files(&directory), [".lock", "secrets_v1_.store"]);
    let file = fs::read(directory.join("secrets_v1_.store")).expect("the file");
    let holds = |text: &str| file.windows(text.len()).any(|w| w == text.as_bytes());
    assert!(!holds(&marker) && holds("\"resource\":\"secrets\""));

    let front = start(cluster, &directory, |c| c["persistence"] = with(&first)).await;
    assert_eq!(
        loads(&front, "resumed").await,
        1.0,
        "{}",
        front.process.log()
    );
    let listed = format!("{list}?resourceVersion=0");
    same_hit(cluster, &front.admin_client(), &listed, JSON).await;
    front.stop().await;
    let front = start(cluster, &directory, |c| c["persistence"] = with(&second)).await;
    refused_by(cluster, &front, &list, "key", "another key").await;
    front.stop().await;
    // Without the key, and with secrets excluded again, the file is deleted.
    let front = start(cluster, &directory, |_| {}).await;
    assert_eq!(loads(&front, "not_cached").await, 1.0);
    assert_eq!(files(&directory), [".lock"]);
    front.stop().await;
}

/// A changed definition changes the form of the same objects.
#[tokio::test]
async fn another_definition_is_noticed() {
    skip_under_oracle!("kube-apiserver saves nothing there");
    let cluster = Cluster::shared();
    let admin = cluster.admin_client();
    let group = "warm-definition.example.com";
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    admin
        .post(path, &widget_definition(group))
        .await
        .expect(201);
    let ns = cluster.namespace("warm").await;
    let list = format!("/apis/{group}/v1/namespaces/{ns}/widgets");
    eventually(
        "the definition is served",
        Duration::from_secs(20),
        || async { admin.get(&list).await.status == 200 },
    )
    .await;
    admin
        .post(&list, &widget(group, "w", "red", 1))
        .await
        .expect(201);
    let directory = directory();
    save(cluster, &directory, &list).await;
    let columns = json!({ "spec": { "versions": [{
        "name": "v1", "served": true, "storage": true,
        "schema": { "openAPIV3Schema": { "type": "object", "properties": {
            "spec": { "type": "object", "properties": { "color": { "type": "string" } } },
        }}},
    }]}});
    let definition = format!("{path}/widgets.{group}");
    admin
        .patch(&definition, "merge-patch+json", &columns)
        .await
        .expect(200);
    eventually(
        "the new definition is served",
        Duration::from_secs(60),
        || async {
            let got = admin.get(&list).await;
            got.status == 200 && got.json()["items"][0]["spec"] == json!({ "color": "red" })
        },
    )
    .await;
    is_refused(
        cluster,
        &directory,
        &list,
        "other_definition",
        "another definition",
    )
    .await;
    admin.delete(&definition).await.expect(200);
}

/// Returns apifront's message when it does not start.
fn start_error(cluster: &Cluster, cache: Value) -> String {
    let folder = crate::harness::process::temporary_folder("front");
    let mut config = config_before(cluster);
    config["cache"] = cache;
    let file = folder.join("config.yaml");
    fs::write(&file, config.to_string()).expect("a file");
    let run = Command::new(apifront::built())
        .arg("--config")
        .arg(&file)
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    assert!(!run.status.success());
    String::from_utf8_lossy(&run.stderr).into_owned()
}

#[tokio::test]
async fn what_others_may_write_is_no_place_for_stores() {
    skip_under_oracle!("kube-apiserver saves nothing there");
    let cluster = Cluster::shared();
    let shown = directory();
    put(&shown, "text", b"");
    set_mode(&shown, 0o770);
    let said = start_error(cluster, json!({ "directory": shown }));
    assert!(
        said.contains("cache.directory") && said.contains("may write to it"),
        "{said}"
    );
    let file = json!({ "directory": shown.join("text") });
    assert!(start_error(cluster, file).contains("is not a directory"));
    set_mode(&shown, 0o700);
    let key = shown.join("key");
    fs::write(&key, [1u8; 32]).expect("a file");
    set_mode(&key, 0o644);
    let cache = json!({ "directory": shown, "persistence": { "encryptionKeyFile": key } });
    assert!(start_error(cluster, cache.clone()).contains("others must not read it"));
    fs::write(&key, [1u8; 31]).expect("a file");
    set_mode(&key, 0o600);
    assert!(start_error(cluster, cache).contains("must hold 32 bytes"));
    let cache = json!({ "directory": shown, "persistence": { "exclude": [] } });
    let said = start_error(cluster, cache);
    assert!(
        said.contains("cache.persistence.encryptionKeyFile"),
        "{said}"
    );
}
