//! Pages, and requests that are odd or malformed.

use http::Method;

use super::{
    AGGREGATED, FIELD_SELECTOR, INVALID, NOT_WATCHABLE, PARTIAL, PARTIAL_LIST, REPRESENTATION,
    TABLE, TABLE_BETA, UNUSUAL, YAML,
};
use crate::harness::differential::Differential;
use crate::harness::expect::Expect;

/// A parameter that kube-apiserver 1.37 ignores. Later releases may not.
const DROP: &str = "application/json;drop=metadata.managedFields";

pub(super) async fn pages_and_pretty(mut both: Differential) {
    for path in [
        "/api/v1/pods",
        "/api/v1/namespaces/sample/configmaps",
        "/apis/apps/v1/deployments",
        "/apis/sample.example.test/v1/widgets",
    ] {
        for query in [
            "resourceVersion=0&limit=1",
            "resourceVersion=0&limit=0",
            "resourceVersion=0&limit=1&resourceVersionMatch=NotOlderThan",
            "resourceVersion=0&pretty=true",
            "resourceVersion=0&pretty=1",
            "resourceVersion=0&pretty=yes",
            "resourceVersion=0&pretty=",
            "resourceVersion=0&pretty=false",
            "resourceVersion=0&watch=false",
            "resourceVersion=0&watch=0",
            "resourceVersion=0&timeout=5s",
            "resourceVersion=0&resourceVersion=abc",
            "resourceVersion=0&timeoutSeconds=5",
            "resourceVersion=0&labelSelector=",
            "resourceVersion=0&fieldSelector=&labelSelector",
        ] {
            both.get(&format!("{path}?{query}")).await;
        }
        let path = format!("{path}?resourceVersion=0");
        both.expect(INVALID).get(&format!("{path}&limit=-1")).await;
        let unknown = format!("{path}&unknown=parameter");
        both.expect(UNUSUAL).get(&unknown).await;
        both.get_as(&path, "application/json;pretty=1").await;
        for agent in ["curl/8.0", "Wget/1", "Mozilla/5.0 (X11)", "kubectl/v1.37.1"] {
            both.ask(Method::GET, &path, &[("user-agent", agent)], "")
                .await;
        }
        let head = both.expect(Expect::NotAsked);
        head.ask(Method::HEAD, &path, &[], "").await;
    }
    both.finish();
}

