//! Clients that follow a resource as informers do. In the end they must know its
//! actual state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Method;
use serde_json::Value;

use super::churn::Churn;
use harness::client::Client;
use harness::watch::Watch;

const RESOURCES: [&str; 3] = [
    "/api/v1/configmaps",
    "/api/v1/namespaces",
    "/apis/rbac.authorization.k8s.io/v1/roles",
];
const RETRY: Duration = Duration::from_millis(200);
const NEXT: Duration = Duration::from_millis(500);
/// When no event has come for this long, all events have arrived.
const SILENCE: Duration = Duration::from_secs(15);

/// The objects that an informer knows at the end.
pub struct Followed {
    list: &'static str,
    objects: BTreeMap<String, String>,
    lists: usize,
    watches: usize,
    events: usize,
}

impl Followed {
    async fn list(&mut self, client: &Client) -> Option<String> {
        let path = format!("{}?resourceVersion=0", self.list);
        let answer = client.try_send(Method::GET, &path, &[], "").await.ok()?;
        if answer.status != 200 {
            return None;
        }
        let list = answer.json();
        let items = list["items"].as_array()?.iter();
        self.objects = items.map(identity).collect();
        self.lists += 1;
        Some(list["metadata"]["resourceVersion"].as_str()?.to_owned())
    }
}

fn identity(object: &Value) -> (String, String) {
    let meta = &object["metadata"];
    let version = meta["resourceVersion"].as_str().unwrap_or_default();
    (
        format!("{}/{}", meta["namespace"], meta["name"]),
        version.to_owned(),
    )
}

/// Lists and watches until `stop`, and then until nothing more comes.
pub async fn follow(churn: Arc<Churn>, n: usize, stop: Arc<AtomicBool>) -> Followed {
    let client = churn.client(n);
    let mut followed = Followed {
        list: RESOURCES[n % RESOURCES.len()],
        objects: BTreeMap::new(),
        lists: 0,
        watches: 0,
        events: 0,
    };
    let mut version = None;
    let mut silent = Duration::ZERO;
    while silent < SILENCE {
        let Some(from) = version.clone() else {
            version = followed.list(&client).await;
            tokio::time::sleep(RETRY).await;
            continue;
        };
        let path = format!(
            "{}?watch=1&allowWatchBookmarks=true&resourceVersion={from}",
            followed.list
        );
        let mut watch = match Watch::try_open(&client, &path).await {
            Ok(watch) => watch,
            Err(_) => {
                tokio::time::sleep(RETRY).await;
                continue;
            }
        };
        followed.watches += 1;
        while silent < SILENCE {
            let event = match watch.next_within(NEXT).await {
                None => {
                    if stop.load(Ordering::Relaxed) {
                        silent += NEXT;
                    }
                    continue;
                }
                Some(Err(_)) => break,
                Some(Ok(event)) => event,
            };
            if event.kind == "ERROR" {
                version = None;
                break;
            }
            version = Some(event.version().to_string());
            let (name, at) = identity(&event.object);
            match event.kind.as_str() {
                "BOOKMARK" => continue,
                "DELETED" => followed.objects.remove(&name),
                _ => followed.objects.insert(name, at),
            };
            followed.events += 1;
            silent = Duration::ZERO;
        }
    }
    followed
}

/// Fails unless all informers know kube-apiserver's state.
pub async fn assert_current(admin: &Client, all: Vec<Followed>) {
    for followed in all {
        let list = admin.get(followed.list).await.expect(200);
        let items = list["items"].as_array().expect("items").iter();
        let truth: BTreeMap<String, String> = items.map(identity).collect();
        println!(
            "an informer of {}: {} lists, {} watches, {} events, {} objects",
            followed.list,
            followed.lists,
            followed.watches,
            followed.events,
            truth.len()
        );
        assert!(followed.events > 0, "{}: nothing happened", followed.list);
        assert_eq!(followed.objects, truth, "{}", followed.list);
    }
}
