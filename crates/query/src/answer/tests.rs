//! Answers of random queries about random objects are those of a plain evaluation.

use std::cmp::Ordering;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::*;
use crate::expression::tests::Object;
use crate::spec::{Column, OrderBy, QuerySpec};

pub(crate) fn plan(spec: &QuerySpec) -> Plan {
    Plan::new(spec, None)
        .unwrap()
        .unwrap_or_else(|wrong| panic!("{wrong:?}"))
}

fn all(spec: &QuerySpec, objects: &[Object]) -> Answer {
    answer(&plan(spec), objects, || true).unwrap()
}

fn object(namespace: u8, name: u8, node: Option<u8>, restarts: Vec<i64>, weight: Value) -> Object {
    let mut object = json!({
        "metadata": { "name": format!("o{name}"), "namespace": format!("n{namespace}"), "uid": format!("{namespace}-{name}") },
        "spec": { "containers": restarts.iter().map(|n| json!({ "restarts": n })).collect::<Vec<_>>() },
    });
    if let Some(node) = node {
        object["spec"]["node"] = json!(format!("node{node}"));
    }
    if !weight.is_null() {
        object["spec"]["weight"] = weight;
    }
    Object(object)
}

pub(crate) fn random_object() -> impl Strategy<Value = Object> {
    let weight = prop_oneof![
        Just(Value::Null),
        (-2i64..3).prop_map(|n| json!(n)),
        (-2i32..3).prop_map(|n| json!(f64::from(n) / 2.0)),
        "[a-c]".prop_map(|text| json!(text)),
        any::<bool>().prop_map(|value| json!(value)),
        Just(json!([1])),
    ];
    let parts = (
        0u8..3,
        0u8..40,
        proptest::option::of(0u8..4),
        proptest::collection::vec(0i64..5, 0..3),
        weight,
    );
    parts.prop_map(|(a, b, c, d, e)| object(a, b, c, d, e))
}

fn objects() -> impl Strategy<Value = Vec<Object>> {
    proptest::collection::vec(random_object(), 0..30).prop_map(|mut all| {
        all.sort_by(|a, b| (a.namespace(), a.name()).cmp(&(b.namespace(), b.name())));
        all.dedup_by(|a, b| a.namespace() == b.namespace() && a.name() == b.name());
        all
    })
}

