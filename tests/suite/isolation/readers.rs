//! Users who do not read the answers that they requested, or do not finish the
//! requests that they began.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::join_all;
use h2::client::SendRequest;
use http::{Method, Request};
use serde_json::json;

use super::measure::{Bound, Times, assert_unharmed};
use super::neighbour::namespace;
use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::elsewhere;

const BOUND: Bound = Bound {
    times_quiet: 3,
    floor: Duration::from_millis(1500),
};

/// kube-apiserver's `--request-timeout`, plus the delay of a busy machine.
const GIVEN_UP_WITHIN: Duration = Duration::from_secs(75);

/// Opens a connection whose streams let the server send `window` bytes of a body,
/// and as many more as the client has read and given back.
async fn connect(client: &Client, window: u32) -> SendRequest<Bytes> {
    let stream = client.tls_stream(b"h2").await.expect("TLS");
    let (sender, connection) = h2::client::Builder::new()
        .initial_window_size(window)
        .handshake(stream)
        .await
        .expect("HTTP/2");
    elsewhere::spawn(async move {
        let _ = connection.await;
    });
    sender.ready().await.expect("ready")
}

fn get(client: &Client, path: &str, headers: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::get(format!("https://{}{path}", client.address()));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).expect("a request")
}

type Unread = http::Response<h2::RecvStream>;

/// Sends requests, and returns answers of which only the head has arrived.
async fn unread(
    client: &Client,
    path: &str,
    headers: &[(&str, &str)],
    count: usize,
) -> Vec<Unread> {
    let mut answers = Vec::new();
    for _ in 0..count.div_ceil(100) {
        let mut sender = connect(client, 0).await;
        let asked = (0..100.min(count - answers.len())).map(|_| {
            let (answer, _) = sender
                .send_request(get(client, path, headers), true)
                .expect("it is sent");
            answer
        });
        let heads = join_all(asked.collect::<Vec<_>>()).await;
        answers.extend(heads.into_iter().map(|head| head.expect("a head")));
    }
    answers
}

fn with_status(answers: &[Unread], status: u16) -> usize {
    answers.iter().filter(|a| a.status() == status).count()
}

/// LISTs that nobody reads must not take all places: other users would get 429.
#[tokio::test]
#[ignore = "it measures: make test-measured"]
async fn unread_answers_leave_their_seats_to_others() {
    skip_under_oracle!("the bounds of slow readers are apifront's");
    let cluster = Cluster::shared();
    let (own, others) = tokio::join!(
        namespace("unread", 20, 2_000),
        namespace("unread-other", 20, 2_000)
    );
    for excluded in [false, true] {
        let front = Apifront::start(cluster, |config| {
            if excluded {
                config["cache"]["exclude"] = json!(["configmaps"]);
            }
        })
        .await;
        let slow = front.client(Some(&cluster.certificates.client("slow", &[&own])));
        let other = front.client(Some(&cluster.certificates.client("other", &[&others])));
        let path = |ns: &str| format!("/api/v1/namespaces/{ns}/configmaps?resourceVersion=0");
        if !excluded {
            front.warm(&slow, &path(&own)).await;
        }
        let theirs = path(&others);
        let quiet = Times::reads(&other, &theirs, &[], 50).await;
        let answers = unread(&slow, &path(&own), &[], 450).await;
        let attacked = Times::reads(&other, &theirs, &[], 50).await;
        let what = if excluded { "forwarded" } else { "cached" };
        let of = with_status(&answers, 200);
        println!("{of} of {} answers wait for their reader", answers.len());
        assert_unharmed(
            &format!("450 unread LISTs, {what}"),
            &quiet,
            &attacked,
            BOUND,
        );
        assert!(of >= 400, "{of} unread answers");
        drop(answers);
        front.stop().await;
    }
}

/// Watches with unread initial events must not keep the places in which watches
/// begin.
#[tokio::test]
async fn unread_initial_events_leave_their_seats_to_others() {
    skip_under_oracle!("the bounds of slow readers are apifront's");
    let cluster = Cluster::shared();
    let ns = namespace("unread-watches", 20, 20_000).await;
    let front = Apifront::start(cluster, |config| {
        config["serving"]["maxRequestsInflight"] = json!(40);
        config["serving"]["maxMutatingRequestsInflight"] = json!(0);
    })
    .await;
    let slow = front.client(Some(&cluster.certificates.client("slow", &[&ns])));
    let other = front.client(Some(&cluster.certificates.client("other", &[&ns])));
    let path = format!("/api/v1/namespaces/{ns}/configmaps?watch=1&resourceVersion=0");
    front
        .warm(
            &slow,
            &format!("/api/v1/namespaces/{ns}/configmaps?resourceVersion=0"),
        )
        .await;
    let began = Instant::now();
    let answers = unread(&slow, &path, &[], 200).await;
    println!(
        "200 unread watches have begun after {:.1?}",
        began.elapsed()
    );
    let mut first = crate::harness::watch::Watch::open(&other, &path).await;
    assert!(first.next().await.is_ok(), "an initial event");
    let took = began.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert_eq!(with_status(&answers, 200), 200);
    drop((answers, first));
    front.stop().await;
}

/// Reads one byte a second if `drips`, or nothing. Returns the time after which the
/// server gives up.
async fn given_up_after(answer: Unread, drips: bool) -> Duration {
    let began = Instant::now();
    let mut body = answer.into_body();
    while began.elapsed() < GIVEN_UP_WITHIN * 2 {
        if drips {
            // Makes room for one more byte, at a pace of one byte a second.
            crate::harness::pace::of_load(Duration::from_secs(1)).await;
            let _ = body.flow_control().release_capacity(1);
        }
        match tokio::time::timeout(Duration::from_secs(1), body.data()).await {
            Ok(Some(Ok(_))) | Err(_) => {}
            Ok(Some(Err(_)) | None) => break,
        }
    }
    began.elapsed()
}

