//! `Warning` headers as kube-apiserver writes them: `299 - "text"` (RFC 7234,
//! 5.5; KEP-1693; apiserver `endpoints/filters/warning.go`).

use http::HeaderValue;

/// The most characters of all texts of one answer. Beyond this limit, long texts
/// are cut.
const MOST_IN_ALL: usize = 4 * 1024;

/// The most characters that remain of a text that is cut.
const MOST_OF_ONE: usize = 256;

/// Returns the header for a text. The result is `None` if the text cannot be
/// written in a header.
pub fn header(text: &str) -> Option<HeaderValue> {
    if text.is_empty() || text.chars().any(char::is_control) {
        return None;
    }
    let mut value = String::with_capacity(text.len().saturating_add(8));
    value.push_str("299 - \"");
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            value.push('\\');
        }
        value.push(c);
    }
    value.push('"');
    HeaderValue::from_bytes(value.as_bytes()).ok()
}

/// Returns the text of a header that kube-apiserver may have written.
pub fn text(header: &HeaderValue) -> Option<String> {
    let value = std::str::from_utf8(header.as_bytes()).ok()?;
    let quoted = value.strip_prefix("299 - \"")?.strip_suffix('"')?;
    let mut text = String::with_capacity(quoted.len());
    let mut chars = quoted.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => text.push(chars.next()?),
            '"' => return None,
            _ => text.push(c),
        }
    }
    Some(text)
}

/// Adds a warning, unless `headers` already contains it. `headers` are those of
/// one answer, in their order. Headers of other agents stay unchanged.
pub fn add(headers: &mut Vec<HeaderValue>, more: &str) {
    let texts: Vec<String> = headers.iter().filter_map(text).collect();
    let Some(header) = header(more) else { return };
    let written: usize = texts.iter().map(|t| t.chars().count()).sum();
    let is_cut = || texts.iter().all(|said| said.chars().count() <= MOST_OF_ONE);
    if texts.iter().any(|said| said == more) || written >= MOST_IN_ALL && is_cut() {
        return;
    }
    headers.push(header);
    if written.saturating_add(more.chars().count()) > MOST_IN_ALL {
        for header in headers {
            cut(header);
        }
    }
}

fn cut(value: &mut HeaderValue) {
    let cut = text(value).filter(|text| text.chars().count() > MOST_OF_ONE);
    let cut = cut.map(|text| text.chars().take(MOST_OF_ONE).collect::<String>());
    if let Some(shorter) = cut.and_then(|text| header(&text)) {
        *value = shorter;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(headers: &[HeaderValue]) -> Vec<String> {
        headers.iter().filter_map(text).collect()
    }

    #[test]
    fn a_header_is_quoted_and_read_back() {
        for (said, expected) in [
            ("plain", Some(r#"299 - "plain""#)),
            (r#"a "b" \c"#, Some(r#"299 - "a \"b\" \\c""#)),
            ("grüße 世界", Some("299 - \"grüße 世界\"")),
            ("", None),
            ("two\nlines", None),
            ("\u{85}", None),
        ] {
            let value = header(said);
            assert_eq!(
                value.as_ref().map(HeaderValue::as_bytes),
                expected.map(str::as_bytes),
                "{said}"
            );
            assert_eq!(value.and_then(|v| text(&v)), expected.map(|_| said.into()));
        }
        for others in [
            "199 - \"x\"",
            "299 agent \"x\"",
            "299 - x",
            "299 - \"a\"b\"",
        ] {
            assert_eq!(text(&HeaderValue::from_static(others)), None, "{others}");
        }
    }

    #[test]
    fn nothing_is_said_twice() {
        let mut headers = vec![HeaderValue::from_static("299 proxy \"busy\"")];
        for said in ["a", "b", "a", "", "b"] {
            add(&mut headers, said);
        }
        assert_eq!(texts(&headers), ["a", "b"]);
        assert_eq!(headers.len(), 3);
    }

    #[test]
    fn too_much_is_cut() {
        let long = |c: char| c.to_string().repeat(2000);
        let mut headers = Vec::new();
        for c in ['a', 'ü', '世'] {
            add(&mut headers, &long(c));
        }
        let lengths: Vec<usize> = texts(&headers).iter().map(|t| t.chars().count()).collect();
        assert_eq!(lengths, [256, 256, 256]);
        // A length at the limit is allowed.
        let mut headers = Vec::new();
        add(&mut headers, &"x".repeat(4096));
        assert_eq!(texts(&headers)[0].len(), 4096);
        add(&mut headers, "one more");
        assert_eq!(texts(&headers), ["x".repeat(256).as_str(), "one more"]);
        let mut full: Vec<_> = (b'a'..=b'p')
            .filter_map(|c| header(&char::from(c).to_string().repeat(256)))
            .collect();
        add(&mut full, "left out");
        assert_eq!(full.len(), 16);
    }
}