/// An expression, and the same in Rust: `None` where it has no value.
type Model = (&'static str, fn(&Value) -> Option<Value>);

const VALUES: [Model; 5] = [
    ("object.spec.node", |o| o["spec"].get("node").cloned()),
    ("object.spec.weight", |o| o["spec"].get("weight").cloned()),
    ("size(object.spec.containers)", |o| {
        Some(json!(o["spec"]["containers"].as_array()?.len()))
    }),
    ("object.spec.containers.exists(c, c.restarts > 3)", |o| {
        Some(json!(restarts(o).iter().any(|n| *n > 3)))
    }),
    ("object.spec.containers.map(c, c.restarts)", |o| {
        Some(json!(restarts(o)))
    }),
];

const CONDITIONS: [Model; 4] = [
    ("", |_| Some(json!(true))),
    ("object.spec.node == 'node1'", |o| {
        Some(json!(o["spec"].get("node")? == "node1"))
    }),
    (
        "has(object.spec.weight) && object.spec.containers.all(c, c.restarts < 4)",
        |o| {
            Some(json!(
                o["spec"].get("weight").is_some() && restarts(o).iter().all(|n| *n < 4)
            ))
        },
    ),
    ("object.metadata.namespace != 'n1'", |o| {
        Some(json!(o["metadata"]["namespace"] != "n1"))
    }),
];

fn restarts(object: &Value) -> Vec<i64> {
    let containers = object["spec"]["containers"].as_array().unwrap();
    containers
        .iter()
        .map(|c| c["restarts"].as_i64().unwrap())
        .collect()
}

fn rank(value: &Option<Value>) -> u8 {
    match value {
        Some(Value::Bool(_)) => 0,
        Some(Value::Number(_)) => 1,
        Some(Value::String(_)) => 2,
        Some(Value::Array(_) | Value::Object(_)) => 3,
        None | Some(Value::Null) => 4,
    }
}

fn compare(a: &Option<Value>, b: &Option<Value>) -> Ordering {
    match (a, b) {
        (Some(Value::Bool(a)), Some(Value::Bool(b))) => a.cmp(b),
        (Some(Value::Number(a)), Some(Value::Number(b))) => {
            a.as_f64().partial_cmp(&b.as_f64()).unwrap()
        }
        (Some(Value::String(a)), Some(Value::String(b))) => a.cmp(b),
        (Some(a @ Value::Array(_)), Some(b @ Value::Array(_))) => a.to_string().cmp(&b.to_string()),
        _ => rank(a).cmp(&rank(b)),
    }
}

/// The condition, the keys of the order with their directions, what is counted, and the
/// page.
type Parts = (usize, Vec<(usize, bool)>, Vec<usize>, (i64, i64));

fn random_parts() -> impl Strategy<Value = Parts> {
    (
        0..CONDITIONS.len(),
        proptest::collection::vec((0..VALUES.len(), any::<bool>()), 0..3),
        proptest::collection::vec(0..VALUES.len(), 0..3),
        (1i64..12, 0i64..15),
    )
}

fn spec_of((condition, order, count_by, (limit, offset)): &Parts) -> QuerySpec {
    QuerySpec {
        condition: CONDITIONS[*condition].0.to_owned(),
        columns: VALUES
            .iter()
            .enumerate()
            .map(|(n, (source, _))| Column {
                name: format!("c{n}"),
                expression: (*source).to_owned(),
            })
            .collect(),
        order_by: order
            .iter()
            .map(|(n, descending)| OrderBy {
                column: format!("c{n}"),
                descending: *descending,
                ..OrderBy::default()
            })
            .collect(),
        count_by: count_by.iter().map(|n| VALUES[*n].0.to_owned()).collect(),
        limit: *limit,
        offset: *offset,
        ..QuerySpec::default()
    }
}

pub(crate) fn random_spec() -> impl Strategy<Value = QuerySpec> {
    random_parts().prop_map(|parts| spec_of(&parts))
}

/// Compares as an order does: what has no value comes last.
fn directed(a: &Option<Value>, b: &Option<Value>, descending: bool) -> Ordering {
    match rank(a).max(rank(b)) {
        4 => rank(a).cmp(&rank(b)),
        _ if descending => compare(b, a),
        _ => compare(a, b),
    }
}

#[test]
fn answers_are_those_of_a_plain_evaluation() {
    let mut runner = TestRunner::deterministic();
    let queries = (objects(), random_parts());
    let mut comparisons = 0;
    let rounds = std::env::var("MODEL_ROUNDS").map_or(1500, |n| n.parse().unwrap());
    for _ in 0..rounds {
        let (objects, parts) = queries.new_tree(&mut runner).unwrap().current();
        let spec = spec_of(&parts);
        let (condition, order, count_by, (limit, offset)) = parts;
        let (_, condition) = CONDITIONS[condition];
        let mut expected: Vec<&Value> = objects
            .iter()
            .map(|object| &object.0)
            .filter(|object| condition(object) == Some(json!(true)))
            .collect();
        expected.sort_by(|a, b| {
            let keys = order
                .iter()
                .map(|(n, descending)| directed(&VALUES[*n].1(a), &VALUES[*n].1(b), *descending));
            keys.fold(Ordering::Equal, Ordering::then)
        });
        let answer = all(&spec, &objects);
        assert_eq!(answer.total, expected.len() as u64, "{spec:?}");
        let page = expected.iter().skip(offset as usize).take(limit as usize);
        let rows: Vec<Row> = page
            .map(|object| Row {
                namespace: object["metadata"]["namespace"].as_str().unwrap().to_owned(),
                name: object["metadata"]["name"].as_str().unwrap().to_owned(),
                uid: object["metadata"]["uid"].as_str().unwrap().to_owned(),
                cells: VALUES
                    .iter()
                    .map(|(_, value)| value(object).unwrap_or_default())
                    .collect(),
            })
            .collect();
        assert_eq!(answer.rows, rows, "{spec:?}");
        if !count_by.is_empty() {
            for count in &answer.counts {
                let of = |object: &&&Value| {
                    let values = count_by.iter().map(|n| VALUES[*n].1(object));
                    let mut counted = count.values.iter().cloned().map(Some);
                    values
                        .into_iter()
                        .all(|value| compare(&value, &counted.next().unwrap()).is_eq())
                };
                assert_eq!(
                    count.count,
                    expected.iter().filter(of).count() as u64,
                    "{spec:?}"
                );
                comparisons += 1;
            }
        }
        let counted: u64 = answer.counts.iter().map(|count| count.count).sum();
        assert_eq!(counted, if count_by.is_empty() { 0 } else { answer.total });
        comparisons += 1 + rows.len() * (VALUES.len() + 3);
    }
    assert!(comparisons > 20 * rounds, "{comparisons}");
    println!("{comparisons} comparisons");
}

#[test]
fn objects_without_a_value_are_named() {
    let objects = [
        object(1, 1, None, vec![], json!(1)),
        object(1, 2, None, vec![], json!("a")),
        object(1, 3, Some(1), vec![], json!(2)),
    ];
    let spec = QuerySpec {
        condition: "object.spec.node == 'node1'".to_owned(),
        columns: vec![Column {
            name: "half".to_owned(),
            expression: "object.spec.weight / 0".to_owned(),
        }],
        ..QuerySpec::default()
    };
    let answer = all(&spec, &objects);
    assert_eq!(answer.total, 1);
    assert_eq!(answer.rows[0].cells, [Value::Null]);
    assert_eq!(
        answer.warnings[0],
        "spec.where has no value for 2 objects, of which the first is n1/o1: no such key: node"
    );
    assert!(answer.warnings[1].starts_with("column \"half\" has no value for n1/o3: "));
}

#[test]
fn a_query_has_a_budget_and_an_end() {
    let objects: Vec<Object> = (0..300u16)
        .map(|n| object((n / 40) as u8, (n % 40) as u8, None, vec![1], json!(n)))
        .collect();
    let spec = QuerySpec {
        condition: "object.spec.weight >= 0".to_owned(),
        ..QuerySpec::default()
    };
    let failed = answer(&plan(&spec), &objects, || false);
    assert_eq!(failed, Err(Failed::GivenUp));
    let costly = "[0,0,0,0,0,0,0,0,0,0]";
    let spec = QuerySpec {
        condition: format!(
            "{costly}.all(a, {costly}.all(b, {costly}.all(c, {costly}.all(d, d == 0))))"
        ),
        ..QuerySpec::default()
    };
    let all: Vec<&Object> = objects.iter().cycle().take(30_000).collect();
    let failed = answer(&plan(&spec), all, || true);
    assert_eq!(failed, Err(Failed::TooExpensive(TooExpensive::ForAll)));
}
