//! A backend that can only serve JSON and has no Tables. apifront makes the
//! other representations from its cache.

use http::Method;
use serde_json::{Value, json};

use super::HostileTwins;
use crate::harness::backend::Mood;
use crate::harness::client::{Answer, Client};
use crate::harness::kubectl::Kubectl;
use crate::harness::media_types::{PROTOBUF, TABLE};
use crate::harness::records::RECORDS;

const GROUP: &str = "records.example.com";
const LIST: &str = "/apis/records.example.com/v1/records";
const PARTIAL: &str = "as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

async fn read(client: &Client, path: &str, accept: &str) -> Answer {
    let headers = [("accept", accept), ("x-apifront-debug", "cache")];
    client.send(Method::GET, path, &headers, "").await
}

/// Reads a representation that apifront can make but the backend cannot.
async fn made(client: &Client, path: &str, accept: &str) -> Answer {
    let answer = read(client, path, accept).await;
    assert_eq!(answer.status, 200, "{path} {accept}: {}", answer.text());
    assert!(answer.is_hit(), "{path} {accept}: {:?}", answer.headers);
    answer
}

#[tokio::test]
async fn other_representations_are_made_from_memory() {
    skip_under_oracle!("kube-apiserver makes no other representation of a backend's answers");
    let HostileTwins { twins, backend } =
        HostileTwins::start_group(GROUP, "records", Mood::Records).await;
    let (direct, front) = (twins.direct_client(), twins.front_client());
    let newest = format!("{LIST}?resourceVersion=0");
    twins.front.warm(&front, &newest).await;

    // kube-apiserver's aggregator only forwards the backend's JSON.
    let plain = read(&direct, LIST, "application/json").await;
    assert_eq!(plain.status, 200, "{}", plain.text());
    for accept in [TABLE, PROTOBUF, &format!("{PROTOBUF};{PARTIAL}")] {
        let refused = read(&direct, LIST, accept).await;
        assert_eq!(refused.status, 406, "{accept}: {}", refused.text());
    }
    let cached = made(&front, &newest, "application/json").await.json();
    assert_eq!(cached["items"], plain.json()["items"]);

    for path in [newest.clone(), format!("{LIST}/first?resourceVersion=0")] {
        let table = made(&front, &path, TABLE).await.json();
        assert_eq!(table["kind"], "Table", "{path}");
        let columns = table["columnDefinitions"].as_array().expect("columns");
        let names: Vec<&Value> = columns.iter().map(|c| &c["name"]).collect();
        assert_eq!(names, ["Name", "Created At"]);
        let rows = table["rows"].as_array().expect("rows");
        let shown = if path == newest {
            &RECORDS[..]
        } else {
            &RECORDS[..1]
        };
        assert_eq!(rows.len(), shown.len());
        for (row, name) in rows.iter().zip(shown) {
            assert_eq!(row["cells"], json!([name, "2026-01-02T03:04:05Z"]));
            assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
            assert_eq!(row["object"]["metadata"]["labels"]["name"], *name);
        }
    }

    let accept = format!("application/json;{PARTIAL}");
    let partial = made(&front, &newest, &accept).await.json();
    assert_eq!(partial["kind"], "PartialObjectMetadataList");
    assert_eq!(partial["items"][1]["metadata"]["uid"], "uid-of-second");
    assert_eq!(partial["items"][1].get("spec"), None);

    let accept = format!("{PROTOBUF};{PARTIAL}");
    let message = made(&front, &newest, &accept).await;
    assert_eq!(message.header("content-type"), PROTOBUF);
    assert!(message.body.starts_with(b"k8s\0"));
    let text = String::from_utf8_lossy(&message.body);
    assert!(
        RECORDS
            .iter()
            .all(|name| text.contains(&format!("uid-of-{name}"))),
        "{text}"
    );

    // Protobuf needs a schema of the backend's kinds, which does not exist.
    assert_eq!(read(&front, &newest, PROTOBUF).await.status, 406);
    let yaml = made(&front, &newest, "application/yaml").await.text();
    assert!(yaml.contains("text: of first"), "{yaml}");

    // The backend itself answers lists of the most recent state: its watches send no
    // bookmarks that could prove the cache recent. kubectl also prints plain
    // objects.
    let kubectl = Kubectl::new(&twins.kubeconfigs().1);
    let told = kubectl.run(&["get", "records", "--no-headers"]).await.ok();
    let names = told.lines().filter_map(|l| l.split_whitespace().next());
    assert!(names.eq(RECORDS), "{told}");
    drop(backend);
}
