//! Checks the names of objects (apimachinery `util/validation`).

use kubernetes_wire::api::dns_name::{
    LABEL_RULE, MAX_LABEL, MAX_SUBDOMAIN, SUBDOMAIN_RULE, is_dns_label, is_dns_subdomain,
};
use kubernetes_wire::api::query::go_quote;

use super::resource::Resource;

/// Checks the name of an object. The error is the message of a cause.
pub(crate) fn check_name(resource: &Resource, name: &str) -> Result<(), String> {
    let problem = match (resource.gvr.group.as_str(), resource.kind.as_str()) {
        // RBAC names are path segments, for example system:node.
        ("rbac.authorization.k8s.io", _) => path_segment_problem(name),
        // Services have labels, too, since the rules for their names were relaxed
        // (KEP-5311).
        ("", "Namespace" | "Service") => label_problem(name),
        _ => dns_subdomain_problem(name),
    };
    problem.map_or(Ok(()), |text| {
        Err(format!("Invalid value: {}: {text}", go_quote(name)))
    })
}

fn dns_subdomain_problem(name: &str) -> Option<String> {
    if name.len() > MAX_SUBDOMAIN {
        return Some(format!("must be no more than {MAX_SUBDOMAIN} bytes"));
    }
    (!is_dns_subdomain(name)).then(|| SUBDOMAIN_RULE.to_owned())
}

fn label_problem(name: &str) -> Option<String> {
    if name.contains('.') {
        return Some("must not contain dots".to_owned());
    }
    if name.len() > MAX_LABEL {
        return Some(format!("must be no more than {MAX_LABEL} bytes"));
    }
    (!is_dns_label(name)).then(|| LABEL_RULE.to_owned())
}

fn path_segment_problem(name: &str) -> Option<String> {
    match name {
        "." | ".." => Some(format!("may not be '{name}'")),
        _ => ['/', '%']
            .into_iter()
            .find(|&c| name.contains(c))
            .map(|c| format!("may not contain '{c}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subdomains() {
        for good in ["a", "a-b.c1", "0"] {
            assert_eq!(dns_subdomain_problem(good), None, "{good}");
        }
        for bad in ["", "A", "a_b", "-a", "a-", "a..b", ".a", "a."] {
            assert!(dns_subdomain_problem(bad).is_some(), "{bad}");
        }
    }
}
