//! Questions about callers who do not wait for the answer any more: they are not asked,
//! and those that the API server works on are bounded as if their callers were there.

use std::time::Duration;

use http::Method;
use serde_json::json;
use tokio::task::JoinSet;

use crate::harness::apifront::Apifront;
use crate::harness::client::{Client, Protocol};
use crate::harness::cluster::{Cluster, sum_metric};
use crate::harness::eventually;
use crate::harness::slow_link::SlowLink;

/// More than one caller's turns.
const CALLERS: usize = 60;
/// The most turns of one caller.
const TURNS: f64 = 16.0;
const SOON: Duration = Duration::from_secs(30);

/// A kind of question, and the metrics that count such questions.
struct Kind {
    name: &'static str,
    sent: &'static str,
    needed: &'static str,
    failed: &'static str,
}

const REVIEWS: Kind = Kind {
    name: "reviews",
    sent: "subject_access_review",
    needed: "apifront_subject_access_review_cache_total",
    failed: "authorization_attempts_total",
};
const TOKENS: Kind = Kind {
    name: "tokens",
    sent: "token_review",
    needed: "apifront_token_review_cache_total",
    failed: "authentication_attempts",
};

impl Kind {
    async fn count(&self, front: &Apifront) -> Counts {
        let metrics = front.metrics().await;
        let sum = |name, labels: &[_]| sum_metric(&metrics, name, labels);
        Counts {
            sent: sum("apifront_upstream_requests_total", &[("kind", self.sent)]),
            needed: sum(self.needed, &[("result", "miss")]),
            failed: sum(self.failed, &[("result", "error")]),
            left: sum("apiserver_request_total", &[("code", "499")]),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Counts {
    sent: f64,
    needed: f64,
    failed: f64,
    left: f64,
}

/// Sends requests whose questions all wait, because the API server does not answer.
/// When their callers leave, they end at once.
async fn leave(
    link: &SlowLink,
    front: &Apifront,
    kind: &Kind,
    what: &str,
    ask: impl Fn(usize) -> (Client, String, Vec<(&'static str, String)>),
) {
    let before = kind.count(front).await;
    link.hold(true);
    let mut callers = JoinSet::new();
    for n in 0..CALLERS {
        let (client, path, headers) = ask(n);
        callers.spawn(async move {
            let headers: Vec<_> = headers.iter().map(|(k, v)| (*k, v.as_str())).collect();
            let _ = client.try_send(Method::GET, &path, &headers, "").await;
        });
    }
    let all = CALLERS as f64;
    eventually("all questions are needed", SOON, || async {
        kind.count(front).await.needed >= before.needed + all
    })
    .await;
    callers.shutdown().await;
    eventually("the requests have ended", SOON, || async {
        kind.count(front).await.left >= before.left + all
    })
    .await;
    let ended = kind.count(front).await;
    assert_eq!(ended.failed, before.failed, "{what}: none waited in vain");
    link.hold(false);
    // A later question shows that no earlier one waits.
    let (client, path, headers) = ask(CALLERS);
    let headers: Vec<_> = headers.iter().map(|(k, v)| (*k, v.as_str())).collect();
    let refused = client.send(Method::GET, &path, &headers, "").await;
    assert!(
        refused.status == 401 || refused.status == 403,
        "{what}: {refused:?}"
    );
    let after = kind.count(front).await;
    let sent = after.sent - before.sent;
    assert!((1.0..=TURNS + 1.0).contains(&sent), "{what}: {sent} sent");
}

#[tokio::test]
async fn no_question_is_asked_for_a_caller_who_has_left() {
    skip_under_oracle!("the questions are apifront's");
    let cluster = Cluster::shared();
    let (link, front) = SlowLink::before(cluster, Duration::ZERO, |config| {
        config["authentication"]["tokenReview"] = json!({ "enabled": true });
        // Nobody waits for a seat instead.
        config["serving"]["maxRequestsInflight"] = json!(0);
        config["flow"] = json!({ "enablePriorityAndFairness": false });
    })
    .await;
    let ns = cluster.namespace("abandoned").await;
    let user = front.client(Some(&cluster.certificates.client("nobody-special", &[])));
    let path = format!("/api/v1/namespaces/{ns}/configmaps");
    // All that a question needs is there before the API server falls silent.
    front.warm(&front.admin_client(), &path).await;
    user.get(&format!("{path}/a?resourceVersion=0"))
        .await
        .expect(403);
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let (users, strangers) = (user.over(protocol), front.client(None).over(protocol));
        let what = |kind: &Kind| format!("{} over {protocol:?}", kind.name);
        leave(&link, &front, &REVIEWS, &what(&REVIEWS), |n| {
            let name = format!("of-{protocol:?}-{n}").to_lowercase();
            let path = format!("{path}/{name}?resourceVersion=0");
            (users.clone(), path, Vec::new())
        })
        .await;
        leave(&link, &front, &TOKENS, &what(&TOKENS), |n| {
            let token = format!("Bearer of-{protocol:?}-{n}");
            let headers = vec![("authorization", token)];
            (strangers.clone(), "/version".to_owned(), headers)
        })
        .await;
    }
    front.stop().await;
}
