//! Live answers that end while the page shows them.

use serde_json::json;

use super::shown::{STATE, Shown, TOTAL};
use crate::harness::apifront::Apifront;
use crate::harness::cluster::Cluster;
use crate::harness::kubeconfig::{self, Credential};
use crate::harness::objects::pod_on_node;
use crate::harness::process;
use crate::queries::enable;
use crate::queries::rights::may_ask;
use crate::views::world::World;

#[tokio::test]
async fn an_answer_that_ended_is_asked_for_again() {
    skip_under_oracle!("kube-apiserver has no queries");
    let mut front = Apifront::start_directly(Cluster::shared(), enable).await;
    let shown = Shown::open(&front).await;
    shown.create(&pod_on_node("a", json!({}), "node-1")).await;
    shown.begin().await;
    shown.names(&["a".to_owned()]).await;
    front.process.kill();
    shown
        .page
        .is_true(&format!("{STATE}.startsWith('Not live. ')"))
        .await;
    shown.names(&["a".to_owned()]).await;
    shown.create(&pod_on_node("b", json!({}), "node-1")).await;
    front.restart().await;
    shown.names(&["a".to_owned(), "b".to_owned()]).await;
    shown.page.shows(STATE, &json!("Live")).await;
}

/// The server ends a live answer with a 410 when the caller's rights change.
#[tokio::test]
async fn other_rights_show_without_a_reload() {
    skip_under_oracle!("kube-apiserver has no queries");
    let world = World::start(2, enable).await;
    may_ask(&world, &world.tenant).await;
    let both: Vec<&String> = world.namespaces.iter().collect();
    for namespace in &both {
        world.grant(namespace).await;
    }
    world.settled(&world.client(), &both).await;
    let folder = process::temporary_folder("tenant");
    let certificate = world.certificate();
    let who = Credential::Certificate(&certificate);
    let (url, ca) = (world.front.url(), world.cluster.ca());
    let kubeconfig = kubeconfig::write(&folder, "tenant", &url, Some(ca), who);
    let shown = Shown::open_as(&kubeconfig, String::new()).await;
    shown.page.shows(STATE, &json!("Live")).await;
    shown.fill("resource", "configmaps").await;
    let ours = "object.metadata.name in ['a', 'b', 'c']";
    shown.fill("where", ours).await;
    shown.page.shows(TOTAL, &json!("1–6 of 6")).await;
    world.revoke(&world.namespaces[0]).await;
    shown.page.shows(TOTAL, &json!("1–3 of 3")).await;
    shown.page.shows(STATE, &json!("Live")).await;
    world.grant(&world.namespaces[0]).await;
    shown.page.shows(TOTAL, &json!("1–6 of 6")).await;
    world.front.stop().await;
}
