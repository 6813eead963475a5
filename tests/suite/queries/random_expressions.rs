//! Random expressions about an object.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};

/// Makes expressions that mostly have a value for an object.
pub(super) struct Generator<'r> {
    pub(super) rng: &'r mut StdRng,
    pub(super) object: &'r Value,
    /// The variables of the loops around, and an element that each may be.
    pub(super) variables: Vec<(String, Value)>,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Type {
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

pub(super) fn text_literal(text: &str) -> String {
    let escaped = text
        .replace('\\', "\\\\")
        .replace('\'', "\\'")
        .replace('\n', "\\n");
    format!("'{escaped}'")
}

impl Generator<'_> {
    pub(super) fn below(&mut self, percent: u32) -> bool {
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

    pub(super) fn part_or(&mut self, wanted: Type, literal: &str) -> String {
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

    pub(super) fn text(&mut self, depth: u32) -> String {
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

    pub(super) fn grouped_text(&mut self, depth: u32) -> String {
        format!("({})", self.text(depth))
    }

    pub(super) fn int(&mut self, depth: u32) -> String {
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

    pub(super) fn double(&mut self, depth: u32) -> String {
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

    pub(super) fn list(&mut self, depth: u32) -> String {
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

    pub(super) fn boolean(&mut self, depth: u32) -> String {
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

    pub(super) fn any(&mut self, depth: u32) -> String {
        match self.rng.random_range(0..12) {
            0 | 1 => self.boolean(depth),
            2 => self.int(depth),
            3 | 4 => self.text(depth),
            5 => self.list(depth),
            6 => self.double(depth),
            7 => self
                .part(None)
                .map_or("null".to_owned(), |(source, _)| source),
            8 => self.time(),
            9 => self.network(),
            _ => self.library(),
        }
    }

    pub(super) fn expression(&mut self) -> String {
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
