//! Tests the status page. Its data are those of `/metrics` and `/debug/cache`, only
//! callers whom the upstream allows see it, and callers' names can neither fill it
//! nor inject anything.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::harness::apifront::Apifront;
use crate::harness::client::{Answer, Client};
use crate::harness::cluster::{Cluster, sum_metric};
use crate::harness::eventually;
use crate::harness::objects::cluster_role_binding;
use crate::harness::watch::Watch;

/// The user of the admin client.
const ADMIN: &str = "kubernetes-admin";
const SOON: Duration = Duration::from_secs(30);
const NAMESPACES: &str = "/api/v1/namespaces?resourceVersion=0";
const MEASURES: [&str; 5] = [
    "requests",
    "bytesSent",
    "watchesOpened",
    "answersFromCache",
    "bytesFromCache",
];

/// The most names in a ranking, and the most bytes of a name.
const MAX_ENTRIES: usize = 64;
const MAX_NAME: usize = 128;

async fn status(front: &Apifront) -> Value {
    front.admin_client().get("/status.json").await.expect(200)
}

/// Returns a name's entry in a ranking, or null.
fn entry(status: &Value, dimension: &str, measure: &str, name: &str) -> Value {
    let entries = status["topTalkers"][dimension][measure]["entries"].as_array();
    let entries = entries.expect("entries");
    let found = entries.iter().find(|entry| entry["name"] == name);
    found.cloned().unwrap_or_default()
}

fn count(status: &Value, dimension: &str, measure: &str, name: &str) -> u64 {
    entry(status, dimension, measure, name)["count"]
        .as_u64()
        .unwrap_or_default()
}

fn named<'a>(list: &'a Value, resource: &str) -> &'a Value {
    let list = list.as_array().expect("a list");
    let found = list.iter().find(|r| r["resource"] == resource);
    found.unwrap_or_else(|| panic!("no {resource} in {list:#?}"))
}

async fn as_agent(client: &Client, path: &str, agent: &str) -> Answer {
    let headers = [("user-agent", agent)];
    client.send(Method::GET, path, &headers, "").await
}

