//! Reads from the cache against the same reads from kube-apiserver, for
//! everything that its discovery names, in a cluster where nothing else moves.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use http::Method;
use serde_json::{Value, json};

use crate::harness::apifront::Apifront;
use crate::harness::client::{Client, Protocol};
use crate::harness::cluster::Cluster;
use crate::harness::differential::Differential;
use crate::harness::expect::Expect;
use crate::harness::objects::config_map;
use crate::harness::sample::{self, NAMESPACE, OTHER_NAMESPACE};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const TABLE_OR_JSON: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const TABLE_BETA: &str = "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const PARTIAL_LIST_PROTOBUF: &str =
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const YAML: &str = "application/yaml";

const EXCLUDED: Expect = Expect::Bypass("excluded");
const FIELD_SELECTOR: Expect = Expect::Bypass("field_selector");
const FUTURE: Expect = Expect::Bypass("future_version");
const HISTORY_TOO_SHORT: Expect = Expect::Bypass("history_too_short");
const INVALID: Expect = Expect::Bypass("invalid_options");
const NOT_WATCHABLE: Expect = Expect::Bypass("not_watchable");
const REPRESENTATION: Expect = Expect::Bypass("representation");
const UNUSUAL: Expect = Expect::Bypass("unusual_request");

/// Two ways to the quiet cluster. With the second way being the first again,
/// the suite proves that it compares nothing that moves by itself.
fn oracle() -> Differential {
    let cluster = Cluster::quiet();
    Differential::new(cluster.admin_client(), cluster.admin_client())
}

fn through_apifront() -> Differential {
    let cluster = Cluster::quiet();
    Differential::new(cluster.admin_client(), Apifront::quiet().admin_client())
}

macro_rules! differential {
    ($($test:ident),+ $(,)?) => {
        mod kube_apiserver {
            $(#[tokio::test]
            async fn $test() { super::$test(super::oracle()).await; })+
        }
        mod apifront {
            $(#[tokio::test]
            async fn $test() { super::$test(super::through_apifront()).await; })+
        }
    };
}

differential!(
    lists_of_everything,
    objects_of_everything,
    representations_of_everything,
    watches_of_everything,
    watches_from_a_known_version,
    selectors,
    pages_and_pretty,
    odd_accept_headers,
    malformed_parameters,
    large_lists_compressed,
    versions,
    http1,
);

struct Resource {
    /// `/api/v1` or `/apis/apps/v1`.
    base: String,
    name: String,
    namespaced: bool,
    watchable: bool,
}

impl Resource {
    fn everywhere(&self) -> String {
        format!("{}/{}", self.base, self.name)
    }

    /// The configuration leaves events out of the cache unless it says otherwise.
    fn expected(&self) -> Expect {
        match self.name.as_str() {
            "events" => EXCLUDED,
            _ => Expect::Hit,
        }
    }

    /// What is expected of it in another representation.
    fn expected_as(&self, accept: &str) -> Expect {
        let table = accept.contains("as=Table");
        let plain_protobuf = accept == PROTOBUF;
        match (self.base.as_str(), self.name.as_str()) {
            (_, "events") => EXCLUDED,
            // The metrics of a v1 autoscaler are not told in the order in which
            // they are printed.
            ("/apis/autoscaling/v1", "horizontalpodautoscalers") if table => REPRESENTATION,
            // There is no protobuf of a custom resource: 406.
            ("/apis/sample.example.test/v1", _) if plain_protobuf => REPRESENTATION,
            // Upstream has no YAML of one of them: 500.
            ("/api/v1", "configmaps") if accept == YAML => REPRESENTATION,
            _ => Expect::Hit,
        }
    }

    /// The path of the list in `namespace`, or of all of a cluster-wide one.
    fn list(&self, namespace: &str) -> String {
        if self.namespaced {
            format!("{}/namespaces/{namespace}/{}", self.base, self.name)
        } else {
            self.everywhere()
        }
    }
}

