//! Compares all resources that discovery names.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::Method;
use serde_json::Value;

use super::{DROP, JSON, PARTIAL, PARTIAL_LIST, PROTOBUF, TABLE, YAML, ask_both, cut, quiet};
use crate::cached_reads::everything::{Resource, resources};
use crate::harness::apifront::Apifront;
use crate::harness::client::{Answer, Client};
use crate::harness::cluster::Cluster;
use crate::harness::encodings::{self, Encoding, Oracle, Question, Said};
use crate::harness::expect::Expect;
use crate::harness::masked;
use crate::harness::sample::NAMESPACE;

const PLAIN_PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

struct Both {
    direct: Client,
    front: Client,
    /// It ends when nobody has it.
    _apifront: Arc<Apifront>,
    compared: usize,
    members: usize,
}

impl Both {
    fn new() -> Self {
        let apifront = quiet();
        Self {
            direct: Cluster::quiet().admin_client(),
            front: apifront.admin_client(),
            _apifront: apifront,
            compared: 0,
            members: 0,
        }
    }

    /// Asks both for a path, the API server with `plain`.
    async fn ask(&self, path: &str, plain: &str, accept: &str) -> (Answer, Answer) {
        let (direct, front) = ask_both((&self.direct, plain), (&self.front, accept), path).await;
        assert_eq!(
            (front.status, front.header("content-type")),
            (direct.status, direct.header("content-type")),
            "{path} {accept}"
        );
        let unmet = Expect::Hit.unmet(&front);
        assert!(unmet.is_empty(), "{path} {accept}: {unmet}");
        (direct, front)
    }

    /// Returns some objects of the resource: the path of their list, and their names.
    async fn objects(&self, resource: &Resource) -> Vec<(String, String)> {
        let all = self.direct.get(&resource.everywhere()).await.expect(200);
        let items = all["items"].as_array().into_iter().flatten().take(3);
        let place = |item: &Value| {
            let meta = &item["metadata"];
            let namespace = meta["namespace"].as_str().unwrap_or("");
            let name = meta["name"].as_str().expect("name");
            (resource.list(namespace), name.to_owned())
        };
        items.map(place).collect()
    }

    /// Compares the answers of both, and returns apifront's.
    async fn compare(
        &mut self,
        path: &str,
        accepts: (&str, &str),
        cut: fn(&[u8]) -> String,
    ) -> Answer {
        let (direct, front) = self.ask(path, accepts.0, accepts.1).await;
        let expected = cut(&direct.body);
        let got = cut::text(&front.body);
        let is_equal = match path.contains("&continue=") {
            // Their tokens have two forms.
            true => masked::text(got.as_bytes()) == masked::text(expected.as_bytes()),
            false => got == expected,
        };
        assert!(is_equal, "{path}\n{got}\nexpected\n{expected}");
        self.compared += 1;
        self.members += usize::from(expected.len() < direct.body.len());
        front
    }

    fn finish(self, least: usize) {
        println!("{} answers, {} shorter", self.compared, self.members);
        assert!(self.members > least, "only {} are shorter", self.members);
    }
}

async fn cached(direct: &Client) -> Vec<Resource> {
    let mut all = resources(direct).await;
    all.retain(|resource| resource.expected() == Expect::Hit);
    all
}

#[tokio::test]
async fn json_of_everything() {
    skip_under_oracle!("kube-apiserver ignores the parameter");
    let mut both = Both::new();
    for resource in cached(&both.direct).await {
        let list = resource.everywhere();
        let json = ("application/json", JSON);
        for query in ["", "?labelSelector=app%3Dsample", "?limit=500"] {
            both.compare(&format!("{list}{query}"), json, cut::json)
                .await;
        }
        let none = format!("{}/no-such-object", resource.list(NAMESPACE));
        both.compare(&none, json, cut::json).await;
        for (list, name) in both.objects(&resource).await {
            let path = format!("{list}/{name}?resourceVersion=0");
            both.compare(&path, json, cut::json).await;
            // Upstream fails to write one of the ConfigMaps as YAML.
            if resource.name != "configmaps" {
                both.compare(&path, ("application/yaml", YAML), cut::yaml)
                    .await;
            }
        }
    }
    both.finish(100);
}

#[tokio::test]
async fn tables_and_metadata_of_everything() {
    skip_under_oracle!("kube-apiserver ignores the parameter");
    let mut both = Both::new();
    for resource in cached(&both.direct).await {
        let list = resource.everywhere();
        let forms = [
            (TABLE, ""),
            (TABLE, "?includeObject=None"),
            (TABLE, "?includeObject=Object&labelSelector=app%3Dsample"),
            (PARTIAL_LIST, ""),
            (PARTIAL_LIST, "?limit=3"),
        ];
        for (accept, query) in forms {
            if resource.expected_as(accept) != Expect::Hit {
                continue;
            }
            let accepts = (accept, &format!("{accept}{DROP}")[..]);
            both.compare(&format!("{list}{query}"), accepts, cut::json)
                .await;
        }
        for (list, name) in both.objects(&resource).await {
            for accept in [TABLE, PARTIAL] {
                if resource.expected_as(accept) != Expect::Hit {
                    continue;
                }
                let path = format!("{list}/{name}?resourceVersion=0");
                let accepts = (accept, &format!("{accept}{DROP}")[..]);
                both.compare(&path, accepts, cut::json).await;
            }
        }
    }
    both.finish(200);
}

