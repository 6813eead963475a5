//! A backend that shows each caller other objects, orders them in its own way, or
//! lies about their verbs. No caller may see what it shows another. If the
//! configuration claims that it answers all alike, doctor and shadow mode report it.

use http::Method;
use serde_json::{Value, json};

use super::HostileTwins;
use crate::doctor::{Report, report};
use crate::harness::apifront::{Apifront, config_before};
use crate::harness::backend::{Backend, Mood};
use crate::harness::client::{Answer, Client};
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::expect::DEBUG;
use crate::harness::media_types::GROUP_DISCOVERY;
use crate::harness::records::{RECORDS, Showing};
use crate::harness::twins::{Registration, SETTLES_WITHIN, configure, settled};

const GROUP: &str = "claims.example.com";
const LIST: &str = "/apis/claims.example.com/v1/records";
const NEWEST: &str = "/apis/claims.example.com/v1/records?resourceVersion=0";

async fn twins(showing: Showing) -> HostileTwins {
    HostileTwins::start_group(GROUP, "claims", Mood::Showing(showing)).await
}

/// Makes the backend an APIService of the configuration.
fn own(twins: &HostileTwins, config: &mut Value, folder: &str) {
    let manifests = twins.twins.folder.join(folder);
    std::fs::create_dir_all(&manifests).expect("a folder");
    let registration = Registration::new(GROUP, "v1", "claims", twins.backend.port());
    configure(
        config,
        &manifests,
        &[registration.trust(twins.twins.oracle.ca())],
    );
}

fn names(answer: &Answer) -> Vec<String> {
    let list = answer.json();
    let items = list["items"].as_array().into_iter().flatten();
    let names = items.filter_map(|item| item["metadata"]["name"].as_str());
    names.map(str::to_owned).collect()
}

fn reason(answer: &Answer) -> &str {
    let cache = answer.header("x-apifront-cache");
    cache.strip_prefix("bypass; reason=").unwrap_or(cache)
}

async fn ask(client: &Client, path: &str) -> Answer {
    client.send(Method::GET, path, &[DEBUG], "").await
}

/// Two users who may both list everything see only their own record each.
async fn everybody_sees_the_own(front: &Apifront, cluster: &Cluster) {
    let clients = RECORDS.map(|user| {
        let pair = cluster.certificates.client(user, &["system:masters"]);
        (user, front.client(Some(&pair)))
    });
    eventually("the backend answers", SETTLES_WITHIN, || async {
        let answer = ask(&clients[0].1, LIST).await;
        // apifront knows nothing about the resources until it has discovered the
        // group.
        answer.status == 200 && reason(&answer) == "aggregated"
    })
    .await;
    for round in 0..3 {
        for (user, client) in &clients {
            for read in [
                LIST.to_owned(),
                NEWEST.to_owned(),
                format!("{NEWEST}&limit=1"),
            ] {
                let answer = ask(client, &read).await;
                assert_eq!(names(&answer), [*user], "{round} {read}");
                assert_eq!(reason(&answer), "aggregated", "{read}");
            }
            for other in RECORDS {
                let answer = ask(client, &format!("{LIST}/{other}?resourceVersion=0")).await;
                let expected = if other == *user { 200 } else { 404 };
                assert_eq!(answer.status, expected, "{user} {other}");
            }
            let watch = format!("{NEWEST}&watch=1");
            let opened = client.open(&watch, &[DEBUG]).await;
            let cache = opened.headers().get("x-apifront-cache");
            let cache = cache.and_then(|value| value.to_str().ok());
            assert_eq!(cache, Some("bypass; reason=aggregated"));
        }
    }
}

#[tokio::test]
async fn nobody_is_shown_the_objects_of_others() {
    skip_under_oracle!("kube-apiserver has no cache of other servers' objects");
    let twins = twins(Showing::ByCaller).await;
    let oracle = &twins.twins.oracle;
    let front = Apifront::start(oracle, |_| {}).await;
    everybody_sees_the_own(&front, oracle).await;
    let shared = Cluster::shared();
    let aggregating = Apifront::start(shared, |config| {
        config["cache"]["aggregated"] = json!([]);
        own(&twins, config, "by-default");
    })
    .await;
    settled(&aggregating.admin_client(), &format!("v1.{GROUP}"), true).await;
    everybody_sees_the_own(&aggregating, shared).await;

    // No answer is left when the server is gone.
    let admins = [front.admin_client(), aggregating.admin_client()];
    drop(twins.backend);
    for admin in &admins {
        eventually("the backend is gone", SETTLES_WITHIN, || async {
            let answer = ask(admin, NEWEST).await;
            answer.status.is_server_error() && !answer.text().contains("uid-of-")
        })
        .await;
    }
    front.stop().await;
    aggregating.stop().await;
}

