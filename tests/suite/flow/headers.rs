//! Tests the response headers that name a request's FlowSchema and priority level.

use std::time::Duration;

use http::Method;
use serde_json::json;

use super::schema_of;
use crate::harness::apifront::Apifront;
use crate::harness::certificates::Pair;
use crate::harness::client::{Client, Protocol};
use crate::harness::cluster::Cluster;
use crate::harness::differential::Differential;
use crate::harness::kubeconfig::{self, Credential};
use crate::harness::media_types::{PARTIAL_LIST, TABLE_OR_JSON};
use crate::harness::{eventually, objects, process};

const SOON: Duration = Duration::from_secs(30);

/// Users whom a new cluster's schemas distinguish.
fn users() -> Vec<Pair> {
    let certificates = &Cluster::shared().certificates;
    let mut users: Vec<Pair> = [
        ("ulrich", "people"),
        ("system:node:n1", "system:nodes"),
        ("system:kube-controller-manager", "people"),
        ("system:kube-scheduler", "people"),
        (
            "system:serviceaccount:kube-system:endpoint-controller",
            "system:serviceaccounts",
        ),
        ("system:serviceaccount:shop:till", "system:serviceaccounts"),
    ]
    .iter()
    .map(|(name, group)| certificates.client(name, &[*group]))
    .collect();
    users.push(Cluster::shared().admin.clone());
    users
}

