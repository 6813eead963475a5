//! LIST and GET with selectors, pages and versions.

use serde_json::{Value, json};

use crate::harness::objects::{config_map, pod, pod_on_node};
use crate::harness::subject::Subject;

conformance!(
    pages,
    pages_keep_their_version,
    label_selectors,
    field_selectors,
    lists_by_version,
    get_by_version,
    order_is_that_of_keys,
    empty_lists,
);

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().expect("items");
    items
        .iter()
        .map(|i| i["metadata"]["name"].as_str().expect("name").to_owned())
        .collect()
}

fn percent(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// Creates a namespace with `n` config maps `c0`, `c1`, … and returns the path of
/// their list.
async fn config_maps(subject: &Subject, purpose: &str, n: usize) -> String {
    let ns = subject.namespace(purpose).await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    for i in 0..n {
        let body = config_map(&format!("c{i}"), json!({}), json!({"n": i.to_string()}));
        subject.admin.post(&list, &body).await.expect(201);
    }
    list
}

async fn pages(subject: Subject) {
    let admin = &subject.admin;
    let list = config_maps(&subject, "pages", 7).await;
    let first = admin.get(&format!("{list}?limit=3")).await.expect(200);
    assert_eq!(names(&first), ["c0", "c1", "c2"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 4);
    let token = percent(first["metadata"]["continue"].as_str().expect("continue"));
    let second = admin
        .get(&format!("{list}?limit=3&continue={token}"))
        .await
        .expect(200);
    assert_eq!(names(&second), ["c3", "c4", "c5"]);
    assert_eq!(second["metadata"]["remainingItemCount"], 1);
    let token = percent(second["metadata"]["continue"].as_str().expect("continue"));
    let third = admin
        .get(&format!("{list}?limit=3&continue={token}"))
        .await
        .expect(200);
    assert_eq!(names(&third), ["c6"]);
    assert!(third["metadata"].get("continue").is_none());
    assert!(third["metadata"].get("remainingItemCount").is_none());
    for page in [&second, &third] {
        let version = &first["metadata"]["resourceVersion"];
        assert_eq!(&page["metadata"]["resourceVersion"], version);
    }
    // With a selector the number of remaining objects is unknown.
    let selected = admin
        .get(&format!("{list}?limit=3&labelSelector=!nothing"))
        .await
        .expect(200);
    assert!(selected["metadata"]["continue"].is_string());
    assert!(selected["metadata"].get("remainingItemCount").is_none());
}

async fn pages_keep_their_version(subject: Subject) {
    let admin = &subject.admin;
    let list = config_maps(&subject, "page-version", 4).await;
    let first = admin.get(&format!("{list}?limit=2")).await.expect(200);
    admin.delete(&format!("{list}/c2")).await.expect(200);
    let late = config_map("c9", json!({}), json!({}));
    admin.post(&list, &late).await.expect(201);
    let token = percent(first["metadata"]["continue"].as_str().expect("continue"));
    let second = admin
        .get(&format!("{list}?limit=5&continue={token}"))
        .await
        .expect(200);
    assert_eq!(names(&second), ["c2", "c3"]);
    let version = &first["metadata"]["resourceVersion"];
    assert_eq!(&second["metadata"]["resourceVersion"], version);
}

async fn label_selectors(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("labels").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    for (name, labels) in [
        ("a", json!({"app": "web", "tier": "front"})),
        ("b", json!({"app": "web"})),
        ("c", json!({"app": "db", "weight": "5"})),
        ("d", json!({})),
    ] {
        let body = config_map(name, labels, json!({}));
        admin.post(&list, &body).await.expect(201);
    }
    for (selector, expected) in [
        ("app=web", "a b"),
        ("app==web", "a b"),
        ("app!=web", "c d"),
        ("app in (web,db)", "a b c"),
        ("app notin (web)", "c d"),
        ("tier", "a"),
        ("!tier", "b c d"),
        ("app=web,!tier", "b"),
        ("weight>4", "c"),
        ("weight<4", ""),
        ("", "a b c d"),
    ] {
        let path = format!("{list}?labelSelector={}", percent(selector));
        let found = admin.get(&path).await.expect(200);
        assert_eq!(names(&found).join(" "), expected, "{selector}");
    }
}

async fn field_selectors(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("fields").await;
    let list = format!("/api/v1/namespaces/{ns}/pods");
    for body in [
        pod_on_node("a", json!({"app": "x"}), "node-of-fields"),
        pod("b", json!({"app": "x"})),
        pod("c", json!({})),
    ] {
        admin.post(&list, &body).await.expect(201);
    }
    let status = json!({"status": {"phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]}});
    admin
        .patch(&format!("{list}/b/status"), "merge-patch+json", &status)
        .await
        .expect(200);
    for (selector, expected) in [
        ("spec.nodeName=node-of-fields", "a"),
        ("spec.nodeName=", "b c"),
        ("spec.nodeName!=node-of-fields", "b c"),
        ("status.phase=Running", "b"),
        ("status.phase=Pending,spec.nodeName=", "c"),
        ("status.podIP=10.1.2.3", "b"),
        ("metadata.name=c", "c"),
        ("metadata.name=none", ""),
        ("spec.restartPolicy=Always", "a b c"),
        ("spec.hostNetwork=true", ""),
        ("spec.schedulerName=default-scheduler", "a b c"),
    ] {
        let path = format!("{list}?fieldSelector={}", percent(selector));
        let found = admin.get(&path).await.expect(200);
        assert_eq!(names(&found).join(" "), expected, "{selector}");
        // A list of all namespaces finds the same.
        let everywhere = format!(
            "/api/v1/pods?fieldSelector={}",
            percent(&format!("metadata.namespace={ns},{selector}"))
        );
        let found = admin.get(&everywhere).await.expect(200);
        assert_eq!(names(&found).join(" "), expected, "{selector} everywhere");
    }
    let both = format!("{list}?fieldSelector=spec.nodeName%3D&labelSelector=app%3Dx");
    assert_eq!(names(&admin.get(&both).await.expect(200)), ["b"]);
}

async fn lists_by_version(subject: Subject) {
    let admin = &subject.admin;
    let list = config_maps(&subject, "versions", 3).await;
    let now = admin.get(&list).await.expect(200);
    let version = now["metadata"]["resourceVersion"]
        .as_str()
        .expect("version");

    let not_older = format!("{list}?resourceVersion={version}&resourceVersionMatch=NotOlderThan");
    let found = admin.get(&not_older).await.expect(200);
    assert_eq!(names(&found), ["c0", "c1", "c2"]);
    let legacy = format!("{list}?resourceVersion={version}");
    assert_eq!(
        names(&admin.get(&legacy).await.expect(200)),
        ["c0", "c1", "c2"]
    );

    admin.delete(&format!("{list}/c1")).await.expect(200);
    let exact = format!("{list}?resourceVersion={version}&resourceVersionMatch=Exact");
    let found = admin.get(&exact).await.expect(200);
    assert_eq!(names(&found), ["c0", "c1", "c2"]);
    assert_eq!(found["metadata"]["resourceVersion"], version);
    // With a limit, a bare version means exactly that version.
    let limited = format!("{list}?resourceVersion={version}&limit=2");
    let found = admin.get(&limited).await.expect(200);
    assert_eq!(names(&found), ["c0", "c1"]);
    assert_eq!(found["metadata"]["resourceVersion"], version);
    assert_eq!(found["metadata"]["remainingItemCount"], 1);
    assert_eq!(names(&admin.get(&list).await.expect(200)), ["c0", "c2"]);

    // A list from the cache ignores the limit.
    let any = admin
        .get(&format!("{list}?resourceVersion=0&limit=1"))
        .await;
    assert!(any.expect(200)["metadata"].get("continue").is_none());
}

async fn get_by_version(subject: Subject) {
    let admin = &subject.admin;
    let list = config_maps(&subject, "get-version", 1).await;
    let path = format!("{list}/c0");
    let now = admin.get(&path).await.expect(200);
    let version = now["metadata"]["resourceVersion"]
        .as_str()
        .expect("version");
    let found = admin
        .get(&format!("{path}?resourceVersion={version}"))
        .await;
    assert_eq!(found.expect(200), now);
    let found = admin.get(&format!("{path}?resourceVersion=0")).await;
    assert_eq!(found.expect(200), now);
    admin
        .get(&format!("{list}/none?resourceVersion=0"))
        .await
        .expect_status(404, "NotFound", "configmaps \"none\" not found");
}

/// Objects are ordered by key: `a-b/x` comes before `a/x`, because `-` sorts
/// before `/`.
async fn order_is_that_of_keys(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("order").await;
    let dashed = format!("{ns}-b");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": dashed}});
    admin
        .post("/api/v1/namespaces", &namespace)
        .await
        .expect(201);
    for namespace in [&ns, &dashed] {
        for name in ["m.n", "m-n", "m"] {
            let body = config_map(name, json!({"order": ns}), json!({}));
            let list = format!("/api/v1/namespaces/{namespace}/configmaps");
            admin.post(&list, &body).await.expect(201);
        }
    }
    let expected: Vec<String> = [&dashed, &ns]
        .iter()
        .flat_map(|ns| ["m", "m-n", "m.n"].map(|name| format!("{ns}/{name}")))
        .collect();
    for version in ["", "&resourceVersion=0", "&limit=100"] {
        let path = format!("/api/v1/configmaps?labelSelector=order%3D{ns}{version}");
        // The server's cache may be a moment behind.
        let found = loop {
            let found = admin.get(&path).await.expect(200);
            if names(&found).len() == expected.len() {
                break found;
            }
        };
        let items = found["items"].as_array().expect("items");
        let order: Vec<String> = items
            .iter()
            .map(|i| {
                let meta = &i["metadata"];
                let text = |key: &str| meta[key].as_str().unwrap_or("").to_owned();
                format!("{}/{}", text("namespace"), text("name"))
            })
            .collect();
        assert_eq!(order, expected, "{version:?}");
    }
}

async fn empty_lists(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("empty").await;
    for version in ["", "?resourceVersion=0"] {
        let list = format!("/api/v1/namespaces/{ns}/endpoints{version}");
        let found = admin.get(&list).await.expect(200);
        assert_eq!(found["items"], json!([]));
        assert_eq!(found["kind"], "EndpointsList");
        assert!(found["metadata"]["resourceVersion"].is_string());
    }
    let nowhere = admin.get("/api/v1/namespaces/nowhere/configmaps").await;
    assert_eq!(nowhere.expect(200)["items"], json!([]));
}
