//! PriorityLevelConfigurations: a level's share of the seats, and what happens to
//! requests that find no free seats.

use serde::{Deserialize, Serialize};

use super::Metadata;

/// The shares of a limited level that does not set them.
const DEFAULT_SHARES: i32 = 30;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct PriorityLevelConfiguration {
    #[serde(default)]
    pub metadata: Metadata,
    #[serde(default)]
    pub spec: PriorityLevelSpec,
}

/// A level is exempt or limited. `type` says which of the fields is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct PriorityLevelSpec {
    #[serde(default, rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited: Option<LimitedPriorityLevel>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exempt: Option<ExemptPriorityLevel>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitedPriorityLevel {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nominal_concurrency_shares: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lendable_percent: Option<i32>,
    /// `None` means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub borrowing_limit_percent: Option<i32>,
    #[serde(default)]
    pub limit_response: LimitResponse,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExemptPriorityLevel {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nominal_concurrency_shares: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lendable_percent: Option<i32>,
}

/// Decides about requests that find no free seats: `type` is `Queue` or `Reject`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct LimitResponse {
    #[serde(default, rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queuing: Option<QueuingConfiguration>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueuingConfiguration {
    #[serde(default)]
    pub queues: i32,
    #[serde(default)]
    pub hand_size: i32,
    #[serde(default)]
    pub queue_length_limit: i32,
}

impl PriorityLevelSpec {
    pub(crate) fn shares(&self) -> i32 {
        let shares = match (&self.limited, &self.exempt) {
            (Some(limited), _) => limited.nominal_concurrency_shares.unwrap_or(DEFAULT_SHARES),
            (None, exempt) => exempt
                .as_ref()
                .and_then(|e| e.nominal_concurrency_shares)
                .unwrap_or(0),
        };
        shares.max(0)
    }

    pub(crate) fn lendable_percent(&self) -> i32 {
        let percent = match (&self.limited, &self.exempt) {
            (Some(limited), _) => limited.lendable_percent,
            (None, exempt) => exempt.as_ref().and_then(|e| e.lendable_percent),
        };
        percent.unwrap_or(0).clamp(0, 100)
    }

    pub(crate) fn borrowing_limit_percent(&self) -> Option<i32> {
        let limited = self.limited.as_ref()?;
        Some(limited.borrowing_limit_percent?.max(0))
    }
}
