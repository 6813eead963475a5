//! Earlier decisions hold for a time while no API server can be asked.

use super::*;

/// An API server that allows everybody but joe, while it can be reached.
#[derive(Default)]
struct Server {
    error: parking_lot::Mutex<Option<ReviewError>>,
    reachable: std::sync::atomic::AtomicBool,
}

#[async_trait::async_trait]
impl ReviewClient for Server {
    async fn create_review(
        &self,
        _: &str,
        body: bytes::Bytes,
    ) -> Result<(http::StatusCode, bytes::Bytes), ReviewError> {
        if let Some(error) = self.error.lock().clone() {
            return Err(error);
        }
        let review: Value = serde_json::from_slice(&body).unwrap();
        let status = json!({"status": {"allowed": review["spec"]["user"] != "joe"}});
        Ok((http::StatusCode::CREATED, status.to_string().into()))
    }

    fn is_reachable(&self) -> bool {
        self.reachable.load(std::sync::atomic::Ordering::Relaxed)
    }
}

/// Reads from memory once ended ten seconds after the API server did.
#[tokio::test(start_paused = true)]
async fn what_was_allowed_stays_so_while_nobody_can_be_asked() {
    let server = Arc::new(Server::default());
    let authorizer = authorizer_with(server.clone(), TEN_AND_THIRTY);
    let (jane, joe, jill) = (user("jane", &[]), user("joe", &[]), user("jill", &[]));
    let pods = pods("list", "", "");
    let code = async |user: &UserInfo| code_of(&authorizer, user, &pods).await;
    assert_eq!((code(&jane).await, code(&joe).await), (200, 403));
    advance(seconds(11)).await;

    let unavailable = ReviewError::Unavailable("refused".to_owned());
    for (error, expected) in [
        (unavailable.clone(), 200),
        (ReviewError::Timeout, 200),
        (ReviewError::Malformed(String::new()), 500),
        (
            ReviewError::Refused {
                code: http::StatusCode::FORBIDDEN,
                body: String::new(),
            },
            500,
        ),
    ] {
        *server.error.lock() = Some(error.clone());
        assert_eq!(code(&jane).await, expected, "{error}");
        // These users were never allowed.
        assert!(code(&joe).await >= 500 && code(&jill).await >= 500);
    }
    *server.error.lock() = Some(unavailable);
    // An API server answers, though not this question.
    server
        .reachable
        .store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(code(&jane).await, 503);
}

/// Once, some allowances ended in the outage's first second, others 40 s later.
#[tokio::test(start_paused = true)]
async fn an_outage_ends_all_allowances_at_the_same_moment() {
    let server = Arc::new(Server::default());
    let authorizer = authorizer_with(server.clone(), TEN_AND_THIRTY);
    let (jane, jill) = (user("jane", &[]), user("jill", &[]));
    let pods = pods("list", "", "");
    let code = async |user: &UserInfo| code_of(&authorizer, user, &pods).await;
    assert_eq!(code(&jane).await, 200);
    advance(seconds(9)).await;
    assert_eq!(code(&jill).await, 200);
    *server.error.lock() = Some(ReviewError::Unavailable("refused".to_owned()));
    advance(seconds(29)).await;
    assert_eq!((code(&jane).await, code(&jill).await), (200, 200));
    advance(seconds(1)).await;
    assert_eq!((code(&jane).await, code(&jill).await), (503, 503));
}

/// As allowances by reviews do.
#[tokio::test(start_paused = true)]
async fn what_rbac_in_memory_allowed_holds_in_an_outage() {
    let server = Arc::new(Server::default());
    *server.error.lock() = Some(ReviewError::Unavailable("refused".to_owned()));
    let settings = AuthzSettings {
        cached_rbac: CachedRbacUse::Allow,
        ..TEN_AND_THIRTY
    };
    let saved = Saved::proven(Some(std::time::Instant::now()));
    let metrics = AuthzMetrics::register(&Registry::new()).unwrap();
    let authorizer = Authorizer::new(server, settings, metrics, saved.clone());
    let code = async || code_of(&authorizer, &user("jane", &[]), &path("/bound")).await;
    assert_eq!(code().await, 200);
    saved.forget();
    advance(seconds(28)).await;
    assert_eq!(code().await, 200);
    advance(seconds(3)).await;
    assert_eq!(code().await, 503);
}

#[tokio::test(start_paused = true)]
async fn a_reload_shortens_and_lengthens_what_is_believed() {
    let server = FakeApiServer::new(|_, _| answer(json!({"allowed": true})));
    let authorizer = authorizer_with(server.clone(), TEN_AND_THIRTY);
    let (jane, pods) = (user("jane", &[]), pods("list", "", ""));
    let calls = async || {
        let before = server.calls();
        code_of(&authorizer, &jane, &pods).await;
        server.calls() - before
    };
    assert_eq!(calls().await, 1);
    advance(seconds(5)).await;
    assert_eq!(calls().await, 0);
    let with = |allow_ttl| AuthzSettings {
        allow_ttl,
        ..TEN_AND_THIRTY
    };
    authorizer.reload(with(seconds(5)));
    assert_eq!(calls().await, 1);
    advance(seconds(20)).await;
    authorizer.reload(with(seconds(60)));
    assert_eq!(calls().await, 0);
}
