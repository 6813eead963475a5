//! Checks reads while no API server can be reached. A caller who asks for the most
//! recent state must never get a stale answer without notice.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::apifront::Apifront;
use crate::harness::apiserver::TOKEN_USERS;
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::objects::{cluster_role_binding, config_map};
use crate::harness::watch::Watch;

const STALENESS: Duration = Duration::from_secs(12);
const ALLOWED: Duration = Duration::from_secs(2);

/// The test has its own cluster, whose API server it stops.
#[tokio::test]
async fn most_recent_reads_fail_and_others_go_on_for_a_while() {
    skip_under_oracle!("it stops the API server behind apifront");
    let mut cluster = Cluster::leased(&[]).await;
    let admin = cluster.admin_client();
    let ns = cluster.namespace("outage").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let object = config_map("kept", json!({}), json!({}));
    admin.post(&list, &object).await.expect(201);
    // tess is an ordinary user: apifront must ask the API server about each of her
    // requests. The role `view` is empty where no controller aggregates it.
    let tess = &TOKEN_USERS[0];
    let binding = cluster_role_binding("view-tess", "system:aggregate-to-view", "User", tess.user);
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    admin.post(bindings, &binding).await.expect(201);

    let mut fronts = Vec::new();
    for mode in ["Strict", "Fresh", "Bounded"] {
        let front = Apifront::start(&cluster, |config| {
            config["cache"]["consistency"] = json!(mode);
            config["cache"]["maxStaleness"] = json!(format!("{}s", STALENESS.as_secs()));
            config["authorization"] = json!({
                "subjectAccessReview": {"allowTTL": format!("{}s", ALLOWED.as_secs())},
            });
            // An answer about a token is used for its time and no longer, outage or
            // not. It must not end while the test looks.
            config["authentication"]["tokenReview"] =
                json!({ "enabled": true, "successTTL": "5m" });
        })
        .await;
        let client = front.client(None).token(tess.token);
        eventually("tess may read", Duration::from_secs(20), || async {
            client.get(&list).await.status == 200
        })
        .await;
        let any = format!("{list}?resourceVersion=0");
        front.warm(&client, &any).await;
        client.get(&format!("{list}/kept")).await.expect(200);
        let watch = Watch::open(&client, &format!("{any}&watch=1")).await;
        fronts.push((mode, front, client, watch));
    }

    // All fronts' permissions must be equally recent, however long the starts took
    // and however busy the machine is. This waits until the earlier ones have
    // expired, and at once gets new ones.
    loop {
        tokio::time::sleep_until((Instant::now() + ALLOWED).into()).await;
        let asked = Instant::now();
        for (_, _, client, _) in &fronts {
            for path in [
                &list,
                &format!("{list}?resourceVersion=0"),
                &format!("{list}/kept"),
            ] {
                client.get(path).await.expect(200);
            }
        }
        if asked.elapsed() < ALLOWED / 2 {
            break;
        }
    }
    cluster.apiserver.kill();
    let began = Instant::now();
    for (mode, _, client, _) in &fronts {
        // Only in mode Bounded is an earlier proof valid for maxStaleness.
        if *mode != "Bounded" {
            for path in [
                list.clone(),
                format!("{list}?limit=500"),
                format!("{list}/kept"),
            ] {
                let answer = client.get(&path).await;
                assert_eq!(answer.status, 503, "{mode} {path}: {}", answer.text());
                assert_eq!(answer.json()["kind"], "Status");
                assert!(!answer.header("retry-after").is_empty(), "{mode} {path}");
            }
        }
    }
    // This is longer than a permission is cached, and shorter than a state may be
    // served.
    tokio::time::sleep_until((began + ALLOWED * 3).into()).await;
    for (mode, _, client, _) in &fronts {
        let any = format!("{list}?resourceVersion=0");
        let answer = client.get(&any).await;
        assert_eq!(answer.status, 200, "{mode}: {}", answer.text());
        // This request was never allowed.
        let other = client
            .get("/api/v1/namespaces/default/secrets?resourceVersion=0")
            .await;
        assert_eq!(other.status, 503, "{mode}: {}", other.text());
    }
    tokio::time::sleep_until((began + STALENESS + ALLOWED * 3).into()).await;
    for (mode, _, client, _) in &fronts {
        for options in ["?resourceVersion=0", ""] {
            let answer = client.get(&format!("{list}{options}")).await;
            assert_eq!(answer.status, 503, "{mode}: {}", answer.text());
        }
    }

    // The watches have been open all the time.
    cluster.apiserver.start_again();
    cluster.wait_ready().await;
    let object = config_map("later", json!({}), json!({}));
    let admin = cluster.admin_client();
    admin.post(&list, &object).await.expect(201);
    for (mode, front, client, mut watch) in fronts {
        let events = watch.take_short(2).await;
        assert!(
            events.contains(&"ADDED later".to_owned()),
            "{mode} {events:?}"
        );
        eventually("reads again", Duration::from_secs(30), || async {
            client.get(&list).await.status == 200
        })
        .await;
        front.stop().await;
    }
}
