//! Reads everything that discovery names: lists, objects and their representations.

use std::collections::BTreeMap;

use super::{
    EXCLUDED, FIELD_SELECTOR, PARTIAL, PARTIAL_LIST, PARTIAL_LIST_PROTOBUF, PROTOBUF,
    REPRESENTATION, TABLE, TABLE_OR_JSON, YAML,
};
use crate::harness::client::Client;
use crate::harness::differential::Differential;
use crate::harness::expect::Expect;
use crate::harness::forwarded;
use crate::harness::release::Release;
use crate::harness::sample::{NAMESPACE, OTHER_NAMESPACE};

pub(crate) struct Resource {
    /// The path of the group version, `/api/v1` or `/apis/apps/v1`.
    pub(crate) base: String,
    pub(crate) name: String,
    pub(crate) namespaced: bool,
    pub(crate) watchable: bool,
}

impl Resource {
    pub(crate) fn everywhere(&self) -> String {
        format!("{}/{}", self.base, self.name)
    }

    /// By default, the configuration excludes events from the cache.
    pub(crate) fn expected(&self) -> Expect {
        match self.name.as_str() {
            "events" => EXCLUDED,
            _ => Expect::Hit,
        }
    }

    /// Returns the expectation for another representation.
    pub(crate) fn expected_as(&self, accept: &str) -> Expect {
        let table = accept.contains("as=Table");
        let plain_protobuf = accept == PROTOBUF;
        let list = self.everywhere();
        match (self.base.as_str(), self.name.as_str()) {
            (_, "events") => EXCLUDED,
            _ if table && forwarded::tables(&list) => REPRESENTATION,
            _ if plain_protobuf && forwarded::protobuf(&list) => REPRESENTATION,
            // A v1 autoscaler stores its metrics in another order than they are
            // printed in.
            ("/apis/autoscaling/v1", "horizontalpodautoscalers") if table => REPRESENTATION,
            // Custom resources have no protobuf: 406.
            ("/apis/sample.example.test/v1", _) if plain_protobuf => REPRESENTATION,
            // The upstream fails to write one of them as YAML: 500.
            ("/api/v1", "configmaps") if accept == YAML => REPRESENTATION,
            _ => Expect::Hit,
        }
    }

    /// Returns the path of the list in `namespace`, or of the whole list for a
    /// cluster-wide resource.
    pub(crate) fn list(&self, namespace: &str) -> String {
        if self.namespaced {
            format!("{}/namespaces/{namespace}/{}", self.base, self.name)
        } else {
            self.everywhere()
        }
    }
}

pub(crate) async fn resources(client: &Client) -> Vec<Resource> {
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
            // componentstatuses probes other processes for each request, so answers
            // differ.
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
    let least = Release::resources(false);
    assert!(all.len() > least, "only {} resources", all.len());
    all
}

pub(super) async fn lists_of_everything(mut both: Differential) {
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

pub(super) async fn objects_of_everything(mut both: Differential) {
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

pub(super) async fn representations_of_everything(mut both: Differential) {
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
            "namespaces"
            | "nodes"
            | "certificatesigningrequests"
            | "clustertrustbundles"
            | "podcertificaterequests"
            | "resourceslices" => FIELD_SELECTOR,
            _ => resource.expected(),
        };
        both.expect(expected).get(&by_namespace).await;
    }
    both.finish();
}
