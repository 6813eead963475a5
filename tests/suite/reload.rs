//! Configuration and certificates change while the process runs.

use std::time::Duration;

use serde_json::json;

use crate::harness::apifront::{self, Apifront};
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::watch::{End, Watch};

const SOON: Duration = Duration::from_secs(20);

async fn reloads(front: &Apifront, result: &str) -> f64 {
    front
        .metric("apifront_config_reloads_total", &[("result", result)])
        .await
}

#[tokio::test]
async fn a_changed_file_is_taken_and_a_bad_one_is_not() {
    skip_under_oracle!("kube-apiserver does not read apifront's configuration");
    let front = Apifront::start(Cluster::shared(), |_| {}).await;
    let client = front.admin_client();
    let mut config = front.read_config();

    config["authorization"] = json!({ "subjectAccessReview": { "allowTTL": "3s" } });
    front.write_config(&config);
    eventually("the file is read", SOON, || async {
        reloads(&front, "success").await >= 1.0
    })
    .await;

    let good = config.clone();
    config["authorization"] = json!({ "subjectAccessReview": { "allowTTL": "soon" } });
    front.write_config(&config);
    eventually("the bad file is noticed", SOON, || async {
        reloads(&front, "failure").await >= 1.0
    })
    .await;
    client
        .get("/api/v1/namespaces?resourceVersion=0")
        .await
        .expect(200);
    assert_eq!(client.get("/readyz").await.status, 200);
    let log = front.process.log();
    assert!(log.contains("allowTTL") && log.contains("soon"), "{log}");
    let gauge = front
        .metric("apifront_config_last_reload_successful", &[])
        .await;
    assert_eq!(gauge, 0.0);

    front.write_config(&good);
    eventually("the good file is read", SOON, || async {
        front
            .metric("apifront_config_last_reload_successful", &[])
            .await
            == 1.0
    })
    .await;
    front.stop().await;
}

#[tokio::test]
async fn a_changed_field_has_its_effect() {
    skip_under_oracle!("kube-apiserver does not read apifront's configuration");
    let front = Apifront::start(Cluster::shared(), |_| {}).await;
    let client = front
        .admin_client()
        .with_header("x-apifront-debug", "cache");
    let path = "/api/v1/namespaces?resourceVersion=0";
    front.warm(&client, path).await;
    let mut watch = Watch::open(&client, "/api/v1/namespaces?watch=1&resourceVersion=0").await;
    watch.next().await.expect("an event");
    let mut config = front.read_config();
    config["cache"]["exclude"] = json!(["namespaces"]);
    front.write_config(&config);
    eventually("reads go upstream", SOON, || async {
        client.get(path).await.header("x-apifront-cache") == "bypass; reason=excluded"
    })
    .await;
    // Open watches end, and start again upstream.
    let (_, end) = watch.rest().await;
    assert!(matches!(end, End::Clean), "{end:?}");
    front.stop().await;
}

#[tokio::test]
async fn sighup_reads_the_file_again() {
    skip_under_oracle!("kube-apiserver does not read apifront's configuration");
    let front = Apifront::start(Cluster::shared(), |_| {}).await;
    let before = reloads(&front, "success").await;
    front.process.signal("HUP");
    eventually("it is read again", SOON, || async {
        reloads(&front, "success").await > before
    })
    .await;
    front.stop().await;
}

