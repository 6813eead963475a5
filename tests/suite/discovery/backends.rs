//! Groups that only apifront knows are merged as kube-aggregator merges them.

use std::time::Duration;

use super::{compare_all, everything, versions};
use crate::harness::apifront::Apifront;
use crate::harness::backend::{Backend, Mood};
use crate::harness::cluster::Cluster;
use crate::harness::media_types::GROUP_DISCOVERY;
use crate::harness::pool::Lease;
use crate::harness::twins::{Parts, Registration, Twins, configure, registrations, settled};
use crate::harness::wardle::Wardle;
use crate::harness::{control, eventually, process};

const SOON: Duration = Duration::from_secs(60);

/// A plain cluster with apifront before it, and a cluster whose own aggregator has
/// the same backends. Nobody else writes to either.
struct Pair {
    twins: Twins,
    cluster: Lease,
    front: Apifront,
    _wardle: Wardle,
    backend: Backend,
}

async fn pair(priorities: [(i32, i32); 3]) -> Pair {
    let cluster = Cluster::leased(&[]).await;
    let mut kept = None;
    let twins = Twins::start(async |parts: &Parts| {
        let mut trusted = std::fs::read_to_string(&parts.front_proxies).expect("CAs");
        trusted += &std::fs::read_to_string(&cluster.certificates.front_proxy.cert).expect("a CA");
        std::fs::write(&parts.front_proxies, trusted).expect("CAs");
        let wardle = Wardle::start(&parts.oracle, &parts.serving, &parts.front_proxies).await;
        // This backend has no aggregated discovery document.
        let backend = parts.backend("hostile.example.com", Mood::Fine);
        let mut registered = registrations(parts, wardle.port);
        registered.push(
            Registration::new("hostile.example.com", "v1", "hostile", backend.port())
                .trust(parts.ca()),
        );
        for (registration, (group, version)) in registered.iter_mut().zip(priorities) {
            registration.manifest["spec"]["groupPriorityMinimum"] = group.into();
            registration.manifest["spec"]["versionPriority"] = version.into();
        }
        kept = Some((wardle, backend, registered.clone()));
        registered
    })
    .await;
    let (wardle, backend, registered) = kept.expect("started");
    let manifests = process::temporary_folder("manifests");
    let front = Apifront::start(&cluster, |config| {
        configure(config, &manifests, &registered)
    })
    .await;
    for registration in &registered {
        settled(&twins.direct_client(), registration.name(), true).await;
    }
    Pair {
        twins,
        cluster,
        front,
        _wardle: wardle,
        backend,
    }
}

#[tokio::test]
async fn merged_documents_are_kube_aggregators_to_the_byte() {
    skip_under_oracle!("kube-aggregator is what the documents are compared with");
    for priorities in [
        [(2000, 200), (2000, 200), (2000, 200)],
        [(1000, 10), (1000, 100), (18000, 15)],
    ] {
        let pair = pair(priorities).await;
        let (direct, through) = (pair.twins.direct_client(), pair.front.admin_client());
        eventually("both know all of it", SOON, || async {
            everything(&direct).await.header("etag") == everything(&through).await.header("etag")
        })
        .await;
        compare_all(
            &direct,
            &through,
            &[
                "/apis",
                "/apis/",
                "/apis/wardle.example.com",
                "/apis/wardle.example.com/",
                "/apis/hostile.example.com",
                "/apis/wardle.example.com/v7",
                "/apis/apps",
            ],
        )
        .await;
        drop(pair.cluster);
    }
}

#[tokio::test]
async fn a_backend_in_trouble_is_stale_and_delays_nobody() {
    skip_under_oracle!("it is about apifront's backends");
    let pair = pair([(2000, 200), (2000, 200), (2000, 200)]).await;
    let through = pair.front.admin_client();
    let is = async |freshness: &str| {
        let expected = format!("hostile.example.com/v1 {freshness}");
        versions(&through).await.contains(&expected)
    };
    eventually("it is there", SOON, || is("Current")).await;
    let resources = |text: String| text.matches("\"resource\":\"things\"").count();
    let known = resources(everything(&through).await.text());
    let direct = pair.cluster.admin_client();
    for mood in [
        Mood::Hanging,
        Mood::HalfClosed,
        Mood::Status(500),
        Mood::Html,
        Mood::Garbage(64 << 20),
    ] {
        pair.backend.become_(mood);
        eventually("it is stale", SOON, || is("Stale")).await;
        let mut slowest = Duration::ZERO;
        for _ in 0..50 {
            let documents = through.get_as("/apis", GROUP_DISCOVERY);
            let (answer, took) = control::longer_than(direct.get("/livez"), documents).await;
            slowest = slowest.max(took);
            assert_eq!(answer.status, 200);
            // apifront keeps what it knew of the backend.
            assert_eq!(resources(answer.text()), known, "{mood:?}");
        }
        assert!(
            slowest < Duration::from_millis(500),
            "{mood:?}: {slowest:?}"
        );
        pair.backend.become_(Mood::Fine);
        eventually("it is back", SOON, || is("Current")).await;
    }
    drop(pair.cluster);
}
