//! Label selectors: `app=web,tier in (a,b),!canary`.

use super::Labels;
use super::label_name::{key_errors, value_errors};

/// How a requirement compares a label with its values (`labels.Requirement` of
/// apimachinery).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `key in (a,b)`, and `key=a`: the label has one of the values.
    In,
    /// `key notin (a,b)`, and `key!=a`: the label is missing or has another value.
    NotIn,
    /// `key`: the label exists with any value.
    Exists,
    /// `!key`: the label is missing.
    DoesNotExist,
    /// `key>1`: the label is an integer above the value.
    GreaterThan,
    /// `key<1`: the label is an integer below the value.
    LessThan,
}

/// A requirement for one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRequirement {
    /// The key of the label, with its prefix if it has one: `example.com/tier`.
    pub key: String,
    /// How the label is compared with the values.
    pub operator: Operator,
    /// The values, sorted and without duplicates. Comparisons have one value.
    pub values: Vec<String>,
}

/// A label selector. All requirements must hold; without any, it selects
/// everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    /// The requirements in the order of the text.
    pub requirements: Vec<LabelRequirement>,
    /// The text that it was parsed from, if it was parsed.
    text: Option<String>,
}

impl LabelSelector {
    /// Parses with the syntax and error messages of apimachinery
    /// `labels.Parse`.
    pub fn parse(text: &str) -> Result<Self, String> {
        Parser::new(text)
            .parse()
            .map(|requirements| Self {
                requirements,
                text: Some(text.to_owned()),
            })
            .map_err(|e| format!("unable to parse requirement: {e}").replace(NO_PREFIX, ""))
    }

    /// Tells whether the selector has no requirement, and so selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Tells whether the selector was parsed from this text.
    pub(crate) fn is_from(&self, text: &str) -> bool {
        self.text.as_deref() == Some(text)
    }

    /// Returns the number of requirements and values, as a measure of the memory
    /// that the selector takes.
    pub fn terms(&self) -> usize {
        let values = |r: &LabelRequirement| r.values.len().max(1);
        self.requirements.iter().map(values).sum()
    }

    /// Tells whether an object with these labels fulfills all requirements.
    pub fn matches(&self, labels: &impl Labels) -> bool {
        self.requirements.iter().all(|r| r.matches(labels))
    }
}

impl LabelRequirement {
    fn matches(&self, labels: &impl Labels) -> bool {
        let value = labels.value_of(&self.key);
        match self.operator {
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::In => value.is_some_and(|v| self.has(v)),
            Operator::NotIn => value.is_none_or(|v| !self.has(v)),
            Operator::GreaterThan => self.compares(value, |a, b| a > b),
            Operator::LessThan => self.compares(value, |a, b| a < b),
        }
    }

    fn has(&self, value: &str) -> bool {
        let found = self.values.binary_search_by(|own| own.as_str().cmp(value));
        found.is_ok()
    }

    fn compares(&self, value: Option<&str>, holds: fn(i64, i64) -> bool) -> bool {
        let number = |text: Option<&str>| text.and_then(|t| t.parse::<i64>().ok());
        let own = self.values.first().map(String::as_str);
        match (number(value), number(own)) {
            (Some(a), Some(b)) => holds(a, b),
            _ => false,
        }
    }
}

/// The prefix of errors that the API server writes without a prefix.
const NO_PREFIX: &str = "unable to parse requirement: \u{0}";

const SPACES: [char; 4] = [' ', '\t', '\r', '\n'];
/// The characters that end an identifier.
const SPECIAL: [char; 11] = [' ', '\t', '\r', '\n', '(', ')', ',', '=', '!', '<', '>'];

/// Returns the length in bytes of the token at the start of `text`. `text` must
/// not begin with a space.
fn token_length(text: &str) -> usize {
    match text.as_bytes() {
        [b'=' | b'!', b'=', ..] => 2,
        [b'(' | b')' | b',' | b'<' | b'>' | b'=' | b'!', ..] => 1,
        _ => text.find(SPECIAL).unwrap_or(text.len()),
    }
}

