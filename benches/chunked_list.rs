//! Measures the listing of 50,000 objects in pages of 500 during 500 writes a
//! second: by kube-apiserver, by apifront, and by both in turn with each other's
//! continue tokens. All pages must have one version, and together they must be the
//! state at that version. TLS, HTTP/2, JSON, resourceVersion unset as kubectl asks.
//!
//! `make bench ARGS='chunked_list --objects 50000 --page 500 --writes 500'`

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::support::report;
use crate::support::servers::{Server, Servers};
use crate::support::{argument, configmaps, count, require};
use harness::client::{Answer, Client};
use http::Method;
use serde_json::Value;

const PATH: &str = "/api/v1/configmaps";
/// The length of a prefix that contains a list's metadata.
const HEAD: usize = 1 << 10;
/// The time for which the writers run alone, to measure their cost.
const QUIET: Duration = Duration::from_secs(5);

pub fn main() {
    require(&[("taskset", "util-linux")]);
    crate::support::run(chunked_list());
}

async fn chunked_list() {
    let (objects, page) = (count("objects", 50_000), count("page", 500));
    let rate = argument("writes", 500);
    let fill = async |admin: &Client| configmaps::create(admin, objects).await;
    let servers = Servers::start(&[], fill).await;
    servers.warm("configmaps").await;

    let admin = servers.cluster.admin_client();
    let stop = Cell::new(false);
    let began = Instant::now();
    let writing = async {
        let written = configmaps::write(&admin, objects, rate, &stop).await;
        written as f64 / began.elapsed().as_secs_f64()
    };
    let listing = async {
        let rows = listings(&servers, page).await;
        stop.set(true);
        rows
    };
    let (written, rows) = futures::join!(writing, listing);
    println!("\n{objects} objects in pages of {page}, {written:.0} writes/s meanwhile");
    let heads = [
        "pages by",
        "pages",
        "objects",
        "versions",
        "as the exact list",
        "hits",
        "wall s",
        "CPU s kube-apiserver",
        "CPU s apifront",
    ];
    report::table(&heads, &rows);
    println!("CPU of the writes, as they cost when nobody lists, is taken off");
    for server in [servers.direct(), servers.front()] {
        println!(
            "resident: {} {:.0} MB",
            server.name,
            server.resident_megabytes()
        );
    }
    servers.apifront.stop().await;
}

async fn listings(servers: &Servers, page: usize) -> Vec<Vec<String>> {
    // By now both caches have seen some writes.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (direct, front) = (servers.direct(), servers.front());
    let mut rows = Vec::new();
    for (name, turns) in [
        ("kube-apiserver", vec![&direct]),
        ("apifront", vec![&front]),
        ("both in turn", vec![&front, &direct]),
    ] {
        let ((), quiet) = servers.measure(tokio::time::sleep(QUIET)).await;
        let (pages, cost) = servers.measure(traverse(&turns, page)).await;
        let listing = Listing::from_pages(&pages);
        let alone = cost.wall.as_secs_f64() / quiet.wall.as_secs_f64();
        let added = |with: Duration, without: Duration| {
            format!("{:.2}", with.as_secs_f64() - without.as_secs_f64() * alone)
        };
        let exact = exact(&direct.client, &listing).await;
        let one = listing.versions.len() == 1;
        rows.push(vec![
            name.to_owned(),
            format!("{}", pages.len()),
            format!("{}", listing.objects.len()),
            format!("{}", listing.versions.len()),
            match one && exact == listing.objects {
                true => "yes".to_owned(),
                false => "NO".to_owned(),
            },
            format!("{}", listing.hits),
            format!("{:.2}", cost.wall.as_secs_f64()),
            added(cost.apiserver, quiet.apiserver),
            added(cost.apifront, quiet.apifront),
        ]);
    }
    rows
}

#[derive(Default)]
struct Listing {
    /// The number of pages from apifront's cache.
    hits: usize,
    versions: BTreeSet<String>,
    objects: Objects,
}

/// The version of each object, by `namespace/name`.
type Objects = BTreeMap<String, String>;

/// Requests the pages, each from the next server in turn.
async fn traverse(turns: &[&Server], page: usize) -> Vec<Answer> {
    let headers = [
        ("x-apifront-debug", "cache"),
        ("accept", "application/json"),
    ];
    let (mut pages, mut path) = (Vec::new(), format!("{PATH}?limit={page}"));
    for server in turns.iter().cycle() {
        let answer = server.client.send(Method::GET, &path, &headers, "").await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let token = continue_token(&answer.body);
        pages.push(answer);
        match token {
            Some(token) => path = format!("{PATH}?limit={page}&continue={token}"),
            None => break,
        }
    }
    pages
}

/// Returns the continue token, which comes before the items and needs no escapes.
/// The body is not parsed, so that the measurement excludes the client's reading.
fn continue_token(list: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(list.get(..list.len().min(HEAD))?);
    let (_, rest) = head.split_once(r#""continue":""#)?;
    Some(rest.split_once('"')?.0.to_owned())
}

impl Listing {
    fn from_pages(pages: &[Answer]) -> Self {
        let mut listing = Self::default();
        for page in pages {
            listing.hits += usize::from(page.header("x-apifront-cache").starts_with("hit"));
            listing.add(&page.json());
        }
        listing
    }

    fn add(&mut self, list: &Value) {
        let version = text(&list["metadata"]["resourceVersion"]);
        self.versions.insert(version.to_owned());
        for item in list["items"].as_array().expect("items") {
            let meta = &item["metadata"];
            let key = format!("{}/{}", text(&meta["namespace"]), text(&meta["name"]));
            let seen = self
                .objects
                .insert(key, text(&meta["resourceVersion"]).to_owned());
            assert!(seen.is_none(), "an object is on two pages");
        }
    }
}

/// Returns the objects at the listing's version, according to kube-apiserver.
async fn exact(direct: &Client, listing: &Listing) -> Objects {
    let version = listing.versions.first().expect("a version");
    let path = format!("{PATH}?resourceVersion={version}&resourceVersionMatch=Exact");
    let list = direct.get_as(&path, "application/json").await.expect(200);
    let mut all = Listing::default();
    all.add(&list);
    all.objects
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
