//! Tests that the port without authentication names no caller and no object, and
//! that the same paths on the secure port name them to callers with a grant.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::harness::apifront::Apifront;
use crate::harness::client::{Answer, Client};
use crate::harness::cluster::{Cluster, grant, unique};
use crate::harness::eventually;
use crate::harness::objects::{self, cluster_role_binding};
use crate::harness::watch::Watch;

const SOON: Duration = Duration::from_secs(30);

/// A part of every name that a caller has or uses.
const TELLTALE: &str = "telltale";

/// The paths that need a grant on the secure port.
const OWN_PATHS: [&str; 8] = [
    "/metrics",
    "/debug/cache",
    "/debug/shadow",
    "/debug/api_priority_and_fairness/dump_priority_levels",
    "/debug/api_priority_and_fairness/dump_queues",
    "/debug/api_priority_and_fairness/dump_requests?includeRequestDetails=1",
    "/status",
    "/status.json",
];
const REQUESTS: &str = OWN_PATHS[5];

/// Requests that keep their user busy until this is dropped.
struct Busy(Vec<tokio::task::JoinHandle<()>>);

impl Drop for Busy {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

/// Requests each path repeatedly, with many concurrent requests.
fn keep_asking(client: &Client, paths: &[String]) -> Busy {
    const AT_ONCE: usize = 64;
    let asks = (0..AT_ONCE).map(|n| {
        let (client, paths) = (client.clone(), paths.to_vec());
        tokio::spawn(async move {
            for at in n.. {
                client.get(&paths[at % paths.len()]).await;
            }
        })
    });
    Busy(asks.collect())
}

/// Returns every path that the open port answers, including those of single checks.
async fn open_paths(open: &Client) -> Vec<String> {
    let mut paths: Vec<String> = OWN_PATHS.map(str::to_owned).into();
    for path in ["/livez", "/readyz", "/healthz"] {
        let verbose = open.get(&format!("{path}?verbose")).await.text();
        let checks = verbose.lines().filter_map(|line| {
            let check = line.get("[+]".len()..)?.split(' ').next()?;
            Some(format!("{path}/{check}")).filter(|_| line.starts_with('['))
        });
        paths.extend(checks);
        paths.extend([path.to_owned(), format!("{path}?verbose")]);
    }
    paths.extend(
        [
            "/debug/cache?resource=configmaps",
            "/debug/cache?resource=.",
        ]
        .map(str::to_owned),
    );
    paths.extend(["/", "/debug", "/debug/pprof/", "/api/v1/namespaces"].map(str::to_owned));
    paths
}

fn shown(answer: &Answer) -> String {
    format!("{:?}\n{}", answer.headers, answer.text()).to_lowercase()
}

#[tokio::test]
async fn the_open_port_named_users_and_objects() {
    skip_under_oracle!("kube-apiserver has no such port");
    let cluster = Cluster::shared();
    let admin = cluster.admin_client();
    let ns = cluster.namespace(TELLTALE).await;
    let group = unique("telltale-group");
    let maps = format!("/api/v1/namespaces/{ns}/configmaps");
    for n in 0..30 {
        let labels = json!({ "telltale-label": "telltale-value" });
        let data = json!({ "telltale-key": "v".repeat(4_000) });
        let map = objects::config_map(&format!("telltale-map-{n}"), labels, data);
        admin.post(&maps, &map).await.expect(201);
    }
    let verbs = ["get", "list", "watch"];
    let grants = [
        objects::role("telltale-role", &[""], &["configmaps"], &verbs),
        objects::role_binding("telltale-binding", "telltale-role", "Group", &group),
    ];
    grant(&admin, &ns, &grants).await;
    let front = Apifront::start(cluster, |config| {
        config["serving"]["maxRequestsInflight"] = json!(16);
        config["serving"]["maxMutatingRequestsInflight"] = json!(0);
        config["cache"] = json!({
            "shadow": { "samplingRatePerMillion": 1_000_000 },
            "resourceModes": [{ "resources": ["*.telltale.example"], "mode": "Shadow" }],
            "selfCheck": { "interval": "1s" },
        });
    })
    .await;
    let through = front.admin_client();
    front
        .warm(&through, &format!("{maps}?resourceVersion=0"))
        .await;
    let user = unique("telltale-user");
    let pair = cluster.certificates.client(&user, &[&group]);
    let client = front.client(Some(&pair));
    let client = client.with_header("user-agent", "telltale-agent/1.0");
    let watch = format!("{maps}?watch=1&resourceVersion=0");
    let _watch = Watch::open(&client, &watch).await;
    let busy = keep_asking(
        &client,
        &[
            maps.clone(),
            format!("{maps}/telltale-map-1"),
            format!("{maps}?labelSelector=telltale-label%3Dtelltale-value"),
            // These objects are forbidden to the user, or do not exist.
            format!("/api/v1/namespaces/{ns}/secrets/telltale-secret"),
            format!("/apis/telltale.example/v1/namespaces/{ns}/telltales/telltale-one"),
            "/telltale-path/telltale".to_owned(),
        ],
    );
    // An administrator may read things that do not exist. Their names are not proven
    // either.
    for path in ["/apis/telltale.example/v1/telltales", "/api/v1/telltales"] {
        assert_eq!(through.get(path).await.status, 404, "{path}");
    }

    // With a grant, everything is shown.
    eventually("the secure port names who is busy", SOON, || async {
        let dump = through.get(REQUESTS).await.text();
        let status = through.get("/status.json").await.text();
        let in_dump = [user.as_str(), ns.as_str(), "telltale-map-1", &maps];
        let in_status = [user.as_str(), "telltale-agent/1.0"];
        in_dump.iter().all(|name| dump.contains(name))
            && in_status.iter().all(|name| status.contains(name))
    })
    .await;
    let open = Client::plain(front.observability);
    let paths = open_paths(&open).await;
    assert!(paths.len() > 25, "{paths:?}");
    for _ in 0..5 {
        for path in &paths {
            let answer = open.get(path).await;
            let shown = shown(&answer);
            assert!(!shown.contains(TELLTALE), "{path}: {shown}");
            let expected = match path.as_str() {
                path if path.contains("/dump_") => 403,
                "/debug/cache?resource=." => 400,
                "/" | "/debug" | "/debug/pprof/" | "/api/v1/namespaces" => 404,
                _ => 200,
            };
            assert_eq!(answer.status, expected, "{path}: {shown}");
        }
    }
    // The requests were in progress all the time.
    let dump = through.get(REQUESTS).await.text();
    assert!(dump.contains(&user), "{dump}");
    drop(busy);
    says_what_it_may(&open, &through).await;
    front.stop().await;
}

/// The rest appears on the open port, too.
async fn says_what_it_may(open: &Client, through: &Client) {
    let named = |list: &Value, resource: &str| {
        let list = list.as_array().expect("a list").clone();
        list.into_iter().find(|one| one["resource"] == resource)
    };
    // A first hit may come from the list alone.
    eventually("ConfigMaps are watched", SOON, || async {
        let status = open.get("/status.json").await.expect(200);
        named(&status["resources"], "configmaps").is_some_and(|maps| maps["state"] == "watching")
    })
    .await;
    let status = open.get("/status.json").await.expect(200);
    assert_eq!(
        status["withheld"],
        json!([
            "backends[].name",
            "backends[].servers[].name",
            "configurationError",
            "shapes",
            "topTalkers"
        ])
    );
    let maps = named(&status["resources"], "configmaps").expect("configmaps");
    assert_eq!(maps["state"], "watching");
    assert!(maps["hits"].as_u64() > Some(0), "{maps:#}");
    assert_eq!(status["apiServers"][0]["healthy"], true);
    let granted = through.get("/status.json").await.expect(200);
    assert_eq!(granted["apiServers"], status["apiServers"]);
    assert!(granted["withheld"].is_null());
    eventually("the result of a self-check", SOON, || async {
        let cache = open.get("/debug/cache").await.expect(200);
        let maps = named(&cache["resources"], "configmaps").expect("configmaps");
        assert!(maps["selfCheck"]["message"].is_null(), "{maps:#}");
        maps["selfCheck"]["result"].is_string()
    })
    .await;
    let page = open.get("/status").await;
    assert_eq!(page.text(), through.get("/status").await.text());
}

#[tokio::test]
async fn names_are_shown_to_whom_upstream_allows() {
    skip_under_oracle!("kube-apiserver has no such paths");
    let cluster = Cluster::shared();
    let front = Apifront::shared();
    let curious = cluster.certificates.client(&unique("curious"), &[]);
    let curious = front.client(Some(&curious));
    for path in OWN_PATHS {
        assert_eq!(front.client(None).get(path).await.status, 401, "{path}");
        assert_eq!(curious.get(path).await.status, 403, "{path}");
    }
    let name = unique("reads-names");
    let reader = cluster.certificates.client(&name, &[]);
    let reader = front.client(Some(&reader));
    let paths = OWN_PATHS.map(|path| path.split('?').next());
    let role = json!({
        "metadata": { "name": name },
        "rules": [{ "nonResourceURLs": paths, "verbs": ["get"] }],
    });
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let admin = cluster.admin_client();
    let roles = format!("{rbac}/clusterroles");
    admin.post(&roles, &role).await.expect(201);
    let binding = cluster_role_binding(&name, &name, "User", &name);
    let bindings = format!("{rbac}/clusterrolebindings");
    admin.post(&bindings, &binding).await.expect(201);
    for path in OWN_PATHS {
        eventually(path, SOON, || async {
            reader.get(path).await.status == 200
        })
        .await;
    }
    eventually("the reader is named", SOON, || async {
        reader.get("/status.json").await.text().contains(&name)
    })
    .await;
    // The only executing request is the reader's own.
    let dump = reader.get(REQUESTS).await.text();
    assert!(dump.contains(&name), "{dump}");
    // The open port knows no callers, so credentials change nothing there.
    let open = Client::plain(front.observability);
    let impersonating = [
        ("impersonate-user", name.as_str()),
        ("x-remote-user", &name),
    ];
    let answer = open
        .send(Method::GET, "/status.json", &impersonating, "")
        .await;
    assert!(!answer.text().contains(&name));
}

/// `/readyz/config` answers every caller on every port. It must not quote the
/// configuration, which names users, groups and objects.
#[tokio::test]
async fn a_health_check_quoted_the_configuration() {
    skip_under_oracle!("kube-apiserver does not read apifront's configuration");
    let front = Apifront::start(Cluster::shared(), |_| {}).await;
    let through = front.admin_client();
    let mut config = front.read_config();
    config["authorization"] = json!({ "subjectAccessReview": { "allowTTL": TELLTALE } });
    front.write_config(&config);
    let open = Client::plain(front.observability);
    for client in [open.clone(), front.client(None), through.clone()] {
        eventually("the check fails", SOON, || async {
            client.get("/readyz/config").await.status == 500
        })
        .await;
        let text = client.get("/readyz/config").await.text();
        assert!(text.contains("the log says why"), "{text}");
        assert!(
            !text.contains(TELLTALE) && !text.contains("front"),
            "{text}"
        );
    }
    let status = through.get("/status.json").await.expect(200);
    let error = status["configurationError"].as_str().expect("an error");
    assert!(
        error.contains("allowTTL") && error.contains(TELLTALE),
        "{error}"
    );
    assert!(!open.get("/status.json").await.text().contains(TELLTALE));
    front.stop().await;
}
