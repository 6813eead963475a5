//! What may have happened is never sent twice, and what did not is sent again.

use super::*;

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().expect("items");
    let names = items.iter().filter_map(|i| i["metadata"]["name"].as_str());
    names
        .filter(|n| n.starts_with("once-"))
        .map(str::to_owned)
        .collect()
}

/// The first server reads each request and closes the connection.
#[tokio::test]
async fn what_may_have_happened_is_never_sent_twice() {
    skip_under_oracle!("it is about apifront's requests to an API server that hangs up");
    let scripted = Scripted::start(|mut connection| async move {
        if let Some(request) = connection.next().await {
            connection.body(&request).await;
        }
    })
    .await;
    let front = front_before(&scripted.url(), |_| {}).await;
    let cluster = Cluster::shared();
    let ns = cluster.namespace("once").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let admin = front.admin_client();
    for client in [admin.over(Protocol::Http1), admin.clone()] {
        let before = (
            scripted.count(&format!("POST {list}")),
            names(&cluster.admin_client().get(&list).await.expect(200)).len(),
        );
        let mut acknowledged = 0;
        for n in 0..10 {
            let name = format!("once-{}-{n}", before.1);
            let answer = client
                .post(&list, &config_map(&name, json!({}), json!({})))
                .await;
            if answer.status == 201 {
                acknowledged += 1;
            } else {
                assert_unknown_outcome(&answer);
            }
        }
        let happened = names(&cluster.admin_client().get(&list).await.expect(200)).len();
        let sent = scripted.count(&format!("POST {list}")) - before.0;
        assert_eq!(happened - before.1, acknowledged);
        assert_eq!(sent + acknowledged, 10, "each POST arrived once in total");
        assert!(
            sent > 0 && acknowledged > 0,
            "both were asked: {sent}, {acknowledged}"
        );

        let watch = format!("{list}?watch=1&timeoutSeconds=1");
        for path in [
            &list,
            "/version",
            &watch,
            "/api/v1/nodes/none/proxy/x",
            "/apis",
        ] {
            for _ in 0..4 {
                let answer = client.get(path).await;
                let expected = if path.contains("none") { 404 } else { 200 };
                assert_eq!(answer.status, expected, "{path}: {}", answer.text());
            }
        }
        let lines = ["/version", &watch];
        assert!(
            lines
                .iter()
                .any(|p| scripted.count(&format!("GET {p}")) > 0)
        );
    }

    // An upgrade is not retried, since it may start a command.
    let exec = format!("/api/v1/namespaces/{ns}/pods/none/exec?command=true");
    let upgrade = [("connection", "Upgrade"), ("upgrade", "websocket")];
    let plain = admin.over(Protocol::Http1);
    let mut answered = 0;
    for method in [Method::GET, Method::POST] {
        for _ in 0..6 {
            let answer = plain.send(method.clone(), &exec, &upgrade, "").await;
            if answer.status == 503 {
                assert_unknown_outcome(&answer);
            } else {
                assert_eq!(answer.status, 404, "{}", answer.text());
                answered += 1;
            }
        }
    }
    let sent = scripted
        .seen()
        .iter()
        .filter(|s| s.line.ends_with(&exec))
        .count();
    assert_eq!(sent + answered, 12, "{sent} and {answered}");
    front.stop().await;
}

/// On a refused connection nothing is sent, so any request may be retried on another
/// server.
#[tokio::test]
async fn a_refused_connection_fails_no_request() {
    skip_under_oracle!("it is about apifront's connections to API servers");
    let nobody = format!("https://{}", ports::loopback(ports::free()));
    let front = front_before(&nobody, |config| {
        // The first failure must come from a request, not from a health check.
        config["upstream"]["healthCheckInterval"] = json!("1h");
    })
    .await;
    let ns = Cluster::shared().namespace("refused").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let client = front.admin_client();
    let post = async |n: usize| {
        let object = config_map(&format!("c{n}"), json!({}), json!({}));
        client.post(&list, &object).await.expect(201);
        client.get(&list).await.expect(200);
    };
    futures::future::join_all((0..8).map(post)).await;
    front.stop().await;
}
