//! An APIService may move a group from kube-apiserver's own storage to another
//! server, and back. apifront must not show one server's kept objects as the
//! other's.

use http::Method;
use serde_json::{Value, json};

use crate::harness::apifront::Apifront;
use crate::harness::backend::{Backend, Mood};
use crate::harness::client::Client;
use crate::harness::eventually;
use crate::harness::expect::DEBUG;
use crate::harness::records::RECORDS;
use crate::harness::twins::{
    API_SERVICES, Parts, Registration, SETTLES_WITHIN, Twins, expose, settled,
};
use crate::harness::watch::Watch;

const GROUP: &str = "moving.example.com";
const LIST: &str = "/apis/moving.example.com/v1/records";
/// The user as whom apifront fills its stores.
const OWN_USER: &str = "apifront";
const NEWEST: &str = "/apis/moving.example.com/v1/records?resourceVersion=0";

/// A cluster with a custom resource that other servers could serve.
struct World {
    twins: Twins,
    backends: Vec<Backend>,
    front: Apifront,
}

impl World {
    async fn start(aggregated: &[&str]) -> Self {
        let mut backends = Vec::new();
        let twins = Twins::start(async |parts: &Parts| {
            backends.extend([0, 1].map(|_| parts.backend(GROUP, Mood::Records)));
            Vec::new()
        })
        .await;
        let admin = twins.direct_client();
        for registration in registrations(&twins, &backends) {
            expose(&admin, registration.service()).await;
        }
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("records.{GROUP}") },
            "spec": {
                "group": GROUP,
                "scope": "Cluster",
                "names": { "plural": "records", "singular": "record", "kind": "Record" },
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": {
                        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    } },
                }],
            },
        });
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        admin.post(definitions, &definition).await.expect(201);
        let object = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "Record",
            "metadata": { "name": "local" },
        });
        eventually("the custom resource is served", SETTLES_WITHIN, || async {
            admin.post(LIST, &object).await.status == 201
        })
        .await;
        let aggregated = json!(aggregated);
        let front = Apifront::start(&twins.oracle, |config| {
            config["cache"]["aggregated"] = aggregated;
        })
        .await;
        front.warm(&front.admin_client(), NEWEST).await;
        Self {
            twins,
            backends,
            front,
        }
    }

    /// Moves the group to this backend, or back to kube-apiserver itself.
    async fn move_to(&self, backend: Option<usize>) {
        let admin = self.twins.direct_client();
        let path = format!("{API_SERVICES}/v1.{GROUP}");
        eventually("the group is moved", SETTLES_WITHIN, || async {
            let mut service = admin.get(&path).await.expect(200);
            service["metadata"]["labels"] = Value::Null;
            service["spec"] = match backend {
                Some(at) => registrations(&self.twins, &self.backends)[at].manifest["spec"].clone(),
                None => json!({
                    "group": GROUP, "version": "v1",
                    "groupPriorityMinimum": 1000, "versionPriority": 100,
                }),
            };
            let body = service.to_string();
            admin.send(Method::PUT, &path, &[], body).await.status == 200
        })
        .await;
        settled(&admin, &format!("v1.{GROUP}"), true).await;
    }

    async fn stop(self) {
        self.front.stop().await;
    }
}

fn registrations(twins: &Twins, backends: &[Backend]) -> Vec<Registration> {
    let register = |(at, backend): (usize, &Backend)| {
        let service = format!("moving-{at}");
        Registration::new(GROUP, "v1", &service, backend.port()).trust(twins.oracle.ca())
    };
    backends.iter().enumerate().map(register).collect()
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().into_iter().flatten();
    items
        .filter_map(|i| i["metadata"]["name"].as_str())
        .collect()
}

/// Returns the names, and whether they came from the cache.
async fn asked(client: &Client) -> (Vec<String>, bool) {
    let answer = client.send(Method::GET, NEWEST, &[DEBUG], "").await;
    let hit = answer.is_hit();
    let list = answer.json();
    (names(&list).into_iter().map(str::to_owned).collect(), hit)
}

async fn become_(client: &Client, expected: &[&str], hit: bool) {
    let what = format!("{expected:?}, from the cache: {hit}");
    eventually(&what, SETTLES_WITHIN, || async {
        let (names, was_hit) = asked(client).await;
        names == expected && was_hit == hit
    })
    .await;
}

#[tokio::test]
async fn nothing_is_kept_of_a_group_that_moves() {
    skip_under_oracle!("kube-apiserver has no cache of other servers' objects");
    let world = World::start(&[]).await;
    let client = world.front.admin_client();
    let mut watch = Watch::open(&client, &format!("{NEWEST}&watch=1")).await;
    assert_eq!(watch.next().await.expect("an event").name(), "local");

    world.move_to(Some(0)).await;
    // The watch ends, so that its client lists anew.
    watch.next().await.expect_err("the end");
    become_(&client, &RECORDS, false).await;
    // apifront no longer follows the other server's objects.
    let seen = world.backends[0].seen();
    assert!(
        !seen.iter().any(|seen| seen.line.contains("watch=")),
        "{seen:?}"
    );

    world.move_to(None).await;
    become_(&client, &["local"], true).await;
    world.stop().await;
}

#[tokio::test]
async fn a_named_group_that_moves_is_listed_anew() {
    skip_under_oracle!("kube-apiserver has no cache of other servers' objects");
    let world = World::start(&["*"]).await;
    let client = world.front.admin_client();
    for at in [0, 1] {
        world.move_to(Some(at)).await;
        eventually("the other server is listed", SETTLES_WITHIN, || async {
            asked(&client).await;
            let seen = world.backends[at].seen();
            seen.iter().any(|seen| {
                seen.line.contains("/records?") && seen.header("x-remote-user") == Some(OWN_USER)
            })
        })
        .await;
        become_(&client, &RECORDS, true).await;
    }
    world.stop().await;
}
