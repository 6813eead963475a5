//! Lists and pages of random shards.

use std::collections::BTreeSet;

use http::Method;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::Value;

use super::selectors::by_uid_or_namespace;
use super::{GROUP, OBJECTS, World, escaped};
use crate::harness::differential::Differential;
use crate::harness::expect::{DEBUG, Expect};
use crate::harness::media_types::PROTOBUF;
use crate::harness::volume;

const READS: &str = "APIFRONT_TEST_READS";
const DEFAULT_READS: usize = 300;

const ACCEPTS: [&str; 8] = [
    "application/json",
    "application/json",
    "application/yaml",
    PROTOBUF,
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1beta1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
];

/// A shard has the same bytes as from kube-apiserver with the feature gate, in every
/// representation and with every other selector.
#[tokio::test]
async fn shards_are_those_of_a_server_that_serves_them() {
    skip_under_oracle!("the upstream has no shards");
    let world = World::shared();
    let _still = world.still().await;
    let mut both = Differential::new(world.direct(), world.front.admin_client());
    let mut rng = StdRng::seed_from_u64(volume::seed("shards"));
    let widgets = [
        format!("/apis/{GROUP}/v1/widgets"),
        format!("/apis/{GROUP}/v1/namespaces/space-1/widgets"),
    ];
    let paths = [
        "/api/v1/configmaps",
        "/api/v1/namespaces/space-0/configmaps",
        "/api/v1/nodes",
        &widgets[0],
        &widgets[1],
    ];
    let pick = |rng: &mut StdRng, from: &[&'static str]| *from.choose(rng).expect("one");
    for _ in 0..volume::work(READS, DEFAULT_READS) {
        let path = *paths.choose(&mut rng).expect("a path");
        let mut accept = pick(&mut rng, &ACCEPTS);
        if path.contains(GROUP) && accept == PROTOBUF {
            accept = "*/*";
        }
        let version = pick(&mut rng, &["", "&resourceVersion=0", "&resourceVersion=1"]);
        let labels = pick(&mut rng, &["", "", "&labelSelector=parity%3Dodd"]);
        let fields = ["", "", "", "&fieldSelector=metadata.name%21%3Dobject-7"];
        let fields = pick(&mut rng, &fields);
        // Old versions with a limit are exact ones, which this test leaves out.
        let limits = ["", "", "&limit=4", "&limit=1", "&limit=500"];
        let limit = match version {
            "&resourceVersion=1" => "",
            _ => pick(&mut rng, &limits),
        };
        let selector = escaped(&by_uid_or_namespace(&mut rng));
        let path = format!("{path}?shardSelector={selector}{version}{labels}{fields}{limit}");
        both.get_as(&path, accept).await;
    }
    for name in ["object-3", "object-4"] {
        let selector = escaped(&by_uid_or_namespace(&mut rng));
        let path = format!("/api/v1/namespaces/space-3/configmaps?shardSelector={selector}");
        both.get(&format!("{path}&fieldSelector=metadata.name%3D{name}"))
            .await;
    }
    // The selector of a GET is ignored.
    let one = "/api/v1/namespaces/space-0/configmaps/object-0?shardSelector=junk";
    both.expect(Expect::Bypass("unusual_request"))
        .get(one)
        .await;
    both.finish();
}

/// The pages of a shard have the same bytes as kube-apiserver's for the same tokens.
/// All pages of all shards together have each object once.
#[tokio::test]
async fn pages_of_shards_have_every_object_once() {
    skip_under_oracle!("the upstream has no shards");
    let world = World::shared();
    let _still = world.still().await;
    let client = world.front.admin_client();
    let mut both = Differential::new(world.direct(), client.clone());
    let half = 1_u128 << 63;
    let mut seen = BTreeSet::new();
    for (start, end) in [(0, half), (half, 2 * half)] {
        let selector = format!("shardRange(object.metadata.uid, '0x{start:016x}', '0x{end:016x}')");
        let base = format!("/api/v1/nodes?limit=7&shardSelector={}", escaped(&selector));
        let mut path = base.clone();
        loop {
            both.get(&path).await;
            for accept in &ACCEPTS[2..6] {
                both.get_as(&path, accept).await;
            }
            let got = client.send(Method::GET, &path, &[DEBUG], "").await;
            assert!(got.is_hit(), "{path}");
            let page = got.expect(200);
            assert_eq!(page["metadata"]["shardInfo"]["selector"], selector.as_str());
            for item in page["items"].as_array().expect("items") {
                let name = item["metadata"]["name"].as_str().expect("a name");
                assert!(seen.insert(name.to_owned()), "{name} twice");
            }
            match &page["metadata"]["continue"] {
                Value::String(token) => path = format!("{base}&continue={}", escaped(token)),
                _ => break,
            }
        }
    }
    assert_eq!(seen.len(), OBJECTS);
    both.finish();
}
