//! docs/metrics.md lists exactly the metrics of `/metrics`.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use crate::harness::apifront::Apifront;
use crate::harness::cluster::Cluster;
use crate::harness::objects::config_map;
use crate::harness::watch::Watch;
use crate::harness::{eventually, process};

const SOON: Duration = Duration::from_secs(20);

const DOCUMENT: &str = include_str!("../../docs/metrics.md");

#[tokio::test]
async fn the_list_of_metrics_is_true() {
    skip_under_oracle!("the metrics are apifront's");
    let stores = process::temporary_folder("stores").join("stores");
    let front = Apifront::start(Cluster::shared(), |config| {
        config["cache"] = json!({ "directory": stores });
    })
    .await;
    let client = front.admin_client();
    client
        .get("/api/v1/pods?resourceVersion=0")
        .await
        .expect(200);
    front.warm(&client, "/api/v1/pods?resourceVersion=0").await;
    let documented: BTreeSet<&str> = DOCUMENT
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    let metrics = front.metrics().await;
    let served: BTreeSet<&str> = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    let undocumented: Vec<_> = served.difference(&documented).collect();
    assert!(
        undocumented.is_empty(),
        "not in docs/metrics.md: {undocumented:?}"
    );
    // A series that was never counted does not appear.
    let sleeping = [
        "aggregator_unavailable_apiservice",
        "aggregator_unavailable_apiservice_total",
        "apifront_openapi_requests_total",
        // This metric is hidden by default.
        "apiserver_flowcontrol_request_concurrency_in_use",
        "apiserver_audit_error_total",
        "apiserver_request_terminations_total",
        "apiserver_request_aborts_total",
        "apiserver_longrunning_requests",
        // Requests were neither refused nor delayed.
        "apifront_turns_rejected_requests_total",
        "apifront_turns_wait_duration_seconds",
        "apiserver_flowcontrol_current_inqueue_requests",
        "apiserver_flowcontrol_current_inqueue_seats",
        "apiserver_flowcontrol_dispatch_r",
        "apiserver_flowcontrol_epoch_advance_total",
        "apiserver_flowcontrol_latest_s",
        "apiserver_flowcontrol_next_discounted_s_bounds",
        "apiserver_flowcontrol_next_s_bounds",
        "apiserver_flowcontrol_rejected_requests_total",
        "apiserver_flowcontrol_request_dispatch_no_accommodation_total",
        "apiserver_flowcontrol_request_queue_length_after_enqueue",
        "apiserver_flowcontrol_request_wait_duration_seconds",
        "apiserver_requested_deprecated_apis",
        "apiserver_watch_events_total",
        "apiserver_watch_events_sizes",
        "apiserver_watch_list_duration_seconds",
        "apifront_cache_self_check_total",
        "apifront_connections_closed_total",
        "apifront_degraded_answers_total",
        "apifront_connections_refused_total",
        "apifront_fresh_late_events_total",
        "apifront_cached_rbac_decisions_total",
        // There were no queries.
        "apifront_queries_total",
        // There are no rules about shapes.
        "apifront_shape_answers_total",
        "apifront_reflector_restarts_total",
        "apifront_slow_clients_total",
        "apifront_subject_access_review_cache_total",
        "apifront_token_review_cache_total",
        "apifront_shadow_comparisons_total",
        "apifront_shadow_not_comparable_total",
        "apifront_shadow_reads_total",
        "apifront_tracing_spans_total",
        "apifront_watch_delivery_seconds",
        "apifront_watch_ends_total",
    ];
    let missing: Vec<_> = documented
        .difference(&served)
        .filter(|name| !sleeping.contains(*name))
        .collect();
    assert!(missing.is_empty(), "in docs/metrics.md only: {missing:?}");
    front.stop().await;
}

/// Events that arrive while somebody watches are measured. Repeated history is not.
#[tokio::test]
async fn delivery_is_measured_from_an_events_arrival() {
    skip_under_oracle!("the metric is apifront's");
    let cluster = Cluster::shared();
    let ns = cluster.namespace("delivery").await;
    let front = Apifront::start(cluster, |_| {}).await;
    let (client, direct) = (front.admin_client(), cluster.admin_client());
    let maps = format!("/api/v1/namespaces/{ns}/configmaps");
    let list = format!("{maps}?resourceVersion=0");
    front.warm(&client, &list).await;
    let read = client.get(&list).await.expect(200);
    let from = read["metadata"]["resourceVersion"].as_str();
    let path = format!(
        "{maps}?watch=1&resourceVersion={}",
        from.expect("a version")
    );
    let mut live = Watch::open(&client, &path).await;
    let count = async || {
        let labels = [("resource", "configmaps")];
        let name = "apifront_watch_delivery_seconds_count";
        front.metric(name, &labels).await
    };
    let object = config_map("a", json!({}), json!({}));
    direct.post(&maps, &object).await.expect(201);
    assert_eq!(live.next().await.expect("an event").name(), "a");
    eventually("the event is measured", SOON, || async {
        count().await == 1.0
    })
    .await;
    let mut again = Watch::open(&client, &path).await;
    assert_eq!(again.next().await.expect("an event").name(), "a");
    direct.delete(&format!("{maps}/a")).await.expect(200);
    for watch in [&mut live, &mut again] {
        assert_eq!(watch.next().await.expect("an event").kind, "DELETED");
    }
    eventually("both are measured", SOON, || async { count().await == 3.0 }).await;
    let labels = [("resource", "configmaps"), ("le", "10")];
    let name = "apifront_watch_delivery_seconds_bucket";
    assert_eq!(front.metric(name, &labels).await, 3.0);
    front.stop().await;
}
