//! The part of client-go's JSONPath that printer columns use: `.a.b`, `.a\.b`,
//! `['a']`, `[0]`, `[-1]`, `[*]`, `[?(@.type=="Ready")]`. Any other path is
//! refused, and the API server prints its resource.

use crate::representation::scan;

/// The most steps of a path. No real column has more.
const MAX_STEPS: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    /// An index. A negative index counts from the end.
    Index(i64),
    All,
    Filter {
        fields: Vec<String>,
        equal: bool,
        value: Literal,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Literal {
    Text(String),
    Bool(bool),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JsonPath(Vec<Step>);

/// Upstream's evaluation ends with an error. The column then shows null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoResult;

impl JsonPath {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut rest = text.strip_prefix('$').unwrap_or(text);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            rest = parse_step(rest, &mut steps)?;
            if steps.len() > MAX_STEPS {
                return None;
            }
        }
        (!steps.is_empty()).then_some(Self(steps))
    }

    /// Tells whether the value depends on `metadata.managedFields`, or may.
    pub(crate) fn reads_managed_fields(&self) -> bool {
        match &self.0[..] {
            [Step::Field(first), ..] if first != "metadata" => false,
            [Step::Field(_), Step::Field(second), ..] => second == "managedFields",
            _ => true,
        }
    }

    /// Returns the first value found.
    pub(crate) fn first<'a>(&self, json: &'a [u8]) -> Result<Option<&'a [u8]>, NoResult> {
        let mut values = vec![json];
        for step in &self.0 {
            values = step.walk(&values)?;
        }
        Ok(values.first().copied())
    }
}

fn parse_step<'a>(text: &'a str, steps: &mut Vec<Step>) -> Option<&'a str> {
    if let Some(rest) = text.strip_prefix('.') {
        let (name, rest) = field(rest)?;
        steps.push(Step::Field(name));
        return Some(rest);
    }
    if let Some(rest) = text.strip_prefix("[?(") {
        let (step, rest) = filter(rest)?;
        steps.push(step);
        return Some(rest);
    }
    let (inside, rest) = text.strip_prefix('[')?.split_once(']')?;
    if inside == "*" {
        steps.push(Step::All);
    } else if let Some(quoted) = inside.strip_prefix('\'').and_then(|i| i.strip_suffix('\'')) {
        // Upstream reads the text in the quotes as a path again, so a dot in it
        // separates names.
        let mut quoted = format!(".{quoted}");
        while !quoted.is_empty() {
            let (name, rest) = field(quoted.strip_prefix('.')?)?;
            steps.push(Step::Field(name));
            quoted = rest.to_owned();
        }
    } else {
        let digits = inside.strip_prefix('-').unwrap_or(inside);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        steps.push(Step::Index(inside.parse().ok()?));
    }
    Some(rest)
}

/// Reads a name and returns it with the rest. A backslash takes the next
/// character literally.
fn field(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    let mut end = text.len();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => match chars.next()?.1 {
                '\\' => return None,
                c => name.push(c),
            },
            '.' | '[' => {
                end = at;
                break;
            }
            ' ' | '\t' | '\r' | '\n' | ',' | ']' | '$' | '@' | '{' | '}' => return None,
            c => name.push(c),
        }
    }
    (!name.is_empty() && name != "*").then(|| (name, text.get(end..).unwrap_or_default()))
}

/// Reads the rest of a filter after `[?(`: `@.a.b=="text")]`.
fn filter(text: &str) -> Option<(Step, &str)> {
    let at = text.find(['=', '!', '<', '>'])?;
    let (left, rest) = text.split_at(at);
    // Upstream takes quotes on this side for those of a value.
    if left.contains(['"', '\'']) {
        return None;
    }
    let (equal, rest) = match rest.strip_prefix("==") {
        Some(rest) => (true, rest),
        None => (false, rest.strip_prefix("!=")?),
    };
    let mut fields = Vec::new();
    let mut left = left.trim_matches(' ').strip_prefix('@')?;
    while !left.is_empty() {
        let (name, rest) = field(left.strip_prefix('.')?)?;
        fields.push(name);
        left = rest;
    }
    let rest = rest.trim_start_matches(' ');
    let (value, rest) = if let Some(quote @ ('"' | '\'')) = rest.chars().next() {
        let (value, rest) = rest.strip_prefix(quote)?.split_once(quote)?;
        if value.contains(['\\', '"', '\'']) {
            return None;
        }
        (Literal::Text(value.to_owned()), rest)
    } else if let Some(rest) = rest.strip_prefix("true") {
        (Literal::Bool(true), rest)
    } else {
        (Literal::Bool(false), rest.strip_prefix("false")?)
    };
    let rest = rest.trim_start_matches(' ').strip_prefix(")]")?;
    let step = Step::Filter {
        fields,
        equal,
        value,
    };
    Some((step, rest))
}

