//! A clause of an Accept header: its media type, its weight and its parameters.

use super::representation::MediaType;

/// The parameters that kube-apiserver reads (`acceptMediaTypeOptions`), and
/// `charset`, which no release reads and many clients send. `export` and
/// `profile` change nothing in answers about resources.
const KNOWN_PARAMETERS: [&str; 9] = [
    "as", "g", "v", "stream", "sv", "pretty", "export", "profile", "charset",
];

/// The parameter that names what an answer shall not have. Releases before 1.38 do not
/// read it, and later ones if a feature gate is on.
pub(super) const DROP: &str = "drop";

/// One clause of an Accept header, such as `application/json;as=Table;q=0.5`.
#[derive(Clone, Debug, PartialEq)]
pub struct Clause<'a> {
    /// The part before the slash: `application`.
    pub kind: &'a str,
    /// The part after the slash: `json`.
    pub subtype: &'a str,
    /// The weight `q`. It is 1 without the parameter, and 0 if Go cannot read the
    /// value.
    pub(crate) quality: f32,
    /// The parameters as written. A later parameter replaces an earlier one of
    /// the same name.
    pub params: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    /// Returns the value of a parameter.
    pub fn param(&self, name: &str) -> Option<&'a str> {
        let last = self.params.iter().rev().find(|(k, _)| *k == name);
        last.map(|(_, v)| *v)
    }

    /// Tells whether the clause has a parameter that is ignored here and that a
    /// newer server may read.
    pub(super) fn has_unknown_parameter(&self, knows_drop: bool) -> bool {
        let known = |(name, _): &(&str, _)| {
            KNOWN_PARAMETERS.contains(name) || (knows_drop && *name == DROP)
        };
        !self.params.iter().all(known)
    }

    /// Tells whether the clause accepts the media type `kind/subtype`, by name or
    /// with `*`.
    pub fn matches(&self, kind: &str, subtype: &str) -> bool {
        (self.kind == kind && (self.subtype == subtype || self.subtype == "*"))
            || (self.kind == "*" && self.subtype == "*")
    }

    /// Tells whether the clause asks for indented JSON.
    pub(super) fn asks_for_pretty(&self) -> bool {
        self.param("pretty") == Some("1")
    }

    /// Tells whether the clause allows this media type in an answer or a watch.
    pub(super) fn stream_allowed(&self, media_type: MediaType) -> bool {
        match self.param("stream") {
            None | Some("") => true,
            Some(stream) => stream == "watch" && media_type != MediaType::Yaml,
        }
    }

    /// Returns kind, group and version if at least one of them is given.
    pub(super) fn transform(&self) -> Option<(&'a str, &'a str, &'a str)> {
        let [kind, group, version] = ["as", "g", "v"].map(|name| self.param(name));
        (kind.is_some() || group.is_some() || version.is_some()).then(|| {
            (
                kind.unwrap_or_default(),
                group.unwrap_or_default(),
                version.unwrap_or_default(),
            )
        })
    }
}

/// Parses a clause. `Some(None)` stands for a clause that is skipped.
pub(super) fn parse(part: &str) -> Option<Option<Clause<'_>>> {
    let part = part.trim_matches(' ');
    let (media, params) = part.split_once(';').unwrap_or((part, ""));
    let (kind, rest) = media.split_once('/').unwrap_or((media, ""));
    let kind = kind.trim_matches(' ');
    let subtype = match rest {
        "" if kind == "*" => "*",
        "" => return Some(None),
        // A slash at the end is ignored. A slash before more text makes the
        // clause invalid.
        rest => match rest.split_once('/') {
            Some((subtype, "")) => subtype.trim_matches(' '),
            Some(_) => return Some(None),
            None => rest.trim_matches(' '),
        },
    };
    let mut clause = Clause {
        kind,
        subtype,
        quality: 1.0,
        params: Vec::new(),
    };
    for param in params.split(';') {
        let Some((name, value)) = param.split_once('=') else {
            continue;
        };
        let value = match value.split_once('=') {
            Some((value, "")) => value,
            Some(_) => continue,
            None => value,
        };
        if value.is_empty() && !param.ends_with("==") {
            continue;
        }
        match name.trim_matches(' ') {
            "q" => clause.quality = quality(value)?,
            name => clause.params.push((name, value.trim_matches(' '))),
        }
    }
    Some(Some(clause))
}

/// Parses a weight as `strconv.ParseFloat` does. A value that Go refuses counts as
/// 0. `None` stands for forms that Go's parser accepts and Rust's does not.
fn quality(value: &str) -> Option<f32> {
    if value.contains("0x") || value.contains("0X") || value.contains('_') {
        return None;
    }
    Some(value.parse().unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::super::accept_header::parse;

    #[test]
    fn unknown_parameters() {
        for (clause, expected) in [
            ("a/b", false),
            ("a/b;q=0.5;charset=utf-8;as=Table;g=x;v=y", false),
            ("a/b;stream=watch;sv=v1;pretty=1;export=1;profile=x", false),
            ("a/b;drop=spec", true),
            ("a/b; drop =spec", true),
            ("a/b;As=Table", true),
            ("a/b;q=1;=x", true),
            // Go's parser skips these.
            ("a/b;drop;drop=;drop=a=b;q=1", false),
        ] {
            let clauses = parse(clause).unwrap();
            let found = clauses.first().unwrap().has_unknown_parameter(false);
            assert_eq!(found, expected, "{clause}");
        }
    }

    #[test]
    fn parameters() {
        let clauses = parse("a/b; as=Table ;g=x;g=y;bad;c=;d=e=f; q=0.5").unwrap();
        let clause = clauses.first().unwrap();
        assert_eq!(clause.param("as"), Some("Table"));
        assert_eq!(clause.param("g"), Some("y"));
        assert_eq!(clause.param("c"), None);
        assert_eq!(clause.param("d"), None);
        assert_eq!(clause.quality, 0.5);
    }
}
