//! User names that stand for something in the cluster.

/// Namespace and name of `system:serviceaccount:<namespace>:<name>`.
pub fn service_account(username: &str) -> Option<(&str, &str)> {
    let (namespace, name) = username
        .strip_prefix("system:serviceaccount:")?
        .split_once(':')?;
    (is_dns_label(namespace) && is_dns_subdomain(name)).then_some((namespace, name))
}

/// Name of `system:node:<name>`.
pub fn node_name(username: &str) -> Option<&str> {
    let name = username.strip_prefix("system:node:")?;
    is_dns_subdomain(name).then_some(name)
}

/// RFC 1123, lower case, at most 253 characters.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label_text)
}

fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_label_text(text)
}

fn is_label_text(text: &str) -> bool {
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
    fn only_valid_names_are_special() {
        for (username, expected) in [
            ("system:serviceaccount:ns:sa", Some(("ns", "sa"))),
            ("system:serviceaccount:ns:s.a", Some(("ns", "s.a"))),
            ("system:serviceaccount:ns:a:b", None),
            ("system:serviceaccount:n.s:sa", None),
            ("system:serviceaccount::sa", None),
            ("system:serviceaccount:ns:", None),
            ("system:serviceaccount:NS:sa", None),
            ("serviceaccount:ns:sa", None),
        ] {
            assert_eq!(service_account(username), expected, "{username}");
        }
        assert_eq!(node_name("system:node:a.b-c"), Some("a.b-c"));
        assert_eq!(node_name("system:node:A"), None);
        assert_eq!(node_name("system:node:"), None);
    }
}