#[tokio::test]
async fn its_numbers_are_those_of_metrics_and_of_the_cache() {
    skip_under_oracle!("the page is apifront's");
    let cluster = Cluster::quiet();
    let front = Apifront::start(cluster, |_| {}).await;
    let client = front.admin_client();
    front.warm(&client, NAMESPACES).await;
    let _watch = Watch::open(&client, "/api/v1/namespaces?watch=1&resourceVersion=0").await;
    for _ in 0..3 {
        client.get("/api/v1/events?limit=1").await.expect(200);
    }
    let plain = Client::plain(front.observability);
    let sum = |status: &Value, hit: bool| {
        let resources = status["resources"].as_array().expect("resources");
        let of = |r: &Value| r[if hit { "hits" } else { "bypasses" }].as_u64();
        resources.iter().filter_map(of).sum::<u64>()
    };
    // Nothing changes now except the server's own work.
    eventually("the same numbers everywhere", SOON, || async {
        let metrics = front.metrics().await;
        let status = status(&front).await;
        let cache = plain.get("/debug/cache").await.expect(200);
        let metric = |name: &str, labels: &[(&str, &str)]| sum_metric(&metrics, name, labels);
        let totals = &status["totals"];
        let number = |value: &Value| value.as_f64().expect("a number");
        let reads = |result| metric("apifront_cache_requests_total", &[("result", result)]);
        let excluded = [("resource", "events"), ("reason", "excluded")];
        let events = named(&status["bypasses"], "events");
        let (shown, cached) = (
            named(&status["resources"], "namespaces"),
            named(&cache["resources"], "namespaces"),
        );
        let bytes = cached["bytes"].as_object().expect("bytes").values();
        let same = [
            (&totals["requests"], metric("apiserver_request_total", &[])),
            (&totals["cacheHits"], reads("hit")),
            (&totals["cacheBypasses"], reads("bypass")),
            (&totals["watchers"], metric("apifront_watchers", &[])),
            (
                &totals["upstreamRequests"],
                metric("apifront_upstream_requests_total", &[]),
            ),
            (
                &status["usage"]["cacheBytes"],
                metric("apifront_cache_bytes", &[]),
            ),
            (
                &status["usage"]["cacheMemoryLimitBytes"],
                metric("apifront_cache_memory_limit_bytes", &[]),
            ),
            (
                &events["reads"],
                metric("apifront_cache_requests_total", &excluded),
            ),
            (&shown["objects"], number(&cached["objects"])),
            (&shown["watchers"], number(&cached["watchers"])),
            (&shown["bytes"], bytes.map(number).sum()),
            (
                &status["topTalkers"]["users"]["requests"]["total"],
                number(&totals["requests"]),
            ),
            (
                &status["topTalkers"]["userAgents"]["answersFromCache"]["total"],
                number(&totals["cacheHits"]),
            ),
        ];
        let forwarded = metric("apifront_upstream_requests_total", &[("kind", "forward")]);
        let own = number(&totals["upstreamRequests"]) - forwarded;
        let talkers = &status["topTalkers"]["users"];
        let answers = number(&talkers["answersFromCache"]["total"]);
        let bytes = number(&talkers["bytesFromCache"]["total"]);
        let spared = &totals["sparedUpstreamCpuSeconds"];
        let expected = answers * 1.1e-3 + bytes * 10e-9 - own * 1.1e-3;
        let is_estimate = (number(&spared["estimate"]) - expected).abs() < 1e-6
            && number(&spared["least"]) < number(&spared["most"]);
        let differs = same.iter().find(|(shown, other)| number(shown) != *other);
        let resident = metric("process_resident_memory_bytes", &[]);
        let shown_resident = number(&status["usage"]["residentMemoryBytes"]);
        differs.is_none()
            && is_estimate
            && shown["resourceVersion"] == cached["resourceVersion"]
            && shown["state"] == "watching"
            && (shown_resident / resident - 1.0).abs() < 0.2
            && sum(&status, true) as f64 == number(&totals["cacheHits"])
            && sum(&status, false) as f64 == number(&totals["cacheBypasses"])
    })
    .await;
    let status = status(&front).await;
    assert_eq!(status["mode"], "front");
    assert_eq!(status["ready"], true);
    let servers = status["apiServers"].as_array().expect("servers");
    assert!(servers.iter().all(|server| server["healthy"] == true));
    assert_eq!(named(&status["resources"], "events")["state"], "notCached");
    let advice = status["advice"]["excluded"].as_str().expect("an advice");
    assert!(advice.contains("cache.exclude"), "{advice}");
    let admin = count(&status, "users", "watchesOpened", ADMIN);
    assert_eq!(admin, 1, "{:#}", status["topTalkers"]["users"]);
    // The current sample appears after a second.
    eventually("a sample", SOON, || async {
        let samples = self::status(&front).await["history"]["samples"].clone();
        samples.as_array().is_some_and(|samples| {
            samples.last().is_some_and(|sample| {
                sample["watchers"] == 1 && sample["residentMemoryBytes"].as_u64() > Some(1 << 20)
            })
        })
    })
    .await;
    front.stop().await;
}