pub(super) async fn odd_accept_headers(mut both: Differential) {
    use Expect::Hit;
    let lists = ["/api/v1/pods", "/apis/sample.example.test/v1/widgets"];
    let objects = [
        "/api/v1/namespaces/sample/pods/running",
        "/apis/sample.example.test/v1/namespaces/sample/widgets/red",
        "/api/v1/namespaces/sample/pods/no-such-pod",
    ];
    let always = (Hit, Hit);
    let never = (REPRESENTATION, REPRESENTATION);
    let objects_only = (REPRESENTATION, Hit);
    let lists_only = (Hit, REPRESENTATION);
    for ((of_list, of_object), accept) in [
        (always, "*/*"),
        (always, ""),
        (never, "text/html"),
        (always, "text/html, application/json;q=0.5"),
        (always, "application/json;q=0"),
        (always, "application/json; charset=utf-8"),
        (always, "application/yaml;q=0.9,application/json;q=0.1"),
        (
            always,
            "application/vnd.kubernetes.protobuf,application/json",
        ),
        // A newer server may know what is unknown here, so the upstream decides.
        (never, "application/json;drop=metadata.managedFields"),
        (never, "application/json;drop=spec"),
        (always, "*/*;drop=spec, application/json"),
        (never, "*/*;drop=spec, application/json;as=Table"),
        (never, "application/yaml;q=0.9;x=y, application/json;q=0.1"),
        (always, "application/json, application/yaml;drop=spec"),
        (always, "application/json;drop;export=1;profile=nopeer"),
        (always, "text/html;level=1, application/json"),
        (never, "application/cbor"),
        (never, "application/cbor, application/json"),
        (always, "application/json;stream=watch"),
        (never, "application/json;as=Table"),
        (never, "application/json;as=Table;v=v1"),
        (
            always,
            "application/json;as=Table;v=v2;g=meta.k8s.io,application/json",
        ),
        (never, "application/json;as=Nonsense;v=v1;g=meta.k8s.io"),
        (always, "application/yaml;as=Table;v=v1;g=meta.k8s.io"),
        (
            never,
            "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
        ),
        (
            objects_only,
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        ),
        (
            lists_only,
            "application/json;as=PartialObjectMetadataList;v=v1beta1;g=meta.k8s.io",
        ),
        (always, "application/json;sv=v1"),
        (never, "APPLICATION/JSON"),
        (never, "nonsense"),
        (never, ","),
        (always, TABLE),
        (always, TABLE_BETA),
        (objects_only, PARTIAL),
        (lists_only, PARTIAL_LIST),
    ] {
        let of_lists = lists.map(|path| (of_list, path));
        let of_objects = objects.map(|path| (of_object, path));
        for (expected, path) in of_lists.into_iter().chain(of_objects) {
            let path = format!("{path}?resourceVersion=0");
            both.expect(expected).get_as(&path, accept).await;
        }
    }
    for path in lists.iter().chain(&objects) {
        let path = format!("{path}?resourceVersion=0");
        // For its own kinds kube-apiserver answers these with 406: the first type
        // that it has is protobuf.
        let expected = match path.starts_with("/apis/sample") {
            true => Hit,
            false => REPRESENTATION,
        };
        both.expect(expected).get_as(&path, "application/*").await;
        let two = [
            ("accept", "application/yaml"),
            ("accept", "application/json"),
        ];
        both.ask(Method::GET, &path, &two, "").await;
    }
    for path in lists {
        for accept in [
            YAML,
            PARTIAL_LIST,
            "text/html",
            "application/cbor-seq",
            DROP,
        ] {
            let path = format!("{path}?watch=1&resourceVersion=0&timeoutSeconds=1");
            both.expect(REPRESENTATION).get_as(&path, accept).await;
        }
    }
    both.finish();
}

pub(super) async fn malformed_parameters(mut both: Differential) {
    for path in [
        "/api/v1/pods",
        "/api/v1/namespaces/sample/pods",
        "/apis/sample.example.test/v1/widgets",
    ] {
        for query in [
            "resourceVersion=abc",
            "resourceVersion=-1",
            "resourceVersion=1.5",
            "resourceVersion=18446744073709551616",
            "resourceVersion=00",
            "resourceVersion=%20",
            "resourceVersion=0&resourceVersionMatch=Exact",
            "resourceVersion=0&resourceVersionMatch=foo",
            "resourceVersionMatch=NotOlderThan",
            "resourceVersion=0&sendInitialEvents=true",
            "resourceVersion=0&sendInitialEvents=",
            "resourceVersion=0&continue=x",
            "resourceVersion=0&resourceVersionMatch=NotOlderThan&continue=x",
            "resourceVersion=0&limit=x",
            "resourceVersion=0&limit=",
            "resourceVersion=0&limit=9223372036854775808",
            "resourceVersion=0&timeoutSeconds=x",
            "resourceVersion=0&timeout=x",
            "resourceVersion=0&fieldSelector=x",
            "resourceVersion=0&fieldSelector=metadata.name",
            "resourceVersion=0&fieldSelector=metadata.name%3E1",
            "watch=1&resourceVersion=abc",
            "watch=1&resourceVersion=0&resourceVersionMatch=Exact&timeoutSeconds=1",
            "watch=1&resourceVersion=0&sendInitialEvents=true&timeoutSeconds=1",
            "watch=1&resourceVersion=0&sendInitialEvents=false&timeoutSeconds=1",
            "watch=1&resourceVersion=0&fieldSelector=x&timeoutSeconds=1",
            "watch=1&resourceVersion=0&labelSelector=a%20b&timeoutSeconds=1",
            "watch=1&resourceVersion=0&timeoutSeconds=x",
        ] {
            let path = format!("{path}?{query}");
            both.expect(INVALID).get(&path).await;
        }
        for (expected, query) in [
            (Expect::Hit, "continue="),
            (Expect::Hit, "labelSelector=%zz"),
            (Expect::Hit, "labelSelector=a%3Db;x"),
            (Expect::Hit, "fieldSelector=metadata.name%3Da%5C,b"),
            (FIELD_SELECTOR, "fieldSelector=metadata.labels.x%3D1"),
            (Expect::Hit, "allowWatchBookmarks=x"),
            (UNUSUAL, "shardSelector=x"),
        ] {
            let path = format!("{path}?resourceVersion=0&{query}");
            both.expect(expected).get(&path).await;
        }
    }
    let object = "/api/v1/namespaces/sample/pods/running";
    for (expected, query) in [
        (INVALID, "resourceVersion=abc"),
        (INVALID, "resourceVersion=-1"),
        (UNUSUAL, "resourceVersion=0&export=true"),
    ] {
        both.expect(expected)
            .get(&format!("{object}?{query}"))
            .await;
    }
    odd_paths(&mut both).await;
    both.finish();
}

