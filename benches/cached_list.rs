//! What a LIST of 10,000 pods costs a server: apifront from its cache,
//! kube-apiserver from its own, nginx with the same bytes as a static file.
//! TLS, HTTP/2, resourceVersion=0.
//!
//! `cargo bench --bench cached_list -- --pods 10000 --rounds 4`

#[path = "../tests/harness/mod.rs"]
mod harness;
mod support;

use std::time::{Duration, Instant};

use harness::apifront::Apifront;
use harness::client::Client;
use harness::cluster::Cluster;
use harness::process::temporary_folder;
use http::HeaderValue;
use http_body_util::BodyExt;
use support::peers::Peer;
use support::report::{self, Goal, median};
use support::{argument, cores, pods, require, usage};

const PATH: &str = "/api/v1/pods?resourceVersion=0";
/// Of the same store, for who only wants to know whether it is there.
const WARM: &str = "/api/v1/namespaces/none/pods?resourceVersion=0";

/// Times less CPU than kube-apiserver.
struct Representation {
    name: &'static str,
    headers: &'static [(&'static str, &'static str)],
    goal: f64,
}

const JSON: (&str, &str) = ("accept", "application/json");
const PROTOBUF: (&str, &str) = ("accept", "application/vnd.kubernetes.protobuf");
const GZIP: (&str, &str) = ("accept-encoding", "gzip");

const REPRESENTATIONS: [Representation; 6] = [
    Representation {
        name: "JSON",
        headers: &[JSON],
        goal: 20.0,
    },
    Representation {
        name: "protobuf",
        headers: &[PROTOBUF],
        goal: 12.0,
    },
    Representation {
        name: "JSON, gzip",
        headers: &[JSON, GZIP],
        goal: 100.0,
    },
    Representation {
        name: "protobuf, gzip",
        headers: &[PROTOBUF, GZIP],
        goal: 50.0,
    },
    Representation {
        name: "Table",
        headers: &[("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")],
        goal: 12.0,
    },
    Representation {
        name: "PartialObjectMetadata",
        headers: &[(
            "accept",
            "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        )],
        goal: 10.0,
    },
];

/// Times nginx's CPU for the same JSON bytes.
const NGINX_GOAL: f64 = 1.2;
/// Times the JSON of all pods, plus what the program itself needs.
const MEMORY_GOAL: f64 = 1.5;
const MEMORY_BASE: u64 = 60 << 20;

fn main() {
    require(&[("nginx", "nginx"), ("taskset", "util-linux")]);
    support::run(cached_list());
}

async fn cached_list() {
    let count = usize::try_from(argument("pods", 10_000)).expect("fewer pods");
    let rounds = argument("rounds", 4);
    let cluster = Cluster::start(&[]).await;
    let began = Instant::now();
    pods::create(&cluster.admin_client(), count).await;
    println!("{count} pods created in {:.0?}", began.elapsed());

    cores::pin(cluster.apiserver.pid(), cores::SERVER);
    cores::pin(std::process::id(), cores::SERVER);
    let apifront = Apifront::start(&cluster, |_| {}).await;
    cores::pin(std::process::id(), cores::CLIENT);
    apifront.warm(&apifront.admin_client(), WARM).await;

    let direct = Server {
        client: cluster.admin_client(),
        pid: cluster.apiserver.pid(),
    };
    let ours = Server {
        client: apifront.admin_client(),
        pid: apifront.process.pid(),
    };
    let folder = temporary_folder("list");
    let body = direct.client.get_as(PATH, JSON.1).await.body;
    assert!(
        items(&body) == items(&ours.client.get_as(PATH, JSON.1).await.body),
        "the two servers do not list the same bytes"
    );
    println!(
        "JSON list of {:.1} MB, {} bytes per pod",
        body.len() as f64 / 1e6,
        body.len() / count
    );
    std::fs::write(folder.join("answer.json"), &body).expect("answer.json");
    let serving = Some(&cluster.certificates.serving);
    let peer = Peer::nginx_file(cores::SERVER, &folder, serving).await;
    let nginx = Server {
        client: Client::tls(peer.address, cluster.ca(), None),
        pid: peer.process.pid(),
    };

    let mut rows = Vec::new();
    let mut json = (f64::NAN, f64::NAN);
    for representation in &REPRESENTATIONS {
        let is_json = representation.name == "JSON";
        let (mut a, mut b, mut c) = (Vec::new(), Vec::new(), Vec::new());
        // The first round fills whatever there is to fill.
        for round in 0..=rounds {
            let lists = (
                direct.list(representation.headers).await,
                ours.list(representation.headers).await,
            );
            if is_json {
                let list = nginx.list(&[]).await;
                if round > 0 {
                    c.push(list);
                }
            }
            if round > 0 {
                a.push(lists.0);
                b.push(lists.1);
            }
        }
        let (theirs, own, file) = (cpu_ms(&a), cpu_ms(&b), cpu_ms(&c));
        if is_json {
            json = (own, file);
        }
        // A forwarded list costs apifront little and upstream everything; one
        // in another encoding is another work.
        let cached = b.iter().all(|list| list.cached);
        let alike = b.iter().zip(&a).all(|(b, a)| b.encoding == a.encoding);
        rows.push(vec![
            representation.name.to_owned(),
            format!("{:.1}", megabytes(&b)),
            format!("{theirs:.0}"),
            format!("{own:.0}"),
            if file.is_nan() {
                String::new()
            } else {
                format!("{file:.0}")
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
        ]);
    }
    println!("\nLIST of {count} pods, CPU ms per list, median of {rounds}");
    let heads = [
        "representation",
        "MB",
        "kube-apiserver",
        "apifront",
        "nginx",
        "kube-apiserver ÷ apifront",
        "goal",
        "",
    ];
    report::table(&heads, &rows);
    let goal = Goal::AtMost(NGINX_GOAL);
    report::compare("JSON: apifront ÷ nginx", json.0 / json.1, "x", goal);

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
    apifront.stop().await;
}

struct Server {
    client: Client,
    pid: u32,
}

struct List {
    cpu: Duration,
    bytes: usize,
    encoding: Option<HeaderValue>,
    cached: bool,
}

impl Server {
    async fn list(&self, headers: &[(&str, &str)]) -> List {
        let before = usage::cpu_time(self.pid);
        let debug = [("x-apifront-debug", "cache")];
        let response = self.client.open(PATH, &[headers, &debug].concat()).await;
        assert_eq!(response.status(), 200);
        let header = |name| response.headers().get(name).cloned();
        let cached = header("x-apifront-cache").is_some_and(|v| v.as_bytes().starts_with(b"hit"));
        let encoding = header("content-encoding");
        let mut body = response.into_body();
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            bytes += frame
                .expect("the whole list")
                .data_ref()
                .map_or(0, |d| d.len());
        }
        List {
            cpu: usage::cpu_time(self.pid) - before,
            bytes,
            encoding,
            cached,
        }
    }
}

/// A list without its head, whose resourceVersion goes on by itself.
fn items(list: &[u8]) -> &[u8] {
    const ITEMS: &[u8] = b"\"items\":[";
    let at = list.windows(ITEMS.len()).position(|w| w == ITEMS);
    &list[at.expect("a list")..]
}

fn cpu_ms(lists: &[List]) -> f64 {
    median(lists.iter().map(|l| l.cpu.as_secs_f64() * 1e3))
}

fn megabytes(lists: &[List]) -> f64 {
    median(lists.iter().map(|l| l.bytes as f64 / 1e6))
}
