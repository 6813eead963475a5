//! Patterns in the syntax of Go's regexp (RE2), in which `\d`, `\w`, `\s` and `\b` are
//! about ASCII, and character classes have no set operations.

/// Returns the pattern that the `regex` crate reads as Go reads this one.
pub fn translated(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars().peekable();
    let mut is_in_class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('d') => out.push_str("[0-9]"),
                Some('D') => out.push_str("[^0-9]"),
                Some('w') => out.push_str("[0-9A-Za-z_]"),
                Some('W') => out.push_str("[^0-9A-Za-z_]"),
                Some('s') => out.push_str(r"[\t\n\f\r ]"),
                Some('S') => out.push_str(r"[^\t\n\f\r ]"),
                Some('b') if !is_in_class => out.push_str(r"(?-u:\b)"),
                Some('Q') if !is_in_class => {
                    let rest: String = chars.by_ref().collect();
                    let (quoted, after) = rest.split_once(r"\E").unwrap_or((&rest, ""));
                    out.extend(quoted.chars().flat_map(|c| {
                        let is_special = c.is_ascii() && !c.is_ascii_alphanumeric();
                        is_special.then_some('\\').into_iter().chain([c])
                    }));
                    out.push_str(&translated(after));
                }
                Some(escaped) => {
                    out.extend(['\\', escaped]);
                    // `\p{Greek}`, `\x{e4}`
                    if matches!(escaped, 'p' | 'P' | 'x') && chars.peek() == Some(&'{') {
                        while let Some(c) = chars.next_if(|c| *c != '}') {
                            out.push(c);
                        }
                    }
                }
                None => out.push('\\'),
            },
            '[' if !is_in_class => {
                is_in_class = true;
                out.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                // The first bracket in a class is a character of it.
                if chars.next_if_eq(&']').is_some() {
                    out.push_str(r"\]");
                }
            }
            '[' => {
                // `[:alpha:]`
                let name: String = chars.clone().take_while(|c| *c != ']').collect();
                match name.len() > 1 && name.starts_with(':') && name.ends_with(':') {
                    false => out.push_str(r"\["),
                    true => {
                        out.push('[');
                        out.extend(chars.by_ref().take(name.chars().count()));
                        out.extend(chars.next());
                    }
                }
            }
            ']' => {
                is_in_class = false;
                out.push(']');
            }
            '{' if !is_in_class && !is_repetition(chars.clone()) => out.push_str(r"\{"),
            '&' | '~' if is_in_class => out.extend(['\\', c]),
            '-' if is_in_class && chars.peek() == Some(&'-') => out.push_str(r"\-"),
            other => out.push(other),
        }
    }
    out
}

/// Tells whether a `{` begins a number of repetitions: `{2}`, `{2,}` or `{2,3}`.
fn is_repetition(after: impl Iterator<Item = char>) -> bool {
    let mut least = 0usize;
    let mut commas = 0usize;
    for c in after {
        match c {
            '}' => return least > 0 && commas < 2,
            ',' => commas = commas.saturating_add(1),
            c if !c.is_ascii_digit() => return false,
            _ if commas == 0 => least = least.saturating_add(1),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        for (pattern, text, is_match) in [
            (r"^\d$", "3", true),
            (r"^\d$", "٣", false),
            (r"^\w$", "é", false),
            (r"^\W$", "é", true),
            (r"^[\d.]+$", "1.2", true),
            (r"^[^\s]+$", "a\u{a0}b", true),
            (r"\bx\b", "éxé", true),
            (r"^[a&&b]+$", "a&b", true),
            (r"^[[a]+$", "[a", true),
            (r"^[]a]+$", "]a", true),
            (r"^[^]a]+$", "b", true),
            (r"^[[:alpha:]-]+$", "a-b", true),
            (r"^[[:alpha: ]+$", "[: hap", true),
            (r"^\Qa.b\E\d$", "a.b1", true),
            (r"^\Qa.b\E\d$", "axb1", false),
            (r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "web-1", true),
            (r"^\$\{(\w+)\}$", "${A_1}", true),
            (r"a]", "a]", true),
            (r"^a{2}$", "aa", true),
            (r"^a{2!}$", "a{2!}", true),
            (r"^{{a}}$", "{{a}}", true),
            (r"^\x{e4}\p{Greek}$", "äα", true),
        ] {
            let regex = regex::Regex::new(&translated(pattern));
            let regex = regex.unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert_eq!(regex.is_match(text), is_match, "{pattern} {text}");
        }
    }
}