/// The headers are the same for every answer, from memory or from the upstream.
#[tokio::test]
async fn every_answer_names_the_schema_that_kube_apiserver_names() {
    let (cluster, front) = (Cluster::shared(), Apifront::shared());
    let ns = cluster.namespace("flow-headers").await;
    let admin = cluster.admin_client();
    let maps = format!("/api/v1/namespaces/{ns}/configmaps");
    let map = objects::config_map("a", json!({}), json!({ "k": "v" }));
    admin.post(&maps, &map).await.expect(201);
    let cached = format!("{maps}?resourceVersion=0");
    front.warm(&front.admin_client(), &cached).await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let asked = [
        (cached.clone(), ""),
        (cached, TABLE_OR_JSON),
        (format!("{maps}?resourceVersion=0&limit=1"), PARTIAL_LIST),
        (format!("{maps}/a?resourceVersion=0"), ""),
        (format!("{maps}/none"), ""),
        (maps.clone(), ""),
        (format!("{maps}?limit=nonsense"), ""),
        (format!("{maps}?labelSelector=!!"), ""),
        (
            "/api/v1/nodes?resourceVersion=0&labelSelector=none".to_owned(),
            "",
        ),
        (leases.to_owned(), ""),
        ("/api".to_owned(), ""),
        (
            "/apis".to_owned(),
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        ),
        ("/apis/apps/v1".to_owned(), ""),
        ("/openapi/v3".to_owned(), ""),
        ("/version".to_owned(), ""),
        ("/apis/none.example.com/v1/things".to_owned(), ""),
        ("/nowhere".to_owned(), ""),
        // Streams other than watches are not classified.
        (format!("/api/v1/namespaces/{ns}/pods/none/log"), ""),
    ];
    let (mut wrong, mut schemas, mut hits) = (Vec::new(), Vec::new(), 0);
    for user in users() {
        let direct = cluster.client(Some(&user));
        let both = Differential::new(direct.clone(), front.client(Some(&user)));
        for (path, accept) in &asked {
            let headers: &[(&str, &str)] = match *accept {
                "" => &[],
                accept => &[("accept", accept)],
            };
            let outcome = both.unforeseen(Method::GET, path, headers).await;
            hits += usize::from(outcome.front.as_ref().is_some_and(|front| front.is_hit()));
            wrong.extend(Some(outcome.difference).filter(|text| !text.is_empty()));
            let schema = schema_of(&direct.get(path).await);
            assert_eq!(schema.is_none(), path.ends_with("/log"), "{path}");
            schemas.extend(schema);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    schemas.sort();
    schemas.dedup();
    println!("{hits} hits, {} schemas", schemas.len());
    assert!(schemas.len() >= 6, "{schemas:?}");
    if !crate::harness::apifront::oracle() {
        // Two users may read the ConfigMaps: the administrator and the node.
        assert!(hits >= 6, "{hits}");
    }
}

#[tokio::test]
async fn watches_name_them_and_unknown_callers_are_not_told() {
    let (cluster, front) = (Cluster::shared(), Apifront::shared());
    let ns = cluster.namespace("flow-headers-watch").await;
    let path = format!("/api/v1/namespaces/{ns}/configmaps");
    front
        .warm(&front.admin_client(), &format!("{path}?resourceVersion=0"))
        .await;
    for query in ["watch=1", "watch=1&resourceVersion=0&timeoutSeconds=1"] {
        let path = format!("{path}?{query}");
        let mut both = Vec::new();
        for client in [cluster.admin_client(), front.admin_client()] {
            for protocol in [Protocol::Http1, Protocol::Http2] {
                let answer = client.over(protocol).open(&path, &[]).await;
                assert_eq!(answer.status(), 200);
                let values = super::HEADERS.map(|name| answer.headers().get(name).cloned());
                assert!(values.iter().all(Option::is_some), "{values:?}");
                both.push(values);
            }
        }
        assert!(both.iter().all(|values| *values == both[0]), "{both:?}");
    }
    for client in [cluster.client(None), front.client(None)] {
        let answer = client.token("nobody").get(&path).await;
        assert_eq!((answer.status.as_u16(), schema_of(&answer)), (401, None));
    }
}

#[tokio::test]
async fn the_names_are_written_as_go_writes_them() {
    let (cluster, front) = (Cluster::shared(), Apifront::shared());
    front
        .warm(
            &front.admin_client(),
            "/api/v1/namespaces?resourceVersion=0",
        )
        .await;
    let path = "/api/v1/namespaces/default?resourceVersion=0";
    let mut written = Vec::new();
    for client in [cluster.admin_client(), front.admin_client()] {
        let mut raw = client
            .over(Protocol::Http1)
            .raw()
            .await
            .expect("a connection");
        let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        raw.write(head.as_bytes()).await.expect("it reads");
        let answer = raw.read_reply(Duration::from_secs(2)).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let head = answer.split("\r\n\r\n").next().unwrap_or_default();
        let lines = head
            .lines()
            .filter(|line| line.to_ascii_lowercase().starts_with("x-k"));
        let mut lines: Vec<String> = lines.map(str::to_owned).collect();
        lines.sort();
        assert_eq!(lines.len(), 2, "{answer}");
        assert!(
            lines[0].starts_with("X-Kubernetes-Pf-Flowschema-Uid: "),
            "{lines:?}"
        );
        written.push(lines);
    }
    assert_eq!(written[0], written[1]);
}

/// A personal apifront asks the upstream who its user is.
#[tokio::test]
async fn a_personal_apifront_names_those_of_its_user() {
    skip_under_oracle!("kube-apiserver has no personal mode");
    let cluster = Cluster::shared();
    let folder = process::temporary_folder("personal-flow");
    let who = Credential::Token("token-of-root");
    let server = cluster.server_url();
    let config = kubeconfig::write(&folder, "token", &server, Some(cluster.ca()), who);
    let front = Apifront::personal(&config).await;
    let plain = Client::plain(front.address);
    let direct = cluster.client(None).token("token-of-root");
    let path = "/api/v1/namespaces/default?resourceVersion=0";
    let expected = schema_of(&direct.get(path).await);
    assert!(expected.is_some());
    front.warm(&plain, path).await;
    eventually("the user is known", SOON, || async {
        schema_of(&plain.get(path).await) == expected
    })
    .await;
    front.stop().await;
}
