//! Tests health paths in all of kube-apiserver's forms, and the shutdown of the
//! process.

use std::time::Duration;

use http::Method;
use serde_json::json;

use crate::harness::apifront::Apifront;
use crate::harness::client::{Answer, Client, Protocol};
use crate::harness::cluster::Cluster;
use crate::harness::watch::{End, Watch};
use crate::harness::{eventually, flow_names};

/// Checks the forms of all health answers, on either server.
async fn shapes(client: &Client) {
    for kind in ["healthz", "livez", "readyz"] {
        let answer = client.get(&format!("/{kind}")).await;
        plain(&answer, 200);
        assert_eq!(answer.text(), "ok");

        let answer = client.get(&format!("/{kind}?verbose")).await;
        plain(&answer, 200);
        let text = answer.text();
        let lines: Vec<&str> = text.lines().collect();
        let (last, checks) = lines.split_last().expect("lines");
        assert_eq!(*last, format!("{kind} check passed"));
        assert!(text.ends_with('\n'));
        assert!(checks.contains(&"[+]ping ok"), "{text}");
        assert!(
            checks
                .iter()
                .all(|l| l.starts_with("[+]") && l.ends_with(" ok")),
            "{text}"
        );

        let text = client
            .get(&format!("/{kind}?verbose&exclude=ping"))
            .await
            .text();
        assert!(text.contains("[+]ping excluded: ok\n"), "{text}");
        let unmatched = format!("/{kind}?verbose&exclude=no-such&exclude=another");
        let text = client.get(&unmatched).await.text();
        let warning =
            "warn: some health checks cannot be excluded: no matches for \"another\",\"no-such\"\n";
        assert!(text.contains(warning), "{text}");

        let answer = client.get(&format!("/{kind}/ping")).await;
        assert_eq!(
            (answer.status.as_u16(), answer.text()),
            (200, "ok".to_owned())
        );
        let answer = client.get(&format!("/{kind}/no-such-check")).await;
        assert_eq!(answer.status, 404);
        let answer = client
            .send(Method::HEAD, &format!("/{kind}"), &[], "")
            .await;
        assert_eq!((answer.status.as_u16(), answer.body.len()), (200, 0));
    }
}

fn plain(answer: &Answer, code: u16) {
    assert_eq!(answer.status, code, "{}", answer.text());
    assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
}

#[tokio::test]
async fn shapes_of_kube_apiserver() {
    shapes(&Cluster::shared().admin_client()).await;
}

#[tokio::test]
async fn shapes_of_apifront() {
    shapes(&Apifront::shared().admin_client()).await;
}

#[tokio::test]
async fn shapes_of_the_observability_port() {
    skip_under_oracle!("kube-apiserver has no observability port");
    shapes(&Client::plain(Apifront::shared().observability)).await;
}

/// Clients use `/livez/ping` to find out whether the API server has Priority and
/// Fairness. They slow themselves down if the answer does not name the flow schema
/// (sigs.k8s.io/cli-utils `pkg/flowcontrol`).
#[tokio::test]
async fn answers_name_the_flow_schema_of_the_caller() {
    skip_under_oracle!("kube-apiserver is what apifront is compared with");
    let (cluster, front) = (Cluster::shared(), Apifront::shared());
    let ns = cluster.namespace("health").await;
    let path = format!("/api/v1/namespaces/{ns}/serviceaccounts/prober");
    let admin = cluster.admin_client();
    let account = json!({ "metadata": { "name": "prober" } });
    let accounts = path.trim_end_matches("/prober");
    admin.post(accounts, &account).await.expect(201);
    let request = json!({ "spec": { "expirationSeconds": 3600 } });
    let made = admin.post(&format!("{path}/token"), &request).await;
    let made = made.expect(201);
    let token = made["status"]["token"].as_str().expect("a token");
    let user = cluster.certificates.client("prober", &["probers"]);
    let both = |certificate| (cluster.client(certificate), front.client(certificate));
    let (direct, through) = both(None);
    for (who, (direct, through)) in [
        ("an administrator", both(Some(&cluster.admin))),
        ("a user", both(Some(&user))),
        (
            "a service account",
            (direct.token(token), through.token(token)),
        ),
    ] {
        // apifront asks the upstream about a token until it knows it.
        through.get("/version").await;
        for path in [
            "/livez/ping",
            "/livez",
            "/readyz/ping",
            "/healthz",
            "/livez/no-such",
        ] {
            for method in [Method::GET, Method::HEAD] {
                let right = direct.send(method.clone(), path, &[], "").await;
                let found = through.send(method.clone(), path, &[], "").await;
                for header in flow_names::HEADERS {
                    let value = right.header(header);
                    assert!(!value.is_empty(), "{who}: {method} {path}: {header}");
                    assert_eq!(
                        found.header(header),
                        value,
                        "{who}: {method} {path}: {header}"
                    );
                }
            }
        }
    }
}

/// At shutdown readiness fails at once, requests are served during the delay,
/// watches end as HTTP requires, and the process exits with 0.
#[tokio::test]
async fn stops_in_order() {
    skip_under_oracle!("it stops apifront");
    let cluster = Cluster::shared();
    let mut front = Apifront::start(cluster, |config| {
        config["serving"]["shutdownDelayDuration"] = json!("2s");
    })
    .await;
    let client = front.admin_client();
    let path = "/api/v1/namespaces?watch=1&resourceVersion=0";
    let mut http1 = Watch::open(&client.over(Protocol::Http1), path).await;
    let mut http2 = Watch::open(&client, path).await;
    http1.next().await.expect("an event");
    http2.next().await.expect("an event");

    front.process.signal("TERM");
    let fresh = client.separate();
    eventually("not ready", Duration::from_millis(1500), || async {
        let answer = fresh.get("/readyz").await;
        answer.status == 500
            && answer
                .text()
                .contains("[-]shutdown failed: reason withheld")
    })
    .await;
    for path in [
        "/livez",
        "/api/v1/namespaces?resourceVersion=0",
        "/api/v1/namespaces",
    ] {
        let answer = client.separate().get(path).await;
        assert_eq!(
            answer.status,
            200,
            "{path} during the delay: {}",
            answer.text()
        );
    }
    let end = |mut watch: Watch| async move { watch.rest().await.1 };
    let ends = tokio::join!(end(http1), end(http2));
    assert_eq!(ends, (End::Clean, End::Clean));
    let status = front.process.wait(Duration::from_secs(30)).await;
    assert!(status.success(), "{status}");
}
