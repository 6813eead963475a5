//! A list has the state of the version that its client names, or of its first page.

use super::*;

/// The first pages of the newest state. The token contains the list's version, which
/// may differ between servers; everything else is the same.
#[tokio::test]
async fn first_pages_of_the_newest_state() {
    let servers = Servers::get();
    let sample = sample(&servers.direct, "/api/v1", "pods", |name, n| {
        pod_on_node(name, labels(n), &format!("n{}", n % 2))
    })
    .await;
    servers.reach(&sample.lists[0], sample.version).await;
    let ns = sample.lists[1].split('/').nth(4).expect("namespace");
    let narrowed = format!("&fieldSelector=metadata.namespace%3D{ns}");
    let both = format!("{narrowed},metadata.name%3Do-2");
    let newest = format!(
        "resourceVersion={}&resourceVersionMatch=NotOlderThan",
        sample.version
    );
    for (list, selector) in [
        (&sample.lists[1], ""),
        (&sample.lists[1], "&labelSelector=odd%3D0"),
        (&sample.lists[1], "&fieldSelector=spec.nodeName%3Dn0"),
        (&sample.lists[1], "&fieldSelector=spec.nodeName%3Dn1"),
        (&sample.lists[1], "&fieldSelector=metadata.name%3Do-2"),
        (&sample.lists[0], &narrowed),
        (&sample.lists[0], &both),
    ] {
        for limit in 1..=OBJECTS {
            let path = format!("{list}?{newest}&limit={limit}{selector}");
            let expected = masked(&ask(&servers.direct, &path, JSON).await);
            for front in &servers.fronts {
                let answer = ask(front, &path, JSON).await;
                assert_eq!(unmet(&path, JSON, &answer), "", "{path}");
                assert_eq!(masked(&answer), expected, "{path}");
            }
        }
    }
}

/// A list stays at the version of its first page, whichever server gives the pages
/// and whatever is written in the meantime. Earlier states can be requested too.
#[tokio::test]
async fn writes_between_pages_are_not_seen() {
    let servers = Servers::get();
    let admin = &servers.direct;
    servers.warm("/api/v1/configmaps").await;
    let ns = Cluster::shared().namespace("chunked").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let mut states = Vec::new();
    let mut present: Vec<String> = Vec::new();
    for n in 0..12 {
        let name = format!("o-{n}");
        let made = admin
            .post(&list, &config_map(&name, json!({}), json!({})))
            .await;
        present.push(name);
        present.sort();
        states.push((version_of(&made.expect(201)), present.clone()));
    }
    // A client in mode Strict starts like this. The first page comes from a shared
    // read.
    let query = format!("{list}?limit=3");
    let first = ask(&servers.fronts[0], &query, JSON).await;
    let listed = version_of(&first.expect(200));
    let mut seen = names(&first);
    let mut token = token_of(&first).expect("more");
    let mut n = 0;
    while !token.is_empty() {
        n += 1;
        let gone = format!("{list}/o-{n}");
        let patch = json!({ "data": { "n": n.to_string() } });
        let path = format!("{list}/o-{}", n + 1);
        admin.delete(&gone).await.expect(200);
        present.retain(|name| *name != format!("o-{n}"));
        let changed = admin.patch(&path, "merge-patch+json", &patch).await;
        let version = version_of(&changed.expect(200));
        states.push((version, present.clone()));
        servers.reach(&list, version).await;
        let page = servers
            .same(&format!("{query}&continue={token}"), JSON)
            .await;
        assert_eq!(version_of(&page.json()), listed);
        seen.extend(names(&page));
        token = token_of(&page).unwrap_or_default();
    }
    assert_eq!(seen, states[11].1);
    for (version, expected) in &states {
        for query in [
            format!("resourceVersion={version}&resourceVersionMatch=Exact"),
            format!("resourceVersion={version}&limit=500"),
            format!("resourceVersion={version}&limit=2"),
            format!(
                "resourceVersion={version}&resourceVersionMatch=Exact&fieldSelector=metadata.name%3Do-2"
            ),
        ] {
            let page = servers.same(&format!("{list}?{query}"), JSON).await;
            assert_eq!(version_of(&page.json()), *version);
            let found = names(&page);
            assert!(found.iter().all(|name| expected.contains(name)), "{query}");
            assert!(
                !query.ends_with("limit=500") || found == *expected,
                "{query}"
            );
        }
    }
}

