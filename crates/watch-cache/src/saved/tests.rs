//! Files as they are written, and every way in which they can be wrong.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use kubernetes_wire::api::GroupVersionResource;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::store::tests::resource;
use crate::store::{KeyScope, Resource, Store, StoreWriter, StoredObject};

fn gvr(resource: &str) -> GroupVersionResource {
    GroupVersionResource::new("", "v1", resource)
}

fn object(name: &str, version: u64, data: &str) -> StoredObject {
    let item = format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"{name}","resourceVersion":"{version}"}},"data":{{"d":"{data}"}}}}"#
    );
    StoredObject::parse(Bytes::from(item), &resource().fields).unwrap()
}

/// A store of several blocks, with history.
fn written() -> (StoreWriter, Arc<Store>) {
    let long = "x".repeat(40_000);
    let objects = (0..9u8).map(|n| object(&format!("o{n}"), 5, &long));
    let (writer, store) = Store::new(resource(), objects.collect(), 10);
    writer.apply_object(false, object("o1", 11, "new"), Instant::now());
    writer.apply_object(true, object("o2", 12, "old"), Instant::now());
    writer.advance(15, Instant::now());
    (writer, store)
}

fn store() -> Arc<Store> {
    written().1
}

fn header() -> Header {
    Header {
        group: String::new(),
        version: "v1".to_owned(),
        resource: "configmaps".to_owned(),
        cluster: "cluster-uid".to_owned(),
        git_version: "v1.36.2".to_owned(),
        definition: Some(Revision {
            uid: "d".to_owned(),
            generation: 3,
        }),
        saved_at: 0,
        since: 0,
        resource_version: 0,
        namespaced: true,
        go_struct: true,
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        list_kind: "ConfigMapList".to_owned(),
        json_only: false,
        reads_json: false,
        fields: vec!["metadata.namespace".to_owned()],
        initial_events: true,
        lacks_initial_events: false,
        blueprint: false,
        bookmark: None,
        columns: Columns::Table("{}".to_owned()),
        list_forms: vec!["rows".to_owned()],
    }
}

struct Saved {
    folder: TempDir,
    stores: SavedStores,
}

fn key_file(folder: &Path, byte: u8) -> PathBuf {
    let path = folder.join(format!("{byte}.key"));
    fs::write(&path, [byte; 32]).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

fn open(folder: &Path, key: Option<u8>) -> SavedStores {
    let key = key.map(|byte| key_file(folder, byte));
    SavedStores::open(&folder.join("stores"), key.as_deref(), Arc::new(())).unwrap()
}

impl Saved {
    fn new(key: Option<u8>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let stores = open(folder.path(), key);
        assert!(stores.may_write());
        stores.save(&store(), || Some(header())).unwrap();
        Self { folder, stores }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("stores/configmaps_v1_.store")
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.path()).unwrap()
    }

    /// Writes these bytes to the file, and reads it to its end.
    fn read_with(&self, bytes: &[u8]) -> Result<(Header, Loaded), &'static str> {
        fs::write(self.path(), bytes).unwrap();
        read(&self.stores)
    }
}

fn read(stores: &SavedStores) -> Result<(Header, Loaded), &'static str> {
    let read = || {
        let file = stores.file(&gvr("configmaps"))?;
        let header = file.header.clone();
        let Resource {
            fields, envelope, ..
        } = resource();
        let loaded = file.read(&fields, &envelope, Instant::now(), |_| Ok(()))?;
        Ok((header, loaded))
    };
    read().map_err(|refusal: Refusal| refusal.as_str())
}

#[test]
fn what_is_saved_is_read() {
    for key in [None, Some(7)] {
        let saved = Saved::new(key);
        let (read, loaded) = saved.read_with(&saved.bytes()).unwrap();
        let Header {
            since,
            resource_version,
            saved_at,
            ..
        } = read;
        assert_eq!((since, resource_version), (10, 15));
        let expected = Header {
            since,
            resource_version,
            saved_at,
            ..header()
        };
        assert_eq!(read, expected);
        let (objects, events) = (loaded.objects.finish(), loaded.events);
        assert_eq!((objects.len(), events.len()), (9, 2));
        let original = store();
        let (_, resumed) = Store::resume(resource(), objects, 10, events, 15, Instant::now());
        let items = |store: &Store| -> Vec<Bytes> {
            let snapshot = store.snapshot();
            let objects = snapshot.iter(&KeyScope::All);
            objects
                .map(|o| o.json(&resource().envelope).unwrap())
                .collect()
        };
        assert_eq!(items(&resumed), items(&original));
        let text = saved.bytes();
        let plain = text.windows(9).any(|w| w == b"\"name\":\"o");
        assert_eq!(plain, key.is_none());
    }
}

