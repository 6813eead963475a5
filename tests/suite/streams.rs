//! Tests logs, exec, attach and port-forward, whose connections change protocol.
//! kubectl uses SPDY or WebSocket; both must work, including half-closes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Child;

use crate::harness::apifront::Apifront;
use crate::harness::cluster::Cluster;
use crate::harness::kubeconfig::{self, Credential};
use crate::harness::kubectl::Kubectl;
use crate::harness::kwok::{COUNT_PORT, ECHO_PORT, Kwok, append_line};
use crate::harness::process;

pub(super) const SOON: Duration = Duration::from_secs(20);
/// The number of bytes to send, more than any window or buffer on the way.
const MUCH: usize = 3 << 20;

#[derive(Clone, Copy, Debug)]
pub(super) enum Protocol {
    Spdy,
    WebSocket,
}

fn direct() -> PathBuf {
    Cluster::shared().admin_kubeconfig.clone()
}

fn through_apifront() -> PathBuf {
    through(Apifront::shared())
}

/// Returns a kubeconfig with `front` as the server and [`Cluster::shared`]'s admin.
pub(super) fn through(front: &Apifront) -> PathBuf {
    let cluster = Cluster::shared();
    let folder = process::temporary_folder("streams");
    kubeconfig::write(
        &folder,
        "front",
        &front.url(),
        Some(cluster.ca()),
        Credential::Certificate(&cluster.admin),
    )
}

pub(super) fn kubectl(kubeconfig: &Path, protocol: Protocol) -> Kubectl {
    let websockets = match protocol {
        Protocol::Spdy => "false",
        Protocol::WebSocket => "true",
    };
    Kubectl::new(kubeconfig)
        .with_env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets)
        .with_env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets)
}

/// Starts a pod `p` in a new namespace, and returns the namespace.
pub(super) async fn pod() -> String {
    let cluster = Cluster::shared();
    let ns = cluster.namespace("streams").await;
    Kwok::shared().run_pod(cluster, &ns, "p").await;
    ns
}

macro_rules! streams {
    ($($test:ident),+ $(,)?) => {
        mod kube_apiserver {
            $(mod $test {
                #[tokio::test]
                async fn spdy() {
                    super::super::$test(&super::super::direct(), super::super::Protocol::Spdy).await;
                }
                #[tokio::test]
                async fn websocket() {
                    super::super::$test(&super::super::direct(), super::super::Protocol::WebSocket).await;
                }
            })+
        }
        mod apifront {
            $(mod $test {
                #[tokio::test]
                async fn spdy() {
                    super::super::$test(&super::super::through_apifront(), super::super::Protocol::Spdy).await;
                }
                #[tokio::test]
                async fn websocket() {
                    super::super::$test(&super::super::through_apifront(), super::super::Protocol::WebSocket).await;
                }
            })+
        }
    };
}

streams!(
    exec,
    exec_stdin,
    attach,
    port_forward,
    port_forward_half_close
);

async fn exec(config: &Path, protocol: Protocol) {
    let ns = pod().await;
    let kubectl = kubectl(config, protocol);
    let printed = kubectl
        .run(&[
            "exec",
            "-n",
            &ns,
            "p",
            "--",
            "sh",
            "-c",
            "echo out; echo err >&2; exit 3",
        ])
        .await;
    assert_eq!(printed.stdout, "out\n", "{}", printed.stderr);
    // kwok reports a failed command as an internal error.
    assert!(
        printed
            .stderr
            .starts_with("err\nerror: Internal error occurred: ")
            && printed.stderr.ends_with(": exit status 3\n"),
        "{}",
        printed.stderr
    );
    assert_eq!(printed.code, Some(1));

    let printed = kubectl
        .run(&[
            "exec",
            "-n",
            &ns,
            "p",
            "--",
            "head",
            "-c",
            &MUCH.to_string(),
            "/dev/zero",
        ])
        .await;
    assert_eq!(printed.ok().len(), MUCH);

    let printed = kubectl
        .run(&["exec", "-n", &ns, "none", "--", "true"])
        .await;
    assert_eq!(
        printed.stderr,
        "Error from server (NotFound): pods \"none\" not found\n"
    );
}

