//! A view is the union of the lists of its namespaces, in every representation.

use std::io::Read;

use bytes::Bytes;
use serde_json::Value;

use super::world::{MAPS, SOON, World, keys, version};
use crate::harness::eventually;
use crate::harness::media_types::{PARTIAL_LIST, PROTOBUF, TABLE};

fn json(body: &Bytes) -> Value {
    serde_json::from_slice(body).expect("JSON")
}

fn joined(lists: &[Bytes], field: &str) -> Vec<Value> {
    let of = |list: &Bytes| json(list)[field].as_array().cloned().unwrap_or_default();
    lists.iter().flat_map(of).collect()
}

fn protobuf_items(body: &Bytes) -> Vec<Bytes> {
    let unknown = body.strip_prefix(b"k8s\0").expect("the magic number");
    let raw = fields(unknown).into_iter().find(|(number, _)| *number == 2);
    let items = fields(&raw.expect("raw").1).into_iter();
    let items = items.filter(|(number, _)| *number == 2);
    items.map(|(_, item)| item).collect()
}

/// Splits a message into its fields, which must have a length.
fn fields(mut message: &[u8]) -> Vec<(u64, Bytes)> {
    fn number(message: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = message[0];
            *message = &message[1..];
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    }
    let mut fields = Vec::new();
    while !message.is_empty() {
        let tag = number(&mut message);
        let length = number(&mut message);
        if tag & 7 == 2 {
            let (field, rest) = message.split_at(usize::try_from(length).unwrap());
            fields.push((tag >> 3, Bytes::copy_from_slice(field)));
            message = rest;
        }
    }
    fields
}

fn yaml_items(body: &Bytes) -> String {
    let text = String::from_utf8(body.to_vec()).expect("UTF-8");
    let (_, rest) = text.split_once("items:\n").expect("items");
    let (items, _) = rest.split_once("\nkind: ").expect("kind");
    format!("{items}\n")
}

#[tokio::test]
async fn a_view_is_the_union_of_its_namespaces_lists() {
    skip_under_oracle!("kube-apiserver has no views");
    let world = World::start(6, |_| {}).await;
    // The order of keys differs from the order of namespaces.
    let admin = world.admin();
    let twin = format!("{}-x", world.namespaces[1]);
    crate::harness::cluster::create_namespace_named(&admin, &twin).await;
    world.put_map(&twin, "a", "first").await;
    let granted = [&world.namespaces[1], &twin, &world.namespaces[4]];
    for namespace in granted {
        world.grant(namespace).await;
    }
    let client = world.client();
    let list = world.settled(&client, &granted).await;
    assert_eq!(list.status, 200);
    assert_eq!(list.header("warning"), "");
    let list = list.json();
    assert_eq!(list["items"].as_array().unwrap().len(), 7);
    let debug = [("x-apifront-debug", "cache")];
    for (query, accept) in [
        ("", "application/json"),
        ("resourceVersion=0", "application/json"),
        ("labelSelector=app%3Db", "application/json"),
        ("fieldSelector=metadata.name%21%3Da", "application/json"),
        ("", PARTIAL_LIST),
        ("", TABLE),
        ("includeObject=Object", TABLE),
        ("", PROTOBUF),
        ("labelSelector=app%21%3Db", PROTOBUF),
        ("", "application/yaml"),
    ] {
        let expected = world.lists(&granted, query, accept).await;
        let headers = [debug[0], ("accept", accept)];
        let path = format!("{MAPS}?{query}");
        let answer = client.send(http::Method::GET, &path, &headers, "").await;
        assert_eq!(answer.status, 200, "{query} {accept}: {}", answer.text());
        assert!(answer.is_hit(), "{}", answer.header("x-apifront-cache"));
        assert_eq!(answer.header("x-apifront-view"), "namespaces=3, names=0");
        let same = match accept {
            PROTOBUF => {
                let expected: Vec<Bytes> = expected.iter().flat_map(protobuf_items).collect();
                assert!(!expected.is_empty());
                protobuf_items(&answer.body) == expected
            }
            "application/yaml" => {
                let expected: String = expected.iter().map(yaml_items).collect();
                yaml_items(&answer.body) == expected
            }
            TABLE => {
                let first = json(&expected[0]);
                let ours = json(&answer.body);
                ours["columnDefinitions"] == first["columnDefinitions"]
                    && ages_apart(&ours["rows"]) == ages_apart(&joined(&expected, "rows").into())
            }
            _ => {
                let ours = json(&answer.body);
                ours["kind"] == json(&expected[0])["kind"]
                    && *ours["items"].as_array().unwrap() == joined(&expected, "items")
            }
        };
        assert!(same, "{query} {accept}: {}", answer.text());
    }
    // A selector's namespace narrows the view, whether it belongs to the view or
    // not.
    for (namespace, expected) in [(&twin, 1), (&world.namespaces[0], 0)] {
        let path = format!("{MAPS}?fieldSelector=metadata.namespace%3D{namespace}");
        let list = client.get(&path).await.expect(200);
        assert_eq!(keys(&list).len(), expected, "{list}");
    }
    let other = client.get("/api/v1/secrets").await;
    assert_eq!(other.status, 403, "{}", other.text());
}