/// Everything that can be listed.
async fn resources(client: &Client) -> Vec<Resource> {
    let mut bases = vec!["/api/v1".to_owned()];
    let groups = client.get("/apis").await.expect(200);
    for group in groups["groups"].as_array().expect("groups") {
        for version in group["versions"].as_array().expect("versions") {
            let version = version["groupVersion"].as_str().expect("groupVersion");
            bases.push(format!("/apis/{version}"));
        }
    }
    let mut all = Vec::new();
    for base in bases {
        let list = client.get(&base).await.expect(200);
        for resource in list["resources"].as_array().expect("resources") {
            let has = |verb: &str| {
                let verbs = resource["verbs"].as_array().expect("verbs");
                verbs.iter().any(|v| v == verb)
            };
            let name = resource["name"].as_str().expect("name");
            // componentstatuses asks other processes each time: no two answers
            // are alike.
            if has("list") && !name.contains('/') && name != "componentstatuses" {
                all.push(Resource {
                    base: base.clone(),
                    name: name.to_owned(),
                    namespaced: resource["namespaced"] == true,
                    watchable: has("watch"),
                });
            }
        }
    }
    assert!(all.len() > 60, "only {} resources", all.len());
    all
}

async fn lists_of_everything(mut both: Differential) {
    for resource in resources(&both.direct).await {
        let mut lists = vec![resource.everywhere()];
        if resource.namespaced {
            let namespaces = [NAMESPACE, OTHER_NAMESPACE, "nowhere"];
            lists.extend(namespaces.map(|namespace| resource.list(namespace)));
        }
        for list in lists {
            let path = format!("{list}?resourceVersion=0");
            both.expect(resource.expected()).get(&path).await;
        }
    }
    both.finish();
}

async fn objects_of_everything(mut both: Differential) {
    let mut compared = BTreeMap::new();
    for resource in resources(&both.direct).await {
        let list = both.direct.get(&resource.everywhere()).await.expect(200);
        let none = format!(
            "{}/no-such-object?resourceVersion=0",
            resource.list(NAMESPACE)
        );
        both.expect(resource.expected()).get(&none).await;
        for item in list["items"].as_array().into_iter().flatten().take(3) {
            let meta = &item["metadata"];
            let namespace = meta["namespace"].as_str().unwrap_or("");
            let name = meta["name"].as_str().expect("name");
            let path = format!("{}/{name}?resourceVersion=0", resource.list(namespace));
            both.expect(resource.expected()).get(&path).await;
            let table = format!("{TABLE_OR_JSON},{PROTOBUF}");
            for accept in [table.as_str(), PARTIAL, PROTOBUF] {
                let expected = resource.expected_as(accept);
                both.expect(expected).get_as(&path, accept).await;
            }
            *compared.entry(resource.everywhere()).or_insert(0) += 1;
        }
    }
    assert!(compared.len() > 30, "the sample is poor: {compared:?}");
    both.finish();
}

async fn representations_of_everything(mut both: Differential) {
    for resource in resources(&both.direct).await {
        let path = format!("{}?resourceVersion=0", resource.everywhere());
        for accept in [
            TABLE_OR_JSON,
            PARTIAL_LIST,
            PROTOBUF,
            PARTIAL_LIST_PROTOBUF,
            YAML,
        ] {
            let expected = resource.expected_as(accept);
            both.expect(expected).get_as(&path, accept).await;
        }
        for include in ["Object", "None"] {
            let path = format!("{path}&includeObject={include}");
            let expected = resource.expected_as(TABLE);
            both.expect(expected).get_as(&path, TABLE).await;
        }
        for selector in [
            "labelSelector=app%3Dsample",
            "fieldSelector=metadata.name%3Dsample",
        ] {
            let path = format!("{path}&{selector}");
            both.expect(resource.expected()).get(&path).await;
        }
        let by_namespace = format!("{path}&fieldSelector=metadata.namespace%3D{NAMESPACE}");
        let expected = match resource.name.as_str() {
            "namespaces" | "nodes" | "certificatesigningrequests" | "resourceslices" => {
                FIELD_SELECTOR
            }
            _ => resource.expected(),
        };
        both.expect(expected).get(&by_namespace).await;
    }
    both.finish();
}