struct Parser<'a> {
    tokens: Vec<&'a str>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        let mut tokens = Vec::new();
        let mut rest = text.trim_start_matches(SPACES);
        while !rest.is_empty() {
            let length = token_length(rest);
            let Some((token, after)) = rest.split_at_checked(length) else {
                break;
            };
            tokens.push(token);
            rest = after.trim_start_matches(SPACES);
        }
        Self { tokens, at: 0 }
    }

    fn peek(&self) -> &'a str {
        self.tokens.get(self.at).copied().unwrap_or_default()
    }

    fn next(&mut self) -> &'a str {
        let token = self.peek();
        self.at = self.at.saturating_add(1);
        token
    }

    fn parse(mut self) -> Result<Vec<LabelRequirement>, String> {
        let mut requirements = Vec::new();
        if self.tokens.is_empty() {
            return Ok(requirements);
        }
        loop {
            let token = self.peek();
            if !(token == "!" || is_identifier(token)) {
                return Err(format!(
                    "\u{0}found '{token}', expected: !, identifier, or 'end of string'"
                ));
            }
            requirements.push(self.requirement()?);
            match self.next() {
                "" => return Ok(requirements),
                "," => {
                    let following = self.peek();
                    if !(following == "!" || is_identifier(following)) {
                        return Err(format!(
                            "\u{0}found '{following}', expected: identifier after ','"
                        ));
                    }
                }
                other => {
                    return Err(format!(
                        "\u{0}found '{other}', expected: ',' or 'end of string'"
                    ));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<LabelRequirement, String> {
        let absent = self.peek() == "!";
        if absent {
            self.next();
        }
        let key = self.next();
        if !is_identifier(key) {
            return Err(format!("found '{key}', expected: identifier"));
        }
        let errors = key_errors(key);
        if !errors.is_empty() {
            let error = errors.join("; ");
            let quoted = super::query::go_quote(key);
            return Err(format!("<nil>: Invalid value: {quoted}: {error}"));
        }
        let exists = |operator| LabelRequirement {
            key: key.to_owned(),
            operator,
            values: Vec::new(),
        };
        if absent {
            return Ok(exists(Operator::DoesNotExist));
        }
        if matches!(self.peek(), "" | ",") {
            return Ok(exists(Operator::Exists));
        }
        let token = self.next();
        let operator = match token {
            "=" | "==" | "in" => Operator::In,
            "!=" | "notin" => Operator::NotIn,
            ">" => Operator::GreaterThan,
            "<" => Operator::LessThan,
            other => {
                return Err(format!(
                    "found '{other}', expected: in, notin, =, ==, !=, gt, lt"
                ));
            }
        };
        let mut values = match token {
            "in" | "notin" => self.set()?,
            _ => vec![self.single()?],
        };
        values.sort();
        values.dedup();
        check_values(key, &operator, &values)?;
        Ok(LabelRequirement {
            key: key.to_owned(),
            operator,
            values,
        })
    }

    fn single(&mut self) -> Result<String, String> {
        match self.peek() {
            "" | "," => Ok(String::new()),
            token if is_identifier(token) => Ok(self.next().to_owned()),
            other => Err(format!("found '{other}', expected: identifier")),
        }
    }

    fn set(&mut self) -> Result<Vec<String>, String> {
        let open = self.next();
        if open != "(" {
            return Err(format!("found '{open}' expected: '('"));
        }
        match self.peek() {
            ")" => {
                self.next();
                // `in ()` contains the empty value.
                return Ok(vec![String::new()]);
            }
            token if token == "," || is_identifier(token) => {}
            other => return Err(format!("found '{other}', expected: ',', ')' or identifier")),
        }
        let mut values = Vec::new();
        loop {
            match self.next() {
                "," => {
                    if values.is_empty() {
                        values.push(String::new());
                    }
                    match self.peek() {
                        ")" => {
                            self.next();
                            values.push(String::new());
                            return Ok(values);
                        }
                        // There is an empty value between two commas.
                        "," => values.push(String::new()),
                        _ => {}
                    }
                }
                token if is_identifier(token) => {
                    values.push(token.to_owned());
                    match self.peek() {
                        "," => {}
                        ")" => {
                            self.next();
                            return Ok(values);
                        }
                        other => return Err(format!("found '{other}', expected: ',' or ')'")),
                    }
                }
                other => return Err(format!("found '{other}', expected: ',', or identifier")),
            }
        }
    }
}

fn is_identifier(token: &str) -> bool {
    !token.is_empty() && !token.starts_with(['(', ')', ',', '=', '!', '<', '>'])
}

/// Checks key and values as `labels.NewRequirement` does, and reports all
/// errors together.
fn check_values(key: &str, operator: &Operator, values: &[String]) -> Result<(), String> {
    let mut wrong: Vec<String> = Vec::new();
    let ordered = matches!(operator, Operator::GreaterThan | Operator::LessThan);
    for (n, value) in values.iter().enumerate().filter(|_| ordered) {
        if value.parse::<i64>().is_err() {
            let quoted = super::query::go_quote(value);
            wrong.push(format!(
                "values[{n}]: Invalid value: {quoted}: for 'Gt', 'Lt' operators, the value must \
                 be an integer"
            ));
        }
    }
    for (n, value) in values.iter().enumerate() {
        let errors = value_errors(value);
        if !errors.is_empty() {
            let error = errors.join("; ");
            let quoted = super::query::go_quote(value);
            wrong.push(format!(
                "values[{n}][{key}]: Invalid value: {quoted}: {error}"
            ));
        }
    }
    match wrong.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(k, v)| (k.to_string(), v.to_string()))
            .collect()
    }

    #[test]
    fn selects_as_kubernetes_does() {
        let web = labels(&[("app", "web"), ("n", "5"), ("empty", "")]);
        for (selector, expected) in [
            ("", true),
            ("app=web", true),
            ("app==web", true),
            ("app!=web", false),
            ("other!=x", true),
            ("app in (web,db)", true),
            ("app notin (web)", false),
            ("other notin (web)", true),
            ("app", true),
            ("!app", false),
            ("!other", true),
            ("n>4", true),
            ("n<5", false),
            ("empty=", true),
            ("app=", false),
            ("empty in ()", true),
            ("app=web,n>4", true),
            ("app=web,n>5", false),
        ] {
            let parsed = LabelSelector::parse(selector).expect(selector);
            assert_eq!(parsed.matches(&web), expected, "{selector}");
        }
    }

    #[test]
    fn errors_have_the_api_servers_texts() {
        for (selector, error) in [
            (
                "a b",
                "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
            ),
            (
                "=a",
                "found '=', expected: !, identifier, or 'end of string'",
            ),
            ("a,", "found '', expected: identifier after ','"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            (
                "a in b",
                "unable to parse requirement: found 'b' expected: '('",
            ),
            (
                "a in (b",
                "unable to parse requirement: found '', expected: ',' or ')'",
            ),
            (
                "!",
                "unable to parse requirement: found '', expected: identifier",
            ),
        ] {
            assert_eq!(LabelSelector::parse(selector).unwrap_err(), error);
        }
    }
}
