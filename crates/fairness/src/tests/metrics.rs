//! The metrics as a scraper reads them.

use std::time::Duration;

use prometheus::{Registry, TextEncoder};

use super::support::{busy, classify, engine, info, series, total_seats, user};
use crate::{FairnessMetrics, Settings, Width};

fn text(registry: &Registry) -> String {
    TextEncoder::new()
        .encode_to_string(&registry.gather())
        .unwrap()
}

fn series_of(text: &str, name: &str) -> Vec<String> {
    let prefix = format!("apiserver_flowcontrol_{name}");
    let lines = text.lines().filter_map(|line| line.strip_prefix(&prefix));
    lines.map(str::to_owned).collect()
}

#[tokio::test]
async fn a_request_is_counted_as_by_kube_apiserver() {
    let (fairness, clock, registry) = engine(total_seats(4));
    fairness.configure(busy(4, 2, 5));
    clock.pass(Duration::from_secs(1));
    let class = classify(
        &fairness,
        info("GET", "/api/v1/pods?watch=1"),
        &user("alice", &[]),
    );
    let wait = Duration::from_secs(1);
    let seats = fairness
        .admit(&class, Width::from_seats(3), wait)
        .await
        .unwrap();
    clock.pass(Duration::from_millis(30));
    let now = text(&registry);
    let labels = r#"{flow_schema="busy",priority_level="busy"}"#;
    for (name, value) in [
        ("current_executing_requests", 1),
        ("current_executing_seats", 3),
        ("current_inqueue_requests", 0),
        ("current_inqueue_seats", 0),
        ("dispatched_requests_total", 1),
    ] {
        assert_eq!(
            series_of(&now, name),
            [format!("{labels} {value}")],
            "{name}"
        );
    }
    drop(seats);
    fairness.adjust();
    let now = text(&registry);
    let executed = r#"_bucket{flow_schema="busy",priority_level="busy",type="watch",le="0.02"} 0"#;
    let bounds = series_of(&now, "request_execution_seconds");
    assert!(bounds.contains(&executed.to_owned()), "{bounds:#?}");
    assert!(bounds.contains(&executed.replace(r#"0.02"} 0"#, r#"0.05"} 1"#)));
    let seats = series_of(&now, "work_estimated_seats");
    let of_three = r#"_bucket{flow_schema="busy",priority_level="busy",le="2"} 0"#;
    assert!(seats.contains(&of_three.to_owned()), "{seats:#?}");
    assert!(seats.contains(&of_three.replace(r#""2"} 0"#, r#""4"} 1"#)));
    let waited = series_of(&now, "request_wait_duration_seconds_count");
    let once = r#"{execute="true",flow_schema="busy",priority_level="busy"} 1"#;
    assert_eq!(waited, [once]);
    // One second without requests, then 30 ms with three of four seats in use.
    let of_busy = |line: &String| line.contains(r#""busy""#);
    let utilization = series_of(&now, "priority_level_seat_utilization_bucket");
    let mut of_busy = utilization.iter().filter(|line| of_busy(line));
    assert_eq!(
        of_busy.next().unwrap(),
        r#"{phase="executing",priority_level="busy",le="0"} 1000000000"#
    );
    assert_eq!(
        of_busy.next_back().unwrap(),
        r#"{phase="executing",priority_level="busy",le="+Inf"} 1030000000"#
    );
    let watermark = series_of(&now, "demand_seats_high_watermark");
    assert!(watermark.contains(&r#"{priority_level="busy"} 3"#.to_owned()));
    let nominal = series_of(&now, "nominal_limit_seats");
    assert_eq!(
        nominal,
        [
            r#"{priority_level="busy"} 4"#,
            r#"{priority_level="catch-all"} 2"#,
            r#"{priority_level="exempt"} 0"#
        ]
    );
    assert_eq!(series_of(&now, "seat_fair_frac"), [" 0"]);
}

#[tokio::test]
async fn series_of_what_is_gone_are_gone() {
    let (fairness, _, registry) = engine(600);
    let class = classify(
        &fairness,
        info("GET", "/api/v1/pods"),
        &user("a", &["system:authenticated"]),
    );
    let dispatched = "apiserver_flowcontrol_dispatched_requests_total";
    let seats = fairness
        .admit(&class, Width::from_seats(1), Duration::ZERO)
        .await;
    let labels = [("flow_schema", "global-default")];
    assert_eq!(series(&registry, dispatched, &labels), Some(1.0));
    // The removed level still has a request.
    fairness.configure(busy(4, 2, 5));
    assert_eq!(series(&registry, dispatched, &labels), Some(1.0));
    assert!(text(&registry).contains(r#""global-default""#));
    assert!(!text(&registry).contains(r#""workload-low""#));
    drop(seats);
    fairness.reap();
    assert!(!text(&registry).contains(r#""global-default""#));
}

/// Two engines do not share numbers, and the series of an engine end with it.
#[test]
fn metrics_end_with_their_engine() {
    let registry = Registry::new();
    let metrics = FairnessMetrics::register(&registry).unwrap();
    assert!(FairnessMetrics::register(&registry).is_err());
    let fairness = crate::Fairness::new(Settings { total_seats: 60 }, metrics);
    assert!(text(&registry).contains("apiserver_flowcontrol_upper_limit_seats"));
    drop(fairness);
    assert_eq!(text(&registry), "");
}