async fn odd_paths(both: &mut Differential) {
    use Expect::{Document, NotAsked};
    for (expected, path) in [
        (UNUSUAL, "/api/v1/namespaces/sample/pods/running/"),
        (UNUSUAL, "/api/v1/namespaces/sample/pods/?resourceVersion=0"),
        (
            UNUSUAL,
            "/api/v1/namespaces/sample/pods/..?resourceVersion=0",
        ),
        (
            UNUSUAL,
            "/api/v1/namespaces/sample/pods/%2e%2e?resourceVersion=0",
        ),
        (
            NotAsked,
            "/api/v1/namespaces/sample/pods/a%2Fb?resourceVersion=0",
        ),
        (UNUSUAL, "/api/v1//pods?resourceVersion=0"),
        (UNUSUAL, "//api/v1/pods?resourceVersion=0"),
        (UNUSUAL, "/api/v1/namespaces//pods?resourceVersion=0"),
        (Expect::Hit, "/api/v1/namespaces/sample?resourceVersion=0"),
        (
            NotAsked,
            "/api/v1/namespaces/sample/pods/running/status?resourceVersion=0",
        ),
        (
            NotAsked,
            "/api/v1/namespaces/sample/pods/running/nonsense?resourceVersion=0",
        ),
        (NOT_WATCHABLE, "/api/v1/nonsense?resourceVersion=0"),
        (AGGREGATED, "/api/v9/pods?resourceVersion=0"),
        (
            AGGREGATED,
            "/apis/nonsense.test/v1/things?resourceVersion=0",
        ),
        (AGGREGATED, "/apis/apps/v9/deployments?resourceVersion=0"),
        (UNUSUAL, "/api/v1/pods/running?resourceVersion=0"),
        // k9s sends this for resources without namespaces.
        (
            Document,
            "/api/v1/namespaces/sample/nodes?resourceVersion=0",
        ),
        (Document, "/api/v1/namespaces/sample/nodes"),
        (
            Document,
            "/api/v1/namespaces/sample/nodes/no-such?resourceVersion=0",
        ),
        (
            Document,
            "/api/v1/namespaces/sample/nodes?watch=1&resourceVersion=0",
        ),
        (
            Document,
            "/api/v1/namespaces/sample/namespaces?resourceVersion=0",
        ),
        (
            Document,
            "/apis/rbac.authorization.k8s.io/v1/namespaces/sample/clusterroles?resourceVersion=0",
        ),
        (
            Document,
            "/apis/apiextensions.k8s.io/v1/namespaces/sample/customresourcedefinitions",
        ),
        (
            Document,
            "/apis/apiregistration.k8s.io/v1/namespaces/sample/apiservices?resourceVersion=0",
        ),
        (Document, "/api"),
        (Document, "/api/"),
        (Document, "/api/v1"),
        (Document, "/api/v1/"),
        (Document, "/apis"),
        (Document, "/apis/apps"),
        (Document, "/apis/apps/v1"),
        (NotAsked, "/version"),
        (NotAsked, "/"),
    ] {
        both.expect(expected).get(path).await;
    }
}
