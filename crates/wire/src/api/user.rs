//! The identity of a caller.

use std::collections::BTreeMap;

pub const ANONYMOUS: &str = "system:anonymous";
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
pub const AUTHENTICATED: &str = "system:authenticated";
pub const MASTERS: &str = "system:masters";
pub const MONITORING: &str = "system:monitoring";

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
}
