//! Pages and watches follow the versions of the store's history.

use super::*;

#[tokio::test]
async fn pages_come_from_one_snapshot() {
    let server = Subject::start(Options::default()).await;
    for name in ["a", "b", "c"] {
        server.create(name, json!({})).await;
    }
    let (_, first) = server
        .json(Method::GET, &format!("{CONFIG_MAPS}?limit=2"), Value::Null)
        .await;
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    server.create("d", json!({})).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (_, second) = server
        .json(
            Method::GET,
            &format!("{CONFIG_MAPS}?limit=2&continue={token}"),
            Value::Null,
        )
        .await;
    assert_eq!(second["items"].as_array().unwrap().len(), 1);
    assert_eq!(second["items"][0]["metadata"]["name"], "c");
    assert_eq!(version(&second), version(&first));
    assert_eq!(second["metadata"].get("continue"), None);
}

#[tokio::test]
async fn forgotten_history_is_410() {
    let options = Options {
        history_events: 2,
        ..Options::default()
    };
    let server = Subject::start(options).await;
    let mut made = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let object = server.create(name, json!({})).await;
        made.push(version(&object).parse::<u64>().unwrap());
    }
    // The creation of a is no longer remembered.
    let (before, remembered) = (made[0] - 1, made[1]);
    let mut events = server
        .watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={before}"))
        .await;
    assert_eq!(
        events.line().await.unwrap(),
        format!(
            r#"{{"type":"ERROR","object":{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"too old resource version: {before} ({remembered})","reason":"Expired","code":410}}}}"#
        )
    );
    assert_eq!(events.line().await, None);
    let token = format!(
        r#"{{"v":"meta.k8s.io/v1","rv":{},"start":"/a\u0000"}}"#,
        made[0]
    );
    let token = &URL_SAFE_NO_PAD.encode(token);
    let page = |token: &str| format!("{CONFIG_MAPS}?limit=1&continue={token}");
    let (status, expired) = server.json(Method::GET, &page(token), Value::Null).await;
    assert_eq!((status, &expired["reason"]), (410, &json!("Expired")));
    // The answer has a continue token, which gives up consistency.
    let token = expired["metadata"]["continue"].as_str().unwrap();
    let (status, rest) = server.json(Method::GET, &page(token), Value::Null).await;
    assert_eq!(
        (status, &rest["items"][0]["metadata"]["name"]),
        (200, &json!("b"))
    );
    assert_eq!(version(&rest), made[3].to_string());
}

#[tokio::test]
async fn watches_start_where_they_are_told() {
    let server = Subject::start(Options::default()).await;
    let a = server.create("a", json!({"app": "x"})).await;
    let mut initial = server
        .watch(&format!("{CONFIG_MAPS}?watch=1&allowWatchBookmarks=true"))
        .await;
    assert_eq!(initial.next().await, event("ADDED", "a"));
    assert_eq!(
        initial.line().await.unwrap(),
        format!(
            r#"{{"type":"BOOKMARK","object":{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"resourceVersion":"{}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}}}"#,
            version(&a)
        )
    );
    let mut selected = server
        .watch(&format!(
            "{CONFIG_MAPS}?watch=1&labelSelector=app%3Dx&resourceVersion={}",
            version(&a)
        ))
        .await;
    let path = format!("{CONFIG_MAPS}/a");
    server
        .json(
            Method::PATCH,
            &path,
            json!({"metadata": {"labels": {"app": "y"}}}),
        )
        .await;
    assert_eq!(initial.next().await, event("MODIFIED", "a"));
    // The object left the selection: the event has the last matching state at
    // the new version.
    let left: Value = serde_json::from_str(&selected.line().await.unwrap()).unwrap();
    assert_eq!(left["type"], "DELETED");
    assert_eq!(left["object"]["metadata"]["labels"]["app"], "x");
    let left: u64 = version(&left["object"]).parse().unwrap();
    assert_eq!(left, version(&a).parse::<u64>().unwrap() + 1);
    server
        .json(
            Method::PATCH,
            &path,
            json!({"metadata": {"labels": {"app": "x"}}}),
        )
        .await;
    assert_eq!(selected.next().await, event("ADDED", "a"));
    server.json(Method::DELETE, &path, Value::Null).await;
    assert_eq!(selected.next().await, event("DELETED", "a"));
}

#[tokio::test]
async fn bookmarks_tell_of_other_resources() {
    let options = Options {
        bookmark_period: Duration::from_millis(50),
        ..Options::default()
    };
    let server = Subject::start(options).await;
    let mut events = server
        .watch(
            "/api/v1/secrets?watch=1&resourceVersion=5&allowWatchBookmarks=true&timeoutSeconds=2",
        )
        .await;
    let made = server.create("a", json!({})).await;
    assert_eq!(
        events.line().await.unwrap(),
        format!(
            r#"{{"type":"BOOKMARK","object":{{"kind":"Secret","apiVersion":"v1","metadata":{{"resourceVersion":"{}"}}}}}}"#,
            version(&made)
        )
    );
    assert_eq!(events.line().await, None, "timeoutSeconds ends it");
}
