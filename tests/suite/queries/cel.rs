//! Expressions have the values that they have in kube-apiserver: random expressions about
//! real objects, evaluated here and by cel-go in Kubernetes' environment.
//!
//! `APIFRONT_TEST_SEED` and `APIFRONT_TEST_EXPRESSIONS` vary and lengthen a run. One in a
//! million expressions is known to differ: an optional list that is indexed by a double is
//! an error in cel-go, and no value here.

use std::io::Write;
use std::process::{Command, Stdio};

use apifront_query::{Candidate, Expression, InvalidExpression, Unreadable, Valueless};
use kubernetes_wire::representation::{Encoding, Envelope, Form, Projection};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde::Deserialize;
use serde_json::{Value, json};

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

/// Makes expressions that mostly have a value for an object.
struct Generator<'r> {
    rng: &'r mut StdRng,
    object: &'r Value,
    /// The variables of the loops around, and an element that each may be.
    variables: Vec<(String, Value)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Type {
    Bool,
    Int,
    Double,
    Text,
    List,
    Map,
}

fn type_of(value: &Value) -> Option<Type> {
    Some(match value {
        Value::Bool(_) => Type::Bool,
        Value::Number(number) if number.is_i64() => Type::Int,
        Value::Number(_) => Type::Double,
        Value::String(_) => Type::Text,
        Value::Array(_) => Type::List,
        Value::Object(_) => Type::Map,
        Value::Null => return None,
    })
}

/// Adds all values below one, with the expressions that select them.
fn collect(value: &Value, source: &str, found: &mut Vec<(String, Value)>) {
    found.push((source.to_owned(), value.clone()));
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
                    && name.chars().all(|c| c.is_ascii_alphanumeric())
                    && ![
                        "in",
                        "true",
                        "false",
                        "null",
                        "namespace",
                        "if",
                        "import",
                        "for",
                        "as",
                        "break",
                        "const",
                        "continue",
                        "else",
                        "function",
                        "let",
                        "loop",
                        "package",
                        "return",
                        "var",
                        "void",
                        "while",
                    ]
                    .contains(&name.as_str());
                let below = match is_name {
                    true => format!("{source}.{name}"),
                    false => format!("{source}[{}]", text_literal(name)),
                };
                collect(member, &below, found);
            }
        }
        Value::Array(items) => {
            for (n, item) in items.iter().enumerate().take(3) {
                collect(item, &format!("{source}[{n}]"), found);
            }
        }
        _ => {}
    }
}

fn text_literal(text: &str) -> String {
    let escaped = text
        .replace('\\', "\\\\")
        .replace('\'', "\\'")
        .replace('\n', "\\n");
    format!("'{escaped}'")
}

