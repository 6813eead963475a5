//! exec, attach, port-forward and logs through both instances, when the middle one
//! fails. The suite `streams` tests them through two working instances, if
//! `APIFRONT_TEST_HOPS` is 2.

use std::time::Duration;

use http::Method;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::Child;

use crate::harness::apifront::Apifront;
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::kubectl::Kubectl;
use crate::harness::kwok::{ECHO_PORT, Kwok, append_line};
use crate::streams::{Protocol, SOON, forwarded, kubectl, pod, through};

const ENDS_WITHIN: Duration = Duration::from_secs(20);
const BACK_WITHIN: Duration = Duration::from_secs(30);

/// A kubectl with an open stream, and its name.
type Running = (&'static str, Child);

/// Starts kubectl, and waits until it has printed a line. Starts it again if it ends
/// before that: the kubelet also serves other tests and may be busy.
async fn running(kubectl: &Kubectl, name: &'static str, arguments: &[&str], mark: &str) -> Running {
    let started = async {
        loop {
            match printing(kubectl.start(arguments), mark).await {
                Ok(child) => return child,
                Err(said) => println!("{name} ended before it had printed a line: {said}"),
            }
        }
    };
    let child = tokio::time::timeout(SOON, started).await.expect(name);
    (name, child)
}

/// Returns a kubectl that has printed a line, or its output if it ends before that.
async fn printing(mut child: Child, mark: &str) -> Result<Child, String> {
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    loop {
        append_line(&Kwok::shared().attach_file, mark);
        let line = tokio::time::timeout(Duration::from_millis(200), lines.next_line()).await;
        match line.map(|line| line.expect("stdout")) {
            Ok(Some(line)) if line == mark => break,
            Ok(None) => {
                let mut said = String::new();
                let mut stderr = child.stderr.take().expect("piped");
                stderr.read_to_string(&mut said).await.expect("stderr");
                return Err(said);
            }
            Ok(Some(_)) | Err(_) => {}
        }
    }
    // kubectl must not end because its output is not read.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Ok(child)
}

async fn open(lower: &Apifront, protocol: Protocol) -> Vec<Running> {
    let config = through(lower);
    let kubectl = kubectl(&config, protocol);
    let ns = pod().await;
    let mark = format!("begun in {ns}");
    let script = format!("echo {mark}; sleep 600");
    let exec = ["exec", "-n", &ns, "p", "--", "sh", "-c", &script];
    let attach = ["attach", "-n", &ns, "p"];
    append_line(&Kwok::shared().log_file, &mark);
    let logs = ["logs", "-f", "-n", &ns, "p"];
    let (forward, _) = forwarded(&config, protocol, ECHO_PORT).await;
    vec![
        running(&kubectl, "exec", &exec, &mark).await,
        running(&kubectl, "attach", &attach, &mark).await,
        running(&kubectl, "logs", &logs, &mark).await,
        ("port-forward", forward),
    ]
}

/// Clients of the lower instance notice the end of the middle one at once, and none
/// hangs. The lower one keeps running, and opens streams again when the middle one
/// is back.
async fn ends_and_returns(signal: &str, protocol: Protocol) {
    let cluster = Cluster::shared();
    let mut upper = Apifront::start(cluster, |_| {}).await;
    let lower = upper.start_below(cluster, |_| {}).await;
    let admin = lower.admin_client();
    let cached = "/api/v1/namespaces?resourceVersion=0";
    lower.warm(&admin, cached).await;
    let streams = open(&lower, protocol).await;
    upper.process.signal(signal);
    for (name, mut child) in streams {
        let ended = tokio::time::timeout(ENDS_WITHIN, child.wait()).await;
        let ended = ended.unwrap_or_else(|_| panic!("{name} hangs after {signal}"));
        let mut said = String::new();
        let mut stderr = child.stderr.take().expect("piped");
        stderr.read_to_string(&mut said).await.expect("stderr");
        println!(
            "SIG{signal} {protocol:?} {name}: {}: {}",
            ended.expect("kubectl"),
            said.trim()
        );
    }
    upper.process.wait(ENDS_WITHIN).await;
    // The lower instance still answers from memory. Everything else fails at once.
    assert_eq!(admin.get(cached).await.status, 200);
    let ns = pod().await;
    let kubectl = kubectl(&through(&lower), protocol);
    let exec = ["exec", "-n", &ns, "p", "--", "echo", "again"];
    let refused = tokio::time::timeout(ENDS_WITHIN, kubectl.run(&exec)).await;
    let refused = refused.expect("an answer without the middle one");
    assert_ne!(refused.code, Some(0), "{}", refused.stdout);
    let write = admin
        .send(Method::DELETE, "/api/v1/namespaces/none", &[], "")
        .await;
    assert_eq!(write.status, 503, "{}", write.text());
    upper.restart().await;
    eventually("streams open again", BACK_WITHIN, || async {
        kubectl.run(&exec).await.stdout == "again\n"
    })
    .await;
    for (_, mut child) in open(&lower, protocol).await {
        child.kill().await.expect("kubectl");
    }
    lower.stop().await;
    upper.stop().await;
}

#[tokio::test]
async fn streams_end_when_the_middle_one_is_killed() {
    skip_under_oracle!("there are no hops");
    ends_and_returns("KILL", Protocol::WebSocket).await;
}

#[tokio::test]
async fn streams_end_when_the_middle_one_stops() {
    skip_under_oracle!("there are no hops");
    ends_and_returns("TERM", Protocol::Spdy).await;
}
