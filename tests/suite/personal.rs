//! Tests `apifront --kubeconfig FILE`, which serves one user on loopback, like
//! `kubectl proxy`.

use http::Method;
use serde_json::json;

use crate::harness::apifront::Apifront;
use crate::harness::client::{Client, Protocol};
use crate::harness::cluster::Cluster;
use crate::harness::kubeconfig::{self, Credential};
use crate::harness::kubectl::Kubectl;
use crate::harness::process;
use crate::queries::{QUERIES, query};

#[tokio::test]
async fn acts_as_the_user_of_the_kubeconfig() {
    skip_under_oracle!("kube-apiserver has no personal mode");
    let cluster = Cluster::shared();
    let folder = process::temporary_folder("personal");
    let server = cluster.server_url();
    let who = Credential::Token("token-of-root");
    let config = kubeconfig::write(&folder, "token", &server, Some(cluster.ca()), who);
    let front = Apifront::personal(&config).await;
    let plain = Client::plain(front.address);
    assert!(front.address.ip().is_loopback());

    // Cached and forwarded answers are those for this user.
    let direct = cluster.client(None).token("token-of-root");
    for path in ["/version", "/api/v1/namespaces/default", "/apis/apps"] {
        let (expected, got) = (
            direct.over(Protocol::Http1).get(path).await,
            plain.get(path).await,
        );
        assert_eq!(got.text(), expected.text(), "{path}");
    }
    plain
        .get("/api/v1/namespaces?resourceVersion=0")
        .await
        .expect(200);

    // kubectl needs only the address.
    let url = format!("http://{}", front.address);
    let none = kubeconfig::write(&folder, "plain", &url, None, Credential::None);
    let printed = Kubectl::new(&none)
        .run(&["get", "namespaces", "-o", "name"])
        .await
        .ok();
    assert!(printed.contains("namespace/default\n"), "{printed}");

    // Web pages in a browser must not act as the user.
    for headers in [
        &[("host", "attacker.example.test")][..],
        &[("origin", "https://attacker.example.test")],
        &[
            ("host", "attacker.example.test:8001"),
            ("origin", "http://attacker.example.test:8001"),
        ],
    ] {
        let answer = plain
            .send(Method::GET, "/api/v1/secrets", headers, "")
            .await;
        assert_eq!(answer.status, 403, "{headers:?}: {}", answer.text());
    }
    // Identity headers have no effect.
    let spoofed = [("x-remote-user", "nobody"), ("x-remote-group", "nothing")];
    let path = "/api/v1/namespaces?resourceVersion=0";
    plain
        .send(Method::GET, path, &spoofed, "")
        .await
        .expect(200);
    front.stop().await;
}

/// The owner may ask queries, also without any right to ask them in the cluster.
#[tokio::test]
async fn it_answers_queries_if_it_is_told_to() {
    skip_under_oracle!("kube-apiserver has no personal mode");
    let cluster = Cluster::shared();
    let folder = process::temporary_folder("personal");
    let who = Credential::Token("token-of-root");
    let server = cluster.server_url();
    let config = kubeconfig::write(&folder, "token", &server, Some(cluster.ca()), who);
    let front = Apifront::personal_with_flags(&config, &["--enable-queries"]).await;
    let query = query(&json!({
        "resource": { "version": "v1", "resource": "namespaces" },
        "where": "object.metadata.name == 'default'",
    }));
    let plain = Client::plain(front.address);
    let answer = plain.post(QUERIES, &query).await.expect(201);
    assert_eq!(answer["status"]["total"], 1);
    assert_eq!(answer["status"]["rows"][0]["name"], "default");
    front.stop().await;
}
