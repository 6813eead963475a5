//! The LIST cases of kube-apiserver's own storage tests that no other file covers.

use serde_json::{Value, json};

use crate::harness::client::Client;
use crate::harness::objects::config_map;
use crate::harness::subject::Subject;

conformance!(
    single_object_lists,
    pages_of_every_size,
    pages_with_a_selector,
    pages_until_a_rare_object,
    namespaces_that_begin_alike,
    every_version_and_match,
);

fn names(list: &Value) -> Vec<&str> {
    fn name(item: &Value) -> Option<&str> {
        item["metadata"]["name"].as_str()
    }
    let items = list["items"].as_array().expect("items");
    items.iter().filter_map(name).collect()
}

fn version(list: &Value) -> &str {
    let version = list["metadata"]["resourceVersion"].as_str();
    version.expect("a resourceVersion")
}

/// Creates a namespace with config maps `c0`, `c1`, …; every third is `rare`.
/// Returns the path of their list.
async fn prepared(subject: &Subject, purpose: &str, n: usize) -> String {
    let ns = subject.namespace(purpose).await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    for i in 0..n {
        let labels = match i % 3 {
            2 => json!({"rare": "yes"}),
            _ => json!({}),
        };
        let body = config_map(&format!("c{i}"), labels, json!({}));
        subject.admin.post(&list, &body).await.expect(201);
    }
    list
}

/// Returns all pages of a list, each requested with `query`.
async fn pages(client: &Client, list: &str, query: &str) -> Vec<Value> {
    let mut pages = Vec::new();
    let mut token = String::new();
    loop {
        let path = format!("{list}?{query}{token}");
        let page = client.get(&path).await.expect(200);
        let next = page["metadata"]["continue"].as_str().unwrap_or_default();
        token = format!("&continue={next}");
        let last = next.is_empty();
        pages.push(page);
        if last {
            return pages;
        }
        assert!(pages.len() < 100, "a list without end");
    }
}

/// RunTestGetListNonRecursive: a name and a namespace make a list of one key. Its
/// continue token is ignored.
async fn single_object_lists(subject: Subject) {
    let admin = &subject.admin;
    let list = prepared(&subject, "single", 3).await;
    let one = format!("{list}?fieldSelector=metadata.name%3Dc1");
    let none = format!("{list}?fieldSelector=metadata.name%3Dnone");
    let now = admin.get(&one).await.expect(200);
    let newest = version(&now).to_owned();
    for query in [
        String::new(),
        "&limit=1".to_owned(),
        format!("&resourceVersion={newest}"),
        format!("&resourceVersion={newest}&resourceVersionMatch=NotOlderThan"),
        format!("&resourceVersion={newest}&resourceVersionMatch=Exact"),
    ] {
        let found = admin.get(&format!("{one}{query}")).await.expect(200);
        assert_eq!(names(&found), ["c1"], "{query}");
        assert!(found["metadata"].get("continue").is_none(), "{query}");
        let found = admin.get(&format!("{none}{query}")).await.expect(200);
        assert_eq!(names(&found), [""; 0], "{query}");
    }
    admin.delete(&format!("{list}/c1")).await.expect(200);
    let gone = admin.get(&one).await.expect(200);
    assert_eq!(names(&gone), [""; 0]);
    let then = format!("{one}&resourceVersion={newest}&resourceVersionMatch=Exact");
    let then = admin.get(&then).await.expect(200);
    assert_eq!(
        (names(&then), version(&then)),
        (vec!["c1"], newest.as_str())
    );
}

/// RunTestListPaging, RunTestListContinuation: pages of any size add up to the
/// list, and all have the version of the first.
async fn pages_of_every_size(subject: Subject) {
    let admin = &subject.admin;
    let list = prepared(&subject, "sizes", 7).await;
    for limit in 1..=8 {
        let pages = pages(admin, &list, &format!("limit={limit}")).await;
        let all: Vec<&str> = pages.iter().flat_map(names).collect();
        assert_eq!(all, ["c0", "c1", "c2", "c3", "c4", "c5", "c6"]);
        let mut seen = 0;
        for page in &pages {
            assert_eq!(version(page), version(&pages[0]));
            seen += names(page).len();
            let remaining = page["metadata"].get("remainingItemCount");
            let expected = (seen < 7).then(|| json!(7 - seen));
            assert_eq!(remaining, expected.as_ref(), "limit {limit}");
        }
        assert_eq!(pages.len(), 7_usize.div_ceil(limit));
    }
}