#[test]
fn no_changed_byte_is_accepted() {
    for key in [None, Some(7)] {
        let saved = Saved::new(key);
        let right = saved.bytes();
        let step = right.len() / 60;
        let start = 0..400;
        for at in start.chain((400..right.len()).step_by(step)) {
            let mut wrong = right.clone();
            wrong[at] ^= 4;
            let refused = saved.read_with(&wrong).unwrap_err();
            let expected = ["checksum", "key", "format", "torn", "malformed"];
            assert!(expected.contains(&refused), "{at} {refused}");
        }
        for length in (0..200).chain((200..right.len()).step_by(step)) {
            let refused = saved.read_with(&right[..length]).unwrap_err();
            assert_eq!(refused, "torn", "{length}");
        }
        let refused = saved.read_with(&[&right[..], b"x"].concat());
        assert_eq!(refused.unwrap_err(), "torn");
        assert!(saved.read_with(&right).is_ok());
    }
}

#[test]
fn other_files_are_refused() {
    let (plain, sealed) = (Saved::new(None), Saved::new(Some(7)));
    // Another key, and files with and without one.
    let other = sealed.folder.path();
    assert_eq!(read(&open(other, Some(8))).unwrap_err(), "key");
    assert_eq!(read(&open(other, None)).unwrap_err(), "key");
    assert_eq!(sealed.read_with(&plain.bytes()).unwrap_err(), "key");
    // Another format.
    let mut newer = plain.bytes();
    newer[8] = 2;
    let right = plain.bytes();
    assert_eq!(plain.read_with(&newer).unwrap_err(), "format");
    assert_eq!(
        plain
            .read_with(b"not a saved store at all, but some text that is long enough")
            .unwrap_err(),
        "format"
    );
    // Another resource's name.
    let secrets = plain.path().with_file_name("secrets_v1_.store");
    fs::write(plain.path(), &right).unwrap();
    fs::copy(plain.path(), &secrets).unwrap();
    let refused = plain.stores.file(&gvr("secrets")).err().unwrap();
    assert_eq!(refused.as_str(), "other_resource");
    // Blocks of one file in another.
    let again = Saved::new(Some(7));
    let mixed = [&sealed.bytes()[..60_000], &again.bytes()[60_000..]].concat();
    assert_eq!(again.read_with(&mixed).unwrap_err(), "key");
}

#[test]
fn memory_is_reserved_block_by_block() {
    let saved = Saved::new(None);
    let file = saved.stores.file(&gvr("configmaps")).unwrap();
    let Resource {
        fields, envelope, ..
    } = resource();
    let mut left = 200_000usize;
    let reserve = |bytes: usize| {
        left = left.checked_sub(bytes).ok_or(Refusal::Late)?;
        Ok(())
    };
    let refused = file.read(&fields, &envelope, Instant::now(), reserve);
    assert_eq!(refused.unwrap_err().as_str(), "late");
}

/// A resource that is listed anew may come from another server.
#[test]
fn a_header_that_changes_meanwhile_is_not_saved() {
    let saved = Saved::new(None);
    let asked = std::cell::Cell::new(0);
    let headers = || {
        asked.set(asked.get() + 1);
        Some(Header {
            cluster: asked.get().to_string(),
            ..header()
        })
    };
    assert!(saved.stores.save(&store(), headers).is_none());
    assert_eq!(read(&saved.stores).unwrap().0.cluster, "cluster-uid");
}

#[test]
fn a_store_is_saved_again_when_it_changed() {
    let saved = Saved::new(None);
    let (writer, store) = written();
    let last = saved.stores.save(&store, || Some(header())).unwrap();
    let (minute, none) = (Some(std::time::Duration::from_secs(60)), None);
    let forms = header().list_forms;
    assert!(!last.is_past(&store, &forms, minute) && !last.is_past(&store, &forms, none));
    writer.advance(20, Instant::now());
    assert!(!last.is_past(&store, &forms, minute));
    assert!(last.is_past(&store, &forms, none));
    writer.apply_object(false, object("o3", 21, ""), Instant::now());
    assert!(last.is_past(&store, &forms, minute));
    let last = saved.stores.save(&store, || Some(header())).unwrap();
    assert!(!last.is_past(&store, &forms, none));
    assert!(last.is_past(&store, &[], none));
    assert!(!last.is_past(&store, &[], minute));
    let (_, other) = Store::new(resource(), vec![], 21);
    assert!(last.is_past(&other, &forms, none));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Even a block with a right checksum may hold anything.
    #[test]
    fn no_content_makes_it_panic(
        records in proptest::collection::vec(
            (0u8..4, 0u8..3, any::<u64>(), proptest::collection::vec(any::<u8>(), 0..40)),
            0..6,
        ),
        cut in 0usize..30,
    ) {
        let mut block = Vec::new();
        for (what, encoding, age, item) in records {
            block.extend_from_slice(&[what, encoding]);
            block.extend_from_slice(&age.to_le_bytes());
            block.extend_from_slice(&(item.len() as u32).to_le_bytes());
            block.extend_from_slice(&item);
        }
        block.truncate(block.len().saturating_sub(cut));
        let Resource { fields, envelope, .. } = resource();
        let mut decoder = records::Decoder {
            fields: &fields,
            envelope: &envelope,
            reached: 1,
            newest: u64::MAX,
            now: Instant::now(),
            passed: std::time::Duration::MAX,
        };
        let _ = decoder.block(&block, &mut Loaded::default());
    }
}