/// A client that reads nothing, or one byte a second, must not hold its answer for
/// ever, whether cached or forwarded.
#[tokio::test]
async fn answers_nobody_reads_are_given_up() {
    skip_under_oracle!("the bounds of slow readers are apifront's");
    let cluster = Cluster::shared();
    let ns = namespace("given-up", 40, 20_000).await;
    let pair = cluster.certificates.client("slow", &[&ns]);
    let path = format!("/api/v1/namespaces/{ns}/configmaps?resourceVersion=0");
    let cached = Apifront::start(cluster, |_| {}).await;
    let forwarding = Apifront::start(cluster, |config| {
        config["cache"]["exclude"] = json!(["configmaps"]);
    })
    .await;
    cached.warm(&cached.client(Some(&pair)), &path).await;
    let mut ends = Vec::new();
    for (front, what) in [(&cached, "cached"), (&forwarding, "forwarded")] {
        for drips in [false, true] {
            let client = front.client(Some(&pair));
            let path = path.clone();
            ends.push(async move {
                let answer = if drips {
                    dripping(&client, &path).await
                } else {
                    let mut answers = unread(&client, &path, &[], 1).await;
                    answers.pop().expect("an answer")
                };
                assert_eq!(answer.status(), 200);
                (what, drips, given_up_after(answer, drips).await)
            });
        }
    }
    // A request must not wait for ever for its body either.
    let body = async {
        let client = forwarding.client(Some(&pair));
        let mut sender = connect(&client, 0).await;
        let request = Request::post(format!(
            "https://{}/api/v1/namespaces/{ns}/configmaps",
            client.address()
        ))
        .header("content-type", "application/json")
        .body(())
        .expect("a request");
        let began = Instant::now();
        let (answer, mut stream) = sender.send_request(request, false).expect("sent");
        let drip = async {
            while stream.send_data(Bytes::from_static(b" "), false).is_ok() {
                crate::harness::pace::of_load(Duration::from_secs(1)).await;
            }
        };
        let end = tokio::select! {
            answer = answer => answer.map(|a| a.status().as_u16()).unwrap_or(0),
            () = drip => 0,
            () = crate::harness::pace::lasting(GIVEN_UP_WITHIN * 2) => 0,
        };
        (end, began.elapsed())
    };
    let (ends, (status, took)) = tokio::join!(join_all(ends), body);
    for (what, drips, after) in &ends {
        println!("{what}, dripping: {drips}: given up after {after:.1?}");
    }
    println!("a dripping body: {status} after {took:.1?}");
    for (what, drips, after) in ends {
        assert!(
            after < GIVEN_UP_WITHIN,
            "{what} dripping: {drips}, {after:?}"
        );
    }
    assert!(took < GIVEN_UP_WITHIN, "{took:?}");
    let slow = [("what", "answer")];
    let name = "apifront_slow_clients_total";
    assert_eq!(cached.metric(name, &slow).await, 2.0);
    let slow = [("what", "forwarded_answer")];
    assert!(forwarding.metric(name, &slow).await >= 1.0);
    cached.stop().await;
    forwarding.stop().await;
}

/// The window has one byte, so each byte that is read makes room for another.
async fn dripping(client: &Client, path: &str) -> Unread {
    let mut sender = connect(client, 1).await;
    let (answer, _) = sender
        .send_request(get(client, path, &[]), true)
        .expect("it is sent");
    answer.await.expect("a head")
}

/// Unread bodies that were made for one user alone have a bound. This user is
/// refused further ones before they are made; other users are not.
#[tokio::test]
#[ignore = "it measures: make test-measured"]
async fn unread_copies_have_a_bound_of_their_user() {
    skip_under_oracle!("the bounds of slow readers are apifront's");
    let cluster = Cluster::shared();
    let ns = namespace("copies", 100, 50_000).await;
    let front = Apifront::start(cluster, |config| {
        config["flow"] = json!({ "queueWait": "2s" });
    })
    .await;
    let slow = front.client(Some(&cluster.certificates.client("slow", &[&ns])));
    let other = front.client(Some(&cluster.certificates.client("other", &[&ns])));
    let path = format!("/api/v1/namespaces/{ns}/configmaps?resourceVersion=0&pretty=true");
    front.warm(&slow, &path).await;
    let length = other.get(&path).await.body.len();
    let quiet = Times::reads(&other, &path, &[], 5).await;
    let before = front.process.resident_bytes();
    let answers = unread(&slow, &path, &[], 60).await;
    let attacked = Times::reads(&other, &path, &[], 5).await;
    let grown = front.process.resident_bytes().saturating_sub(before) >> 20;
    let (made, refused) = (with_status(&answers, 200), with_status(&answers, 429));
    let held = front.metric("apifront_answer_bytes", &[]).await;
    println!(
        "60 unread answers of {length} bytes: {made} made, {refused} refused, {held} bytes held, \
         {grown} MiB more"
    );
    assert_eq!(made + refused, 60);
    assert!(
        refused > 0 && made * length <= (128 << 20) + 2 * length,
        "{made}"
    );
    assert_unharmed("unread indented LISTs of 5 MB", &quiet, &attacked, BOUND);
    drop(answers);
    // There is room again as soon as they are gone.
    let client = slow.separate();
    assert_eq!(client.send(Method::GET, &path, &[], "").await.status, 200);
    front.stop().await;
}
