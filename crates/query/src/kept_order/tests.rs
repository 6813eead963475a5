//! An order that is kept gives the answers of an evaluation, and a window shows what
//! changes between them.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::json;

use super::*;
use crate::answer::answer;
use crate::answer::tests::{plan, random_object, random_spec};
use crate::expression::tests::Object;
use crate::spec::{QuerySpec, RowChange};
use crate::window::Window;

/// The most memory of an order.
const ROOM: usize = 1 << 20;

impl Clone for Object {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

type Objects = BTreeMap<String, Object>;

/// Returns the key by which lists are ordered.
fn key(object: &Object) -> String {
    format!("{}/{}", object.namespace(), object.name())
}

/// Changes some objects, and says how.
fn edit(objects: &mut Objects, edits: Vec<(Object, bool)>) -> Vec<Changed<Object>> {
    let before = objects.clone();
    for (object, stays) in edits {
        match stays {
            true => objects.insert(key(&object), object),
            false => objects.remove(&key(&object)),
        };
    }
    let keys = before.keys().chain(objects.keys());
    let keys: std::collections::BTreeSet<&String> = keys.collect();
    let changes = keys.into_iter().map(|key| Changed {
        before: before.get(key).cloned(),
        after: objects.get(key).cloned(),
    });
    let is_change = |change: &Changed<Object>| {
        let of = |object: &Option<Object>| object.as_ref().map(|object| object.0.clone());
        of(&change.before) != of(&change.after)
    };
    changes.filter(is_change).collect()
}

/// What a reader of a live answer has.
#[derive(Debug, PartialEq)]
struct Read {
    total: u64,
    rows: Vec<Row>,
    counts: Vec<Count>,
}

impl Read {
    fn of(answer: Answer) -> Self {
        Self {
            total: answer.total,
            rows: answer.rows,
            counts: answer.counts,
        }
    }