#[tokio::test]
async fn versions_from_the_future() {
    let servers = Servers::get();
    let list = "/api/v1/configmaps";
    let far = token(json!({"v": "meta.k8s.io/v1", "rv": 999_999_999, "start": "/a"}));
    let paths = [
        format!("{list}?resourceVersion=999999999&resourceVersionMatch=Exact"),
        format!("{list}?resourceVersion=999999999&limit=5"),
        format!("{list}?resourceVersion=999999999&resourceVersionMatch=NotOlderThan&limit=5"),
        format!("{list}?limit=5&continue={far}"),
    ];
    let mut both = Differential::new(servers.direct, servers.fronts[0].clone());
    let future = Expect::Bypass("future_version");
    let found = {
        let asked = paths
            .iter()
            .map(|path| both.difference(future, Method::GET, path, &[], ""));
        futures::future::join_all(asked).await
    };
    both.add(found);
    both.finish();
}

/// The test has its own cluster, since it discards the cluster's history.
#[tokio::test]
async fn what_nobody_has_any_more() {
    let mut cluster = Cluster::leased(&[]).await;
    let admin = cluster.admin_client();
    let ns = cluster.namespace("chunked").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let mut version = 0;
    for n in 0..OBJECTS {
        let made = admin
            .post(&list, &config_map(&format!("o-{n}"), json!({}), json!({})))
            .await;
        version = version_of(&made.expect(201));
    }
    cluster.etcd.compact(version).await;
    // kube-apiserver's cache still has what etcd has forgotten, so the server is
    // restarted.
    cluster.apiserver.start_again();
    cluster.wait_ready().await;
    let admin = cluster.admin_client();
    let strict = Apifront::start(&cluster, |_| {}).await;
    let fresh = Apifront::start(&cluster, |c| c["cache"]["consistency"] = json!("Fresh")).await;
    for (mode, front) in [("Strict", strict), ("Fresh", fresh)] {
        let client = front.admin_client();
        front
            .warm(&client, "/api/v1/configmaps?resourceVersion=0")
            .await;
        let old = token(json!({"v": "meta.k8s.io/v1", "rv": 3, "start": "/o-1\u{0}"}));
        let mut both = Differential::new(admin.clone(), client.clone());
        let gone = Expect::Bypass("snapshot_gone");
        for query in [
            "resourceVersion=3&resourceVersionMatch=Exact",
            "resourceVersion=3&limit=2",
        ] {
            both.expect(gone).get(&format!("{list}?{query}")).await;
            let answer = ask(&client, &format!("{list}?{query}"), JSON).await;
            answer.expect_status(
                410,
                "Expired",
                "The resourceVersion for the provided list is too old.",
            );
        }
        let page = format!("{list}?limit=2&continue={old}");
        both.expect(gone).get(&page).await;
        both.finish();
        let gone = ask(&client, &page, JSON).await;
        assert!(oracle() || gone.header("x-apifront-cache").ends_with("snapshot_gone"));
        let token = gone.expect(410)["metadata"]["continue"]
            .as_str()
            .expect("a token to go on with")
            .to_owned();
        let rest = format!("{list}?limit=2&continue={token}");
        let (direct, through) = (
            ask(&admin, &rest, JSON).await,
            ask(&client, &rest, JSON).await,
        );
        assert_eq!(names(&direct), ["o-2", "o-3"]);
        assert_eq!(masked(&direct), masked(&through));
        assert_eq!(unmet(&rest, JSON, &through), "", "{mode}");
        // From here on the list is consistent again.
        let token = token_of(&through).expect("more");
        let rest = ask(&client, &format!("{list}?continue={token}"), JSON).await;
        rest.expect(200);
        assert_eq!(names(&rest), ["o-4", "o-5"]);
        front.stop().await;
    }
}