/// Sends stdin as `kubectl cp` does. The command counts the bytes itself, since kwok
/// never closes the stdin of its commands.
async fn exec_stdin(config: &Path, protocol: Protocol) {
    let ns = pod().await;
    let input = "0123456789abcde\n".repeat(MUCH / 16);
    let command = format!("head -c {MUCH} | wc -c; echo after");
    let arguments = ["exec", "-i", "-n", &ns, "p", "--", "sh", "-c", &command];
    let printed = kubectl(config, protocol)
        .run_with_input(&arguments, &input)
        .await;
    assert_eq!(printed.ok(), format!("{MUCH}\nafter\n"));
}

async fn attach(config: &Path, protocol: Protocol) {
    let ns = pod().await;
    let mut child = kubectl(config, protocol).start(&["attach", "-n", &ns, "p"]);
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    // Lines from before the attachment do not appear.
    let mark = format!("attached in {ns}");
    let seen = async {
        loop {
            append_line(&Kwok::shared().attach_file, &mark);
            let line = tokio::time::timeout(Duration::from_millis(200), lines.next_line()).await;
            if let Ok(line) = line {
                let line = line.expect("stdout").expect("kubectl attach goes on");
                if line == mark {
                    return;
                }
            }
        }
    };
    tokio::time::timeout(SOON, seen)
        .await
        .expect("the appended line is shown");
    child.kill().await.expect("kubectl attach");
}

/// Starts `kubectl port-forward`, and returns it with its listening address.
pub(super) async fn forwarded(config: &Path, protocol: Protocol, port: u16) -> (Child, String) {
    let ns = pod().await;
    let target = format!(":{port}");
    let mut child = kubectl(config, protocol).start(&["port-forward", "-n", &ns, "p", &target]);
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let line = tokio::time::timeout(SOON, lines.next_line()).await;
    let line = line.expect("it says where").expect("stdout");
    let line = line.expect("a line");
    // kubectl keeps writing to stdout, which must be read.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    let address = line
        .strip_prefix("Forwarding from ")
        .and_then(|l| l.split(" -> ").next());
    let address = address.unwrap_or_else(|| panic!("{line}"));
    (child, address.to_owned())
}

async fn port_forward(config: &Path, protocol: Protocol) {
    let (mut child, address) = forwarded(config, protocol, ECHO_PORT).await;
    let talk = async |text: &'static [u8]| {
        let mut stream = TcpStream::connect(&address).await.expect("forwarded port");
        stream.write_all(text).await.expect("write");
        let mut echo = vec![0; text.len()];
        stream.read_exact(&mut echo).await.expect("echo");
        assert_eq!(echo, text);
    };
    tokio::time::timeout(SOON, async {
        talk(b"one").await;
        tokio::join!(talk(b"two, at once"), talk(b"three, at once"));
    })
    .await
    .expect("the forwarded port answers");
    child.kill().await.expect("kubectl port-forward");
}

/// The far end answers only after the near end has closed its side.
async fn port_forward_half_close(config: &Path, protocol: Protocol) {
    let (mut child, address) = forwarded(config, protocol, COUNT_PORT).await;
    let mut stream = TcpStream::connect(&address).await.expect("forwarded port");
    let counted = tokio::time::timeout(SOON, async {
        stream.write_all(&vec![b'x'; MUCH]).await.expect("write");
        stream.shutdown().await.expect("half-close");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("answer");
        answer
    });
    let counted = counted.await.expect("an answer after the half-close");
    assert_eq!(counted.trim(), MUCH.to_string());
    child.kill().await.expect("kubectl port-forward");
}

mod logs {
    use super::*;

    #[tokio::test]
    async fn kube_apiserver() {
        follow(&direct()).await;
    }

    #[tokio::test]
    async fn apifront() {
        follow(&through_apifront()).await;
    }

    async fn follow(config: &Path) {
        let ns = pod().await;
        let kubectl = kubectl(config, Protocol::Spdy);
        let printed = kubectl
            .run(&["logs", "-n", &ns, "p", "--limit-bytes=34"])
            .await
            .ok();
        assert_eq!(printed, "first line\nsecond line\nthird line\n");

        let mut child = kubectl.start(&["logs", "-f", "-n", &ns, "p", "--tail=1"]);
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut next = async || {
            let line = tokio::time::timeout(SOON, lines.next_line()).await;
            line.expect("a line in time")
                .expect("stdout")
                .expect("kubectl logs goes on")
        };
        next().await;
        // Each line arrives when it is written, not when a buffer is full.
        for n in 0..3 {
            let line = format!("line {n} of {ns}");
            append_line(&Kwok::shared().log_file, &line);
            while next().await != line {}
        }
        child.kill().await.expect("kubectl logs");
    }
}
