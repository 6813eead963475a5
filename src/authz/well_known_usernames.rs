//! User names with a meaning of their own.

use kubernetes_wire::api::dns_name::{is_dns_label, is_dns_subdomain};

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
