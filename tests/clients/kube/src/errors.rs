//! The checks of errors.

use anyhow::{Result, bail};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{EvictParams, ListParams, PostParams, WatchEvent, WatchParams};
use kube::core::Status;
use kube::{Api, Client, Error};

use crate::objects::config_map;
use crate::runner::{self, Task, expect};

pub async fn check(client: &Client, task: &Task) {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &task.namespace);
    let paged: Api<ConfigMap> = Api::namespaced(client.clone(), &task.pages.namespace);
    let pods: Api<Pod> = Api::namespaced(client.clone(), &task.namespace);
    let post = PostParams::default();

    let missing = maps.get("missing");
    check_refused("404", missing, 404, "NotFound").await;

    let again = config_map("crud", &[]);
    let exists = maps.create(&post, &again);
    check_refused("409 exists", exists, 409, "AlreadyExists").await;

    let mut stale = config_map("crud", &[]);
    stale.metadata.resource_version = Some("1".to_owned());
    let conflict = maps.replace("crud", &post, &stale);
    check_refused("409 conflict", conflict, 409, "Conflict").await;

    let continued = ListParams::default()
        .limit(task.pages.limit)
        .continue_token(&task.expired.r#continue);
    let expired = paged.list(&continued);
    check_refused("410 page", expired, 410, "Expired").await;

    let watch = watch_expired(&paged, &task.expired.resource_version);
    runner::check("410 watch", watch).await;

    let invalid = config_map("invalid", &[("not valid", "")]);
    let invalid = maps.create(&post, &invalid);
    check_refused("422", invalid, 422, "Invalid").await;

    let evict = EvictParams::default();
    let evicted = pods.evict("guarded", &evict);
    check_refused("429", evicted, 429, "TooManyRequests").await;
}

/// Checks that the answer is the library's error with this code and reason.
async fn check_refused<T>(
    name: &str,
    answer: impl Future<Output = kube::Result<T>>,
    code: u16,
    reason: &str,
) {
    runner::check(name, async {
        match answer.await {
            Ok(_) => bail!("no error {code}"),
            Err(Error::Api(status)) => expect_status(&status, code, reason),
            Err(error) => Err(error.into()),
        }
    })
    .await;
}

fn expect_status(status: &Status, code: u16, reason: &str) -> Result<()> {
    expect((status.code, &*status.reason), (code, reason))
}

async fn watch_expired(maps: &Api<ConfigMap>, version: &str) -> Result<()> {
    let mut events = maps.watch(&WatchParams::default(), version).await?.boxed();
    match events.next().await {
        Some(Ok(WatchEvent::Error(status))) => expect_status(&status, 410, "Expired"),
        other => bail!("{other:?} is not an error"),
    }
}