/// What a watch that lasts a second says first.
async fn watches_of_everything(mut both: Differential) {
    let mut paths = Vec::new();
    for resource in resources(&both.direct).await.iter().filter(|r| r.watchable) {
        let path = format!(
            "{}?watch=1&resourceVersion=0&timeoutSeconds=1",
            resource.everywhere()
        );
        let marked = format!("{path}&allowWatchBookmarks=true");
        let json = "application/json";
        paths.push((resource.expected(), path.clone(), json));
        paths.push((resource.expected(), marked, json));
        for accept in [PROTOBUF, TABLE] {
            paths.push((resource.expected_as(accept), path.clone(), accept));
        }
    }
    ask_at_once(&mut both, &paths).await;
    both.finish();
}

/// The sample is older than apifront's history, which has no event of it: all
/// but the newest version is asked of kube-apiserver.
async fn watches_from_a_known_version(mut both: Differential) {
    let mut paths = Vec::new();
    for list in ["pods", "configmaps", "services"] {
        let list = format!("/api/v1/namespaces/{NAMESPACE}/{list}");
        let now = both.direct.get(&list).await.expect(200);
        let mut versions = vec![now["metadata"]["resourceVersion"].clone()];
        let items = now["items"].as_array().expect("items");
        let items = items.iter().rev().take(5);
        versions.extend(items.map(|i| i["metadata"]["resourceVersion"].clone()));
        for (n, version) in versions.iter().filter_map(Value::as_str).enumerate() {
            let expected = match n {
                0 => Expect::Hit,
                _ => HISTORY_TOO_SHORT,
            };
            let path = format!("{list}?watch=1&resourceVersion={version}&timeoutSeconds=1");
            for accept in ["application/json", TABLE, PROTOBUF, PARTIAL] {
                paths.push((expected, path.clone(), accept));
            }
            let selected = format!("{path}&labelSelector=app%3Dsample");
            paths.push((expected, selected, "application/json"));
        }
    }
    ask_at_once(&mut both, &paths).await;
    both.finish();
}

/// Versions that apifront has seen itself, in a namespace that nobody else
/// writes to.
#[tokio::test]
async fn watches_from_within_the_history() {
    let (cluster, front) = (Cluster::shared(), Apifront::shared());
    let mut both = Differential::new(cluster.admin_client(), front.admin_client());
    let list = format!(
        "/api/v1/namespaces/{}/configmaps",
        cluster.namespace("history").await
    );
    let newest = format!("{list}?resourceVersion=0");
    both.warm(&newest).await;
    let mut versions = Vec::new();
    for n in 0..4 {
        let labels = json!({ "app": "sample", "n": n.to_string() });
        let body = config_map(&format!("map-{n}"), labels, json!({}));
        versions.push(both.direct.post(&list, &body).await.expect(201));
    }
    let one = format!("{list}/map-0");
    let patch = json!({ "metadata": { "labels": { "app": "other" } } });
    let patched = both.direct.patch(&one, "merge-patch+json", &patch).await;
    versions.push(patched.expect(200));
    let gone = both.direct.delete(&format!("{list}/map-1")).await;
    gone.expect(200);
    let mut paths = Vec::new();
    for object in &versions {
        let version = object["metadata"]["resourceVersion"].as_str();
        let version = version.expect("a version");
        // Once it is there, so is all before it.
        both.warm(&format!("{list}?resourceVersion={version}"))
            .await;
        let path = format!("{list}?watch=1&resourceVersion={version}&timeoutSeconds=1");
        for accept in ["application/json", TABLE, PROTOBUF, PARTIAL] {
            paths.push((Expect::Hit, path.clone(), accept));
        }
        for selector in ["app%3Dsample", "app%3Dother", "n%3D1"] {
            let selected = format!("{path}&labelSelector={selector}");
            paths.push((Expect::Hit, selected, "application/json"));
        }
        let legacy = path.replace("/api/v1/", "/api/v1/watch/");
        paths.push((Expect::Hit, legacy, "application/json"));
    }
    ask_at_once(&mut both, &paths).await;
    both.finish();
}

