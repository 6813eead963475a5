//! Measures lists through a view: the time of a tenant's first list, for which
//! apifront checks the rights in each of its namespaces, and the CPU of later lists.
//! These are compared with lists of the same objects by a user who may read
//! everything. TLS, HTTP/2, JSON, resourceVersion=0.
//!
//! A round measures both, in changing order, and the median of the rounds' ratios
//! counts.
//!
//! `make bench ARGS='views --namespaces 20 --objects 2000 --lists 200'`

use std::time::Instant;

use harness::client::Client;
use harness::cluster::grant;
use harness::objects;
use serde_json::json;

use crate::support::report::{self, Goal, median, percentile};
use crate::support::servers::Servers;
use crate::support::{configmaps, count, require};

const TENANTS: usize = 20;
const ROUNDS: usize = 11;
const PATH: &str = "/api/v1/configmaps?resourceVersion=0";

/// The most time of a first list, in milliseconds.
const FIRST: f64 = 300.0;
/// The most CPU of a list through a view, as a multiple of a plain list.
const LATER: f64 = 1.2;

pub fn main() {
    require(&[("taskset", "util-linux")]);
    crate::support::run(views());
}

async fn views() {
    let namespaces = count("namespaces", 20);
    let (total, lists) = (count("objects", 2_000), count("lists", 200));
    let fill = async |admin: &Client| {
        configmaps::create_in(admin, namespaces, total).await;
        let grants = [
            objects::role("reader", &[""], &["configmaps"], &["list", "watch"]),
            objects::role_binding("reader", "reader", "Group", "tenants"),
        ];
        for n in 0..namespaces {
            grant(admin, configmaps::namespace(n).as_str(), &grants).await;
        }
    };
    let servers = Servers::start(&[], fill).await;
    let tenants: Vec<String> = (0..TENANTS).map(|n| format!("tenant-{n}")).collect();
    let users = json!({ "users": tenants });
    servers.configure(|config| config["views"] = users).await;
    servers.warm("configmaps").await;

    let mut firsts = Vec::new();
    let mut clients = Vec::new();
    for tenant in &tenants {
        let certificate = servers.cluster.certificates.client(tenant, &["tenants"]);
        let client = servers.apifront.client(Some(&certificate));
        let began = Instant::now();
        let bytes = list(&client).await;
        firsts.push(began.elapsed().as_secs_f64() * 1e3);
        assert!(bytes > total * configmaps::DATA_BYTES, "{bytes} bytes");
        clients.push(client);
    }
    println!("\n{TENANTS} tenants of {namespaces} namespaces, {total} ConfigMaps of 1 KB");
    println!(
        "first list: {:.1} ms (median), {:.1} ms (slowest)",
        median(firsts.iter().copied()),
        percentile(&firsts, 100.0)
    );
    let slowest = percentile(&firsts, 100.0);
    report::compare("slowest first list", slowest, " ms", Goal::AtMost(FIRST));

    let everything = servers.front().client;
    let (of_all, of_view) = (list(&everything).await, list(&clients[0]).await);
    println!("bytes of a list: {of_view} through a view, {of_all} of everything");
    let mut ratios = Vec::new();
    let mut micros = Vec::new();
    for round in 0..ROUNDS {
        let mut of_round = [0.0; 2];
        for through_view in [round % 2 == 0, round % 2 != 0] {
            let client = match through_view {
                true => &clients[round % TENANTS],
                false => &everything,
            };
            list(client).await;
            let work = async {
                for _ in 0..lists {
                    list(client).await;
                }
            };
            let ((), cost) = servers.measure(work).await;
            let each = cost.apifront.as_secs_f64() * 1e6 / lists as f64;
            of_round[usize::from(through_view)] = each;
        }
        ratios.push(of_round[1] / of_round[0]);
        micros.push(of_round);
    }
    let [plain, view] = [0, 1].map(|side| median(micros.iter().map(|of| of[side])));
    println!("CPU per list: {view:.0} µs through a view, {plain:.0} µs without");
    let ratio = median(ratios);
    report::compare("a list through a view", ratio, "x", Goal::AtMost(LATER));
    servers.apifront.stop().await;
}

async fn list(client: &Client) -> usize {
    let answer = client.get(PATH).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.body.len()
}
