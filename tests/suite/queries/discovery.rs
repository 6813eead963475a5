//! The group is in discovery and OpenAPI as a group of kube-apiserver's is, and no other
//! group changes. A SelfSubjectAccessReview is the model: it is only created, too.

use std::collections::BTreeSet;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::{GROUP, QUERIES, VERSION, enable, front};
use crate::discovery::compare_all;
use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::kubectl::Kubectl;
use crate::harness::media_types::GROUP_DISCOVERY;
use crate::harness::release::Release;
use crate::kubectl::{both, kubeconfig_of};

const SOON: Duration = Duration::from_secs(20);
const MODEL: &str = "authorization.k8s.io";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// The paths at which the group is listed or described.
const PLACES: [&str; 4] = ["/apis", "/apis/", "/openapi/v3", "/openapi/v2"];

/// Returns the paths of all members of a document, without the values. Items of a list
/// are one member.
fn form(value: &Value) -> BTreeSet<String> {
    let below = |name: &str, value: &Value| -> Vec<String> {
        let paths = form(value).into_iter();
        paths.map(|path| format!("{name}{path}")).collect()
    };
    match value {
        Value::Object(members) => {
            let members = members.iter();
            let paths = members.flat_map(|(name, value)| below(&format!(".{name}"), value));
            paths.collect()
        }
        Value::Array(items) => items.iter().flat_map(|item| below("[]", item)).collect(),
        Value::String(_) => BTreeSet::from([": string".to_owned()]),
        Value::Bool(_) => BTreeSet::from([": bool".to_owned()]),
        Value::Number(_) => BTreeSet::from([": number".to_owned()]),
        Value::Null => BTreeSet::from([": null".to_owned()]),
    }
}

fn find(items: &Value, is_it: impl Fn(&Value) -> bool) -> &Value {
    let mut items = items.as_array().expect("a list").iter();
    items.find(|item| is_it(item)).expect("an item")
}

/// Removes the items of a list for which `is_ours` holds, and fails if there is none.
fn without(document: &mut Value, list: &str, is_ours: impl Fn(&Value) -> bool) {
    let items = document[list].as_array_mut().expect("a list");
    let before = items.len();
    items.retain(|item| !is_ours(item));
    assert_eq!(items.len() + 1, before, "{list}");
}

fn name_of(parameter: &Value) -> &str {
    parameter["name"].as_str().expect("a name")
}

async fn json_of(client: &Client, path: &str, accept: &str) -> Value {
    client.get_as(path, accept).await.expect(200)
}

#[tokio::test]
async fn its_documents_have_the_form_of_every_group() {
    skip_under_oracle!("kube-apiserver has no queries");
    let (direct, through) = (Cluster::quiet().admin_client(), front().admin_client());
    for (own, model) in [
        (format!("/apis/{GROUP}"), format!("/apis/{MODEL}")),
        (format!("/apis/{VERSION}"), format!("/apis/{MODEL}/v1")),
    ] {
        let own = json_of(&through, &own, "application/json").await;
        let model = json_of(&direct, &model, "application/json").await;
        assert_eq!(form(&own), form(&model), "{own:#}");
    }
    let resources = json_of(&through, &format!("/apis/{VERSION}"), "application/json").await;
    let resource = json!({
        "name": "queries", "singularName": "query", "namespaced": false,
        "kind": "Query", "verbs": ["create"],
    });
    assert_eq!(resources["resources"], json!([resource]));

    let everything = json_of(&through, "/apis", GROUP_DISCOVERY).await;
    let named = |name: &'static str| move |group: &Value| group["metadata"]["name"] == name;
    let own = find(&everything["items"], named(GROUP));
    let model = find(&everything["items"], named(MODEL));
    assert_eq!(form(own), form(model), "{own:#}");
    assert_eq!(own["versions"][0]["freshness"], "Current");
    for accept in ["application/yaml", "application/vnd.kubernetes.protobuf"] {
        for path in [format!("/apis/{GROUP}"), format!("/apis/{VERSION}")] {
            let answer = through.get_as(&path, accept).await;
            assert_eq!(answer.status, 200);
            assert_eq!(answer.header("content-type"), accept);
        }
    }
    let refused = through
        .get_as(&format!("/apis/{VERSION}"), "text/html")
        .await;
    assert_eq!(refused.expect(406)["reason"], "NotAcceptable");
}

