//! Measures the cost of a LIST of 10,000 pods: from apifront's cache, from
//! kube-apiserver's own cache, and from nginx, which serves the same bytes as a
//! static file. For each representation, measures the first list, later lists, and
//! the first list after 1% of the pods have changed. TLS, HTTP/2, resourceVersion=0.
//!
//! `make bench ARGS='cached_list --pods 10000 --rounds 4 --lists 5'`

use std::time::Duration;

use crate::support::lists::{self, List};
use crate::support::peers::Peer;
use crate::support::report::{self, Goal, median};
use crate::support::servers::{Server, Servers};
use crate::support::{cores, count, floor, pods, require, usage};
use harness::client::{Client, Protocol};
use harness::media_types::PARTIAL_LIST_PROTOBUF;
use harness::process::temporary_folder;

const PATH: &str = "/api/v1/pods?resourceVersion=0";

/// A representation. apifront must use `goal` times less CPU than kube-apiserver.
struct Representation {
    name: &'static str,
    headers: &'static [(&'static str, &'static str)],
    protocol: Protocol,
    goal: f64,
}

const JSON: (&str, &str) = ("accept", "application/json");
const PROTOBUF: (&str, &str) = ("accept", "application/vnd.kubernetes.protobuf");
const GZIP: (&str, &str) = ("accept-encoding", "gzip");