/// RunTestListContinuationWithFilter: a page is full of selected objects, and the
/// remaining ones are not counted.
async fn pages_with_a_selector(subject: Subject) {
    let admin = &subject.admin;
    let list = prepared(&subject, "filter", 9).await;
    for (query, expected) in [
        (
            "limit=2&labelSelector=rare",
            vec![vec!["c2", "c5"], vec!["c8"]],
        ),
        (
            "limit=3&labelSelector=!rare",
            vec![vec!["c0", "c1", "c3"], vec!["c4", "c6", "c7"]],
        ),
        (
            "limit=5&fieldSelector=metadata.name!%3Dc0",
            vec![vec!["c1", "c2", "c3", "c4", "c5"], vec!["c6", "c7", "c8"]],
        ),
    ] {
        let pages = pages(admin, &list, query).await;
        let mut found: Vec<Vec<&str>> = pages.iter().map(names).collect();
        // Only a search shows the server whether an object is left.
        if found.last().is_some_and(Vec::is_empty) {
            found.pop();
        }
        assert_eq!(found, expected, "{query}");
        for page in &pages {
            assert_eq!(version(page), version(&pages[0]));
            assert!(page["metadata"].get("remainingItemCount").is_none());
        }
    }
}

/// RunTestListPaginationRareObject: one of many objects matches, and it is the last.
async fn pages_until_a_rare_object(subject: Subject) {
    let admin = &subject.admin;
    let list = prepared(&subject, "rare", 30).await;
    let mark = json!({"metadata": {"labels": {"only": "one"}}});
    admin
        .patch(&format!("{list}/c9"), "merge-patch+json", &mark)
        .await
        .expect(200);
    let pages = pages(admin, &list, "limit=1&labelSelector=only%3Done").await;
    let all: Vec<&str> = pages.iter().flat_map(names).collect();
    assert_eq!(all, ["c9"]);
}

/// RunTestNamespaceScopedList, RunTestGetListRecursivePrefix.
async fn namespaces_that_begin_alike(subject: Subject) {
    let admin = &subject.admin;
    let short = subject.namespace("alike").await;
    for suffix in ["", "0", "-x"] {
        let namespace = format!("{short}{suffix}");
        if !suffix.is_empty() {
            let body = json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
            });
            admin.post("/api/v1/namespaces", &body).await.expect(201);
        }
        let body = config_map("same", json!({"alike": short}), json!({"in": namespace}));
        let list = format!("/api/v1/namespaces/{namespace}/configmaps");
        admin.post(&list, &body).await.expect(201);
    }
    for suffix in ["", "0", "-x"] {
        let namespace = format!("{short}{suffix}");
        for query in ["", "limit=1", "fieldSelector=metadata.name%3Dsame"] {
            let path = format!("/api/v1/namespaces/{namespace}/configmaps?{query}");
            let found = admin.get(&path).await.expect(200);
            assert_eq!(names(&found), ["same"], "{path}");
            assert_eq!(found["items"][0]["data"]["in"], json!(namespace));
        }
    }
    let all = format!("/api/v1/configmaps?labelSelector=alike%3D{short}");
    let all = admin.get(&all).await.expect(200);
    assert_eq!(names(&all).len(), 3);
}

/// RunTestListResourceVersionMatch, RunTestList: version and match decide which
/// state an answer shows.
async fn every_version_and_match(subject: Subject) {
    let admin = &subject.admin;
    let list = prepared(&subject, "match", 2).await;
    let before = admin.get(&list).await.expect(200);
    let before = version(&before).to_owned();
    let body = config_map("late", json!({}), json!({}));
    let created = admin.post(&list, &body).await.expect(201);
    let after = version(&created).to_owned();
    let (old, new) = (vec!["c0", "c1"], vec!["c0", "c1", "late"]);
    let exact = "resourceVersionMatch=Exact";
    let not_older = "resourceVersionMatch=NotOlderThan";
    for (query, expected, at) in [
        (String::new(), &new, None),
        ("limit=5".to_owned(), &new, None),
        (
            format!("resourceVersion={before}&{exact}"),
            &old,
            Some(&before),
        ),
        (
            format!("resourceVersion={after}&{exact}"),
            &new,
            Some(&after),
        ),
        // Without a match, a limit makes the version exact.
        (
            format!("resourceVersion={before}&limit=5"),
            &old,
            Some(&before),
        ),
        (
            format!("resourceVersion={before}&{exact}&limit=5"),
            &old,
            Some(&before),
        ),
        (format!("resourceVersion={after}"), &new, None),
        (format!("resourceVersion={after}&{not_older}"), &new, None),
        (
            format!("resourceVersion={after}&{not_older}&limit=5"),
            &new,
            None,
        ),
    ] {
        let found = admin.get(&format!("{list}?{query}")).await.expect(200);
        assert_eq!(&names(&found), expected, "{query}");
        match at {
            Some(at) => assert_eq!(version(&found), at, "{query}"),
            None => {
                let number = |text: &str| text.parse::<u64>().expect("a number");
                assert!(number(version(&found)) >= number(&after), "{query}");
            }
        }
    }
}
