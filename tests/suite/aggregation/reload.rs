//! APIServices appear, change and disappear under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use serde_json::json;

use crate::harness::apifront::Apifront;
use crate::harness::backend::{Backend, Mood};
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::twins::{NAMESPACE, Registration, configure, settled};
use crate::harness::watch::Watch;
use crate::harness::{eventually, process};

const REQUESTS: usize = 10_000;
const CLIENTS: usize = 8;
/// The number of reloads: each of the APIService's four states three times.
const RELOADS: usize = 12;
const RELOADED_WITHIN: Duration = Duration::from_secs(20);

struct Load {
    front: Client,
    sent: AtomicUsize,
    reloading: AtomicBool,
}

impl Load {
    /// Asks one question whose answer does not depend on reloads.
    async fn ask(&self, n: usize) {
        let (path, codes): (&str, &[u16]) = match n % 5 {
            0 => ("/api/v1/namespaces/default?resourceVersion=0", &[200]),
            1 => ("/apis/steady.example.com/v1/things/echo/steady", &[200]),
            2 => ("/apis/steady.example.com/v1", &[200]),
            // The group may be registered, not registered, or not yet checked.
            3 => (
                "/apis/fickle.example.com/v1/things/echo/fickle",
                &[200, 404, 503],
            ),
            _ => ("/apis", &[200]),
        };
        let answer = self.front.try_send(Method::GET, path, &[], "").await;
        let answer = answer.unwrap_or_else(|e| panic!("{path}: {e}"));
        let code = answer.status.as_u16();
        assert!(codes.contains(&code), "{path}: {code} {}", answer.text());
        let text = answer.text();
        match (n % 5, code) {
            (0, _) => assert!(text.contains("\"name\":\"default\""), "{text}"),
            (1, _) => assert!(text.contains("/echo/steady"), "{text}"),
            (2, _) => assert!(text.contains("steady.example.com/v1"), "{text}"),
            (3, 200) => assert!(text.contains("/echo/fickle"), "{text}"),
            (3, 503) => assert_eq!(text, "service unavailable\n"),
            (4, _) => assert!(text.contains("\"steady.example.com\""), "{text}"),
            _ => {}
        }
    }

    async fn run(&self) {
        loop {
            let n = self.sent.fetch_add(1, Ordering::Relaxed);
            if n >= REQUESTS && !self.reloading.load(Ordering::Relaxed) {
                return;
            }
            self.ask(n).await;
        }
    }
}

#[tokio::test]
async fn ten_thousand_requests_while_api_services_come_and_go() {
    skip_under_oracle!("kube-apiserver reads no APIServices from files");
    let cluster = Cluster::shared();
    let folder = process::temporary_folder("reload");
    let manifests = folder.join("apiservices");
    std::fs::create_dir_all(&manifests).expect("a folder");
    let serving = cluster
        .certificates
        .serving_for("reloaded", &[&format!("*.{NAMESPACE}.svc")]);
    let clients = &cluster.certificates.front_proxy.cert;
    let start = |group: &str| Backend::start(group, &serving, clients, Mood::Fine);
    let steady = start("steady.example.com");
    let fickle = [start("fickle.example.com"), start("fickle.example.com")];
    let of = |group: &str, service: &str, port| {
        Registration::new(group, "v1", service, port).trust(cluster.ca())
    };
    let constant = of("steady.example.com", "steady", steady.port());
    let front = Apifront::start(cluster, |config| {
        configure(config, &manifests, std::slice::from_ref(&constant));
    })
    .await;
    let admin = front.admin_client();
    settled(&admin, "v1.steady.example.com", true).await;
    let load = Arc::new(Load {
        // All requests use one HTTP/2 connection. If that were lost, the watch on it
        // would end too.
        front: admin.clone(),
        sent: AtomicUsize::new(0),
        reloading: AtomicBool::new(true),
    });
    let path = "/api/v1/namespaces?watch=1&resourceVersion=0";
    let mut watch = Watch::open(&admin, path).await;
    let asking: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let load = load.clone();
            tokio::spawn(async move { load.run().await })
        })
        .collect();
    let mut round = 0;
    let some_ask = || asking.iter().any(|task| !task.is_finished());
    let reloads = async || {
        let success = [("result", "success")];
        front
            .metric("apifront_config_reloads_total", &success)
            .await
    };
    while (round < RELOADS || load.sent.load(Ordering::Relaxed) < REQUESTS) && some_ask() {
        let mut registered = vec![constant.clone()];
        // The group is in turn absent, present, at the other backend, and present
        // with another priority.
        match round % 4 {
            0 => {}
            n => {
                let backend = &fickle[n % 2];
                let mut service = of("fickle.example.com", "fickle", backend.port());
                service.manifest["spec"]["versionPriority"] = json!(100 + n);
                registered.push(service);
            }
        }
        let before = reloads().await;
        let mut config = front.read_config();
        configure(&mut config, &manifests, &registered);
        front.write_config(&config);
        eventually("the change is taken", RELOADED_WITHIN, || async {
            reloads().await > before
        })
        .await;
        round += 1;
    }
    load.reloading.store(false, Ordering::Relaxed);
    for task in asking {
        task.await.expect("no wrong answer");
    }
    let marker = cluster.namespace("after-reloads").await;
    loop {
        let event = watch.next().await.expect("the watch goes on");
        if event.name() == marker {
            break;
        }
    }
    println!(
        "{round} changes, {} reloads, {} requests",
        reloads().await,
        load.sent.load(Ordering::Relaxed)
    );
    front.stop().await;
}
