//! Two apifronts in a row share connections between callers. No caller's request,
//! however malformed or large, may end another caller's stream.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::Method;
use http_body_util::BodyExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::json;
use tokio::net::TcpStream;

use super::{http1_bytes, http2_frames, nasty};
use crate::harness::apifront::Apifront;
use crate::harness::apiserver::TOKEN_USERS;
use crate::harness::client::{Client, Protocol};
use crate::harness::cluster::Cluster;
use crate::harness::raw::RawConnection;
use crate::harness::watch::Watch;
use crate::harness::{objects, ports, volume};

const EXECUTIONS: &str = "APIFRONT_TEST_EXECUTIONS";
const DEFAULT_EXECUTIONS: usize = 1_500;
const AT_ONCE: usize = 12;
const QUIET: Duration = Duration::from_millis(60);
/// The time within which a large request must be answered.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);

/// The first apifront does not cache this resource, so its watches reach the second
/// one.
const LIST: &str = "/api/v1/namespaces/default/configmaps";
const WATCH: &str =
    "/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=0&labelSelector=";

/// The sizes of heads: around HTTP/2's limit here and its maximum, four times that, and
/// the limit for HTTP/1.
const SIZES: [usize; 8] = [
    40_000, 60_000, 110_000, 250_000, 400_000, 600_000, 900_000, 1_030_000,
];

struct World {
    cluster: &'static Cluster,
    upper: Apifront,
    lower: Apifront,
    insecure: std::net::SocketAddr,
}

impl World {
    async fn start() -> Self {
        let cluster = Cluster::shared();
        let upper = Apifront::start(cluster, |_| {}).await;
        let insecure = ports::free();
        let lower = upper
            .start_below(cluster, |config| {
                config["cache"]["exclude"] = json!(["configmaps"]);
                config["serving"]["insecurePort"] = json!(insecure);
            })
            .await;
        Self {
            cluster,
            upper,
            lower,
            insecure: ports::loopback(insecure),
        }
    }

    fn client(&self, user: &str, groups: &[&str]) -> Client {
        let pair = self.cluster.certificates.client(user, groups);
        self.lower.client(Some(&pair))
    }
}

/// Returns the status, 0 if there was none, and the text of a server's error.
async fn large(client: &Client, rng: &mut StdRng) -> (u16, Option<String>) {
    let size = *SIZES.choose(rng).expect("sizes");
    let of_target = rng.random_range(0..size.min(59_000));
    let form = match rng.random_bool(0.5) {
        true => "watch=1&timeoutSeconds=1&",
        false => "",
    };
    let target = format!("{LIST}?{form}x={}", "b".repeat(of_target));
    let left = size.saturating_sub(of_target);
    let fields = rng.random_range(1..200);
    let value = "c".repeat(left / fields);
    let names: Vec<String> = (0..fields).map(|n| format!("x-large-{n}")).collect();
    let headers: Vec<(&str, &str)> = names.iter().map(|n| (n.as_str(), value.as_str())).collect();
    let asked = client.try_open(Method::GET, &target, &headers, Bytes::new());
    match tokio::time::timeout(ANSWERED_WITHIN, asked).await {
        Err(_) => panic!("no answer to a head of {size} bytes"),
        // A refusal may come before the end of the request.
        Ok(Err(_)) => (0, None),
        Ok(Ok(answer)) => {
            let status = answer.status();
            let text = match answer.into_body().collect().await {
                Ok(body) => String::from_utf8_lossy(&body.to_bytes()).into_owned(),
                Err(error) => error.to_string(),
            };
            (status.as_u16(), status.is_server_error().then_some(text))
        }
    }
}

async fn garbage(world: &World, rng: &mut StdRng) {
    let authorization = format!("Bearer {}", TOKEN_USERS[0].token);
    let Ok(stream) = TcpStream::connect(world.insecure).await else {
        return;
    };
    let mut connection = RawConnection::new(stream);
    let pieces = match rng.random_bool(0.5) {
        true => http1_bytes::stream(rng, &format!("Authorization: {authorization}\r\n")),
        false => vec![http2_frames::stream(rng, &authorization)],
    };
    for piece in &pieces {
        if connection.write(piece).await.is_err() {
            break;
        }
    }
    connection.read_until_quiet(QUIET).await;
}

async fn absurd(client: &Client, rng: &mut StdRng) {
    let nasty = nasty::random(rng);
    let fields = nasty.fields();
    let asked = client.try_open(Method::GET, &nasty.target, &fields, Bytes::new());
    let _ = tokio::time::timeout(QUIET, asked).await;
}

/// The length of a caller's group.
const GROUP: usize = 40_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_ends_the_streams_of_others() {
    skip_under_oracle!("kube-apiserver has no upstream");
    let seed = volume::seed("shared_connection");
    let wanted = volume::work(EXECUTIONS, DEFAULT_EXECUTIONS);
    let world = World::start().await;
    let group = "system:masters";
    // The first apifront adds the groups to the head.
    let long = "g".repeat(GROUP);
    let groups = [group, &long];
    let attackers = [
        world.client("mallory", &[group]).over(Protocol::Http1),
        world.client("mallory", &groups).over(Protocol::Http1),
        world.client("mallory", &[group]),
        world.client("mallory", &groups),
    ];
    let mut watches = Vec::new();
    for user in ["alice", "bob"] {
        let client = world.client(user, &[group]);
        let path = format!("{WATCH}watched%3D{user}");
        watches.push((user, Watch::open(&client, &path).await));
    }
    let statuses = parking_lot::Mutex::new(BTreeMap::<u16, usize>::new());
    let errors = parking_lot::Mutex::new(Vec::<String>::new());
    let one = |n: usize| {
        let (world, attackers, statuses, errors) = (&world, &attackers, &statuses, &errors);
        async move {
            let rng = &mut StdRng::seed_from_u64(seed.wrapping_add(n as u64));
            let attacker = attackers.choose(rng).expect("attackers");
            match n % 3 {
                0 => garbage(world, rng).await,
                1 => {
                    let (status, error) = large(attacker, rng).await;
                    *statuses.lock().entry(status).or_default() += 1;
                    errors.lock().extend(error);
                }
                _ => absurd(attacker, rng).await,
            }
        }
    };
    futures::stream::iter(0..wanted)
        .for_each_concurrent(AT_ONCE, one)
        .await;
    println!(
        "shared_connection: {wanted} requests, statuses of large ones {:?}",
        statuses.lock()
    );
    let writer = world.cluster.admin_client();
    for (user, watch) in &mut watches {
        let name = format!("shared-connection-{user}");
        let object = objects::config_map(&name, json!({"watched": user}), json!({}));
        writer.post(LIST, &object).await.expect(201);
        assert_eq!(watch.take_short(1).await, [format!("ADDED {name}")]);
    }
    let statuses = statuses.into_inner();
    assert!(statuses.contains_key(&200), "no large head was taken");
    // The second apifront did not end a connection that others use.
    assert!(!statuses.contains_key(&503), "{statuses:?} {errors:?}");
    world.lower.stop().await;
    world.upper.stop().await;
}