impl Generator<'_> {
    fn below(&mut self, percent: u32) -> bool {
        self.rng.random_range(0..100) < percent
    }

    /// Returns a part of the object or of a variable that has this type.
    fn part(&mut self, wanted: Option<Type>) -> Option<(String, Value)> {
        let mut found = Vec::new();
        collect(self.object, "object", &mut found);
        for (name, value) in self.variables.clone() {
            // They are few, and should be used.
            for _ in 0..20 {
                collect(&value, &name, &mut found);
            }
        }
        found.retain(|(_, value)| wanted.is_none() || type_of(value) == wanted);
        found.choose(self.rng).cloned()
    }

    fn part_or(&mut self, wanted: Type, literal: &str) -> String {
        let part = self.part(Some(wanted)).map(|(source, _)| source);
        let Some(part) = part else {
            return literal.to_owned();
        };
        match self.rng.random_range(0..20) {
            0 => format!("{part}.absent"),
            1 => part.replacen('.', ".?", 1) + ".orValue(" + literal + ")",
            2 => format!("dyn({part})"),
            _ => part,
        }
    }

    fn text(&mut self, depth: u32) -> String {
        if depth == 0 || self.below(40) {
            return match self.below(30) {
                true => text_literal(
                    ["", "a", "Running", "v1", "ä€", "x:y,z"]
                        .choose(self.rng)
                        .unwrap(),
                ),
                false => self.part_or(Type::Text, "'none'"),
            };
        }
        let depth = depth - 1;
        match self.rng.random_range(0..11) {
            0 | 1 => format!("{} + {}", self.text(depth), self.text(depth)),
            2 => format!(
                "({} ? {} : {})",
                self.boolean(depth),
                self.text(depth),
                self.text(depth)
            ),
            3 => match self.below(50) {
                true => format!("string({})", self.int(depth)),
                false => format!("string({})", self.double(depth)),
            },
            4 => format!("{}.lowerAscii()", self.grouped_text(depth)),
            5 => format!("{}.upperAscii().trim()", self.grouped_text(depth)),
            6 => format!("{}.substring({})", self.grouped_text(depth), self.int(0)),
            7 => format!(
                "{}.substring(0, {})",
                self.grouped_text(depth),
                self.rng.random_range(0..6)
            ),
            8 => format!(
                "{}.charAt({})",
                self.grouped_text(depth),
                self.rng.random_range(0..4)
            ),
            9 => format!("{}.split(':')[0]", self.grouped_text(depth)),
            _ => format!("string({})", self.boolean(depth)),
        }
    }

    fn grouped_text(&mut self, depth: u32) -> String {
        format!("({})", self.text(depth))
    }

    fn int(&mut self, depth: u32) -> String {
        if depth == 0 || self.below(40) {
            return match self.below(40) {
                true => ["0", "1", "2", "-7", "9223372036854775807", "100"]
                    .choose(self.rng)
                    .unwrap()
                    .to_string(),
                false => self.part_or(Type::Int, "3"),
            };
        }
        let depth = depth - 1;
        match self.rng.random_range(0..9) {
            0 => format!("({} + {})", self.int(depth), self.int(depth)),
            1 => format!("({} - {})", self.int(depth), self.int(depth)),
            2 => format!("({} * {})", self.int(depth), self.int(depth)),
            3 => format!("({} / {})", self.int(depth), self.int(depth)),
            4 => format!("({} % {})", self.int(depth), self.int(depth)),
            5 => format!("size({})", self.list(depth)),
            6 => format!("size({})", self.text(depth)),
            7 => format!("{}.indexOf({})", self.grouped_text(depth), self.text(0)),
            _ => format!("int({})", self.double(depth)),
        }
    }

    fn double(&mut self, depth: u32) -> String {
        if depth == 0 || self.below(50) {
            return ["0.5", "-1.25", "2.0", "1e10", "0.0"]
                .choose(self.rng)
                .unwrap()
                .to_string();
        }
        let depth = depth - 1;
        let operator = ["+", "-", "*", "/"].choose(self.rng).unwrap();
        match self.below(50) {
            true => format!("double({})", self.int(depth)),
            false => format!("({} {operator} {})", self.double(depth), self.double(depth)),
        }
    }

    fn list(&mut self, depth: u32) -> String {
        if depth == 0 || self.below(50) {
            return match self.rng.random_range(0..5) {
                0 => "[1, 2, 3]".to_owned(),
                1 => "['a', 'b']".to_owned(),
                2 => "[]".to_owned(),
                _ => self.part_or(Type::List, "[1]"),
            };
        }
        let depth = depth - 1;
        match self.rng.random_range(0..5) {
            0 => format!("{}.split({})", self.grouped_text(depth), self.text(0)),
            1 => self.looped("filter", depth),
            2 => self.looped("map", depth),
            3 => format!("({} + {})", self.list(depth), self.list(depth)),
            _ => format!("[{}, {}]", self.int(depth), self.int(depth)),
        }
    }

    /// Returns a loop over a list of the object, or over the keys of a map.
    fn looped(&mut self, name: &str, depth: u32) -> String {
        let wanted = if self.below(75) {
            Type::List
        } else {
            Type::Map
        };
        let (range, element) = match self.part(Some(wanted)) {
            Some((source, Value::Array(items))) => {
                let element = items.choose(self.rng).cloned();
                (source, element.unwrap_or_default())
            }
            Some((source, Value::Object(members))) => {
                let names: Vec<&String> = members.keys().collect();
                let name = names.choose(self.rng).map(|name| json!(name));
                (source, name.unwrap_or_default())
            }
            _ => ("[1, 2, 3]".to_owned(), json!(2)),
        };
        let variable = format!("v{}", self.variables.len());
        self.variables.push((variable.clone(), element));
        let body = match name {
            "map" => self.any(depth),
            _ => self.boolean(depth),
        };
        self.variables.pop();
        format!("{range}.{name}({variable}, {body})")
    }

    fn boolean(&mut self, depth: u32) -> String {
        if depth == 0 || self.below(15) {
            return match self.below(40) {
                true => ["true", "false"].choose(self.rng).unwrap().to_string(),
                false => self.part_or(Type::Bool, "true"),
            };
        }
        let depth = depth - 1;
        let compared = ["==", "!=", "<", "<=", ">", ">="].choose(self.rng).unwrap();
        match self.rng.random_range(0..18) {
            0 | 1 => format!("{} {compared} {}", self.int(depth), self.int(depth)),
            2 | 3 => format!("{} {compared} {}", self.text(depth), self.text(depth)),
            4 => format!("{} {compared} {}", self.double(depth), self.int(depth)),
            5 => format!("({} && {})", self.boolean(depth), self.boolean(depth)),
            6 => format!("({} || {})", self.boolean(depth), self.boolean(depth)),
            7 => format!("!({})", self.boolean(depth)),
            8 => match self.part(None) {
                Some((source, _)) if source.contains('.') && !source.ends_with(']') => {
                    format!("has({source})")
                }
                Some((source, _)) if !source.ends_with(']') => format!("has({source}.absent)"),
                _ => "has(object.metadata)".to_owned(),
            },
            9 => {
                let function = ["startsWith", "endsWith", "contains"]
                    .choose(self.rng)
                    .unwrap();
                format!("{}.{function}({})", self.grouped_text(depth), self.text(0))
            }
            10 => {
                let pattern = ["^a", "[a-z]+", "(x|y):.*", "^$", "\\\\d+", "("]
                    .choose(self.rng)
                    .unwrap();
                format!("{}.matches('{pattern}')", self.grouped_text(depth))
            }
            11 => format!("{} in {}", self.any(0), self.list(depth)),
            12 => {
                let map = self.part_or(Type::Map, "{'a': 1}");
                format!("{} in {map}", self.text(0))
            }
            13 => self.looped("exists", depth),
            14 => self.looped("all", depth),
            15 => self.looped("exists_one", depth),
            16 => {
                let name = [
                    "int",
                    "string",
                    "bool",
                    "double",
                    "list",
                    "map",
                    "null_type",
                ]
                .choose(self.rng)
                .unwrap();
                format!("type(dyn({})) == {name}", self.any(0))
            }
            _ => format!("dyn({}) == dyn({})", self.any(depth), self.any(depth)),
        }
    }

    fn time(&mut self) -> String {
        let times = [
            "timestamp('2026-01-02T03:04:05Z')",
            "timestamp('2025-12-31T23:59:59.125Z')",
            "timestamp(object.metadata.creationTimestamp)",
        ];
        let time = times.choose(self.rng).unwrap();
        let other = times.choose(self.rng).unwrap();
        let duration = ["duration('90s')", "duration('-1h')", "duration('1.5s')"]
            .choose(self.rng)
            .unwrap();
        match self.rng.random_range(0..6) {
            0 => format!("{time} - {other}"),
            1 => format!("{time} + {duration}"),
            2 => format!("{time} < {other}"),
            3 => {
                let part = [
                    "getFullYear",
                    "getMonth",
                    "getDate",
                    "getDayOfMonth",
                    "getDayOfWeek",
                    "getDayOfYear",
                    "getHours",
                    "getMinutes",
                    "getSeconds",
                    "getMilliseconds",
                ]
                .choose(self.rng)
                .unwrap();
                format!("{time}.{part}()")
            }
            4 => format!("{duration}.getSeconds()"),
            _ => format!("string({time})"),
        }
    }

    fn any(&mut self, depth: u32) -> String {
        match self.rng.random_range(0..9) {
            0 | 1 => self.boolean(depth),
            2 => self.int(depth),
            3 | 4 => self.text(depth),
            5 => self.list(depth),
            6 => self.double(depth),
            7 => self
                .part(None)
                .map_or("null".to_owned(), |(source, _)| source),
            _ => self.time(),
        }
    }

    fn expression(&mut self) -> String {
        let depth = self.rng.random_range(0..4);
        let mut expression = self.any(depth);
        if self.below(6) {
            // A mistake somewhere.
            let at = self.rng.random_range(0..=expression.chars().count());
            let (before, after): (Vec<_>, Vec<_>) =
                expression.chars().enumerate().partition(|(n, _)| *n < at);
            let text =
                |part: Vec<(usize, char)>| part.into_iter().map(|(_, c)| c).collect::<String>();
            let (before, after) = (text(before), text(after));
            expression = match self.rng.random_range(0..3) {
                0 => format!("{before}{}", after.chars().skip(1).collect::<String>()),
                1 => format!(
                    "{before}{}{after}",
                    [")", "(", ".", "'", " 1 ", "+", "!"]
                        .choose(self.rng)
                        .unwrap()
                ),
                _ => before,
            };
        }
        expression
    }
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
                    // RE2 has no repetition of a repetition: `a++`.
                    || said.invalid.contains("invalid matches argument") =>
            {
                *lenient += 1;
                None
            }
            Ok(value) => Some(format!("{value} here")),
        },
        Ok(value) if said.error.is_empty() && is_same(&value, &said.value) => None,
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
