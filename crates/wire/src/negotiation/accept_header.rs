//! Reads the Accept header as `goautoneg` and go-restful do: without case
//! folding and quoting, and in an order that differs from RFC 9110, because
//! `goautoneg` compares clauses inconsistently.

/// The most clauses that are read. Up to this length Go's `sort.Sort` is an
/// insertion sort. The comparison below is not a consistent order, so for
/// longer headers the outcome depends on the internals of Go's sort. Requests
/// with longer headers are left to the API server.
const MAX_CLAUSES: usize = 12;

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

    /// Tells whether the sort moves this clause before `other`.
    fn precedes(&self, other: &Self) -> bool {
        self.quality > other.quality
            || (self.kind != "*" && other.kind == "*")
            || (self.subtype != "*" && other.subtype == "*")
    }
}

/// Returns the clauses in the order in which they are tried, or `None` if that
/// order cannot be determined.
pub fn parse(header: &str) -> Option<Vec<Clause<'_>>> {
    let mut clauses = Vec::new();
    for part in header.split(',') {
        if let Some(clause) = parse_clause(part)? {
            clauses.push(clause);
        }
    }
    if clauses.len() > MAX_CLAUSES {
        return None;
    }
    for i in 1..clauses.len() {
        let mut j = i;
        while let [before @ .., last] = clauses.get_mut(..=j)? {
            match before.last_mut() {
                Some(previous) if last.precedes(previous) => {
                    std::mem::swap(previous, last);
                    j = j.saturating_sub(1);
                }
                _ => break,
            }
        }
    }
    Some(clauses)
}

/// Parses one clause. `Some(None)` stands for a clause that is skipped.
fn parse_clause(part: &str) -> Option<Option<Clause<'_>>> {
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

/// Applies go-restful's own filter, which runs before any handler of a built-in
/// resource. The header must name one of the types exactly, or `*/*`.
/// Parameters and weights are ignored.
pub(crate) fn route_matches(header: &str, produced: &[&str]) -> bool {
    header.is_empty()
        || header.split(',').any(|part| {
            let media = part.split(';').next().unwrap_or_default();
            let media = media.trim_matches(' ');
            media == "*/*" || produced.contains(&media)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(header: &str) -> String {
        parse(header)
            .unwrap()
            .iter()
            .map(|c| format!("{}/{}", c.kind, c.subtype))
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn order_is_goautonegs() {
        for (header, expected) in [
            ("a/b;q=0.1,c/d", "c/d a/b"),
            ("a/b,c/d", "a/b c/d"),
            ("*/*,a/b;q=0.1", "a/b */*"),
            ("a/b;q=0.1,*/*", "*/* a/b"),
            ("a/*,a/b", "a/b a/*"),
            ("a,b/c/d,*,e/f/", "e/f */*"),
            ("a/b;q=x,c/d;q=0.001", "c/d a/b"),
            (",,a/b", "a/b"),
        ] {
            assert_eq!(order(header), expected, "{header}");
        }
        assert_eq!(parse(&"a/b,".repeat(13)), None);
        assert_eq!(parse("a/b;q=0x1p-2"), None);
    }

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
