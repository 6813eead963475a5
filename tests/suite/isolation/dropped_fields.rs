//! One user lists objects without managedFields all the time, while somebody changes
//! them. So the objects must be written again and again, for that form alone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::flood::Flood;
use super::measure::{Bound, Times, assert_unharmed, print_beside};
use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::objects::config_map;
use crate::harness::pace;

const OBJECTS: usize = 400;
const BYTES: usize = 8_000;
const AT_A_TIME: usize = 64;
const FOR: Duration = Duration::from_secs(4);
const BOUND: Bound = Bound {
    times_quiet: 3,
    floor: Duration::from_millis(100),
};

/// Floods apifront with lists in a form.
async fn flood(front: &Apifront, path: &str, accept: &str) -> Flood {
    let client = front.admin_client().with_header("accept", accept);
    let clients: Vec<Client> = (0..AT_A_TIME).map(|_| client.separate()).collect();
    let path = path.to_owned();
    Flood::start(AT_A_TIME, move |n| {
        let (client, path) = (clients[n % AT_A_TIME].clone(), path.clone());
        async move {
            let answer = client.try_send(http::Method::GET, &path, &[], "").await;
            assert_eq!(answer.expect("an answer").status, 200);
        }
    })
    .await
}

#[tokio::test]
#[ignore = "it measures: make test-measured"]
async fn lists_without_managed_fields_stall_nobody() {
    skip_under_oracle!("kube-apiserver ignores the parameter");
    let cluster = Cluster::leased(&[]).await;
    let admin = cluster.admin_client();
    let ns = cluster.namespace("dropped").await;
    let front = Apifront::start(&cluster, |config: &mut Value| {
        config["cache"]["dropManagedFields"] = json!("Always");
    })
    .await;
    let maps = format!("/api/v1/namespaces/{ns}/configmaps");
    let text = "x".repeat(BYTES);
    for n in 0..OBJECTS {
        let map = config_map(&format!("m-{n:03}"), json!({}), json!({ "text": text }));
        admin.post(&maps, &map).await.expect(201);
    }
    let list = format!("{maps}?resourceVersion=0");
    front.warm(&front.admin_client(), &list).await;
    let other = front.admin_client();
    let one = format!("{maps}/m-007?resourceVersion=0");
    let others = async || Times::reads_of_both(&other, ["/livez", &one], FOR).await;
    let stop = AtomicBool::new(false);
    let write = async {
        let mut writes = 0;
        while !stop.load(Ordering::Relaxed) {
            let path = format!("{maps}/m-{:03}", writes % OBJECTS);
            let change = json!({ "metadata": { "annotations": { "n": writes.to_string() } } });
            admin
                .patch(&path, "merge-patch+json", &change)
                .await
                .expect(200);
            writes += 1;
            pace::of_load(Duration::from_millis(20)).await;
        }
        writes
    };
    let measure = async {
        let quiet = others().await;
        let whole = flood(&front, &list, "application/json").await;
        let beside = others().await;
        println!("{} whole lists", whole.end());
        let dropped = "application/json;drop=metadata.managedFields";
        let dropping = flood(&front, &list, dropped).await;
        let attacked = others().await;
        println!("{} lists without managedFields", dropping.end());
        stop.store(true, Ordering::Relaxed);
        (quiet, beside, attacked)
    };
    let (writes, (quiet, beside, attacked)) = tokio::join!(write, measure);
    println!("{writes} writes");
    for (n, what) in ["/livez", "another's GET"].into_iter().enumerate() {
        print_beside(what, "beside whole lists", &beside[n], &attacked[n]);
        assert_unharmed(what, &quiet[n], &attacked[n], BOUND);
    }
    front.stop().await;
}
