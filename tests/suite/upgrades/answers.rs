//! The results of an upgrade of a pod's `exec`, `attach` and `log`, in each form.
//! Compares kube-apiserver's answer, and whether the connection then ends.

use super::{ASKED, Asked, QUIET, answer, code, request, told};
use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::streams;

/// The second request on a connection. kube-apiserver answers it, unless it has
/// closed.
const NEXT: &str = "GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Whether another request may follow an answer other than 101.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Tunnel,
    Lives,
    Closed,
}

async fn ask(client: &Client, asked: &str) -> (String, After) {
    let mut connection = client.raw().await.expect("a connection");
    connection.write(asked.as_bytes()).await.expect("written");
    let first = answer(&mut connection).await;
    if code(&first) == 101 {
        return (first, After::Tunnel);
    }
    let _ = connection.write(NEXT.as_bytes()).await;
    let second = String::from_utf8_lossy(&connection.read_answer().await).into_owned();
    let after = match second.is_empty() {
        true => After::Closed,
        // The bytes are a request, not part of a stream.
        false if second.contains("gitVersion") => After::Lives,
        false => panic!("{asked}: {first}, then {second}"),
    };
    (first, after)
}

/// Sends both servers the path in every form. After a declined upgrade, apifront may
/// close where kube-apiserver does not, but must close where it does.
async fn same(methods: &[&str], path: &str, versions: &[&str]) {
    let direct = Cluster::shared().admin_client();
    let front = Apifront::shared().admin_client();
    let mut wrong = Vec::new();
    let mut tunnels = 0;
    for form in ASKED {
        for method in methods {
            for version in versions {
                let text = request(method, path, version, form);
                let (expected, got) = tokio::join!(ask(&direct, &text), ask(&front, &text));
                tunnels += usize::from(expected.1 == After::Tunnel);
                let Asked { lines, .. } = form;
                let what = format!("{method} {version} {lines:?}");
                if told(&expected.0) != told(&got.0) {
                    wrong.push(format!("{what}:\n{}\n-- apifront:\n{}", expected.0, got.0));
                }
                // An HTTP/1.0 client expects the end of the connection.
                let may_close = form.is_upgrade || *version == "HTTP/1.0";
                let is_safe = expected.1 == got.1
                    || may_close && (expected.1, got.1) == (After::Lives, After::Closed);
                if !is_safe {
                    wrong.push(format!("{what}: {:?}, apifront {:?}", expected.1, got.1));
                }
                if expected.1 == After::Tunnel && !form.is_upgrade {
                    wrong.push(format!("{what}: is an upgrade"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(tunnels > 0, "no upgrade of {path} was agreed to");
}

#[tokio::test]
async fn of_exec() {
    let ns = streams::pod().await;
    let path = format!("/api/v1/namespaces/{ns}/pods/p/exec?command=true&stdout=1");
    same(&["GET", "POST"], &path, &["HTTP/1.1", "HTTP/1.0"]).await;
}

#[tokio::test]
async fn of_port_forward() {
    let ns = streams::pod().await;
    let path = format!("/api/v1/namespaces/{ns}/pods/p/portforward");
    same(&["GET"], &path, &["HTTP/1.1"]).await;
}

#[tokio::test]
async fn of_logs() {
    let ns = streams::pod().await;
    let path = format!("/api/v1/namespaces/{ns}/pods/p/log?limitBytes=5");
    same(&["GET"], &path, &["HTTP/1.1", "HTTP/1.0"]).await;
}

/// Bytes that a client sends at once, because it expects the upgrade to succeed, are
/// not forwarded unless it does. They count as the next request, which is malformed, or
/// are dropped.
#[tokio::test]
async fn early_bytes_are_no_stream() {
    let ns = streams::pod().await;
    let path = format!("/api/v1/namespaces/{ns}/pods/p/exec?command=cat&stdin=1&stdout=1");
    let word = "early-word";
    for form in ASKED.into_iter().filter(|form| !form.is_upgrade) {
        for client in [
            Cluster::shared().admin_client(),
            Apifront::shared().admin_client(),
        ] {
            let mut connection = client.raw().await.expect("a connection");
            let asked = request("POST", &path, "HTTP/1.1", form) + word + "\r\n\r\n";
            connection.write(asked.as_bytes()).await.expect("written");
            let first = answer(&mut connection).await;
            assert_eq!(code(&first), 400, "{form:?}: {first}");
            let rest = connection.read_until_quiet(QUIET).await;
            let rest = String::from_utf8_lossy(&rest).into_owned();
            assert!(
                rest.is_empty() || rest.starts_with("HTTP/1.1 400 "),
                "{form:?}: {rest}"
            );
            assert!(!rest.contains(word), "{form:?}: {rest}");
            assert!(connection.closed_within(super::SOON).await, "{form:?}");
        }
    }
}