/// Removes the ages from rows, since they tick.
fn ages_apart(rows: &Value) -> Value {
    let mut rows = rows.clone();
    for row in rows.as_array_mut().expect("rows") {
        row["cells"].as_array_mut().expect("cells").pop();
    }
    rows
}

#[tokio::test]
async fn pages_hold_what_is_visible_alone() {
    skip_under_oracle!("kube-apiserver has no views");
    let world = World::start(5, |_| {}).await;
    let granted = [
        &world.namespaces[0],
        &world.namespaces[2],
        &world.namespaces[4],
    ];
    for namespace in granted {
        world.grant(namespace).await;
    }
    let client = world.client();
    let whole = world.settled(&client, &granted).await.json();
    let (mut found, mut token, mut sizes) = (Vec::new(), String::new(), Vec::new());
    loop {
        let path = format!("{MAPS}?limit=2&continue={token}");
        let page = client.get(&path).await.expect(200);
        let left = page["metadata"]["remainingItemCount"].as_i64();
        sizes.push((keys(&page).len(), left));
        found.extend(keys(&page));
        token = page["metadata"]["continue"]
            .as_str()
            .unwrap_or("")
            .to_owned();
        if token.is_empty() {
            break;
        }
        use base64::Engine as _;
        let decoder = base64::engine::general_purpose::URL_SAFE_NO_PAD;
        let plain = decoder.decode(&token).expect("a token");
        let plain: Value = serde_json::from_slice(&plain).expect("JSON");
        let start = plain["start"].as_str().expect("a key");
        let own = found.last().expect("an item");
        let start = start.trim_start_matches('/').trim_end_matches('\0');
        assert_eq!(start, own, "another's key");
    }
    assert_eq!(found, keys(&whole));
    let expected = [
        (2, Some(7)),
        (2, Some(5)),
        (2, Some(3)),
        (2, Some(1)),
        (1, None),
    ];
    assert_eq!(sizes, expected);
    // A page after a loss does not contain lost objects, and repeats none.
    let first = client.get(&format!("{MAPS}?limit=4")).await.expect(200);
    let token = first["metadata"]["continue"].as_str().expect("a token");
    world.revoke(granted[1]).await;
    world.settled(&client, &[granted[0], granted[2]]).await;
    let rest = client
        .get(&format!("{MAPS}?limit=9&continue={token}"))
        .await;
    let rest = keys(&rest.expect(200));
    let lost = format!("{}/", granted[1]);
    assert!(rest.iter().all(|key| !key.starts_with(&lost)), "{rest:?}");
    let mut expected = keys(&whole)[4..].to_vec();
    expected.retain(|key| !key.starts_with(&lost));
    assert_eq!(rest, expected);
    // An exact version is filtered by the present rights.
    let path = format!(
        "{MAPS}?resourceVersionMatch=Exact&resourceVersion={}",
        version(&whole)
    );
    // The list may have come from the upstream, before the cache had its version.
    eventually("the version is known", SOON, async || {
        client.get(&path).await.status != 503
    })
    .await;
    let exact = client.get(&path).await;
    if exact.status != 410 {
        let exact = keys(&exact.expect(200));
        assert!(exact.iter().all(|key| !key.starts_with(&lost)), "{exact:?}");
    }
}

#[tokio::test]
async fn long_views_are_compressed() {
    skip_under_oracle!("kube-apiserver has no views");
    let world = World::start(3, |_| {}).await;
    let granted = [&world.namespaces[0], &world.namespaces[2]];
    for namespace in &world.namespaces {
        for name in ["large-1", "large-2"] {
            world
                .put_map(namespace, name, &"0123456789".repeat(9_000))
                .await;
        }
    }
    for namespace in granted {
        world.grant(namespace).await;
    }
    let client = world.client();
    world.settled(&client, &granted).await;
    for accept in ["application/json", PROTOBUF] {
        let headers = [("accept", accept), ("accept-encoding", "gzip")];
        let answer = client.send(http::Method::GET, MAPS, &headers, "").await;
        assert_eq!(answer.header("content-encoding"), "gzip", "{accept}");
        let mut plain = Vec::new();
        let mut gzip = flate2::read::MultiGzDecoder::new(&answer.body[..]);
        gzip.read_to_end(&mut plain).expect("gzip");
        let plain = Bytes::from(plain);
        let expected = world.lists(&granted, "", accept).await;
        match accept {
            PROTOBUF => {
                let expected: Vec<Bytes> = expected.iter().flat_map(protobuf_items).collect();
                assert_eq!(protobuf_items(&plain), expected);
            }
            _ => assert_eq!(
                *json(&plain)["items"].as_array().unwrap(),
                joined(&expected, "items")
            ),
        }
    }
}
