//! Compares the promises about metrics with kube-apiserver's, and checks rules and
//! dashboard with Prometheus' own parsers and engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::harness::apifront::Apifront;
use crate::harness::cluster::Cluster;
use crate::harness::pool::Lease;
use crate::harness::prometheus::{Prometheus, Rule};
use crate::harness::shared::Shared;

const REFERENCE: &str = include_str!("../../docs/metrics.md");
const RULES: &str = include_str!("../../charts/apifront/files/apifront.rules.yaml");
const DASHBOARD: &str = include_str!("../../charts/apifront/files/apifront.dashboard.json");

/// The previous release. The metrics hidden since then are shown.
const VERSION: &str = "1.36";

/// Returns a cluster that shows hidden metrics, too.
fn cluster() -> Arc<Lease> {
    static CLUSTER: Shared<Lease> = Shared::new();
    CLUSTER.get(|| async {
        let flag = format!("--show-hidden-metrics-for-version={VERSION}");
        Cluster::leased(&[flag]).await
    })
}

/// Returns the `# HELP` and `# TYPE` lines of each metric.
fn about(text: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut about: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in text.lines() {
        let rest = line
            .strip_prefix("# HELP ")
            .or(line.strip_prefix("# TYPE "));
        if let Some((name, _)) = rest.and_then(|rest| rest.split_once(' ')) {
            about.entry(name).or_default().push(line);
        }
    }
    about
}