impl Step {
    fn walk<'a>(&self, values: &[&'a [u8]]) -> Result<Vec<&'a [u8]>, NoResult> {
        let mut found = Vec::new();
        for value in values {
            match self {
                Self::Field(name) => found.extend(member(value, name)),
                Self::Filter {
                    fields,
                    equal,
                    value: literal,
                } => {
                    for element in array(value)?.ok_or(NoResult)? {
                        if literal.compare(element, fields)? == Some(*equal) {
                            found.push(element);
                        }
                    }
                }
                Self::Index(index) => {
                    let Some(elements) = array(value)? else {
                        continue;
                    };
                    let length = i64::try_from(elements.len()).map_err(|_| NoResult)?;
                    let index = match *index {
                        from_end @ ..0 => length.saturating_add(from_end),
                        index => index,
                    };
                    let index = usize::try_from(index).map_err(|_| NoResult)?;
                    found.push(elements.get(index).ok_or(NoResult)?);
                }
                Self::All => {
                    let Some(elements) = array(value)? else {
                        continue;
                    };
                    // Upstream stops at an empty array and ignores the values
                    // after it.
                    if elements.is_empty() {
                        return Ok(found);
                    }
                    found.extend(elements);
                }
            }
        }
        Ok(found)
    }
}

impl Literal {
    /// Tells whether the field of an element equals the literal. The result is
    /// `None` if there is no such field. Values of another type cannot be
    /// compared.
    fn compare(&self, element: &[u8], fields: &[String]) -> Result<Option<bool>, NoResult> {
        let mut value = element;
        for field in fields {
            match member(value, field) {
                Some(inner) => value = inner,
                None => return Ok(None),
            }
        }
        match (self, value) {
            (Self::Text(literal), [b'"', ..]) => {
                Ok(Some(scan::text(value).ok_or(NoResult)? == literal.as_str()))
            }
            (Self::Bool(literal), b"true") => Ok(Some(*literal)),
            (Self::Bool(literal), b"false") => Ok(Some(!*literal)),
            _ => Err(NoResult),
        }
    }
}

/// Returns a member of an object. Keys may be written with escapes.
fn member<'a>(json: &'a [u8], name: &str) -> Option<&'a [u8]> {
    scan::members(json)
        .map_while(Result::ok)
        .find(|m| {
            m.key == name.as_bytes()
                || m.key.contains(&b'\\')
                    && scan::text(&[b"\"", m.key, b"\""].concat()).as_deref() == Some(name)
        })
        .map(|m| m.value)
}

/// Returns the elements of an array, `None` for null, and an error for any other
/// value.
fn array(json: &[u8]) -> Result<Option<Vec<&[u8]>>, NoResult> {
    match json.first() {
        Some(b'[') => {
            let elements = scan::elements(json).map(|e| e.map(|(_, bytes)| bytes));
            let elements = elements.collect::<Result<_, _>>().map_err(|_| NoResult)?;
            Ok(Some(elements))
        }
        Some(b'n') => Ok(None),
        _ => Err(NoResult),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"a":{"b":[{"t":"x","v":1,"on":true},{"t":"y","v":2,"on":false}],"c.d":"e","n":null,"empty":[]},"s":"text"}"#;

    #[test]
    fn paths_to_managed_fields_are_known() {
        for (path, expected) in [
            (".metadata.managedFields[0].manager", true),
            ("['metadata.managedFields'][-1].time", true),
            (".metadata", true),
            (".metadata[*].a", true),
            ("[0].metadata", true),
            (".metadata.name", false),
            (r".metadata.labels.managedFields", false),
            (".spec.managedFields", false),
        ] {
            let path_read = JsonPath::parse(path).unwrap();
            assert_eq!(path_read.reads_managed_fields(), expected, "{path}");
        }
    }

    #[test]
    fn paths_find_their_first_value() {
        for (path, expected) in [
            (".a.b[0].v", Ok(Some("1"))),
            (".a.b[-1].v", Ok(Some("2"))),
            ("$.a.b[*].t", Ok(Some("\"x\""))),
            (r#".a.b[?(@.t=="y")].v"#, Ok(Some("2"))),
            (r#".a.b[?( @.t == 'y' )].v"#, Ok(Some("2"))),
            (r#".a.b[?(@.t!="x")].v"#, Ok(Some("2"))),
            (".a.b[?(@.on==false)].v", Ok(Some("2"))),
            (r#".a.b[?(@.z=="y")].v"#, Ok(None)),
            (r#".a.b[?(@.v=="y")].v"#, Err(NoResult)),
            (r".a.c\.d", Ok(Some("\"e\""))),
            (r".a['c\.d']", Ok(Some("\"e\""))),
            ("['a'].n", Ok(Some("null"))),
            (".a.n.x", Ok(None)),
            (".a.n[0]", Ok(None)),
            (r#".a.n[?(@.a=="b")]"#, Err(NoResult)),
            (".a.empty[0]", Err(NoResult)),
            (".a.empty[*]", Ok(None)),
            (".s.x", Ok(None)),
            (".s[0]", Err(NoResult)),
        ] {
            let got = JsonPath::parse(path).unwrap().first(JSON.as_bytes());
            let got = got.map(|v| v.map(|v| std::str::from_utf8(v).unwrap()));
            assert_eq!(got, expected, "{path}");
        }
    }

    #[test]
    fn other_paths_are_refused() {
        for path in [
            "",
            ".",
            "a",
            "..a",
            ".*",
            ".a.*",
            ".a[0:2]",
            ".a[0,1]",
            ".a[",
            ".a[]",
            ".a b",
            "{.a}",
            ".a[?(@.b)]",
            ".a[?(@.b>1)]",
            ".a[?(@.b==1)]",
            r#".a[?(@.b<c=="x")]"#,
            r#".a[?(@.b"=="x")]"#,
            ".a[?(@.b===true)]",
            r#".a["b"]"#,
        ] {
            assert_eq!(JsonPath::parse(path), None, "{path}");
        }
    }
}
