//! Tests what leaves hold besides the objects.

use std::collections::HashMap;
use std::time::Instant;

use kubernetes_wire::representation::Encoding;

use super::model::Model;
use super::*;

/// Reads lists while objects change: memory stays near that of the objects, and
/// every list is a consistent state, whichever reader joins leaves and at
/// whatever time.
#[test]
fn joining_and_changing_at_once() {
    let objects = (0..300).map(|name| parse(&item(name, 1, 5, 200)));
    let (writer, store) = Store::new(resource(), objects.collect(), 1000);
    let writing = std::sync::atomic::AtomicBool::new(true);
    std::thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                while writing.load(std::sync::atomic::Ordering::Relaxed) {
                    let snapshot = store.snapshot();
                    let mut newest = 0;
                    for part in snapshot.parts(&KeyScope::All, "") {
                        let Part::Leaf(leaf) = part else { continue };
                        let items: Vec<_> = leaf.objects().iter().map(|o| json(o)).collect();
                        if let Some(joined) = leaf.joined(Encoding::Json, &resource().envelope) {
                            let expected = items.iter().flat_map(|i| [&b","[..], i]);
                            assert_eq!(joined, expected.collect::<Vec<_>>().concat());
                        }
                        let versions = leaf.objects().iter().map(|o| o.resource_version);
                        newest = newest.max(versions.max().unwrap_or(0));
                    }
                    assert!(newest <= snapshot.resource_version);
                }
            });
        }
        for version in 1001..3000 {
            let name = version as usize * 7919 % 350;
            let item = item(name, 1, version, 200);
            writer
                .apply(version % 9 == 0, item, Instant::now())
                .unwrap();
        }
        writing.store(false, std::sync::atomic::Ordering::Relaxed);
    });
    let snapshot = store.snapshot();
    let current: HashMap<_, _> = snapshot
        .iter(&KeyScope::All)
        .map(|o| (Arc::as_ptr(o), ()))
        .collect();
    let mut cursor = store.position(1000).unwrap();
    for event in store.read(&mut cursor, usize::MAX).unwrap() {
        for object in event.previous.iter().chain([&event.object]) {
            let is_current = current.contains_key(&Arc::as_ptr(object));
            assert!(is_current || object.buffer().is_none());
        }
    }
    let memory = store.memory();
    assert!(memory.objects <= 2 * snapshot.bytes(), "{memory:?}");
}

#[test]
fn what_leaves_are_made_into_is_counted_and_shed() {
    struct Copy(Vec<u8>);
    impl Derived for Copy {
        fn size(&self) -> usize {
            self.0.len()
        }
    }
    let mut model = Model::new();
    for name in 0..100 {
        model.put(name, 100);
    }
    let derive = || {
        let snapshot = model.store.snapshot();
        let mut made = 0;
        for leaf in snapshot.objects.leaves() {
            leaf.derived(|leaf| {
                made += 1;
                leaf.joined(Encoding::Json, &resource().envelope)
                    .map(|joined| Copy(joined.to_vec()))
            });
        }
        made
    };
    let leaves = model.store.snapshot().objects.leaves().count();
    assert_eq!((derive(), derive()), (leaves, 0));
    let items: usize = model.current.values().map(|item| item.len() + 1).sum();
    assert_eq!(model.store.memory().derived, items);
    model.writer.shed_derived();
    assert_eq!(model.store.memory().derived, 0);
    assert_eq!(derive(), leaves);
    // A changed leaf drops the values made from it.
    let old = model.store.snapshot();
    model.put(3, 100);
    assert!(model.store.memory().derived < items);
    model.writer.shed_derived();
    let retired = old
        .objects
        .leaves()
        .filter(|leaf| leaf.joined(Encoding::Json, &resource().envelope).is_none());
    assert_eq!(retired.count(), 1);
}