#[tokio::test]
async fn help_texts_are_those_of_kube_apiserver() {
    skip_under_oracle!("the metrics are apifront's");
    let cluster = cluster();
    let front = Apifront::start(&cluster, |config| {
        config["observability"]["showHiddenMetricsForVersion"] = VERSION.into();
    })
    .await;
    let admin = front.admin_client();
    let _watch = admin.open("/api/v1/endpoints?watch=1", &[]).await;
    let _watch = admin
        .open("/api/v1/pods?watch=1&resourceVersion=0", &[])
        .await;
    admin.get("/api/v1/endpoints").await.expect(200);
    let direct = cluster.admin_client();
    direct.get("/api/v1/endpoints").await.expect(200);
    let (direct, served) = (direct.get("/metrics").await.text(), front.metrics().await);
    let (direct, served) = (about(&direct), about(&served));
    let mut compared = BTreeSet::new();
    let mut different = Vec::new();
    for (name, lines) in &served {
        let class = ["[ALPHA] ", "[BETA] ", "[STABLE] "];
        let help = lines[0].split_once(&format!("{name} ")).expect("a text").1;
        let help = help.strip_prefix("EXPERIMENTAL: ").unwrap_or(help);
        let promised = class.iter().any(|class| help.starts_with(class));
        assert!(promised != name.starts_with("process_"), "{help}");
        if let Some(theirs) = direct.get(name) {
            compared.insert(*name);
            if theirs != lines {
                different.push(format!("- {theirs:?}\n+ {lines:?}"));
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    for name in [
        "apiserver_request_total",
        "apiserver_requested_deprecated_apis",
        "apiserver_flowcontrol_current_executing_requests",
        "process_cpu_seconds_total",
    ] {
        assert!(compared.contains(name), "{name} in {compared:?}");
    }
    // kube-apiserver 1.37 no longer has the metric. Here it is hidden without the
    // setting, also after a reload.
    let hidden = "apiserver_flowcontrol_request_concurrency_in_use";
    assert!(served.contains_key(hidden));
    let mut config = front.read_config();
    config["observability"]["showHiddenMetricsForVersion"] = "".into();
    front.write_config(&config);
    crate::harness::eventually(
        "it is hidden",
        std::time::Duration::from_secs(30),
        || async { !front.metrics().await.contains(hidden) },
    )
    .await;
    front.stop().await;
}

fn documented() -> BTreeSet<&'static str> {
    let rows = REFERENCE.lines();
    rows.filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect()
}

/// Fails unless each name is a documented metric or recorded by a rule.
#[track_caller]
fn all_exist(what: &str, names: &[String], recorded: &BTreeSet<&str>) {
    let documented = documented();
    for name in names {
        let base = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .filter(|base| documented.contains(base));
        let known = documented.contains(base.unwrap_or(name)) || recorded.contains(name.as_str());
        // `up` comes from Prometheus itself.
        assert!(known || name == "up", "{what}: no metric {name}");
    }
}

/// Returns a healthy scrape, and one with many problems.
fn texts() -> [String; 2] {
    let text = |lag: u32, healthy: u32, failed: u32, wrong: u32, applied: u32, used: u32| {
        format!(
            "apifront_cache_lag_seconds{{group=\"\",version=\"v1\",resource=\"pods\"}} {lag}\n\
             apifront_cache_staleness_seconds{{group=\"\",version=\"v1\",resource=\"pods\"}} {}\n\
             apifront_upstream_healthy{{server=\"a:6443\"}} {healthy}\n\
             apiserver_request_total{{verb=\"GET\",group=\"\",version=\"v1\",resource=\"endpoints\",subresource=\"\",code=\"500\"}} {failed}\n\
             apiserver_request_total{{verb=\"GET\",group=\"resource.k8s.io\",version=\"v1beta1\",resource=\"resourceclaims\",subresource=\"\",code=\"200\"}} {used}\n\
             apiserver_requested_deprecated_apis{{group=\"resource.k8s.io\",version=\"v1beta1\",resource=\"resourceclaims\",subresource=\"\",removed_release=\"1.38\"}} 1\n\
             apifront_cache_self_check_total{{group=\"\",version=\"v1\",resource=\"pods\",result=\"mismatch\"}} {wrong}\n\
             apifront_shadow_comparisons_total{{group=\"\",version=\"v1\",resource=\"pods\",verb=\"list\",representation=\"json\",result=\"difference\"}} {wrong}\n\
             apiserver_flowcontrol_rejected_requests_total{{priority_level=\"workload-low\",reason=\"queue-full\"}} {failed}\n\
             apifront_config_last_reload_successful {applied}\n\
             up {healthy}\n",
            lag * 10
        )
    };
    [text(0, 1, 0, 0, 1, 100), text(120, 0, 50, 1, 0, 300)]
}

fn firing(rules: &[Rule]) -> BTreeSet<&str> {
    let firing = rules.iter().filter(|rule| !rule.found.rows.is_empty());
    firing
        .map(|rule| rule.alert.as_str())
        .filter(|a| !a.is_empty())
        .collect()
}

/// Prometheus accepts the rule file, each rule names existing metrics, and
/// alerts fire exactly when they should.
#[test]
fn the_rules_are_good() {
    let [well, ill] = texts();
    let quiet = Prometheus::default()
        .scrape(0, "a", &well)
        .scrape(60, "a", &well);
    let said = quiet.ask(&[], RULES);
    assert!(said.errors.is_empty(), "{:?}", said.errors);
    let recorded = said.rules.iter().map(|rule| rule.record.as_str()).collect();
    for rule in &said.rules {
        let what = format!("{}{}", rule.record, rule.alert);
        assert!(rule.found.error.is_empty(), "{what}: {}", rule.found.error);
        all_exist(&what, &rule.found.names, &recorded);
    }
    assert_eq!(firing(&said.rules), BTreeSet::new());
    let alarmed = Prometheus::default()
        .scrape(0, "a", &well)
        .scrape(60, "a", &ill);
    let said = alarmed.ask(&[], RULES);
    let alerts = said.rules.iter().map(|rule| rule.alert.as_str());
    let alerts: BTreeSet<&str> = alerts.filter(|a| !a.is_empty()).collect();
    assert_eq!(firing(&said.rules), alerts);
}

/// Every query of the dashboard is PromQL over existing metrics. Each panel has
/// a title, a unit and its own place.
#[test]
fn the_dashboard_is_good() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let variables: BTreeSet<String> = dashboard["templating"]["list"]
        .as_array()
        .expect("variables")
        .iter()
        .map(|variable| text(&variable["name"]))
        .collect();
    let (mut places, mut ids, mut queries) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for panel in dashboard["panels"].as_array().expect("panels") {
        let title = text(&panel["title"]);
        assert!(
            !title.is_empty() && !text(&panel["type"]).is_empty(),
            "{panel}"
        );
        assert!(
            !text(&panel["fieldConfig"]["defaults"]["unit"]).is_empty(),
            "{title}"
        );
        assert!(
            ids.insert(panel["id"].to_string()),
            "{title}: its id is another's"
        );
        let place = &panel["gridPos"];
        let end = place["x"]
            .as_u64()
            .zip(place["w"].as_u64())
            .map(|(x, w)| x + w);
        assert!(end.is_some_and(|end| end <= 24), "{title}: not on the grid");
        let place = (place["x"].to_string(), place["y"].to_string());
        assert!(places.insert(place), "{title}: its place is another's");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        let mut letters = BTreeSet::new();
        for target in panel["targets"].as_array().expect("targets") {
            assert!(letters.insert(text(&target["refId"])), "{title}: refId");
            queries.push((title.clone(), text(&target["expr"])));
        }
    }
    assert!(queries.len() > 10);
    for (title, query) in &queries {
        for name in ["job", "instance"] {
            assert!(
                variables.contains(name) && query.contains(&format!("\"${name}\"")),
                "{title}"
            );
        }
    }
    // The variables are replaced as Grafana does.
    let filled: Vec<String> = queries
        .iter()
        .map(|(_, query)| {
            let query = query.replace("$__rate_interval", "5m");
            query.replace("$job", "apifront").replace("$instance", ".*")
        })
        .collect();
    let asked: Vec<&str> = filled.iter().map(String::as_str).collect();
    let said = Prometheus::default().ask(&asked, "");
    for ((title, query), found) in queries.iter().zip(&said.queries) {
        assert!(
            !query.replace("$__rate_interval", "").contains("$__"),
            "{title}"
        );
        assert!(found.error.is_empty(), "{title}: {}", found.error);
        assert!(!found.names.is_empty(), "{title}");
        all_exist(title, &found.names, &BTreeSet::new());
    }
}
