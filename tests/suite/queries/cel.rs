//! Expressions have the values that they have in kube-apiserver: random expressions about
//! real objects, evaluated here and by cel-go in Kubernetes' environment.
//!
//! `APIFRONT_TEST_SEED` and `APIFRONT_TEST_EXPRESSIONS` vary and lengthen a run. Some in
//! a million expressions are known to differ, all of them mistakes: `object.?a.b` where `a`
//! is a text or a list, `object.?a[1.5]`, and `all(.x, …)`.

use std::io::Write;
use std::process::{Command, Stdio};

use apifront_query::{Candidate, Expression, InvalidExpression, Unreadable, Valueless};
use kubernetes_wire::representation::{Encoding, Envelope, Form, Projection};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde::Deserialize;
use serde_json::{Value, json};

use super::random_expressions::Generator;
use crate::harness::{binaries, volume};

const EXPRESSIONS: &str = "APIFRONT_TEST_EXPRESSIONS";
const DEFAULT_EXPRESSIONS: usize = 12_000;
const OBJECTS: usize = 40;

struct Object(Value);

impl Candidate for Object {
    fn namespace(&self) -> &str {
        ""
    }

    fn name(&self) -> &str {
        ""
    }

    fn uid(&self) -> &str {
        ""
    }

    fn project(&self, wanted: &Projection, out: &mut Vec<u8>) -> Result<(), Unreadable> {
        let envelope = Envelope::new(Form::Map, "v1", "Thing", "ThingList");
        let json = self.0.to_string();
        let projected = envelope.project(json.as_bytes(), Encoding::Json, wanted, out);
        projected.map_err(|_| Unreadable)
    }
}

/// What cel-go says.
#[derive(Debug, Deserialize)]
struct Said {
    #[serde(default)]
    value: Value,
    #[serde(default)]
    error: String,
    #[serde(default)]
    invalid: String,
}

/// Tells whether both are the same, where 2 and 2.0 are.
fn is_same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Number(a), Value::Number(b)) => {
            a == b || a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| a == b)
        }
        // The order of a map's keys is not determined, neither here nor in Go.
        (Value::Array(a), Value::Array(b)) => {
            let sorted = |list: &[Value]| {
                let mut list = list.to_vec();
                list.sort_by_key(Value::to_string);
                list
            };
            let same = |a: &[Value], b: &[Value]| a.iter().zip(b).all(|(a, b)| is_same(a, b));
            a.len() == b.len() && (same(a, b) || same(&sorted(a), &sorted(b)))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(name, a)| b.get(name).is_some_and(|b| is_same(a, b)))
        }
        _ => ours == theirs,
    }
}

/// Returns what differs, if anything does. Counts expressions that kube-apiserver refuses
/// because of their static types, and those that have another error there.
fn difference(
    source: &str,
    object: &Object,
    said: &Said,
    [lenient, other_errors]: &mut [usize; 2],
) -> Option<String> {
    let ours = match Expression::parse(source) {
        Ok(expression) => expression.value_of(object),
        Err(
            InvalidExpression::TooDeep
            | InvalidExpression::TooManyLoops
            | InvalidExpression::TooLong,
        ) => return None,
        Err(_) if !said.invalid.is_empty() => return None,
        // Go also reads some times that RFC 3339 does not allow, such as with an hour of
        // one digit.
        Err(InvalidExpression::Argument(error)) if error.contains("is no time") => return None,
        Err(error) => return Some(format!("refused here: {error}")),
    };
    match ours {
        _ if !said.invalid.is_empty() => match ours {
            Err(_) => None,
            Ok(_)
                if said.invalid.contains("found no matching overload")
                    || said.invalid.contains("expected type")
                    || said.invalid.contains("incompatible types")
                    || said.invalid.contains("does not support")
                    || said.invalid.contains("unexpected failed resolution")
                    // The arguments of a literal format.
                    || said.invalid.contains("formatting")
                    || said.invalid.contains("string.format")
                    // RE2 has no repetition of a repetition, `a++`, and only classes of
                    // known names.
                    || said.invalid.contains("error parsing regexp")
                    || said.invalid.contains("invalid matches argument") =>
            {
                *lenient += 1;
                None
            }
            Ok(value) => Some(format!("{value} here")),
        },
        Ok(value) if said.error.is_empty() && is_same(&value, &said.value) => None,
        Ok(_) if said.error.starts_with("no result: ") => None,
        Ok(value) => Some(format!("{value} here")),
        Err(error) if !said.error.is_empty() => {
            let is_key = matches!(error, Valueless::NoSuchKey(_));
            // Of two errors, cel-go finds that of a call's target first.
            *other_errors += usize::from(is_key != said.error.contains("no such key"));
            None
        }
        // cel-go does not evaluate what cannot be in an empty list.
        Err(_) if source.contains("in []") => None,
        Err(Valueless::Failed(error)) if error.contains("function 'timestamp'") => None,
        // cel-go sorts what is not a number, too.
        Err(Valueless::Failed(error)) if error.ends_with("can not be compared to Float(NaN)") => {
            None
        }
        Err(error) => Some(format!("{error:?} here")),
    }
}

