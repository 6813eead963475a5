//! Tests which parts of an upgrade reach the upstream, and upstreams that change the
//! protocol without being asked.

use futures::future::join_all;
use serde_json::json;

use super::{ASKED, Asked, QUIET, answer, code, request};
use crate::harness::apifront::Apifront;
use crate::harness::cluster::Cluster;
use crate::harness::scripted::{Connection, Scripted, Seen};

const PODS: &str = "/api/v1/namespaces/default/pods";
/// The first octets of a server in its new protocol.
const HELLO: &str = "hello";

/// Starts apifront, without a cache, before these servers.
async fn front_before(servers: &[&Scripted]) -> Apifront {
    let cluster = Cluster::shared();
    let urls: Vec<_> = servers.iter().map(|server| server.url()).collect();
    Apifront::start_directly(cluster, |config| {
        config["upstream"] = json!({ "servers": urls, "caFile": cluster.ca() });
        config["cache"] = json!({ "include": ["*"], "exclude": ["*"] });
    })
    .await
}

/// Changes the protocol for every request, and echoes.
async fn switch(mut connection: Connection) {
    while connection.next().await.is_some() {
        let head =
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
        connection.write(head).await;
        connection.write(HELLO).await;
        let said = connection.read_within(QUIET).await;
        connection.write(said).await;
    }
}

/// Closes without an answer.
async fn close(mut connection: Connection) {
    connection.next().await;
}

/// Returns a request for each way to the server: by pingora, as a stream, and over
/// HTTP/1.0.
fn ways() -> Vec<(&'static str, String, &'static str)> {
    let exec = format!("{PODS}/p/exec?command=true");
    vec![
        ("GET", exec.clone(), "HTTP/1.1"),
        ("POST", exec.clone(), "HTTP/1.1"),
        ("POST", exec, "HTTP/1.0"),
        ("GET", format!("{PODS}/p/log?follow=1"), "HTTP/1.1"),
        ("GET", format!("{PODS}?watch=1"), "HTTP/1.1"),
        ("GET", format!("{PODS}/p"), "HTTP/1.1"),
        ("GET", format!("{PODS}/p"), "HTTP/1.0"),
        ("POST", PODS.to_owned(), "HTTP/1.1"),
        ("GET", format!("{PODS}/p/proxy/x"), "HTTP/1.1"),
    ]
}

/// Tells whether apifront asks the upstream for the upgrade. An upgrade without a
/// protocol counts only where connections are handed over.
fn is_passed_on(form: Asked, path: &str) -> bool {
    let takes = ["/exec", "/proxy/"].iter().any(|part| path.contains(part));
    form.is_upgrade && (takes || form.lines.len() > 1)
}

fn values<'a>(seen: &'a Seen, name: &str) -> Vec<&'a str> {
    let of_name = seen.headers.iter().filter(|(n, _)| n == name);
    of_name.map(|(_, value)| value.as_str()).collect()
}

#[tokio::test]
async fn what_is_no_upgrade_reaches_upstream_as_none() {
    skip_under_oracle!("kube-apiserver has no upstream");
    let scripted = Scripted::start(|mut connection: Connection| async move {
        while connection.next().await.is_some() {
            connection.answer("418 I am a teapot", "no").await;
        }
    })
    .await;
    let front = front_before(&[&scripted]).await;
    let client = front.admin_client();
    for form in ASKED {
        for (method, path, version) in ways() {
            let before = scripted.seen().len();
            let mut connection = client.raw().await.expect("a connection");
            let asked = request(method, &path, version, form);
            connection.write(asked.as_bytes()).await.expect("written");
            let answer = answer(&mut connection).await;
            assert_eq!(code(&answer), 418, "{asked}: {answer}");
            let seen = scripted.seen().split_off(before);
            let [seen] = seen.as_slice() else {
                panic!("{asked} was sent {} times", seen.len());
            };
            let sent_as = |name: &str| -> Vec<_> {
                let lines = form.lines.iter().filter_map(|line| line.split_once(':'));
                let of_name = lines.filter(|(n, _)| n.eq_ignore_ascii_case(name));
                of_name.map(|(_, value)| value.trim()).collect()
            };
            if !is_passed_on(form, &path) {
                assert!(values(seen, "upgrade").is_empty(), "{asked}: {seen:?}");
                assert!(values(seen, "connection").is_empty(), "{asked}: {seen:?}");
                continue;
            }
            assert_eq!(values(seen, "upgrade"), sent_as("upgrade"), "{asked}");
            // Every way of reading the sent line still finds what it would have
            // found in the original one.
            let (was, is) = (sent_as("connection"), values(seen, "connection"));
            let has_word = |line: &&str| line.to_ascii_lowercase().contains("upgrade");
            let is_option = |line: &&str| {
                line.split(',')
                    .any(|option| option.trim().eq_ignore_ascii_case("upgrade"))
            };
            for reads in [&has_word as &dyn Fn(&&str) -> bool, &is_option] {
                assert_eq!(
                    was.iter().any(reads),
                    is.iter().any(reads),
                    "{was:?} {is:?}"
                );
            }
            let first = |lines: &[&str]| lines.first().is_some_and(&has_word);
            assert_eq!(first(&was), first(&is), "{was:?} {is:?}");
        }
    }
    front.stop().await;
}

