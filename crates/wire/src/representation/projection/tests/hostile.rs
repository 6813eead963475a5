//! Bytes that are no objects.

use super::generate::{Random, message};
use super::{Stored, envelope, kinds, projection, reference};
use crate::representation::transcode::{MAX_DEPTH, NotTranscodable};
use crate::representation::{Encoding, NotEncodable, Projection};

#[test]
fn damaged_objects_make_no_panic() {
    let random = &mut Random(3);
    for (envelope, of) in kinds() {
        let whole = Stored::protobuf(&envelope, message(of, random).into());
        let json = envelope.transcoded(&whole.item, Encoding::Json).unwrap();
        let paths = reference::paths_of(&whole.whole);
        for (encoding, item) in [(Encoding::Protobuf, &whole.item), (Encoding::Json, &json)] {
            for _ in 0..60 {
                let mut bytes = item.to_vec();
                if random.below(3) == 0 {
                    bytes.truncate(random.below(bytes.len() + 1));
                }
                for _ in 0..random.below(4) {
                    if !bytes.is_empty() {
                        let at = random.below(bytes.len());
                        bytes[at] = random.below(256) as u8;
                    }
                }
                let projection = projection(&reference::some(&paths, random));
                let mut out = b"before".to_vec();
                let written = envelope.project(&bytes, encoding, &projection, &mut out);
                assert!(out.starts_with(b"before"));
                assert!(written.is_ok() || out.len() == 6);
            }
        }
    }
}

#[test]
fn depth_is_bounded() {
    let error = |encoding, item: &[u8], path: &[&str]| {
        let mut projection = Projection::nothing();
        projection.add(path);
        let kind = envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition");
        kind.project(item, encoding, &projection, &mut Vec::new())
    };
    let too_deep = Err(NotEncodable::Transcode(NotTranscodable::TooDeep));
    let arrays = "[".repeat(100_000);
    assert_eq!(error(Encoding::Json, arrays.as_bytes(), &["a"]), too_deep);
    let objects = r#"{"a":"#.repeat(100_000);
    let path = vec!["a"; 100_000];
    for length in [1, 200, path.len()] {
        let path = &path[..length];
        assert_eq!(error(Encoding::Json, objects.as_bytes(), path), too_deep);
    }
    // spec, versions, schema, openAPIV3Schema, and many times "not", which is field 28.
    let mut bytes = Vec::new();
    let wrap = |tag: &[u8], bytes: &mut Vec<u8>| {
        let mut outer = tag.to_vec();
        prost::encoding::encode_varint(bytes.len() as u64, &mut outer);
        outer.append(bytes);
        *bytes = outer;
    };
    for _ in 0..2 * MAX_DEPTH {
        wrap(&[0xe2, 0x01], &mut bytes);
    }
    for tag in [0x0a, 0x22, 0x3a, 0x12] {
        wrap(&[tag], &mut bytes);
    }
    let mut path = vec!["spec", "versions", "schema", "openAPIV3Schema"];
    path.extend(vec!["not"; 2 * MAX_DEPTH]);
    for length in [4, 100, path.len()] {
        assert_eq!(error(Encoding::Protobuf, &bytes, &path[..length]), too_deep);
    }
}
