//! Random rights and random queries: what a query shows and counts is what its caller may
//! list, and a query about anything else is refused.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::rights::may_ask;
use super::{QUERIES, enable, query};
use crate::harness::client::Client;
use crate::harness::cluster::{grant, unique};
use crate::harness::eventually;
use crate::harness::expect::DEBUG;
use crate::harness::objects::{config_map, role, role_binding};
use crate::harness::volume;
use crate::views::world::{MAPS, SOON, World};

const QUERIES_ASKED: &str = "APIFRONT_TEST_QUERIES";
const DEFAULT_QUERIES: usize = 400;
const NAMESPACES: usize = 5;
const USERS: usize = 4;

/// A user, and the namespaces in which they may list.
struct User {
    name: String,
    allowed: Vec<bool>,
}

impl User {
    fn client(&self, world: &World) -> (Client, Client) {
        let certificate = world.cluster.certificates.client(&self.name, &[]);
        let front = world.front.client(Some(&certificate));
        let direct = world.cluster.client(Some(&certificate));
        (front.with_header(DEBUG.0, DEBUG.1), direct)
    }
}

/// A config map of this test: its namespace, its name, and its data.
struct Map {
    namespace: String,
    name: String,
    team: Option<&'static str>,
    weight: i64,
}

impl Map {
    fn random(rng: &mut StdRng, namespace: &str, n: usize) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: format!("m{n}"),
            team: [None, Some("red"), Some("blue")]
                .choose(rng)
                .copied()
                .flatten(),
            weight: rng.random_range(0..4),
        }
    }

    fn object(&self) -> Value {
        let labels = match self.team {
            Some(team) => json!({ "of": "rights", "team": team }),
            None => json!({ "of": "rights" }),
        };
        config_map(
            &self.name,
            labels,
            json!({ "weight": self.weight.to_string() }),
        )
    }
}

/// What a query asks about config maps.
struct Question {
    namespaces: Vec<usize>,
    team: Option<&'static str>,
    least: i64,
    descending: bool,
    limit: usize,
    offset: usize,
}

impl Question {
    fn random(rng: &mut StdRng) -> Self {
        let count = rng.random_range(0..3);
        Self {
            namespaces: (0..count)
                .map(|_| rng.random_range(0..NAMESPACES))
                .collect(),
            team: [None, Some("red"), Some("blue")]
                .choose(rng)
                .copied()
                .flatten(),
            least: rng.random_range(0..4),
            descending: rng.random_bool(0.5),
            limit: rng.random_range(1..12),
            offset: rng.random_range(0..6),
        }
    }

    fn query(&self, world: &World) -> Value {
        let namespaces = self.namespaces.iter().map(|n| &world.namespaces[*n]);
        let team = self
            .team
            .map_or(String::new(), |team| format!(",team={team}"));
        query(&json!({
            "resource": { "version": "v1", "resource": "configmaps" },
            "namespaces": namespaces.collect::<Vec<_>>(),
            "labelSelector": format!("of=rights{team}"),
            "where": format!("int(object.data.weight) >= {}", self.least),
            "orderBy": [{
                "expression": "int(object.data.weight)", "descending": self.descending,
            }],
            "countBy": ["object.metadata.namespace"],
            "limit": self.limit,
            "offset": self.offset,
        }))
    }

    /// Returns the total, the rows and the counts, of objects in the namespaces that are
    /// asked about. Without any, all are.
    fn answer(&self, world: &World, maps: &[Map]) -> (usize, Vec<String>, BTreeMap<String, u64>) {
        let is_asked = |map: &&Map| {
            let mut asked = self.namespaces.iter().map(|n| &world.namespaces[*n]);
            self.namespaces.is_empty() || asked.any(|name| *name == map.namespace)
        };
        let mut found: Vec<&Map> = maps
            .iter()
            .filter(is_asked)
            .filter(|map| self.team.is_none_or(|team| map.team == Some(team)))
            .filter(|map| map.weight >= self.least)
            .collect();
        let direction = if self.descending { -1 } else { 1 };
        found.sort_by_key(|map| (direction * map.weight, &map.namespace, &map.name));
        let mut counts = BTreeMap::new();
        for map in &found {
            *counts.entry(map.namespace.clone()).or_default() += 1;
        }
        let page = found.iter().skip(self.offset).take(self.limit);
        let rows = page.map(|map| format!("{}/{}", map.namespace, map.name));
        (found.len(), rows.collect(), counts)
    }
}

