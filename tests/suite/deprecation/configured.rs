//! Answers announce the deprecations of the configuration.

use super::*;

/// Deprecations in the configuration, for versions whose servers do not announce
/// them.
#[tokio::test]
async fn configured_deprecations_are_announced() {
    skip_under_oracle!("kube-apiserver takes no deprecations from a configuration");
    let cluster = cluster();
    let group = "configured.example.com";
    let definition = objects::widget_definition(group);
    let direct = cluster.admin_client();
    define(&direct, &definition, group).await;
    let front = Apifront::start(&cluster, |config| {
        config["apis"]["deprecations"] = json!([
            {
                "groupVersion": format!("{group}/v1"), "kind": "Widget", "deprecated": "1.30",
                "removed": "1.40", "replacement": format!("{group}/v2 Widget"),
            },
            // This is exactly the upstream's own warning.
            {
                "groupVersion": "v1", "kind": "Endpoints", "deprecated": "1.33",
                "replacement": "discovery.k8s.io/v1 EndpointSlice",
            },
            { "groupVersion": "v1", "kind": "Secret", "deprecated": "1.99" },
            { "groupVersion": "apps/v1", "deprecated": "1.20" },
        ]);
    })
    .await;
    let client = front.admin_client();
    let ns = cluster.namespace("configured").await;
    let widgets = format!("/apis/{group}/v1/namespaces/{ns}/widgets");
    let text = format!(
        "299 - \"{group}/v1 Widget is deprecated in v1.30+, unavailable in v1.40+; \
         use {group}/v2 Widget\""
    );
    eventually("the kinds are learnt", SOON, || async {
        let deployments = client.get("/apis/apps/v1/deployments?limit=1").await;
        let scale = client
            .get(&format!(
                "/apis/apps/v1/namespaces/{ns}/deployments/x/scale"
            ))
            .await;
        let first = |answer: &Answer| warnings(answer).first().cloned().unwrap_or_default();
        first(&deployments) == "299 - \"apps/v1 Deployment is deprecated in v1.20+\""
            // A kind of another group is not affected.
            && warnings(&scale).is_empty()
    })
    .await;
    let widget = objects::widget(group, "a", "red", 1);
    let created = client.post(&widgets, &widget).await;
    created.expect(201);
    assert_eq!(warnings(&created), [text.as_str()]);
    front.warm(&client, &widgets).await;
    for path in [
        widgets.clone(),
        format!("{widgets}/a"),
        format!("{widgets}/a/status"),
        format!("{widgets}/missing"),
        format!("{widgets}?fieldSelector=x"),
    ] {
        assert_eq!(
            warnings(&client.get(&path).await),
            [text.as_str()],
            "{path}"
        );
    }
    for query in ["watch=1", "watch=1&resourceVersion=1"] {
        let watch = client.open(&format!("{widgets}?{query}"), &[]).await;
        assert_eq!(warnings_in(watch.headers()), [text.as_str()], "{query}");
    }
    let http1 = client.over(Protocol::Http1);
    let upgrade = [("connection", "upgrade"), ("upgrade", "SPDY/3.1")];
    let declined = http1
        .send(Method::GET, &format!("{widgets}/a"), &upgrade, "")
        .await;
    assert_eq!(warnings(&declined), [text.as_str()], "{}", declined.status);

    // The warning is sent once, although both servers have it, and not before its
    // release.
    let path = "/api/v1/namespaces/default/endpoints";
    assert_eq!(warnings(&client.get(path).await).len(), 1);
    front.warm(&client, path).await;
    assert_eq!(warnings(&client.get(path).await).len(), 1);
    assert!(warnings(&client.get("/api/v1/namespaces/default/secrets").await).is_empty());
    let nobody = cluster.certificates.client("nobody", &[]);
    let refused = front.client(Some(&nobody)).get(&widgets).await;
    assert_eq!(
        (refused.status.as_u16(), warnings(&refused).len()),
        (403, 0)
    );
    let labels = [
        ("resource", "widgets"),
        ("subresource", "status"),
        ("removed_release", "1.40"),
    ];
    assert_eq!(front.metric(METRIC, &labels).await, 1.0);

    let mut config = front.read_config();
    config["apis"]["deprecations"] = json!([]);
    front.write_config(&config);
    eventually("the reload", SOON, || async {
        warnings(&client.get(&widgets).await).is_empty()
    })
    .await;
    front.stop().await;
}

/// The query of Kubernetes' deprecation policy, with another release.
const QUERY: &str = "apiserver_requested_deprecated_apis{removed_release=\"1.38\"} \
    * on(group,version,resource,subresource) group_right() apiserver_request_total";

/// The same requests to kube-apiserver, and to apifront before another
/// kube-apiserver, make the same rows in a real Prometheus.
#[tokio::test]
async fn the_deprecation_query_finds_the_same_rows() {
    let cluster = cluster();
    let other = Cluster::leased(&["--runtime-config=api/all=true".to_owned()]).await;
    let front = Apifront::start(&cluster, |_| {}).await;
    let claims = "/apis/resource.k8s.io/v1beta1/namespaces/default/resourceclaims";
    let claim = |version: &str| {
        let mut claim = json!({
            "apiVersion": format!("resource.k8s.io/{version}"), "kind": "ResourceClaim",
            "metadata": { "name": "a" }, "spec": { "devices": {} },
        });
        claim["metadata"]["labels"] = json!({ "version": version });
        claim
    };
    let clients = [other.admin_client(), front.admin_client()];
    // Cached reads count like others.
    front
        .warm(
            &clients[1],
            "/apis/coordination.k8s.io/v1beta1/leasecandidates",
        )
        .await;
    for client in &clients {
        client.post(claims, &claim("v1beta1")).await.expect(201);
        for path in [
            claims.to_owned(),
            format!("{claims}/a"),
            format!("{claims}/missing"),
            format!("{claims}/a/status"),
            format!("{claims}?watch=1&timeoutSeconds=1"),
            "/apis/resource.k8s.io/v1beta1/resourceclaims".to_owned(),
            "/apis/resource.k8s.io/v1beta1/deviceclasses".to_owned(),
            "/apis/coordination.k8s.io/v1alpha2/leasecandidates".to_owned(),
            // These were removed in another release, or never.
            "/apis/resource.k8s.io/v1beta2/resourceclaims".to_owned(),
            "/api/v1/endpoints".to_owned(),
            "/api/v1/pods".to_owned(),
        ] {
            client.get(&path).await;
        }
        client.delete(&format!("{claims}/a")).await.expect(200);
    }
    eventually("the same rows", SOON, || async {
        let [direct, served] = [
            clients[0].get("/metrics").await.text(),
            front.metrics().await,
        ]
        .map(|text| {
            Prometheus::default()
                .scrape(60, "server", &text)
                .query(QUERY)
        });
        if direct != served {
            eprintln!("{direct:#?}\n{served:#?}");
        }
        direct.len() >= 8 && direct == served
    })
    .await;
    front.stop().await;
}
