//! The identity of a caller.

use std::collections::BTreeMap;

pub const ANONYMOUS: &str = "system:anonymous";
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
pub const AUTHENTICATED: &str = "system:authenticated";
pub const MASTERS: &str = "system:masters";
pub const MONITORING: &str = "system:monitoring";
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// The identity of a caller, as in authentication.k8s.io/v1 UserInfo.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct UserInfo {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    /// Extra attributes. The keys are in lower case.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    pub fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// Adds `system:authenticated`, as the API server does for every
    /// authenticated user that is not anonymous.
    pub fn with_authenticated_group(mut self) -> Self {
        let listed = self
            .groups
            .iter()
            .any(|g| g == AUTHENTICATED || g == UNAUTHENTICATED);
        if !listed && self.name != ANONYMOUS {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// Tells whether the user is in `system:masters`, and so may do everything.
    pub fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }

    /// Returns the name that stands for one share of a shared resource: the user's,
    /// or one for all service accounts of a namespace. Whoever may create one of
    /// these may create a thousand.
    pub fn sharer(&self) -> &str {
        let namespace = self
            .name
            .strip_prefix(SERVICE_ACCOUNT)
            .and_then(|rest| rest.find(':'));
        let end = namespace.map(|end| SERVICE_ACCOUNT.len().saturating_add(end));
        end.and_then(|end| self.name.get(..end))
            .unwrap_or(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_accounts_of_a_namespace_share() {
        for (name, sharer) in [
            ("ann", "ann"),
            ("", ""),
            ("system:node:a", "system:node:a"),
            ("system:serviceaccount:a:b", "system:serviceaccount:a"),
            ("system:serviceaccount:a:c", "system:serviceaccount:a"),
            ("system:serviceaccount:a", "system:serviceaccount:a"),
            ("system:serviceaccount:", "system:serviceaccount:"),
        ] {
            let user = UserInfo {
                name: name.to_owned(),
                ..UserInfo::default()
            };
            assert_eq!(user.sharer(), sharer);
        }
    }
}
