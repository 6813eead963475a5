//! Many questions about one user leave others their turns and answers.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// An API server that answers only about jane.
struct OnlyAboutJane;

#[async_trait::async_trait]
impl ReviewClient for OnlyAboutJane {
    async fn create_review(
        &self,
        _: &str,
        body: bytes::Bytes,
    ) -> Result<(http::StatusCode, bytes::Bytes), ReviewError> {
        let review: Value = serde_json::from_slice(&body).unwrap();
        if review["spec"]["user"] != "jane" {
            std::future::pending::<()>().await;
        }
        let status = json!({"status": {"allowed": true}}).to_string();
        Ok((http::StatusCode::CREATED, status.into()))
    }
}

/// An API server that answers after a second.
#[derive(Default)]
struct Slow(AtomicUsize);

impl Slow {
    fn calls(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[async_trait::async_trait]
impl ReviewClient for Slow {
    async fn create_review(
        &self,
        _: &str,
        _: bytes::Bytes,
    ) -> Result<(http::StatusCode, bytes::Bytes), ReviewError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (_, text) = answer(json!({ "allowed": true }))?;
        Ok((http::StatusCode::CREATED, text.into()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_questions_about_one_user_does_not_delay_another() {
    use futures::FutureExt;
    let began = Instant::now();
    let authorizer = authorizer_with(Arc::new(OnlyAboutJane), TEN_AND_THIRTY);
    let flood = user("flood", &[]);
    let mut asked: Vec<_> = (0..600)
        .map(|n| {
            let (authorizer, flood, n) = (&authorizer, &flood, n.to_string());
            async move { code_of(authorizer, flood, &pods("get", &n, "")).await }.boxed()
        })
        .collect();
    let refused = asked
        .iter_mut()
        .filter_map(|one| one.now_or_never())
        .inspect(|code| assert_eq!(*code, 429));
    // It has a part of the turns that there are at first.
    let room = 2 + TURNS.waiting_of_one;
    assert_eq!(refused.count(), 600 - room);
    let jane = user("jane", &[]);
    for n in 0..100 {
        let pods = pods("get", &n.to_string(), "");
        assert_eq!(code_of(&authorizer, &jane, &pods).await, 200);
    }
    assert!(began.elapsed().is_zero(), "none of them waited");
}

#[tokio::test(start_paused = true)]
async fn callers_who_leave_have_no_more_questions_asked_than_those_who_wait() {
    use futures::FutureExt;
    let server = Arc::new(Slow::default());
    let authorizer = authorizer_with(server.clone(), TEN_AND_THIRTY);
    let jane = user("jane", &[]);
    for n in 0..1000 {
        let pods = pods("get", &n.to_string(), "");
        assert!(code_of(&authorizer, &jane, &pods).now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    let turns = 2;
    assert_eq!(server.calls(), turns);
    // Their answers are remembered.
    advance(Duration::from_secs(1)).await;
    for n in 0..turns {
        let pods = pods("get", &n.to_string(), "");
        assert_eq!(code_of(&authorizer, &jane, &pods).await, 200);
    }
    assert_eq!(server.calls(), turns);
}

#[tokio::test]
async fn a_flood_of_questions_drives_only_its_own_answers_out_of_memory() {
    let reason = "x".repeat(cache::MAX_KEPT_REASON_BYTES);
    let server = FakeApiServer::new(move |_, _| answer(json!({"allowed": true, "reason": reason})));
    let (authorizer, _) = authorizer_of(server.clone(), MINUTE);
    let (jane, flood) = (user("jane", &[]), user("flood", &[]));
    code_of(&authorizer, &jane, &pods("list", "", "")).await;
    for n in 0..5_000 {
        code_of(&authorizer, &flood, &pods("get", &n.to_string(), "")).await;
    }
    let before = server.calls();
    code_of(&authorizer, &jane, &pods("list", "", "")).await;
    assert_eq!(server.calls(), before);
    code_of(&authorizer, &flood, &pods("get", "0", "")).await;
    assert_eq!(server.calls(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn questions_drive_out_own_answers_alone() {
    let server = FakeApiServer::new(|_, _| answer(json!({"allowed": true})));
    let (authorizer, _) = authorizer_of(server.clone(), MINUTE);
    let jane = user("jane", &[]);
    let read = pods("get", "a", "");
    let asked = async || {
        let ruling = authorizer.authorize_request(&jane, &read, Purpose::Usual);
        ruling.await.outcome.unwrap();
        server.calls()
    };
    assert_eq!(asked().await, 1);
    let none = http::HeaderMap::new();
    let review = |body: &str| SelfReview {
        decision: Decision::NoOpinion,
        content_type: http::HeaderValue::from_static("application/json"),
        body: body.to_owned().into(),
    };
    let of_jane = self_review_key(&jane, &none, &none, b"?");
    authorizer.remember_self_review(of_jane, "jane", review("no"), Instant::now());
    let mallory = user("mallory", &[]);
    let keys: Vec<Key> = (0..10_000u32)
        .map(|n| self_review_key(&mallory, &none, &none, &n.to_be_bytes()))
        .collect();
    let long = "no".repeat(2_000);
    for key in &keys {
        authorizer.remember_self_review(*key, "mallory", review(&long), Instant::now());
    }
    let kept = |key| authorizer.self_review(key).is_some();
    assert!(kept(&of_jane));
    assert!(kept(&keys[9_999]));
    assert!(keys.iter().filter(|key| kept(key)).count() < 4_096);
    assert_eq!(asked().await, 1, "the decision is still remembered");
    // Long answers are not kept, and none for longer than it may be used.
    let long = self_review_key(&jane, &none, &none, b"long");
    let body = "x".repeat(5_000);
    authorizer.remember_self_review(long, "jane", review(&body), Instant::now());
    assert!(!kept(&long));
    advance(MINUTE).await;
    assert!(!kept(&of_jane));
    authorizer.remember_self_review(of_jane, "jane", review("no"), Instant::now());
    assert!(kept(&of_jane));
    authorizer.forget();
    assert!(!kept(&of_jane));
}

/// Returns the questions of one request about a user with these groups, and its
/// answer.
async fn legacy_questions(
    groups: impl IntoIterator<Item = String>,
    extra: &[&str],
    refused: &'static str,
) -> (Vec<String>, Result<Impersonated, Status>) {
    let server = FakeApiServer::new(move |_, review| {
        let name = &review["spec"]["resourceAttributes"]["name"];
        answer(json!({ "allowed": name != refused }))
    });
    // Answers are not remembered.
    let (authorizer, _) = authorizer_of(server.clone(), Duration::ZERO);
    let impersonator = ImpersonationAuthorizer::new(Arc::new(authorizer), || Some((1, 35)));
    let mut wanted = user("bob", &[]);
    wanted.groups = groups.into_iter().collect();
    let values = extra.iter().map(|value| value.to_string()).collect();
    wanted.extra.insert("scopes".to_owned(), values);
    let asked = Impersonation { wanted };
    let (jane, list) = (user("jane", &[]), pods("list", "", ""));
    let done = impersonator
        .impersonate(&jane, &asked, &list, Purpose::Usual)
        .await;
    let reviews = server.asked.lock().unwrap().clone();
    let name = |review: &Value| review["spec"]["resourceAttributes"]["name"].clone();
    let names = reviews.iter().map(name);
    let names = names.map(|name| name.as_str().unwrap_or_default().to_owned());
    (names.collect(), done)
}

#[tokio::test]
async fn one_request_asks_once_about_each_group_and_nothing_after_a_refusal() {
    let many = || (0..3000).map(|n| format!("g{}", n % 1000));
    let (names, done) = legacy_questions(many(), &["a", "b", "a"], "nothing").await;
    let expected = ["bob".to_owned()].into_iter().chain(many().take(1000));
    let expected = expected.chain(["a".to_owned(), "b".to_owned()]);
    assert_eq!(names, expected.collect::<Vec<_>>());
    // Upstream still gets every group as requested.
    assert_eq!(done.unwrap().user.groups.len(), 3001);

    let (names, done) = legacy_questions(many(), &["a"], "g200").await;
    assert_eq!(names.len(), 1 + 201);
    let status = done.unwrap_err();
    assert_eq!(status.code, 403);
    assert!(status.message.contains("groups \"g200\" is forbidden"));
}

#[tokio::test(start_paused = true)]
async fn questions_end_with_their_request_or_after_a_minute() {
    let server = Arc::new(Slow::default());
    let settings = AuthzSettings {
        allow_ttl: MINUTE,
        deny_ttl: MINUTE,
        outage: Duration::ZERO,
        degraded: Duration::ZERO,
        cached_rbac: CachedRbacUse::Disabled,
    };
    let metrics = AuthzMetrics::register(&Registry::new()).unwrap();
    let authorizer = Authorizer::new(
        server.clone(),
        settings,
        metrics,
        Arc::new(Saved::default()),
    );
    let impersonator = ImpersonationAuthorizer::new(Arc::new(authorizer), || Some((1, 35)));
    let mut wanted = user("bob", &[]);
    wanted.groups = (0..16_000).map(|n| n.to_string()).collect();
    let (asked, jane) = (Impersonation { wanted }, user("jane", &[]));
    let list = pods("list", "", "");
    let calls = || server.calls();
    let ask = || impersonator.impersonate(&jane, &asked, &list, Purpose::Usual);
    let given_up = tokio::time::timeout(Duration::from_millis(4500), ask()).await;
    assert!(given_up.is_err());
    assert_eq!(calls(), 5);
    advance(MINUTE).await;
    assert_eq!(calls(), 5, "nobody waits any more");
    // Nothing is remembered any more.
    advance(MINUTE).await;
    let status = ask().await.unwrap_err();
    assert_eq!((status.code, status.reason.as_str()), (504, "Timeout"));
    assert_eq!(calls(), 5 + 60, "one each second");
}
