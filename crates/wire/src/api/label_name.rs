//! The rules for keys and values of labels, with the messages of apimachinery
//! `validate/content`.

use super::dns_name::{MAX_SUBDOMAIN, SUBDOMAIN_RULE, is_subdomain_of_any_length};

const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', \
    and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
    '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const WHOLE_KEY: &str = "a valid label key must consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
    '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an \
    optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
const INVALID_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric \
    characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
    'MyValue',  or 'my_value',  or '12345', regex used for validation is \
    '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const NAME_BYTES: usize = 63;

/// Returns what is wrong with the key of a label, which is a qualified name.
pub fn key_errors(key: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let name = match key.split_once('/') {
        None => key,
        Some((_, name)) if name.contains('/') => return vec![WHOLE_KEY.to_owned()],
        Some((prefix, name)) => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                if prefix.len() > MAX_SUBDOMAIN {
                    wrong.push(format!("prefix part {}", too_long(MAX_SUBDOMAIN)));
                }
                if !is_subdomain_of_any_length(prefix) {
                    wrong.push(format!("prefix part {SUBDOMAIN_RULE}"));
                }
            }
            name
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > NAME_BYTES {
        wrong.push(format!("name part {}", too_long(NAME_BYTES)));
    }
    if !is_qualified(name) {
        wrong.push(NAME_PART.to_owned());
    }
    wrong
}

/// Returns what is wrong with the value of a label.
pub fn value_errors(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > NAME_BYTES {
        wrong.push(too_long(NAME_BYTES));
    }
    if !value.is_empty() && !is_qualified(value) {
        wrong.push(INVALID_VALUE.to_owned());
    }
    wrong
}

fn too_long(most: usize) -> String {
    format!("must be no more than {most} bytes")
}

fn is_qualified(text: &str) -> bool {
    let alphanumeric = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    alphanumeric(bytes.first())
        && alphanumeric(bytes.last())
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values() {
        for key in ["app", "A_b.c", "x.test/app", "1/2"] {
            assert_eq!(key_errors(key), Vec::<String>::new(), "{key}");
        }
        for key in ["", "/a", "a/", "a/b/c", "A/b", "x..y/a", "-a", "a\u{e9}"] {
            assert!(!key_errors(key).is_empty(), "{key}");
        }
        assert!(value_errors("").is_empty());
        assert!(!value_errors(&"a".repeat(64)).is_empty());
        assert!(!value_errors("-3").is_empty());
    }
}
