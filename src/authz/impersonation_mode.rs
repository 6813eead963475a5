//! The modes in which a caller may impersonate a user (KEP-5284).

use kubernetes_wire::api::UserInfo;

use super::well_known_usernames::{node_name, service_account};

const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Lets a service account's pod act as the node on which it runs.
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    /// Applies to users that are neither a node nor a service account.
    UserInfo,
    Legacy,
}

impl Mode {
    pub const ALL: [Self; 5] = [
        Self::AssociatedNode,
        Self::ArbitraryNode,
        Self::ServiceAccount,
        Self::UserInfo,
        Self::Legacy,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "legacy",
        }
    }

    /// Returns the verb for the checks on the wanted user's fields.
    pub fn verb(self) -> &'static str {
        match self {
            Self::AssociatedNode => "impersonate:associated-node",
            Self::ArbitraryNode => "impersonate:arbitrary-node",
            Self::ServiceAccount => "impersonate:serviceaccount",
            Self::UserInfo => "impersonate:user-info",
            Self::Legacy => "impersonate",
        }
    }

    pub(super) fn applies(self, wanted: &UserInfo, requestor: &UserInfo) -> bool {
        let only_name =
            wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = node_name(&wanted.name);
        match self {
            Self::AssociatedNode => {
                let on = requestor.extra.get(NODE_NAME).map(Vec::as_slice);
                only_name
                    && service_account(&requestor.name).is_some()
                    && matches!((node, on), (Some(node), Some([on])) if node == on)
            }
            Self::ArbitraryNode => only_name && node.is_some(),
            Self::ServiceAccount => only_name && service_account(&wanted.name).is_some(),
            Self::UserInfo => node.is_none() && service_account(&wanted.name).is_none(),
            Self::Legacy => true,
        }
    }
}