fn shown(status: &Value) -> (usize, Vec<String>, BTreeMap<String, u64>) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rows = status["rows"].as_array().into_iter().flatten();
    let counts = status["counts"].as_array().into_iter().flatten();
    (
        usize::try_from(status["total"].as_u64().unwrap()).unwrap(),
        rows.map(|row| format!("{}/{}", text(&row["namespace"]), text(&row["name"])))
            .collect(),
        counts
            .map(|count| (text(&count["values"][0]), count["count"].as_u64().unwrap()))
            .collect(),
    )
}

#[tokio::test]
async fn nothing_is_shown_or_counted_that_may_not_be_listed() {
    skip_under_oracle!("kube-apiserver has no queries");
    let seed = volume::seed("nothing_is_shown_or_counted_that_may_not_be_listed");
    let mut rng = StdRng::seed_from_u64(seed);
    let world = World::start(NAMESPACES, |config| {
        enable(config);
        config.as_object_mut().unwrap().remove("views");
    })
    .await;
    let admin = world.admin();
    let mut maps = Vec::new();
    for namespace in &world.namespaces {
        for n in 0..rng.random_range(2..8) {
            let map = Map::random(&mut rng, namespace, n);
            let path = format!("/api/v1/namespaces/{namespace}/configmaps");
            admin.post(&path, &map.object()).await.expect(201);
            maps.push(map);
        }
    }
    let mut users = Vec::new();
    for _ in 0..USERS {
        let name = unique("user");
        may_ask(&world, &name).await;
        let allowed: Vec<bool> = (0..NAMESPACES).map(|_| rng.random_bool(0.5)).collect();
        let granted = world.namespaces.iter().zip(&allowed);
        for (namespace, _) in granted.filter(|(_, may)| **may) {
            let reads = unique("reads");
            let role = role(&reads, &[""], &["configmaps"], &["list"]);
            let binding = role_binding(&reads, &reads, "User", &name);
            grant(&admin, namespace, &[role, binding]).await;
        }
        users.push(User { name, allowed });
    }
    let mut clients = Vec::new();
    for user in &users {
        let (front, direct) = user.client(&world);
        // kube-apiserver is the judge of who may list what.
        for (namespace, may) in world.namespaces.iter().zip(&user.allowed) {
            let path = format!("/api/v1/namespaces/{namespace}/configmaps");
            let expected = if *may { 200 } else { 403 };
            eventually("the rights of a user", SOON, || async {
                direct.get(&path).await.status == expected
            })
            .await;
        }
        direct.get(MAPS).await.expect(403);
        let question = query(&json!({ "resource": { "version": "v1", "resource": "configmaps" } }));
        eventually("the right to ask", SOON, || async {
            let status = front.post(QUERIES, &question).await.expect(403);
            !status["message"].as_str().unwrap().contains("queries")
        })
        .await;
        clients.push(front);
    }
    let (mut answered, mut refused) = (0, 0);
    for _ in 0..volume::work(QUERIES_ASKED, DEFAULT_QUERIES) {
        let question = Question::random(&mut rng);
        let who = rng.random_range(0..=USERS);
        let admin_client = world.front.admin_client().with_header(DEBUG.0, DEBUG.1);
        let client = clients.get(who).unwrap_or(&admin_client);
        let may_list = match users.get(who) {
            Some(user) => {
                !question.namespaces.is_empty()
                    && question.namespaces.iter().all(|n| user.allowed[*n])
            }
            None => true,
        };
        let body = question.query(&world);
        let answer = client.post(QUERIES, &body).await;
        if !may_list {
            assert_eq!(answer.status, 403, "{body}\n{}", answer.text());
            let named = maps
                .iter()
                .any(|map| answer.text().contains(&format!("\"{}\"", map.name)));
            assert!(!named, "{}", answer.text());
            refused += 1;
            continue;
        }
        assert!(answer.is_hit(), "{body}\n{}", answer.text());
        let status = answer.expect(201)["status"].take();
        assert_eq!(
            shown(&status),
            question.answer(&world, &maps),
            "{body}\n{status}"
        );
        answered += 1;
    }
    println!("{answered} answered, {refused} refused");
    assert!(
        answered > 20 && refused > 20,
        "{answered} answered, {refused} refused"
    );
    world.front.stop().await;
}