/// A certificate must not be used if another part of its configuration is invalid.
#[tokio::test]
async fn a_configuration_is_taken_as_a_whole_or_not_at_all() {
    skip_under_oracle!("kube-apiserver does not read apifront's configuration");
    let cluster = Cluster::shared();
    let front = Apifront::start(cluster, |_| {}).await;
    let client = front.admin_client();
    let shown = client.served_certificate().await.expect("a handshake");
    let other = cluster.certificates.another_serving("whole");
    let mut config = front.read_config();
    config["serving"]["tlsCertFile"] = json!(other.cert);
    config["serving"]["tlsPrivateKeyFile"] = json!(other.key);
    let policy = front.folder.join("policy.yaml");
    std::fs::write(&policy, "no policy").expect("a file");
    config["observability"]["auditPolicyFile"] = json!(policy);
    front.write_config(&config);
    eventually("the bad file is noticed", SOON, || async {
        reloads(&front, "failure").await >= 1.0
    })
    .await;
    let still = client.served_certificate().await.expect("a handshake");
    assert_eq!(still, shown);
    // Without the error the certificate is used.
    config["observability"]
        .as_object_mut()
        .expect("a section")
        .remove("auditPolicyFile");
    front.write_config(&config);
    eventually("the certificate is shown", SOON, || async {
        client.served_certificate().await.expect("a handshake") != shown
    })
    .await;
    front.stop().await;
}

/// New handshakes show the new certificate, and open connections continue.
#[tokio::test]
async fn a_renewed_certificate_is_served() {
    skip_under_oracle!("kube-apiserver does not read apifront's configuration");
    let cluster = Cluster::shared();
    let first = cluster.certificates.another_serving("renewed-1");
    let front = Apifront::start(cluster, |config| {
        config["serving"]["tlsCertFile"] = json!(first.cert);
        config["serving"]["tlsPrivateKeyFile"] = json!(first.key);
    })
    .await;
    let client = front.admin_client();
    let shown = client.served_certificate().await.expect("a handshake");
    let mut watch = Watch::open(&client, "/api/v1/namespaces?watch=1&resourceVersion=0").await;
    watch.next().await.expect("an event");

    let second = cluster.certificates.another_serving("renewed-2");
    // The key is replaced first. The pair matches only when the certificate follows.
    std::fs::rename(&second.key, &first.key).expect("rename");
    std::fs::rename(&second.cert, &first.cert).expect("rename");
    eventually("the new certificate is shown", SOON, || async {
        client.served_certificate().await.expect("a handshake") != shown
    })
    .await;
    // The old connection still works.
    client
        .get("/api/v1/namespaces?resourceVersion=0")
        .await
        .expect(200);
    let name = cluster.namespace("renewed").await;
    loop {
        let event = watch.next().await.expect("the watch goes on");
        if event.name() == name {
            break;
        }
    }
    front.stop().await;
}

/// The start is as strict as `--validate-only`: unknown fields are errors.
#[tokio::test]
async fn unknown_fields_are_refused_at_the_start() {
    skip_under_oracle!("kube-apiserver does not read apifront's configuration");
    let folder = crate::harness::process::temporary_folder("bad");
    let file = folder.join("config.yaml");
    let mut config = crate::harness::apifront::config_before(Cluster::shared());
    config["serving"]["tlsCertfile"] = json!("/x");
    std::fs::write(&file, config.to_string()).expect("config");
    let output = tokio::process::Command::new(apifront::built())
        .arg("--config")
        .arg(&file)
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(SOON, output)
        .await
        .expect("it ends")
        .expect("apifront");
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("tlsCertfile"), "{said}");
}

/// `--validate-only` also checks the files that the configuration names, and starts
/// nothing.
#[tokio::test]
async fn validate_only_says_what_cannot_be_used() {
    let folder = crate::harness::process::temporary_folder("validate");
    let file = folder.join("config.yaml");
    let mut config = crate::harness::apifront::config_before(Cluster::shared());
    let validate = async |config: &serde_json::Value| {
        std::fs::write(&file, config.to_string()).expect("config");
        let output = tokio::process::Command::new(apifront::built())
            .args(["--validate-only", "--config"])
            .arg(&file)
            .output()
            .await
            .expect("apifront");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.success(),
            text(&output.stdout) + &text(&output.stderr),
        )
    };
    assert_eq!(
        validate(&config).await,
        (true, "the configuration is valid\n".to_owned())
    );
    config["serving"]["tlsCertFile"] = json!("/no/such.crt");
    let (valid, said) = validate(&config).await;
    assert!(!valid, "{said}");
    assert!(
        said.contains("tlsCertFile") && said.contains("/no/such.crt"),
        "{said}"
    );
}
