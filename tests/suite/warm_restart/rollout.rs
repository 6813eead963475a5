//! Two processes with one directory, and a process that is killed while it saves.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{directory, files, loads, same_hit, start};
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::media_types::JSON;
use crate::harness::objects::config_map;

const FILE: &str = "configmaps_v1_.store";
const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_roll_out_hands_the_directory_over() {
    skip_under_oracle!("kube-apiserver saves nothing there");
    let cluster = Cluster::shared();
    let admin = cluster.admin_client();
    let ns = cluster.namespace("warm").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let directory = directory();
    let each_second = |cache: &mut serde_json::Value| {
        cache["persistence"] = json!({ "interval": "1s" });
    };
    let old = start(cluster, &directory, each_second).await;
    old.warm(&old.admin_client(), &list).await;
    let saved = || files(&directory).contains(&FILE.to_owned());
    eventually("it is saved", SOON, || async { saved() }).await;
    admin
        .post(&list, &config_map("a", json!({}), json!({})))
        .await
        .expect(201);

    let new = start(cluster, &directory, each_second).await;
    assert_eq!(loads(&new, "resumed").await, 1.0, "{}", new.process.log());
    let listed = format!("{list}?resourceVersion=0");
    let client = new.admin_client();
    let answer = same_hit(cluster, &client, &listed, JSON).await;
    assert!(answer.text().contains("\"name\":\"a\""));
    // The old process may write until it ends.
    crate::harness::pace::lasting(Duration::from_secs(2)).await;
    let saves = [("result", "saved")];
    assert_eq!(new.metric("apifront_cache_saves_total", &saves).await, 0.0);
    old.stop().await;
    admin
        .post(&list, &config_map("b", json!({}), json!({})))
        .await
        .expect(201);
    eventually("the new one saves", SOON, || async {
        new.metric("apifront_cache_saves_total", &saves).await > 0.0
    })
    .await;
    assert!(new.metric("apifront_cache_saved_bytes", &[]).await > 100.0);
    // The metric with the time of the save appears when all stores are saved.
    eventually("the moment of the save", SOON, || async {
        let saved_at = "apifront_cache_last_save_timestamp_seconds";
        new.metric(saved_at, &[]).await > 1.7e9
    })
    .await;
    new.stop().await;

    // A resource that is no longer cached leaves no file.
    let front = start(cluster, &directory, |cache| {
        cache["exclude"] = json!(["events", "configmaps"]);
    })
    .await;
    assert_eq!(loads(&front, "not_cached").await, 1.0);
    assert!(!saved());
    front.stop().await;
}

fn is_saving(directory: &Path) -> bool {
    let names = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names = names.filter_map(|e| e.file_name().into_string().ok());
    names.any(|name| name.starts_with(".unfinished-"))
}

/// A file is either complete or missing, whenever the process ends.
#[tokio::test]
async fn a_kill_while_saving_leaves_the_file_before() {
    skip_under_oracle!("kube-apiserver saves nothing there");
    let cluster = Cluster::leased(&[]).await;
    let admin = cluster.admin_client();
    let ns = cluster.namespace("warm").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    for n in 0..60 {
        let data = json!({ "large": "x".repeat(500_000) });
        let map = config_map(&format!("large-{n}"), json!({}), data);
        admin.post(&list, &map).await.expect(201);
    }
    let directory = directory();
    let mut killed = 0;
    for round in 0..6 {
        let mut front = start(&cluster, &directory, |cache| {
            cache["persistence"] = json!({ "interval": "1s" });
        })
        .await;
        let expected = if round == 0 { 0.0 } else { 1.0 };
        assert_eq!(
            loads(&front, "resumed").await,
            expected,
            "{}",
            front.process.log()
        );
        let client = front.admin_client();
        front.warm(&client, &list).await;
        same_hit(
            &cluster,
            &client,
            &format!("{list}?resourceVersion=0"),
            JSON,
        )
        .await;
        if round == 0 {
            front.stop().await;
            continue;
        }
        let deadline = Instant::now() + SOON;
        let mut writes = 0;
        while !is_saving(&directory) && Instant::now() < deadline {
            if writes % 100 == 0 {
                let name = format!("round-{round}-{writes}");
                admin
                    .post(&list, &config_map(&name, json!({}), json!({})))
                    .await
                    .expect(201);
            }
            writes += 1;
            crate::harness::pace::of_load(Duration::from_millis(1)).await;
        }
        crate::harness::pace::lasting(Duration::from_millis(20 * round)).await;
        killed += usize::from(is_saving(&directory));
        front.process.kill();
    }
    assert!(killed > 0, "no process was killed while it saved");
    let front = start(&cluster, &directory, |_| {}).await;
    assert_eq!(loads(&front, "resumed").await, 1.0);
    front.stop().await;
    assert!(!is_saving(&directory), "{:?}", files(&directory));
}
