//! Tests how long states are retained.

use std::time::Duration;

use super::super::retained_snapshots::{MAX_RETAINED_BYTES, RETENTION};
use super::model::Model;

#[test]
fn retained_states_outlive_the_history_within_their_budget() {
    let mut model = Model::new();
    for name in 0..100 {
        model.put(name, 100);
    }
    let first = model.version;
    let snapshot = model.store.snapshot();
    model.store.retain(&snapshot, model.now);
    drop(snapshot);
    assert_eq!(model.store.memory().retained, 0, "all of it is current");
    for name in 0..100 {
        model.put(name, 100);
    }
    assert_eq!(model.store.memory().retained, 0, "the history holds it");
    model
        .writer
        .trim_history(0, model.now + Duration::from_secs(1));
    let memory = model.store.memory();
    assert_eq!((memory.history, memory.snapshots), (0, 1));
    let kept = model.store.snapshot_at(first).unwrap();
    assert_eq!(memory.retained, kept.bytes());
    drop(kept);
    assert!(model.store.snapshot_at(first + 1).is_none());

    model.now += RETENTION;
    model.put(0, 100);
    assert!(model.store.snapshot_at(first).is_none());
    assert_eq!(model.store.memory().retained, 0);
}

#[test]
fn the_oldest_retained_states_go_first() {
    let mut model = Model::new();
    let mut retained = vec![];
    // 80 states of an object of 1 MiB.
    for _ in 0..80 {
        model.put(1, 1 << 20);
        let snapshot = model.store.snapshot();
        model.store.retain(&snapshot, model.now);
        model
            .writer
            .trim_history(0, model.now + Duration::from_secs(1));
        retained.push(model.version);
    }
    model.put(1, 0);
    model
        .writer
        .trim_history(0, model.now + Duration::from_secs(1));
    model.writer.advance(model.version + 1, model.now);
    let kept: Vec<_> = retained
        .iter()
        .map(|version| model.store.snapshot_at(*version).is_some())
        .collect();
    assert!(kept.is_sorted());
    let number = kept.iter().filter(|kept| **kept).count();
    assert!((62..=64).contains(&number), "{number}");
    assert!(model.store.memory().retained <= MAX_RETAINED_BYTES);
}