/// The same in pages, indented and compressed.
#[tokio::test]
async fn forms_of_json() {
    skip_under_oracle!("kube-apiserver ignores the parameter");
    let mut both = Both::new();
    let list = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let (mut next, mut pages) = (String::new(), 0);
    let mut versions = BTreeSet::new();
    loop {
        let path = format!("{list}?limit=3{next}");
        let accepts = ("application/json", JSON);
        let page = both.compare(&path, accepts, cut::json).await.expect(200);
        pages += 1;
        versions.insert(page["metadata"]["resourceVersion"].to_string());
        // The cache has the state of the pages that it wrote. Of later states it may hear
        // after a minute.
        match page["metadata"]["continue"].as_str() {
            Some(token) => next = format!("&continue={token}"),
            None => break,
        }
    }
    assert!(pages > 2 && versions.len() == 1, "{pages}, {versions:?}");
    for path in [
        format!("{list}?pretty=1"),
        format!("{list}/large-00?pretty=true"),
    ] {
        let (direct, front) = both.ask(&path, "application/json", JSON).await;
        let indented = |answer: &Answer| -> Value { answer.json() };
        let expected: Value =
            serde_json::from_str(&cut::json(indented(&direct).to_string().as_bytes())).unwrap();
        assert_eq!(indented(&front), expected, "{path}");
        assert!(front.text().contains("\n  \"metadata\": {"), "{path}");
    }
    let headers = [("accept", JSON), ("accept-encoding", "gzip")];
    for path in [format!("{list}?resourceVersion=0"), list.clone()] {
        loop {
            let before = both.front.get_as(&path, JSON).await;
            let packed = both.front.send(Method::GET, &path, &headers, "").await;
            let after = both.front.get_as(&path, JSON).await;
            assert_eq!(packed.header("content-encoding"), "gzip");
            let mut text = String::new();
            let mut reader = flate2::read::MultiGzDecoder::new(&packed.body[..]);
            std::io::Read::read_to_string(&mut reader, &mut text).expect("gzip");
            // Every write to the cluster changes the list's version.
            if before.body == after.body {
                assert!(text == after.text(), "{path}");
                break;
            }
        }
    }
    both.finish(2);
}

/// Go's types write the right protobuf, from the JSON of the right object.
#[tokio::test]
async fn protobuf_of_everything() {
    skip_under_oracle!("kube-apiserver ignores the parameter");
    let mut both = Both::new();
    let mut oracle = Oracle::start();
    let mut write = |question: Question<'_>| match oracle.ask(&question).said {
        Said::Bytes(bytes) => Some(bytes),
        Said::Error(_) | Said::NotAsked => None,
    };
    for resource in cached(&both.direct).await {
        // The raw bytes in a ControllerRevision are others after they were JSON.
        // Leases change all the time.
        let raw = matches!(resource.name.as_str(), "controllerrevisions" | "leases");
        if resource.expected_as(PLAIN_PROTOBUF) != Expect::Hit || raw {
            continue;
        }
        for (list, name) in both.objects(&resource).await {
            let path = format!("{list}/{name}?resourceVersion=0");
            let object = both.direct.get(&path).await;
            let (direct, front) = both.ask(&path, PLAIN_PROTOBUF, PROTOBUF).await;
            let kept = cut::json(&object.body);
            let kind = object.json();
            let text = |key: &str| kind[key].as_str().expect("text").to_owned();
            let expected = write(Question {
                api_version: &text("apiVersion"),
                kind: &text("kind"),
                encoding: Encoding::Json,
                bytes: kept.as_bytes(),
            });
            let Some(expected) = expected else { continue };
            let texts = [&front.body[..], &expected].map(|bytes| bytes.escape_ascii().to_string());
            assert_eq!(texts[0], texts[1], "{path}: {kept}");
            let got = encodings::unwrap(&front.body);
            both.compared += 1;
            both.members += usize::from(front.body.len() < direct.body.len());
            // A list of this one object has the same item.
            let one = format!("{list}?fieldSelector=metadata.name%3D{name}");
            let (_, front) = both.ask(&one, PLAIN_PROTOBUF, PROTOBUF).await;
            let found = front.body.windows(got.len()).any(|part| part == got);
            assert!(found, "{one}");
        }
    }
    both.finish(60);
}
