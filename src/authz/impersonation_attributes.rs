//! The attributes of the questions about each field of a wanted user, which
//! `impersonation.rs` asks. `Legacy` impersonation checks users, groups and service
//! accounts in the core group. The constrained modes check them in
//! `authentication.k8s.io`, and refuse some outright.

use std::collections::BTreeMap;

use kubernetes_wire::api::dns_name::is_dns_subdomain;
use kubernetes_wire::api::query::go_quote;
use kubernetes_wire::api::user::MASTERS;
use kubernetes_wire::api::{Attributes, GroupVersionResource};

use super::impersonation_mode::Mode;
use super::well_known_usernames::{node_name, service_account};

/// From this number of groups or extra values on, the constrained modes first ask
/// about all of them at once.
pub(super) const MIN_VALUES_AT_ONCE: usize = 4;

/// Returns the attributes for a check of the mode's verb on one field of the wanted
/// user.
fn on_field(mode: Mode, gvr: GroupVersionResource, name: &str, subresource: &str) -> Attributes {
    Attributes::Resource {
        verb: mode.verb().to_owned(),
        gvr,
        namespace: String::new(),
        name: name.to_owned(),
        subresource: subresource.to_owned(),
        field_selector: String::new(),
        label_selector: String::new(),
    }
}

fn authentication(resource: &str) -> GroupVersionResource {
    GroupVersionResource::new("authentication.k8s.io", "v1", resource)
}

fn of_mode(mode: Mode, resource: &str) -> GroupVersionResource {
    match mode {
        Mode::Legacy => GroupVersionResource::new("", "v1", resource),
        _ => authentication(resource),
    }
}

pub(super) fn user(mode: Mode, username: &str) -> Attributes {
    if let Some((in_namespace, name)) = service_account(username) {
        let mut attributes = on_field(mode, of_mode(mode, "serviceaccounts"), name, "");
        if let Attributes::Resource { namespace, .. } = &mut attributes {
            *namespace = in_namespace.to_owned();
        }
        return attributes;
    }
    match node_name(username) {
        Some(node) if mode != Mode::Legacy => on_field(mode, of_mode(mode, "nodes"), node, ""),
        _ => on_field(mode, of_mode(mode, "users"), username, ""),
    }
}

pub(super) fn group(mode: Mode, name: &str) -> Attributes {
    on_field(mode, of_mode(mode, "groups"), name, "")
}

pub(super) fn uid(mode: Mode, uid: &str) -> Attributes {
    on_field(mode, authentication("uids"), uid, "")
}

pub(super) fn extra(mode: Mode, key: &str, value: &str) -> Attributes {
    on_field(mode, authentication("userextras"), value, key)
}

/// Returns the group that no constrained mode grants: its name in the attributes,
/// and the reason.
pub(super) fn refused_group(groups: &[String]) -> Option<(&'static str, &'static str)> {
    if groups.iter().any(String::is_empty) {
        return Some(("", "impersonating the empty string group is not allowed"));
    }
    let masters = groups.iter().any(|g| g == MASTERS);
    masters.then_some((
        MASTERS,
        "impersonating the system:masters group is not allowed",
    ))
}

/// Returns the reason why no constrained mode grants this extra.
pub(super) fn refused_extra(extra: &BTreeMap<String, Vec<String>>) -> Option<String> {
    extra.iter().find_map(|(key, values)| {
        if key.is_empty() {
            return Some("impersonating the empty string key in extra is not allowed".to_owned());
        }
        if let Some(why) = not_a_domain_prefixed_path(key) {
            return Some(format!(
                "impersonating an invalid key in extra is not allowed: {why}"
            ));
        }
        if key.chars().any(char::is_uppercase) {
            return Some(format!(
                "impersonating a non-lowercase key in extra is not allowed: {}",
                go_quote(key)
            ));
        }
        if values.is_empty() {
            return Some("impersonating empty values in extra is not allowed".to_owned());
        }
        let empty = values.iter().any(String::is_empty);
        empty.then(|| "impersonating the empty string value in extra is not allowed".to_owned())
    })
}

/// apimachinery's `IsDomainPrefixedPath`: `acme.io/foo`.
fn not_a_domain_prefixed_path(key: &str) -> Option<String> {
    let (host, path) = match key.split_once('/') {
        Some((host, path)) if !host.is_empty() && !path.is_empty() => (host, path),
        _ => {
            return Some(format!(
                "extra.key: Invalid value: {}: must be a domain-prefixed path (such as \"acme.io/foo\")",
                go_quote(key)
            ));
        }
    };
    if !is_dns_subdomain(host) {
        return Some(format!(
            "extra.key: Invalid value: {}: a lowercase RFC 1123 subdomain must consist of lower \
             case alphanumeric characters, '-' or '.', and must start and end with an \
             alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            go_quote(host)
        ));
    }
    let valid = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
    (!path.bytes().all(valid)).then(|| {
        format!(
            "extra.key: Invalid value: {}: Invalid path (regex used for validation is \
             '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')",
            go_quote(path)
        )
    })
}
