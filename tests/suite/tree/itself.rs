//! An apifront that is its own upstream, directly or through another one.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::json;

use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::kubeconfig::{self, Credential};
use crate::harness::objects::config_map;
use crate::harness::process;
use crate::harness::scripted::Scripted;

/// Much less than any deadline of a looping request, and enough for a busy machine.
const AT_ONCE: Duration = Duration::from_secs(8);
const NOTICED_WITHIN: Duration = Duration::from_secs(30);
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Makes `upper` the upstream of `front`, effective with its next start.
fn place_below(front: &Apifront, upper: &Apifront, cluster: &Cluster) {
    let who = Credential::Certificate(&cluster.front);
    let url = upper.url();
    let upstream = kubeconfig::write(&front.folder, "loop", &url, Some(cluster.ca()), who);
    let mut config = front.read_config();
    config["upstream"]["kubeconfig"] = json!(upstream);
    front.write_config(&config);
}

/// Every request is answered at once with an error that names the loop, and
/// `/readyz` fails.
async fn tells_of_the_loop(front: &Apifront, cluster: &Cluster) {
    let admin = front.admin_client();
    let nobody_special = cluster.certificates.client("ada", &[]);
    let user = front.client(Some(&nobody_special));
    let token = front.client(None).token("never seen before");
    let object = config_map("round", json!({}), json!({})).to_string();
    let json = [("content-type", "application/json")];
    // `/readyz` also fails in the first moments after a start.
    eventually("/readyz tells of upstream", NOTICED_WITHIN, || async {
        let checks = admin.get("/readyz?verbose").await.text();
        checks.contains("[-]upstream failed")
    })
    .await;
    assert_eq!(admin.get("/readyz").await.status, 500);
    let log = front.process.log();
    assert!(log.contains("is its own upstream"), "{log}");
    let list = format!("{CONFIG_MAPS}?resourceVersion=0");
    let watch = format!("{CONFIG_MAPS}?watch=1");
    for (client, method, path, body) in [
        (&admin, Method::GET, "/version", ""),
        (&admin, Method::GET, CONFIG_MAPS, ""),
        (&admin, Method::GET, &list, ""),
        (&admin, Method::GET, &watch, ""),
        (&admin, Method::POST, CONFIG_MAPS, &object),
        (&admin, Method::GET, "/api/v1/events?watch=1", ""),
        (&user, Method::GET, CONFIG_MAPS, ""),
        (&user, Method::POST, CONFIG_MAPS, &object),
        (&token, Method::GET, CONFIG_MAPS, ""),
    ] {
        let began = Instant::now();
        let headers = &json[..usize::from(method == Method::POST)];
        let got = client.send(method.clone(), path, headers, body.to_owned());
        let got = got.await;
        let took = began.elapsed();
        println!(
            "{method} {path}: {} after {took:?}: {}",
            got.status,
            got.text()
        );
        assert_eq!(got.status, 508, "{method} {path}: {}", got.text());
        let status = got.json();
        assert_eq!(status["kind"], "Status");
        assert!(
            status["message"]
                .as_str()
                .expect("text")
                .contains("its own upstream")
        );
        assert!(!got.headers.contains_key("retry-after"));
        assert!(took < AT_ONCE, "{method} {path}: {took:?}");
    }
    // Documents of failing servers have their own answers.
    for path in ["/apis", "/openapi/v3", "/openapi/v2"] {
        let began = Instant::now();
        let got = admin.get(path).await;
        println!(
            "{path}: {} after {:?}: {}",
            got.status,
            began.elapsed(),
            got.text()
        );
        assert!(got.status.is_server_error(), "{path}: {}", got.status);
        assert!(began.elapsed() < AT_ONCE, "{path}: {:?}", began.elapsed());
    }
}

/// Requests to an instance whose kubeconfig names itself must not hang.
#[tokio::test]
async fn a_front_that_is_its_own_upstream_tells_of_the_loop() {
    skip_under_oracle!("there are no hops");
    let cluster = Cluster::quiet();
    let mut front = Apifront::start(cluster, |_| {}).await;
    place_below(&front, &front, cluster);
    front.restart_alive().await;
    tells_of_the_loop(&front, cluster).await;
    // The instance serves again when it has an upstream.
    let mut config = front.read_config();
    config["upstream"]["kubeconfig"] = json!(cluster.front_kubeconfig);
    front.write_config(&config);
    let admin = front.admin_client();
    eventually("/readyz passes", NOTICED_WITHIN, || async {
        admin.get("/readyz").await.status == 200
    })
    .await;
    front.warm(&admin, CONFIG_MAPS).await;
    front.stop().await;
}

#[tokio::test]
async fn fronts_in_a_ring_tell_of_the_loop() {
    skip_under_oracle!("there are no hops");
    let cluster = Cluster::quiet();
    let mut upper = Apifront::start(cluster, |_| {}).await;
    let mut lower = upper.start_below(cluster, |_| {}).await;
    place_below(&upper, &lower, cluster);
    upper.restart_alive().await;
    lower.restart_alive().await;
    tells_of_the_loop(&lower, cluster).await;
    tells_of_the_loop(&upper, cluster).await;
}

/// A caller may send the loop header. It reaches the upstream with the instance's
/// own name added, even if the caller names it in Connection. Servers behind an
/// instance learn its name. A caller who sends this name gets only that one request
/// refused, and other callers do not notice.
#[tokio::test]
async fn a_caller_who_sends_the_header_harms_itself_alone() {
    skip_under_oracle!("there are no hops");
    let scripted = Scripted::start(|mut connection| async move {
        while connection.next().await.is_some() {
            connection.answer("200 OK", "upstream").await;
        }
    })
    .await;
    let folder = process::temporary_folder("loop");
    let config = kubeconfig::write(&folder, "loop", &scripted.url(), None, Credential::None);
    let front = Apifront::personal(&config).await;
    let client = Client::plain(front.address);
    for path in ["/anything", "/api/v1/namespaces/a/pods/b/log?follow=1"] {
        let ask = async |headers: &[(&str, &str)]| {
            let answer = client.send(Method::GET, path, headers, "").await;
            let seen = scripted.seen().into_iter().next_back().expect("a request");
            let names = seen.headers.iter().filter(|(name, _)| name == "cdn-loop");
            let names: Vec<String> = names.map(|(_, value)| value.clone()).collect();
            (answer, names)
        };
        let (answer, names) = ask(&[]).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let [own] = &names[..] else {
            panic!("{names:?}");
        };
        assert!(own.starts_with("apifront-"), "{own}");
        let foreign = "a.example; b=\"c, d\", apifront-0123";
        let (answer, names) = ask(&[("cdn-loop", foreign)]).await;
        assert_eq!(answer.status, 200);
        assert_eq!(names, [foreign, own]);
        let (answer, names) = ask(&[("connection", "cdn-loop"), ("cdn-loop", "a")]).await;
        assert_eq!(answer.status, 200);
        assert_eq!(names, [own.as_str()]);
        let before = scripted.seen().len();
        let list = format!("a.example,{own};x=1");
        for (name, value) in [("cdn-loop", own.as_str()), ("CDN-Loop", &list)] {
            let refused = client.send(Method::GET, path, &[(name, value)], "").await;
            assert_eq!(refused.status, 508, "{}", refused.text());
            let health = client
                .send(Method::GET, "/readyz", &[(name, value)], "")
                .await;
            assert_eq!(health.status, 508);
        }
        assert_eq!(scripted.seen().len(), before);
        assert_eq!(client.get("/readyz").await.status, 200);
        assert_eq!(ask(&[]).await.0.status, 200);
    }
}