#[tokio::test]
async fn it_is_guarded_against_other_pages_and_caches() {
    skip_under_oracle!("the page is apifront's");
    let front = Apifront::shared();
    let plain = Client::plain(front.observability);
    for client in [plain, front.admin_client()] {
        let page = client.get("/status").await;
        assert_eq!(page.status, 200, "{}", page.text());
        assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
        assert!(page.text().starts_with("<!doctype html>"));
        let policy = page.header("content-security-policy");
        for part in [
            "default-src 'none'",
            "script-src 'sha256-",
            "style-src 'sha256-",
            "connect-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        ] {
            assert!(policy.contains(part), "{part} in {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(page.header("referrer-policy"), "no-referrer");
        let data = client.get("/status.json").await;
        assert_eq!(data.header("content-type"), "application/json");
        for answer in [&page, &data] {
            assert_eq!(answer.status, 200);
            assert_eq!(answer.header("cache-control"), "no-store");
            assert_eq!(answer.headers.get_all("cache-control").iter().count(), 1);
            assert_eq!(answer.header("x-content-type-options"), "nosniff");
        }
    }
    // The page may fetch its data, but a page of another origin may not.
    let plain = Client::plain(front.observability);
    for (site, expected) in [("same-origin", 200), ("none", 200), ("cross-site", 403)] {
        for path in ["/status", "/status.json"] {
            let headers = [("sec-fetch-site", site)];
            let answer = plain.send(Method::GET, path, &headers, "").await;
            assert_eq!(answer.status, expected, "{path} {site}");
        }
    }
    let posted = plain.send(Method::POST, "/status", &[], "").await;
    assert_eq!(posted.status, 405);
}

#[tokio::test]
async fn it_is_shown_to_whom_upstream_allows() {
    skip_under_oracle!("the page is apifront's");
    let cluster = Cluster::shared();
    let front = Apifront::shared();
    let paths = ["/status", "/status.json"];
    let certificate = cluster.certificates.client("status-reader", &[]);
    let client = front.client(Some(&certificate));
    for path in paths {
        assert_eq!(front.client(None).get(path).await.status, 401);
        let message = format!("forbidden: User \"status-reader\" cannot get path \"{path}\"");
        client
            .get(path)
            .await
            .expect_status(403, "Forbidden", &message);
    }
    let admin = cluster.admin_client();
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({
        "metadata": { "name": "read-status" },
        "rules": [{ "nonResourceURLs": paths, "verbs": ["get"] }],
    });
    let roles = format!("{rbac}/clusterroles");
    admin.post(&roles, &role).await.expect(201);
    let binding = cluster_role_binding("read-status", "read-status", "User", "status-reader");
    let bindings = format!("{rbac}/clusterrolebindings");
    admin.post(&bindings, &binding).await.expect(201);
    eventually("the role works", SOON, || async {
        client.get("/status").await.status == 200 && client.get("/status.json").await.status == 200
    })
    .await;
    // apifront itself answers only GET, and only these two paths.
    let through = front.admin_client();
    for path in ["/status/", "/statusz", "/status.js"] {
        let (direct, through) = (admin.get(path).await, through.get(path).await);
        assert_eq!(direct.status, through.status, "{path}");
        assert!(through.header("content-security-policy").is_empty());
    }
    let posted = admin.post("/status", &json!({})).await;
    assert_eq!(
        through.post("/status", &json!({})).await.status,
        posted.status
    );
}

#[tokio::test]
async fn the_personal_mode_shows_it_too() {
    skip_under_oracle!("kube-apiserver has no personal mode");
    let front = Apifront::personal(&Cluster::shared().admin_kubeconfig).await;
    let client = Client::plain(front.address);
    as_agent(&client, NAMESPACES, "somebody").await.expect(200);
    let page = client.get("/status").await;
    assert_eq!(page.status, 200);
    assert!(!page.header("content-security-policy").contains("sandbox"));
    let foreign = [("sec-fetch-site", "cross-site")];
    for path in ["/status", "/status.json"] {
        let answer = client.send(Method::GET, path, &foreign, "").await;
        assert_eq!(answer.status, 403, "{path}");
    }
    eventually("the request is counted", SOON, || async {
        let status = client.get("/status.json").await.expect(200);
        assert_eq!(status["mode"], "personal");
        // The callers of this port have no names.
        count(&status, "userAgents", "requests", "somebody") == 1
            && count(&status, "users", "requests", "") > 0
    })
    .await;
    front.stop().await;
}

#[tokio::test]
async fn callers_are_counted_by_user_and_by_program() {
    skip_under_oracle!("the page is apifront's");
    let cluster = Cluster::shared();
    let front = Apifront::start(cluster, |config| {
        config["authentication"]["anonymous"]["enabled"] = json!(true);
    })
    .await;
    let client = front.admin_client();
    front.warm(&client, NAMESPACES).await;
    let markup = "<script>alert(1)</script><img src=x onerror=alert(2)>";
    let long = "x".repeat(1_000);
    let mut sent = 0;
    for _ in 0..4 {
        let answer = as_agent(&client, NAMESPACES, markup).await;
        sent += answer.body.len() as u64;
    }
    as_agent(&client, NAMESPACES, &long).await.expect(200);
    let other = [("impersonate-user", "somebody"), ("user-agent", "acting")];
    let refused = client.send(Method::GET, NAMESPACES, &other, "").await;
    assert_eq!(refused.status, 403);
    let version = as_agent(&front.client(None), "/version", "unknown").await;
    assert_eq!(version.status, 200);
    let watch = client.with_header("user-agent", "watcher");
    let _watch = Watch::open(&watch, "/api/v1/events?watch=1").await;
    eventually("all are counted", SOON, || async {
        let status = status(&front).await;
        let agent = |measure, name| count(&status, "userAgents", measure, name);
        let user = |measure, name| count(&status, "users", measure, name);
        agent("requests", markup) == 4
            && agent("bytesSent", markup) == sent
            && agent("answersFromCache", markup) == 4
            && agent("bytesFromCache", markup) == sent
            && agent("watchesOpened", markup) == 0
            && agent("requests", &long[..MAX_NAME]) == 1
            && agent("requests", "acting") == 1
            && agent("answersFromCache", "acting") == 0
            && agent("requests", "unknown") == 1
            && agent("watchesOpened", "watcher") == 1
            && user("requests", "somebody") == 1
            && user("requests", "system:anonymous") == 1
            && user("watchesOpened", ADMIN) == 1
    })
    .await;
    front.stop().await;
}

/// One caller invents user agents. The page must stay small, and still show the
/// programs of others.
#[tokio::test]
async fn invented_user_agents_fill_nothing() {
    skip_under_oracle!("the page is apifront's");
    let cluster = Cluster::shared();
    let front = Apifront::start(cluster, |_| {}).await;
    let client = front.admin_client();
    front.warm(&client, NAMESPACES).await;
    let honest = cluster.certificates.client("honest", &[]);
    let honest = front.client(Some(&honest));
    let inventor = cluster.certificates.client("inventor", &[]);
    let inventor = front.client(Some(&inventor));
    let invent = async |from: usize, to: usize| {
        for n in from..to {
            let agent = format!("{n}-{}", "y".repeat(500));
            // The caller lacks the right, which makes these requests cheap.
            let answer = as_agent(&inventor, "/api/v1/secrets", &agent).await;
            assert_eq!(answer.status, 403);
        }
    };
    invent(0, 200).await;
    for _ in 0..3 {
        as_agent(&honest, "/version", "honest-program")
            .await
            .expect(200);
    }
    invent(200, 1_500).await;
    let body = front.admin_client().get("/status.json").await;
    let status = body.json();
    let found = entry(&status, "userAgents", "requests", "honest-program");
    // Earlier sums may be uncertain, but those of the name itself are not.
    let (most, error) = (found["count"].as_u64(), found["maxError"].as_u64());
    let (most, error) = (most.expect("a count"), error.expect("an error"));
    assert!((most - error..=most).contains(&3), "{found}");
    assert_eq!(count(&status, "users", "requests", "honest"), 3);
    assert!(count(&status, "users", "requests", "inventor") >= 1_500);
    for dimension in ["users", "userAgents"] {
        for measure in MEASURES {
            let ranking = &status["topTalkers"][dimension][measure];
            let entries = ranking["entries"].as_array().expect("entries");
            assert!(entries.len() <= MAX_ENTRIES, "{dimension} {measure}");
            let names = entries.iter().filter_map(|e| e["name"].as_str());
            assert!(names.into_iter().all(|name| name.len() <= MAX_NAME));
            assert!(ranking["total"].is_u64() && ranking["maxUnlisted"].is_u64());
        }
    }
    assert!(body.body.len() < 512 << 10, "{} bytes", body.body.len());
    let metrics = front.metrics().await;
    assert!(!metrics.contains("yyyy") && !metrics.contains("honest"));
    front.stop().await;
}