#[tokio::test]
async fn all_other_groups_are_as_before() {
    skip_under_oracle!("kube-apiserver has no queries");
    let (direct, through) = (Cluster::quiet().admin_client(), front().admin_client());
    for (accept, list) in [("application/json", "groups"), (GROUP_DISCOVERY, "items")] {
        let mut ours = json_of(&through, "/apis", accept).await;
        let is_ours = |group: &Value| group["name"] == GROUP || group["metadata"]["name"] == GROUP;
        without(&mut ours, list, is_ours);
        assert_eq!(ours, json_of(&direct, "/apis", accept).await);
    }
    let paths = [
        "/api",
        "/api/v1",
        "/apis/apps",
        "/apis/authorization.k8s.io/v1",
    ];
    compare_all(&direct, &through, &paths).await;

    let mut ours = json_of(&through, "/openapi/v3", "application/json").await;
    let paths = ours["paths"].as_object_mut().expect("paths");
    assert!(paths.remove(&format!("apis/{VERSION}")).is_some());
    assert_eq!(
        ours,
        json_of(&direct, "/openapi/v3", "application/json").await
    );

    let mut ours = json_of(&through, "/openapi/v2", "application/json").await;
    let paths = ours["paths"].as_object_mut().expect("paths");
    paths.retain(|path, _| !path.contains(GROUP));
    let upstreams = json_of(&direct, "/openapi/v2", "application/json").await;
    assert_eq!(ours["paths"], upstreams["paths"]);
    let definitions = ours["definitions"].as_object_mut().expect("definitions");
    definitions.retain(|name, _| !name.starts_with("dev.apifront."));
    if Release::at_least(37) {
        assert_eq!(ours, upstreams);
    }

    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    let names = async |client: &Client| {
        let list = client.get(services).await.expect(200);
        let items = list["items"].as_array().expect("items").clone();
        let names = items.iter().map(|item| item["metadata"]["name"].clone());
        names.collect::<Vec<Value>>()
    };
    assert_eq!(names(&through).await, names(&direct).await);
}

/// Only what `openapi.json` describes differs from kube-apiserver's description of a
/// SelfSubjectAccessReview: the names, the types, and the encodings.
#[tokio::test]
async fn openapi_describes_the_creation() {
    skip_under_oracle!("kube-apiserver has no queries");
    let through = front().admin_client();
    let root = through.get("/openapi/v3").await.expect(200);
    let document = async |key: &str| {
        let url = root["paths"][key]["serverRelativeURL"].as_str();
        let url = url.expect("a URL").to_owned();
        through.get(&url).await.expect(200)
    };
    let own = document(&format!("apis/{VERSION}")).await;
    let model = document(&format!("apis/{MODEL}/v1")).await;
    let parameters = |document: &Value, path: &str| -> Vec<Value> {
        let parameters = document["paths"][path]["parameters"].as_array();
        let mut parameters = parameters.expect("parameters").clone();
        parameters.sort_by_key(|parameter| parameter["name"].to_string());
        parameters
    };
    let (live, like_others): (Vec<Value>, Vec<Value>) = parameters(&own, QUERIES)
        .into_iter()
        .partition(|parameter| ["timeoutSeconds", "watch"].contains(&name_of(parameter)));
    assert_eq!(like_others, parameters(&model, REVIEWS));
    assert_eq!(live.len(), 2);
    let post = &own["paths"][QUERIES]["post"];
    let like = &model["paths"][REVIEWS]["post"];
    assert_eq!(post["x-kubernetes-action"], "post");
    let kind = json!({ "group": GROUP, "version": "v1alpha1", "kind": "Query" });
    assert_eq!(post["x-kubernetes-group-version-kind"], kind);
    let members = |value: &Value| -> BTreeSet<String> {
        value
            .as_object()
            .expect("an object")
            .keys()
            .cloned()
            .collect()
    };
    assert_eq!(members(post), members(like));
    assert_eq!(members(&post["responses"]), members(&like["responses"]));
    let schemas = &own["components"]["schemas"];
    let query = &schemas["dev.apifront.query.v1alpha1.Query"];
    let review =
        &model["components"]["schemas"]["io.k8s.api.authorization.v1.SelfSubjectAccessReview"];
    assert_eq!(members(query), members(review));
    assert_eq!(
        members(&query["properties"]),
        members(&review["properties"])
    );
    assert_eq!(query["x-kubernetes-group-version-kind"], json!([kind]));
}