/// Many at a time, because each lasts a second.
async fn ask_at_once(both: &mut Differential, paths: &[(Expect, String, &str)]) {
    let shared = &*both;
    let asked = futures::stream::iter(paths).map(|(expected, path, accept)| async move {
        let headers = [("accept", *accept)];
        shared
            .difference(*expected, Method::GET, path, &headers, "")
            .await
    });
    let found: Vec<String> = asked.buffer_unordered(64).collect().await;
    both.add(found);
}

async fn selectors(mut both: Differential) {
    let pods = "/api/v1/pods?resourceVersion=0";
    for selector in [
        "spec.nodeName%3Dnode-1",
        "spec.nodeName%3D",
        "spec.nodeName!%3Dnode-1",
        "status.phase%3DRunning",
        "status.phase!%3DRunning,spec.nodeName%3Dnode-1",
        "status.podIP%3D10.0.0.1",
        "status.podIPs%3D10.0.0.1",
        "status.nominatedNodeName%3D",
        "spec.restartPolicy%3DNever",
        "spec.schedulerName%3Ddefault-scheduler",
        "spec.serviceAccountName%3D",
        "spec.serviceAccountName%3Dbuilder",
        "spec.hostNetwork%3Dtrue",
        "spec.hostNetwork%3Dfalse",
        "spec.host%3Dnode-1",
        "metadata.name%3Drunning",
        "metadata.name!%3Drunning",
        "metadata.namespace%3Dsample,metadata.name%3Drunning",
        "metadata.namespace%3Dnowhere",
        "metadata.namespace%3DNOT%20VALID",
    ] {
        both.get(&format!("{pods}&fieldSelector={selector}")).await;
    }
    let unknown = format!("{pods}&fieldSelector=spec.unknown%3Dx");
    both.expect(FIELD_SELECTOR).get(&unknown).await;
    for selector in [
        "app%3Dsample",
        "app%3D%3Dsample",
        "app!%3Dsample",
        "app%20in%20(sample,x)",
        "app%20notin%20(sample)",
        "app",
        "!app",
        "weight%3E4",
        "weight%3C4",
        "app%3D",
        "app%20in%20()",
        "example.test/with-prefix",
    ] {
        both.get(&format!("{pods}&labelSelector={selector}")).await;
    }
    for selector in [
        "a%20b",
        "%3D",
        "app%3Dsample,",
        ",",
        "-bad",
        "app%3D-bad",
        "(",
        "weight%3Ex",
    ] {
        let path = format!("{pods}&labelSelector={selector}");
        both.expect(INVALID).get(&path).await;
    }
    selectors_of_others(&mut both).await;
    both.finish();
}

/// Fields of other resources, known and unknown.
async fn selectors_of_others(both: &mut Differential) {
    for (path, selector) in [
        ("/api/v1/nodes", "spec.unschedulable%3Dtrue"),
        ("/api/v1/nodes", "spec.unschedulable%3Dfalse"),
        ("/api/v1/secrets", "type%3DOpaque"),
        ("/api/v1/services", "spec.type%3DClusterIP"),
        ("/api/v1/services", "spec.clusterIP%3DNone"),
        ("/api/v1/namespaces", "status.phase%3DActive"),
        ("/api/v1/namespaces", "status.phase%3DTerminating"),
        ("/api/v1/replicationcontrollers", "status.replicas%3D0"),
        ("/apis/batch/v1/jobs", "status.successful%3D0"),
        (
            "/apis/certificates.k8s.io/v1/certificatesigningrequests",
            "spec.signerName%3Dx.test%2Fy",
        ),
        ("/apis/resource.k8s.io/v1/resourceslices", "spec.driver%3Dx"),
        ("/apis/sample.example.test/v1/widgets", "spec.color%3Dred"),
    ] {
        let path = format!("{path}?resourceVersion=0&fieldSelector={selector}");
        both.get(&path).await;
    }
    for (expected, path, selector) in [
        (EXCLUDED, "/api/v1/events", "involvedObject.name%3Drunning"),
        (EXCLUDED, "/api/v1/events", "reason%3DTested"),
        (
            EXCLUDED,
            "/apis/events.k8s.io/v1/events",
            "regarding.name%3Drunning",
        ),
        (FIELD_SELECTOR, "/api/v1/nodes", "metadata.namespace%3Dx"),
        (
            FIELD_SELECTOR,
            "/apis/apps/v1/replicasets",
            "status.replicas%3D0",
        ),
        (
            FIELD_SELECTOR,
            "/apis/apps/v1/deployments",
            "status.replicas%3D0",
        ),
        (FIELD_SELECTOR, "/apis/batch/v1/jobs", "status.x%3D0"),
        (
            FIELD_SELECTOR,
            "/apis/sample.example.test/v1/widgets",
            "spec.size%3D1",
        ),
    ] {
        let path = format!("{path}?resourceVersion=0&fieldSelector={selector}");
        both.expect(expected).get(&path).await;
    }
}

