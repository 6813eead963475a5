//! A declined upgrade: an answer other than 101, after which the client sends bytes
//! (CVE-2020-8559). These must not reach any server as a stream.

use super::{ASKED, QUIET, SOON, answer, code, request};
use crate::harness::apifront::Apifront;
use crate::harness::kubeconfig::{self, Credential};
use crate::harness::process;
use crate::harness::raw::RawConnection;
use crate::harness::scripted::{Connection, Scripted};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Answers as the path says, and then waits for further bytes. They are a second
/// request only if apifront has made one of them.
async fn decline(mut connection: Connection) {
    while let Some(request) = connection.next().await {
        let status = request.line.rsplit("say=").next().unwrap_or_default();
        let status = status.split('&').next().unwrap_or_default();
        let answer =
            format!("HTTP/1.1 {status} X\r\nLocation: /elsewhere\r\nContent-Length: 2\r\n\r\nno");
        connection.write(answer).await;
        let more = connection.read_within(QUIET).await;
        assert!(more.is_empty(), "{}", String::from_utf8_lossy(&more));
    }
}

#[tokio::test]
async fn nothing_follows_a_declined_upgrade() {
    skip_under_oracle!("kube-apiserver has no upstream");
    let scripted = Scripted::start(decline).await;
    let folder = process::temporary_folder("declined");
    let config = kubeconfig::write(&folder, "declined", &scripted.url(), None, Credential::None);
    let front = Apifront::personal(&config).await;
    let behind = "GET /secret HTTP/1.1\r\nHost: localhost\r\n\r\n\x01\x02";
    for status in [200, 302, 400, 403, 404, 500] {
        for form in ASKED.into_iter().filter(|form| form.is_upgrade) {
            for path in ["p/exec", "p/portforward", "p/proxy/x"] {
                let path = format!("{PODS}/{path}?say={status}&x=1");
                let mut connection = open(&front).await;
                let asked = request("GET", &path, "HTTP/1.1", form) + behind;
                connection.write(asked.as_bytes()).await.expect("written");
                let answer = answer(&mut connection).await;
                let what = format!("{form:?} {path}: {answer}");
                assert_eq!(code(&answer), status, "{what}");
                let head = answer.to_ascii_lowercase();
                assert!(head.contains("\r\nconnection: close\r\n"), "{what}");
                assert!(answer.ends_with("no"), "{what}");
                let rest = connection.read_until_quiet(SOON).await;
                assert!(
                    rest.is_empty(),
                    "{what}: {}",
                    String::from_utf8_lossy(&rest)
                );
            }
        }
    }
    assert_eq!(scripted.count("GET /secret"), 0);
    front.stop().await;
}

/// Where kube-apiserver does not look for an upgrade, the connection stays an HTTP
/// connection.
#[tokio::test]
async fn requests_follow_an_upgrade_that_nobody_takes() {
    skip_under_oracle!("kube-apiserver has no upstream");
    let scripted = Scripted::start(decline).await;
    let folder = process::temporary_folder("ignored");
    let config = kubeconfig::write(&folder, "ignored", &scripted.url(), None, Credential::None);
    let front = Apifront::personal(&config).await;
    for form in ASKED {
        if form.lines.iter().any(|line| line.contains("close")) {
            continue;
        }
        let mut connection = open(&front).await;
        for n in 0..2 {
            let path = format!("{PODS}/p?say=404&n={n}");
            let asked = request("GET", &path, "HTTP/1.1", form);
            connection.write(asked.as_bytes()).await.expect("written");
            let answer = answer(&mut connection).await;
            assert_eq!(code(&answer), 404, "{form:?} {path}: {answer}");
        }
    }
    front.stop().await;
}

async fn open(front: &Apifront) -> RawConnection {
    let stream = tokio::net::TcpStream::connect(front.address).await;
    RawConnection::new(stream.expect("a connection"))
}