fn said(report: &Report) -> Vec<(String, String)> {
    let of = report.of_section("backends");
    let of = of.filter(|f| f["subject"] == format!("records.{GROUP}"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    of.map(|f| (text(&f["verdict"]), text(&f["found"])))
        .collect()
}

#[tokio::test]
async fn doctor_refutes_false_claims() {
    skip_under_oracle!("kube-apiserver has no doctor");
    let twins = twins(Showing::Alike).await;
    let admin = twins.twins.direct_client();
    eventually("the records are discovered", SETTLES_WITHIN, || async {
        let groups = admin.get(&format!("/apis/{GROUP}/v1")).await;
        let found = admin.get_as("/apis", GROUP_DISCOVERY).await;
        groups.status == 200 && found.text().contains("\"records\"")
    })
    .await;
    let claimed =
        |config: &mut Value| config["cache"]["aggregated"] = json!([format!("*.{GROUP}")]);
    let mut behind = config_before(&twins.twins.oracle);
    let silent = report(&behind).await;
    let forwarded = silent
        .of_section("resources")
        .find(|f| f["subject"] == "forwarded")
        .expect("a finding");
    let text = forwarded["found"].as_str().expect("text");
    assert!(text.contains(&format!("records.{GROUP}")), "{forwarded}");
    assert_eq!(said(&silent), []);

    claimed(&mut behind);
    let mut aggregating = config_before(Cluster::shared());
    claimed(&mut aggregating);
    own(&twins, &mut aggregating, "doctor");
    for (showing, verdict, expected) in [
        (Showing::Alike, "good", "as far as one can ask"),
        (
            Showing::ByCaller,
            "fault",
            "2 objects as apifront's own user, and 0 objects as \"apifront-doctor\"",
        ),
        (
            Showing::Disordered,
            "fault",
            "its list has \"second\" before \"first\"",
        ),
        (
            Showing::Fuller,
            "fault",
            "\"first\" alone is not as in the list",
        ),
        (
            Showing::Everywhere,
            "fault",
            "2 objects in the list of namespace \"default\", and 0 objects of it",
        ),
    ] {
        twins.backend.become_(Mood::Showing(showing));
        for config in [&behind, &aggregating] {
            let report = report(config).await;
            let said = said(&report);
            println!("{showing:?}: {said:?}");
            let [(is, found)] = said.as_slice() else {
                panic!("{showing:?}: {:#?}", report.findings().collect::<Vec<_>>());
            };
            assert_eq!(is, verdict, "{showing:?}: {found}");
            assert!(found.contains(expected), "{showing:?}: {found}");
        }
    }
}

#[tokio::test]
async fn shadow_mode_withdraws_a_false_claim() {
    skip_under_oracle!("kube-apiserver has no shadow mode");
    let twins = twins(Showing::ByCaller).await;
    let oracle = &twins.twins.oracle;
    let front = Apifront::start(oracle, |config| {
        config["cache"] = json!({
            "mode": "Shadow",
            "shadow": { "samplingRatePerMillion": 1_000_000 },
            "aggregated": ["*"],
        });
    })
    .await;
    let pair = oracle.certificates.client(RECORDS[0], &["system:masters"]);
    let client = front.client(Some(&pair));
    let metric = "apifront_shadow_withdrawn_claims_total";
    eventually("the claim is withdrawn", SETTLES_WITHIN, || async {
        assert_eq!(names(&ask(&client, LIST).await), [RECORDS[0]]);
        front.metric(metric, &[]).await == 1.0
    })
    .await;
    let admin = front.admin_client();
    eventually("it would be forwarded", SETTLES_WITHIN, || async {
        ask(&client, LIST).await;
        let report = admin.get("/debug/shadow").await.expect(200);
        let resources = report["resources"].as_array().expect("resources").clone();
        let of = resources.iter().find(|r| r["resource"] == "records");
        of.is_some_and(|of| of.to_string().contains("withdrawn"))
    })
    .await;
    let cached = admin.get("/debug/cache").await.expect(200);
    let cached = cached["resources"].as_array().expect("resources");
    assert!(
        cached.iter().all(|r| r["resource"] != "records"),
        "{cached:?}"
    );
    // A new claim is believed until it is refuted.
    let mut config = front.read_config();
    config["cache"]["aggregated"] = json!([format!("*.{GROUP}")]);
    front.write_config(&config);
    eventually(
        "the new claim is withdrawn, too",
        SETTLES_WITHIN,
        || async {
            ask(&client, LIST).await;
            front.metric(metric, &[]).await == 2.0
        },
    )
    .await;
    front.stop().await;
}

#[tokio::test]
async fn a_server_without_watches_is_given_up() {
    skip_under_oracle!("kube-apiserver has no cache of other servers' objects");
    let twins = twins(Showing::Unwatchable).await;
    let front = Apifront::start(&twins.twins.oracle, |config| {
        config["cache"]["aggregated"] = json!(["*"]);
    })
    .await;
    let client = front.admin_client();
    eventually("it is given up", SETTLES_WITHIN, || async {
        reason(&ask(&client, NEWEST).await) == "not_watchable"
    })
    .await;
    let own = |backend: &Backend| {
        let seen = backend.seen();
        let own = seen
            .iter()
            .filter(|s| s.header("x-remote-user") == Some("apifront"));
        own.filter(|s| s.line.contains("watch=")).count()
    };
    assert_eq!(own(&twins.backend), 1, "{:?}", twins.backend.seen());
    let watch = ask(&client, &format!("{NEWEST}&watch=1")).await;
    assert_eq!(
        (watch.status.as_u16(), reason(&watch)),
        (405, "not_watchable")
    );
    front.stop().await;
}