async fn pages_and_pretty(mut both: Differential) {
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
        ] {
            both.get(&format!("{path}?{query}")).await;
        }
        let path = format!("{path}?resourceVersion=0");
        both.expect(INVALID).get(&format!("{path}&limit=-1")).await;
        let unknown = format!("{path}&unknown=parameter");
        both.expect(UNUSUAL).get(&unknown).await;
        both.get_as(&path, "application/json;pretty=1").await;
        for agent in ["curl/8.0", "Wget/1", "Mozilla/5.0 (X11)", "kubectl/v1.36.3"] {
            both.ask(Method::GET, &path, &[("user-agent", agent)], "")
                .await;
        }
        let head = both.expect(Expect::NotAsked);
        head.ask(Method::HEAD, &path, &[], "").await;
    }
    both.finish();
}

async fn odd_accept_headers(mut both: Differential) {
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
        // kube-apiserver answers those of its own kinds with 406: the first
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
        for accept in [YAML, PARTIAL_LIST, "text/html", "application/cbor-seq"] {
            let path = format!("{path}?watch=1&resourceVersion=0&timeoutSeconds=1");
            both.expect(REPRESENTATION).get_as(&path, accept).await;
        }
    }
    both.finish();
}

async fn malformed_parameters(mut both: Differential) {
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
        (NOT_WATCHABLE, "/api/v9/pods?resourceVersion=0"),
        (
            NOT_WATCHABLE,
            "/apis/nonsense.test/v1/things?resourceVersion=0",
        ),
        (NOT_WATCHABLE, "/apis/apps/v9/deployments?resourceVersion=0"),
        (UNUSUAL, "/api/v1/pods/running?resourceVersion=0"),
        (UNUSUAL, "/api/v1/namespaces/sample/nodes?resourceVersion=0"),
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

/// The bytes of a deflate stream are the server's choice; what they hold and
/// when they are sent is not.
async fn large_lists_compressed(mut both: Differential) {
    for accept in [
        "application/json",
        PROTOBUF,
        TABLE_OR_JSON,
        PARTIAL_LIST,
        YAML,
    ] {
        for encoding in [
            "gzip",
            "gzip, deflate",
            "gzip;q=1",
            "deflate",
            "identity",
            "*",
        ] {
            for list in ["configmaps", "services"] {
                let path = format!("/api/v1/namespaces/{NAMESPACE}/{list}?resourceVersion=0");
                let headers = [("accept", accept), ("accept-encoding", encoding)];
                both.ask(Method::GET, &path, &headers, "").await;
            }
        }
    }
    both.finish();
}

async fn versions(mut both: Differential) {
    let list = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    // The version of the cache: of a newer one, at which nothing happened to pods,
    // it hears with upstream's next bookmark, up to a minute later.
    let cached = format!("{list}?resourceVersion=0");
    both.warm(&cached).await;
    let now = both.front.get(&cached).await.expect(200);
    let newest = now["metadata"]["resourceVersion"]
        .as_str()
        .expect("version");
    for query in [
        format!("resourceVersion={newest}&resourceVersionMatch=Exact"),
        format!("resourceVersion={newest}&resourceVersionMatch=Exact&limit=2"),
        format!("resourceVersion={newest}&limit=2"),
        format!("resourceVersion={newest}&resourceVersionMatch=NotOlderThan"),
        format!("resourceVersion={newest}"),
        "limit=2".to_owned(),
        String::new(),
    ] {
        both.get(&format!("{list}?{query}")).await;
    }
    for query in [
        "resourceVersion=999999999&resourceVersionMatch=Exact",
        "resourceVersion=999999999",
    ] {
        both.expect(FUTURE).get(&format!("{list}?{query}")).await;
    }
    for item in now["items"].as_array().expect("items") {
        let name = item["metadata"]["name"].as_str().expect("name");
        let version = item["metadata"]["resourceVersion"]
            .as_str()
            .expect("version");
        both.get(&format!("{list}/{name}?resourceVersion={version}"))
            .await;
        both.get(&format!("{list}/{name}")).await;
    }
    both.finish();
}

async fn http1(both: Differential) {
    let (direct, front) = (
        both.direct.over(Protocol::Http1),
        both.front.over(Protocol::Http1),
    );
    let mut both = Differential::new(direct, front);
    let gzip = [("accept-encoding", "gzip")];
    for path in [
        "/api/v1/pods?resourceVersion=0",
        "/api/v1/namespaces/sample/pods/running?resourceVersion=0",
        "/api/v1/namespaces/sample/pods/none?resourceVersion=0",
        "/api/v1/pods?resourceVersion=0&watch=1&timeoutSeconds=1",
        "/api/v1/namespaces/sample/configmaps?resourceVersion=0",
    ] {
        both.get(path).await;
        both.ask(Method::GET, path, &gzip, "").await;
        let head = both.expect(Expect::NotAsked);
        head.ask(Method::HEAD, path, &[], "").await;
    }
    for (method, headers) in [
        (Method::GET, &[][..]),
        (Method::GET, &gzip),
        (Method::HEAD, &[]),
    ] {
        let document = both.expect(Expect::Document);
        document.ask(method, "/apis", headers, "").await;
    }
    both.finish();
}

/// Equal answers prove little if all of them were forwarded.
#[tokio::test]
async fn served_from_the_cache() {
    skip_under_oracle!("kube-apiserver does not say what came from its cache");
    let front = Apifront::quiet();
    let client = front.admin_client();
    let mut bypassed = Vec::new();
    for resource in resources(&client).await.iter().filter(|r| r.watchable) {
        // Excluded unless the configuration says otherwise.
        if resource.name == "events" {
            continue;
        }
        let path = format!("{}?resourceVersion=0", resource.everywhere());
        let custom = resource.base.contains("example.test");
        let mut accepts = vec!["application/json", PARTIAL_LIST, PARTIAL_LIST_PROTOBUF];
        if !custom {
            accepts.push(PROTOBUF);
        }
        for accept in accepts {
            let mut said = String::new();
            // The first request of a resource may find its cache empty yet.
            for _ in 0..50 {
                let headers = [("x-apifront-debug", "cache"), ("accept", accept)];
                let answer = client.send(Method::GET, &path, &headers, "").await;
                said = answer.header("x-apifront-cache").to_owned();
                if said.starts_with("hit") {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            if !said.starts_with("hit") {
                bypassed.push(format!("{path} {accept}: {said}"));
            }
        }
    }
    let report = client.get("/debug/cache").await.expect(200);
    for resource in report["resources"].as_array().expect("resources") {
        let group = resource["group"].as_str().expect("group");
        let json = group.ends_with("example.test")
            || ["apiextensions.k8s.io", "apiregistration.k8s.io"].contains(&group);
        let expected = if json { "json" } else { "protobuf" };
        let encoding = resource["encoding"].as_str();
        if encoding.is_some_and(|encoding| encoding != expected) {
            bypassed.push(format!("{resource} is not read as {expected}"));
        }
    }
    assert!(bypassed.is_empty(), "{bypassed:#?}");
    let hits = [("resource", "pods"), ("result", "hit")];
    assert!(front.metric("apifront_cache_requests_total", &hits).await >= 1.0);
}

/// The sample must be large enough to be compressed.
#[tokio::test]
async fn the_sample_is_what_the_suite_needs() {
    let admin = Cluster::quiet().admin_client();
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    assert!(admin.get(&path).await.body.len() > 256 * 1024);
    let widgets = admin
        .get(&format!("/apis/{}/v1/widgets", sample::GROUP))
        .await;
    assert_eq!(
        widgets.expect(200)["items"].as_array().map(Vec::len),
        Some(3)
    );
}