/// The representations, in the order of measurement. Pods are kept as protobuf, and
/// the other representations are made from that.
const REPRESENTATIONS: [Representation; 8] = [
    Representation {
        name: "protobuf",
        headers: &[PROTOBUF],
        protocol: Protocol::Http2,
        goal: 12.0,
    },
    Representation {
        name: "protobuf, gzip",
        headers: &[PROTOBUF, GZIP],
        protocol: Protocol::Http2,
        goal: 50.0,
    },
    Representation {
        name: "PartialObjectMetadata, protobuf",
        headers: &[("accept", PARTIAL_LIST_PROTOBUF)],
        protocol: Protocol::Http2,
        goal: 10.0,
    },
    Representation {
        name: "Table",
        headers: &[("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")],
        protocol: Protocol::Http2,
        goal: 12.0,
    },
    Representation {
        name: "PartialObjectMetadata",
        headers: &[(
            "accept",
            "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        )],
        protocol: Protocol::Http2,
        goal: 10.0,
    },
    Representation {
        name: "JSON",
        headers: &[JSON],
        protocol: Protocol::Http2,
        goal: 20.0,
    },
    // Clients that are not written in Go often use HTTP/1.1.
    Representation {
        name: "JSON, HTTP/1.1",
        headers: &[JSON],
        protocol: Protocol::Http1,
        goal: 20.0,
    },
    Representation {
        name: "JSON, gzip",
        headers: &[JSON, GZIP],
        protocol: Protocol::Http2,
        goal: 100.0,
    },
];

/// The most CPU for JSON, as a multiple of nginx's for the same bytes.
const NGINX_GOAL: f64 = 1.2;
/// The most CPU for PartialObjectMetadata in protobuf, as a multiple of the floor.
const FLOOR_GOAL: f64 = 1.25;
/// The most resident memory, as a multiple of the JSON of all pods, plus what
/// the program itself needs.
const MEMORY_GOAL: f64 = 1.5;
const MEMORY_BASE: u64 = 60 << 20;

/// In this time the garbage of some lists is collected.
const REST: Duration = Duration::from_secs(2);

pub fn main() {
    require(&[("nginx", "nginx"), ("taskset", "util-linux")]);
    crate::support::run(cached_list());
}

async fn cached_list() {
    let number = count("pods", 10_000);
    let rounds = count("rounds", 4);
    let times = count("lists", 5);
    let fill = async |admin: &Client| pods::create(admin, number).await;
    let servers = Servers::start(&[], fill).await;
    servers.warm("pods").await;
    let (direct, ours) = (servers.direct(), servers.front());
    let folder = temporary_folder("list");
    let body = direct.client.get_as(PATH, JSON.1).await.body;
    println!(
        "JSON list of {:.1} MB, {} bytes per pod",
        body.len() as f64 / 1e6,
        body.len() / number
    );
    std::fs::write(folder.join("answer.json"), &body).expect("answer.json");
    let serving = Some(&servers.cluster.certificates.serving);
    let peer = Peer::nginx_file(cores::SERVER, &folder, serving).await;
    let nginx = Server {
        name: "nginx",
        client: Client::tls(peer.address, servers.cluster.ca(), None),
        pid: peer.process.pid(),
    };

    let mut rows = Vec::new();
    let mut json = (f64::NAN, f64::NAN);
    let mut partial = f64::NAN;
    for representation in &REPRESENTATIONS {
        let is_json = representation.name == "JSON";
        let direct = direct.over(representation.protocol);
        let ours = ours.over(representation.protocol);
        let (mut a, mut b, mut c) = (Vec::new(), Vec::new(), Vec::new());
        let first = round(&ours, representation.headers, 1).await;
        let _warm = round(&direct, representation.headers, 1).await;
        let resident = ours.resident_megabytes();
        // The servers do not take turns here: kube-apiserver keeps collecting
        // garbage after its lists, on the same core, which would make apifront's
        // lists more expensive.
        for _ in 0..rounds {
            a.push(round(&direct, representation.headers, 1).await);
        }
        tokio::time::sleep(REST).await;
        for _ in 0..rounds {
            b.push(round(&ours, representation.headers, times).await);
            if is_json {
                c.push(round(&nginx, &[], times).await);
            }
        }
        let mut changed = Vec::new();
        for _ in 0..rounds {
            change(&servers, number).await;
            changed.push(round(&ours, representation.headers, 1).await);
        }
        let (theirs, own, file) = (cpu_ms(&a), cpu_ms(&b), cpu_ms(&c));
        if is_json {
            json = (own, file);
        }
        let bytes = b
            .iter()
            .map(|round| round.list.bytes)
            .max()
            .unwrap_or_default();
        let certificates = &servers.cluster.certificates;
        let floor = floor::per_delivery(certificates, 1, 1, times * rounds, bytes) / 1e3;
        if representation.name == "PartialObjectMetadata, protobuf" {
            partial = own / floor;
        }
        // A forwarded list costs apifront little and the upstream everything. A list
        // in another encoding is different work.
        let cached = b.iter().all(|b| b.list.cached());
        let encoding = |r: &Round| r.list.headers.get("content-encoding").cloned();
        let alike = b.iter().zip(&a).all(|(b, a)| encoding(b) == encoding(a));
        rows.push(vec![
            representation.name.to_owned(),
            format!("{:.1}", megabytes(&b)),
            format!("{theirs:.0}"),
            format!("{:.0}", cpu_ms(&[first])),
            format!("{:.1}", cpu_ms(&changed)),
            format!("{own:.1}"),
            format!("{floor:.1}"),
            if file.is_nan() {
                String::new()
            } else {
                format!("{file:.1}")
            },
            match (cached, alike) {
                (true, true) => format!("{:.1}x", theirs / own),
                (true, false) => "not compressed".to_owned(),
                (false, _) => "forwarded".to_owned(),
            },
            format!(">= {}x", representation.goal),
            if cached && alike && theirs / own >= representation.goal {
                "met".to_owned()
            } else {
                "missed".to_owned()
            },
            format!("{resident:.0}"),
        ]);
    }
    println!("\nLIST of {number} pods, CPU ms per list, median of {rounds}");
    let heads = [
        "representation",
        "MB",
        "kube-apiserver",
        "apifront, first",
        "1% changed",
        "later",
        "floor",
        "nginx",
        "kube-apiserver ÷ apifront",
        "goal",
        "",
        "MB resident after the first",
    ];
    report::table(&heads, &rows);
    let goal = Goal::AtMost(NGINX_GOAL);
    report::compare("JSON: apifront ÷ nginx", json.0 / json.1, "x", goal);
    let goal = Goal::AtMost(FLOOR_GOAL);
    report::compare(
        "PartialObjectMetadata, protobuf: apifront ÷ floor",
        partial,
        "x",
        goal,
    );

    let theirs = direct.client.get_as(PATH, JSON.1).await.body;
    let own = ours.client.get_as(PATH, JSON.1).await.body;
    assert!(
        items(&theirs) == items(&own),
        "the two servers do not list the same bytes"
    );
    let (theirs, own) = (
        usage::resident_bytes(direct.pid),
        usage::resident_bytes(ours.pid),
    );
    println!("resident: kube-apiserver {} MB", theirs >> 20);
    let most = (MEMORY_GOAL * body.len() as f64) as u64 + MEMORY_BASE;
    report::compare(
        "resident: apifront",
        (own >> 20) as f64,
        " MB",
        Goal::AtMost((most >> 20) as f64),
    );
    servers.apifront.stop().await;
}

/// Changes every hundredth pod, and waits until apifront has seen the changes.
async fn change(servers: &Servers, number: usize) {
    let admin = servers.cluster.admin_client();
    for n in (0..number).step_by(100) {
        pods::relabel(&admin, n).await;
    }
    let version = pods::version(&admin).await;
    let known = format!("/api/v1/pods?limit=1&resourceVersion={version}");
    servers.front().client.get(&known).await.expect(200);
}

struct Round {
    cpu: Duration,
    list: List,
}

async fn round(server: &Server, headers: &[(&str, &str)], times: usize) -> Round {
    let debug = [("x-apifront-debug", "cache")];
    let headers = [headers, &debug].concat();
    let before = server.cpu();
    let mut list = lists::read(&server.client, PATH, &headers).await;
    for _ in 1..times {
        list = lists::read(&server.client, PATH, &headers).await;
    }
    Round {
        cpu: (server.cpu() - before) / u32::try_from(times).expect("fewer lists"),
        list,
    }
}

/// Returns a list without its head, whose resourceVersion advances by itself.
fn items(list: &[u8]) -> &[u8] {
    const ITEMS: &[u8] = b"\"items\":[";
    let at = list.windows(ITEMS.len()).position(|w| w == ITEMS);
    &list[at.expect("a list")..]
}

fn cpu_ms(rounds: &[Round]) -> f64 {
    median(rounds.iter().map(|r| r.cpu.as_secs_f64() * 1e3))
}

fn megabytes(rounds: &[Round]) -> f64 {
    median(rounds.iter().map(|r| r.list.bytes as f64 / 1e6))
}