/// An unrequested 101 must not begin a tunnel, nor make apifront ask one server
/// after the other.
#[tokio::test]
async fn only_an_upgrade_becomes_a_tunnel() {
    skip_under_oracle!("kube-apiserver has no upstream");
    let (one, other) = (Scripted::start(switch).await, Scripted::start(switch).await);
    let front = front_before(&[&one, &other]).await;
    let client = front.admin_client();
    let of_form = async |(n, form): (usize, Asked)| {
        for (method, path, version) in ways() {
            let mark = if path.contains('?') { '&' } else { '?' };
            let path = format!("{path}{mark}form={n}{version}");
            let mut connection = client.raw().await.expect("a connection");
            let asked = request(method, &path, version, form) + "early";
            connection.write(asked.as_bytes()).await.expect("written");
            let first = answer(&mut connection).await;
            let what = format!("{asked}: {first}");
            let line = format!("{method} {path}");
            assert_eq!(one.count(&line) + other.count(&line), 1, "{what}");
            if is_passed_on(form, &path) {
                assert_eq!(code(&first), 101, "{what}");
                let hello = connection.read_exact(HELLO.len()).await.expect("hello");
                assert_eq!(hello, HELLO.as_bytes());
                let early = connection.read_exact(5).await.expect("an echo");
                assert_eq!(early, b"early");
                continue;
            }
            assert_eq!(code(&first), 502, "{what}");
            assert!(first.contains("switched protocols"), "{what}");
            let rest = connection.read_until_quiet(QUIET).await;
            let rest = String::from_utf8_lossy(&rest).into_owned();
            for of_the_tunnel in [HELLO, "early"] {
                assert!(!rest.contains(of_the_tunnel), "{what}, then {rest}");
                assert!(!first.contains(of_the_tunnel), "{what}");
            }
        }
    };
    join_all(ASKED.into_iter().enumerate().map(of_form)).await;
    front.stop().await;
}

/// An upgrade in any form may start a command, so it is not repeated.
#[tokio::test]
async fn an_upgrade_is_asked_of_one_server() {
    skip_under_oracle!("kube-apiserver has no upstream");
    let (one, other) = (Scripted::start(close).await, Scripted::start(close).await);
    let front = front_before(&[&one, &other]).await;
    let client = front.admin_client();
    let count = || one.seen().len() + other.seen().len();
    let mut asked_twice = 0;
    for form in ASKED {
        for (method, path, version) in ways() {
            let before = count();
            let mut connection = client.raw().await.expect("a connection");
            let asked = request(method, &path, version, form);
            connection.write(asked.as_bytes()).await.expect("written");
            let answer = answer(&mut connection).await;
            assert_eq!(code(&answer), 503, "{asked}: {answer}");
            let times = count() - before;
            if is_passed_on(form, &path) || method == "POST" {
                assert_eq!(times, 1, "{asked}");
            }
            asked_twice += usize::from(times > 1);
        }
    }
    assert!(asked_twice > 0, "reads are asked of the other server");
    front.stop().await;
}
