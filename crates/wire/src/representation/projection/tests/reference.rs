//! The plain function that projections are compared with, and random paths.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::generate::Random;

pub(super) type Paths = Vec<Vec<String>>;

/// Removes each member that is on none of the paths.
pub(super) fn kept(value: &Value, paths: &[&[String]]) -> Value {
    if paths.iter().any(|path| path.is_empty()) {
        return value.clone();
    }
    match value {
        Value::Object(members) => {
            let mut left = Map::new();
            for (key, value) in members {
                let through = paths.iter().filter(|path| path[0] == *key);
                let below: Vec<_> = through.map(|path| &path[1..]).collect();
                if !below.is_empty() {
                    left.insert(key.clone(), kept(value, &below));
                }
            }
            Value::Object(left)
        }
        Value::Array(elements) => elements.iter().map(|e| kept(e, paths)).collect(),
        scalar => scalar.clone(),
    }
}

/// Returns all paths of the value, to scalars and to what is around them. `kind` is
/// among them even if it is not set, so that there is always a path.
pub(super) fn paths_of(value: &Value) -> Paths {
    let mut found = BTreeSet::from([vec!["kind".to_owned()]]);
    collect(value, &mut Vec::new(), &mut found);
    found.into_iter().collect()
}

fn collect(value: &Value, path: &mut Vec<String>, found: &mut BTreeSet<Vec<String>>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                path.push(key.clone());
                found.insert(path.clone());
                collect(value, path, found);
                path.pop();
            }
        }
        Value::Array(elements) => elements.iter().for_each(|e| collect(e, path, found)),
        _ => {}
    }
}

/// Returns a few random paths: some of `all`, some longer, some of no member.
pub(super) fn some(all: &Paths, random: &mut Random) -> Paths {
    let count = random.below(5);
    (0..count).map(|_| one(all, random)).collect()
}

fn one(all: &Paths, random: &mut Random) -> Vec<String> {
    let mut path = random.of(all).clone();
    match random.below(16) {
        0 => path.push("nope".into()),
        1 => path.insert(random.below(path.len()), "nope".into()),
        // The end of another path, which may name members that are not set here.
        2 => path.extend(random.of(all).iter().skip(1).cloned()),
        3 => path.truncate(random.below(path.len() + 1)),
        _ => {}
    }
    path
}
