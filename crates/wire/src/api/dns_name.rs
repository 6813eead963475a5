//! DNS names as Kubernetes allows them: RFC 1123, in lower case.

/// The most bytes of a label.
pub const MAX_LABEL: usize = 63;

/// The most bytes of a subdomain.
pub const MAX_SUBDOMAIN: usize = 253;

/// What Kubernetes says of a text that is no label.
pub const LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric \
    characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or \
    '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

/// What Kubernetes says of a text that is no subdomain.
pub const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case \
    alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character \
    (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Tells whether `text` is one part of a DNS name, such as the name of a
/// namespace.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= MAX_LABEL && is_label_of_any_length(text)
}

/// Tells whether `text` consists of labels with dots between them, such as the
/// name of an API group. Kubernetes limits the length of the whole name, but
/// not that of each label.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= MAX_SUBDOMAIN && is_subdomain_of_any_length(text)
}

/// Tells whether `text` is a subdomain, or would be if it were shorter.
pub fn is_subdomain_of_any_length(text: &str) -> bool {
    text.split('.').all(is_label_of_any_length)
}

/// Tells whether `text` is a label, or would be if it were shorter.
pub fn is_label_of_any_length(text: &str) -> bool {
    let alphanumeric = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
        && bytes.iter().all(|b| alphanumeric(b) || *b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_subdomains() {
        let long = "a".repeat(64);
        let longest = ["a"; 127].join(".");
        let too_long = ["a"; 128].join(".");
        for (text, label, subdomain) in [
            ("a", true, true),
            ("0", true, true),
            ("a-b1", true, true),
            ("a.b-c", false, true),
            (long.as_str(), false, true),
            (longest.as_str(), false, true),
            (too_long.as_str(), false, false),
            ("", false, false),
            ("A", false, false),
            ("a_b", false, false),
            ("-a", false, false),
            ("a-", false, false),
            ("a..b", false, false),
            (".a", false, false),
            ("a.", false, false),
        ] {
            assert_eq!(is_dns_label(text), label, "{text}");
            assert_eq!(is_dns_subdomain(text), subdomain, "{text}");
        }
    }
}