#[test]
fn expressions_have_the_values_that_cel_go_finds() {
    skip_under_oracle!("kube-apiserver has no queries");
    // The parser needs much stack.
    let big = std::thread::Builder::new().stack_size(64 << 20);
    big.spawn(compare).unwrap().join().unwrap();
}

fn compare() {
    let seed = volume::seed_or("expressions_have_the_values_that_cel_go_finds", 1);
    let mut rng = StdRng::seed_from_u64(seed);
    let objects =
        std::fs::read("crates/wire/src/representation/table/testdata/objects.json").unwrap();
    let recorded: Vec<Value> = serde_json::from_slice(&objects).unwrap();
    let objects = recorded
        .iter()
        .filter_map(|kind| kind["objects"].as_array());
    let objects: Vec<&Value> = objects.flatten().collect();
    let each = volume::work(EXPRESSIONS, DEFAULT_EXPRESSIONS) / OBJECTS;
    let mut asked = Vec::new();
    for _ in 0..OBJECTS {
        let object = Value::clone(objects.choose(&mut rng).unwrap());
        let mut generator = Generator {
            rng: &mut rng,
            object: &object,
            variables: Vec::new(),
        };
        let expressions: Vec<String> = (0..each).map(|_| generator.expression()).collect();
        asked.push((Object(object), expressions));
    }
    let mut program = Command::new(binaries::program("cel"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut input = program.stdin.take().unwrap();
    let lines: Vec<String> = asked
        .iter()
        .map(|(object, expressions)| {
            json!({ "object": object.0, "expressions": expressions }).to_string()
        })
        .collect();
    let writer = std::thread::spawn(move || {
        for line in lines {
            writeln!(input, "{line}").unwrap();
        }
    });
    let output = program.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let said: Vec<Vec<Said>> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(said.len(), asked.len());
    let (mut differences, mut alike, mut valued, mut all) = (Vec::new(), [0; 2], 0, 0);
    for ((object, expressions), said) in asked.iter().zip(&said) {
        for (source, said) in expressions.iter().zip(said) {
            all += 1;
            valued += usize::from(said.error.is_empty() && said.invalid.is_empty());
            if let Some(what) = difference(source, object, said, &mut alike) {
                differences.push(format!("{source}\n    {what}, {said:?} in cel-go"));
            }
        }
    }
    let [lenient, other_errors] = alike;
    println!(
        "{all} expressions, {valued} with a value, {lenient} that kube-apiserver refuses by type, \
         {other_errors} with another error there"
    );
    assert!(
        other_errors <= all / 500,
        "{other_errors} other errors of {all}"
    );
    assert!(valued > all / 3, "{valued} of {all}");
    let first: Vec<&String> = differences.iter().take(20).collect();
    assert!(
        differences.is_empty(),
        "{} differences: {first:#?}",
        differences.len()
    );
}