#[tokio::test]
async fn kubectl_lists_and_explains_it() {
    skip_under_oracle!("kube-apiserver has no queries");
    let kubectl = Kubectl::new(&kubeconfig_of(Cluster::quiet(), front()));
    let told = kubectl
        .run(&["api-resources", "--api-group", GROUP])
        .await
        .ok();
    let line = told.lines().nth(1).expect("a resource");
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words, ["queries", VERSION, "false", "Query"]);
    for output in ["plaintext", "plaintext-openapiv2"] {
        let output = format!("--output={output}");
        let explain = async |what: &str| {
            let command = ["explain", what, output.as_str()];
            let told = kubectl.run(&command).await.ok();
            assert!(
                told.contains("Query") && told.contains("v1alpha1"),
                "{told}"
            );
            told
        };
        let told = explain("query").await;
        assert!(
            told.contains("spec") && told.contains("Nothing is stored"),
            "{told}"
        );
        let told = explain("query.spec.orderBy").await;
        for field in ["column", "expression", "descending", "<boolean>"] {
            assert!(told.contains(field), "no {field} in {told}");
        }
        let told = explain("query.status.rows.cells").await;
        assert!(told.contains("values of the columns"), "{told}");
    }
    // Everything else is explained as before.
    let both = both(Cluster::quiet(), front());
    for output in ["plaintext", "plaintext-openapiv2"] {
        let output = format!("--output={output}");
        let command = ["explain", "pods", "--recursive", output.as_str()];
        both.must_be_same(&command).await;
    }
}

/// kubectl checks the fields of a Query before it sends it.
#[tokio::test]
async fn kubectl_validates_a_query() {
    skip_under_oracle!("kube-apiserver has no queries");
    let kubectl = Kubectl::new(&kubeconfig_of(Cluster::quiet(), front()));
    let query = |field: &str| {
        json!({
            "apiVersion": VERSION, "kind": "Query",
            "spec": {
                "resource": { "version": "v1", "resource": "pods" },
                "columns": [{ "name": "node", "expression": "object.spec.nodeName" }],
                field: 10,
            },
        })
        .to_string()
    };
    let command = ["create", "--dry-run=client", "--validate=strict", "-f", "-"];
    let wrong = kubectl.run_with_input(&command, &query("limt")).await;
    assert_ne!(wrong.code, Some(0));
    assert!(wrong.stderr.contains("limt"), "{wrong:?}");
    let right = kubectl.run_with_input(&command, &query("limit")).await;
    assert!(right.ok().contains("created (dry run)"));
}

#[tokio::test]
async fn it_is_there_at_once_after_a_start() {
    skip_under_oracle!("kube-apiserver has no queries");
    let front = Apifront::start(Cluster::quiet(), enable).await;
    let client = front.admin_client();
    for place in PLACES {
        assert!(client.get(place).await.text().contains(GROUP), "{place}");
    }
    front.stop().await;
}

async fn is_shown(client: &Client) -> Vec<bool> {
    let mut shown = Vec::new();
    for place in PLACES {
        shown.push(client.get(place).await.text().contains(GROUP));
    }
    shown.push(
        client
            .get_as("/apis", GROUP_DISCOVERY)
            .await
            .text()
            .contains(GROUP),
    );
    for path in [format!("/apis/{GROUP}"), format!("/apis/{VERSION}")] {
        shown.push(client.get(&path).await.status == 200);
    }
    shown
}

async fn becomes(front: &Apifront, shown: bool, change: impl FnOnce(&mut Value)) {
    let mut config = front.read_config();
    change(&mut config);
    front.write_config(&config);
    let client = front.admin_client();
    eventually("the file is in force", SOON, || async {
        is_shown(&client).await.iter().all(|place| *place == shown)
    })
    .await;
}

#[tokio::test]
async fn it_is_absent_unless_it_is_enabled_and_not_hidden() {
    skip_under_oracle!("kube-apiserver has no queries");
    let cluster = Cluster::quiet();
    let front = Apifront::start(cluster, |_| {}).await;
    let (direct, through) = (cluster.admin_client(), front.admin_client());
    assert_eq!(is_shown(&through).await, is_shown(&direct).await);
    becomes(&front, true, enable).await;
    let hide = |config: &mut Value| {
        config["apis"] = json!({ "runtimeConfig": { (VERSION): false } });
    };
    becomes(&front, false, hide).await;
    for path in [
        format!("/apis/{GROUP}"),
        format!("/apis/{VERSION}"),
        QUERIES.to_owned(),
    ] {
        let hidden = through.get(&path).await;
        assert_eq!(
            (hidden.status.as_u16(), hidden.text()),
            (404, "404 page not found\n".into())
        );
    }
    let sent = through.send(Method::POST, QUERIES, &[], "{}").await;
    assert_eq!(sent.status, 404);
    becomes(&front, true, |config| config["apis"] = json!({})).await;
    becomes(&front, false, |config| config["queries"] = json!({})).await;
    let paths = ["/apis", "/apis/", "/apis/query.apifront.dev"];
    compare_all(&direct, &through, &paths).await;
    for path in ["/openapi/v3", "/openapi/v2"] {
        let same = through.get(path).await.body == direct.get(path).await.body;
        assert!(same, "{path}");
    }
    front.stop().await;
}
