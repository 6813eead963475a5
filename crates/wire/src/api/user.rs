//! The identity of a caller.

use std::collections::BTreeMap;

/// The name of a user who has shown no credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group of users who have shown no credentials.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group of all users who have shown who they are.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group whose members may do everything; no authorizer is asked about them.
pub const MASTERS: &str = "system:masters";
/// The group that may read health checks and metrics by default.
pub const MONITORING: &str = "system:monitoring";
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// The identity of a caller, as in authentication.k8s.io/v1 UserInfo.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct UserInfo {
    /// The name of the user, such as `system:serviceaccount:default:builder`.
    pub name: String,
    /// The identifier of the user, empty if the authenticator has none.
    pub uid: String,
    /// The groups of the user.
    pub groups: Vec<String>,
    /// Extra attributes. The keys are in lower case.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// Returns the user who has shown no credentials.
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
