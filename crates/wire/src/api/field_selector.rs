//! Field selectors: `metadata.name=a,spec.nodeName!=b`.

/// One requirement: `field=value` or `field!=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The name of the field, such as `metadata.name`.
    pub field: String,
    /// True if the field must equal the value, false if it must differ from it.
    pub equal: bool,
    /// The value, without escapes.
    pub value: String,
}

/// A field selector. All requirements must hold; without any, it selects
/// everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    /// The requirements. A parsed selector has them sorted by their text.
    pub requirements: Vec<FieldRequirement>,
    /// The text that it was parsed from, if it was parsed.
    text: Option<String>,
}

impl FieldSelector {
    /// Parses with the syntax and error messages of apimachinery
    /// `fields.ParseSelector`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut requirements = Vec::new();
        let mut terms = split_unescaped(text);
        // Go sorts the terms, which determines the term that an error names.
        terms.sort_unstable();
        for term in terms {
            if term.is_empty() {
                continue;
            }
            let (field, equal, value) = split_term(term)
                .ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{term}'"))?;
            requirements.push(FieldRequirement {
                field: field.to_owned(),
                equal,
                value: unescape(value)?,
            });
        }
        Ok(Self {
            requirements,
            text: Some(text.to_owned()),
        })
    }

    /// Tells whether the selector was parsed from this text.
    pub(crate) fn is_from(&self, text: &str) -> bool {
        self.text.as_deref() == Some(text)
    }

    /// Makes a selector of this one requirement.
    pub fn from_requirement(requirement: FieldRequirement) -> Self {
        Self {
            requirements: vec![requirement],
            text: None,
        }
    }

    /// Tells whether the selector has no requirement, and so selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns the value that `field` must equal, if the selector requires one.
    pub fn required(&self, field: &str) -> Option<&str> {
        self.requirements
            .iter()
            .find(|r| r.equal && r.field == field)
            .map(|r| r.value.as_str())
    }

    /// Tells whether all requirements hold. `value` looks up a field; a missing
    /// field is an empty string.
    pub fn matches<V: AsRef<str>>(&self, mut value: impl FnMut(&str) -> V) -> bool {
        self.requirements
            .iter()
            .all(|r| (value(&r.field).as_ref() == r.value) == r.equal)
    }
}

fn split_unescaped(text: &str) -> Vec<&str> {
    let mut escaped = false;
    let ends_a_term = |c: char| {
        let separates = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        separates
    };
    text.split(ends_a_term).collect()
}

/// Splits a term at its first operator. `!=` and `==` take precedence over `=`.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    for (i, _) in term.char_indices() {
        let (field, rest) = term.split_at_checked(i)?;
        for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
            if let Some(value) = rest.strip_prefix(operator) {
                return Some((field, equal, value));
            }
        }
    }
    None
}

fn unescape(value: &str) -> Result<String, String> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(c) => {
                    return Err(format!(
                        "invalid field selector: invalid escape sequence: \\{c}"
                    ));
                }
                None => {
                    return Err("invalid field selector: invalid escape sequence: \\".to_owned());
                }
            },
            ',' | '=' => {
                return Err(format!(
                    "invalid field selector: unescaped character in value: {}",
                    c as u32
                ));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_operators_and_escapes() {
        let s = FieldSelector::parse(r"a=b,c!=d,e==f\,g,,").unwrap();
        let got: Vec<_> = s
            .requirements
            .iter()
            .map(|r| (r.field.as_str(), r.equal, r.value.as_str()))
            .collect();
        assert_eq!(
            got,
            [("a", true, "b"), ("c", false, "d"), ("e", true, "f,g")]
        );
        assert!(s.matches(|f| match f {
            "a" => "b",
            "e" => "f,g",
            _ => "",
        }));
        assert_eq!(
            FieldSelector::parse("nonsense").unwrap_err(),
            "invalid selector: 'nonsense'; can't understand 'nonsense'"
        );
        assert_eq!(
            FieldSelector::parse("a=b=c").unwrap_err(),
            "invalid field selector: unescaped character in value: 61"
        );
    }
}