    fn apply(&mut self, difference: crate::window::Difference) {
        self.total = difference.total;
        self.counts = difference
            .counts
            .unwrap_or(std::mem::take(&mut self.counts));
        for change in difference.changes {
            match change {
                RowChange::Removed { index } => drop(self.rows.remove(index)),
                RowChange::Added { index, row } => self.rows.insert(index, row),
                RowChange::Moved { from, index } => {
                    let row = self.rows.remove(from);
                    self.rows.insert(index, row);
                }
                RowChange::Changed { index, row } => self.rows[index] = row,
            }
        }
    }
}

#[test]
fn kept_orders_and_windows_are_those_of_a_plain_evaluation() {
    let mut runner = TestRunner::deterministic();
    let edits = || proptest::collection::vec((random_object(), any::<bool>()), 0..12);
    let cases = (
        random_spec(),
        random_spec(),
        proptest::collection::vec(edits(), 1..8),
    );
    let rounds = std::env::var("MODEL_ROUNDS").map_or(600, |n| n.parse().unwrap());
    let mut comparisons = 0usize;
    for _ in 0..rounds {
        let (spec, other, steps) = cases.new_tree(&mut runner).unwrap().current();
        // The same order, with another page and other columns.
        let other = QuerySpec {
            columns: other.columns.into_iter().take(2).collect(),
            limit: other.limit,
            offset: other.offset,
            order_by: by_expression(&spec),
            ..spec.clone()
        };
        let (first, second) = (Arc::new(plan(&spec)), plan(&other));
        assert_eq!(first.identity(), second.identity());
        let mut objects = Objects::new();
        let mut steps = steps.into_iter();
        edit(&mut objects, steps.next().unwrap());
        let all = objects.values().cloned();
        let mut kept = KeptOrder::new(first.clone(), all, ROOM, || true).unwrap();
        let begun = kept.answer(&first).unwrap();
        let mut window = Window::new(kept.page(&first), &begun.rows);
        let mut read = Read::of(begun);
        for edits in steps {
            let changes = edit(&mut objects, edits);
            kept.change(changes, || true).unwrap();
            for plan in [&*first, &second] {
                let expected = answer(plan, objects.values(), || true).unwrap();
                let mut given = kept.answer(plan).unwrap();
                given.spent = expected.spent;
                assert_eq!(given, expected, "{spec:?}");
                comparisons += compared(&expected.rows, &expected.counts);
            }
            if let Some(difference) = window
                .turn(kept.page(&first), |changed| {
                    rows(&first, changed.iter().copied())
                })
                .unwrap()
            {
                read.apply(difference);
            }
            let expected = Read::of(answer(&first, objects.values(), || true).unwrap());
            assert_eq!(read, expected, "{spec:?}");
            comparisons += compared(&expected.rows, &expected.counts);
        }
    }
    assert!(comparisons > 20 * rounds, "{comparisons}");
    println!("{comparisons} comparisons");
}

/// Returns the number of values that were compared: the total, the warnings, rows and counts.
fn compared(rows: &[Row], counts: &[Count]) -> usize {
    let cells: usize = rows.iter().map(|row| 3 + row.cells.len()).sum();
    2 + counts.len() + cells
}

/// Names the keys of an order by their expressions.
fn by_expression(spec: &QuerySpec) -> Vec<crate::spec::OrderBy> {
    let expression = |name: &str| {
        let column = spec.columns.iter().find(|column| column.name == name);
        column.unwrap().expression.clone()
    };
    let keys = spec.order_by.iter();
    keys.map(|key| crate::spec::OrderBy {
        expression: expression(&key.column),
        column: String::new(),
        ..key.clone()
    })
    .collect()
}

#[test]
fn an_order_is_kept_within_its_room() {
    let objects = |names: std::ops::Range<usize>| {
        names.map(|n| {
            Object(json!({ "metadata": { "name": format!("o{n:05}"), "namespace": "a" }, "text": "x".repeat(100) }))
        })
    };
    let spec = QuerySpec {
        order_by: vec![crate::spec::OrderBy {
            expression: "object.text".to_owned(),
            ..Default::default()
        }],
        ..QuerySpec::default()
    };
    let plan_of = |spec: &QuerySpec| Arc::new(plan(spec));
    let kept = KeptOrder::new(plan_of(&spec), objects(0..1000), ROOM, || true);
    assert!((100_000..ROOM).contains(&kept.unwrap().held_bytes()));
    let kept = KeptOrder::new(plan_of(&spec), objects(0..20_000), ROOM, || true);
    assert_eq!(kept.err(), Some(NotKept::TooLarge));
    let failing = QuerySpec {
        condition: "object.absent".to_owned(),
        ..spec
    };
    let kept = KeptOrder::new(plan_of(&failing), objects(0..20_000), ROOM, || true);
    assert_eq!(kept.err(), Some(NotKept::TooLarge));
    let different = QuerySpec {
        condition: "object[object.metadata.name]".to_owned(),
        ..QuerySpec::default()
    };
    let kept = KeptOrder::new(plan_of(&different), objects(0..1001), ROOM, || true);
    assert_eq!(kept.err(), Some(NotKept::TooLarge));
    let mut kept = KeptOrder::new(plan_of(&failing), objects(0..1000), ROOM, || true).unwrap();
    assert!(kept.answer(&plan(&failing)).unwrap().warnings[0].contains("1000 objects"));
    let change = |before, after| Changed { before, after };
    let gone: Vec<_> = objects(0..999).map(|o| change(Some(o), None)).collect();
    kept.change(gone, || true).unwrap();
    let warnings = kept.answer(&plan(&failing)).unwrap().warnings;
    assert!(warnings[0].contains("a/o00999"), "{warnings:?}");
    let given_up = kept.change([change(None, objects(0..1).next())], || false);
    assert_eq!(given_up, Err(Failed::GivenUp.into()));
}
