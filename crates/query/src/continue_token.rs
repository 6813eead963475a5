//! The token with which a query goes on after a page, in the same state.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::spec::QuerySpec;

/// Where the next page begins, and in which state. A token gives no right: the caller's
/// rights are asked for again.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub struct Continue {
    v: String,
    #[serde(rename = "rv")]
    pub resource_version: u64,
    pub offset: u64,
    /// Tells other queries apart.
    query: String,
}

const VERSION: &str = "query.apifront.dev/v1alpha1";

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotContinuable {
    #[error("is no token of a query")]
    Malformed,
    #[error("is the token of another query: only `limit` may change between pages")]
    OfAnother,
}

impl Continue {
    pub fn new(spec: &QuerySpec, resource_version: u64, offset: u64) -> Self {
        Self {
            v: VERSION.to_owned(),
            resource_version,
            offset,
            query: digest(spec),
        }
    }

    pub fn to_token(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// Reads the token of a query.
    pub fn of(spec: &QuerySpec) -> Result<Option<Self>, NotContinuable> {
        if spec.continue_token.is_empty() {
            return Ok(None);
        }
        let bytes = URL_SAFE_NO_PAD.decode(&spec.continue_token);
        let bytes = bytes.map_err(|_| NotContinuable::Malformed)?;
        let token: Self = serde_json::from_slice(&bytes).map_err(|_| NotContinuable::Malformed)?;
        if token.v != VERSION {
            return Err(NotContinuable::Malformed);
        }
        match token.query == digest(spec) {
            true => Ok(Some(token)),
            false => Err(NotContinuable::OfAnother),
        }
    }
}

fn digest(spec: &QuerySpec) -> String {
    let same = QuerySpec {
        limit: 0,
        offset: 0,
        max_updates_per_second: 0,
        resource_version: String::new(),
        resource_version_match: String::new(),
        continue_token: String::new(),
        ..spec.clone()
    };
    let digest = Sha256::digest(serde_json::to_vec(&same).unwrap_or_default());
    URL_SAFE_NO_PAD.encode(digest.get(..16).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_belongs_to_its_query() {
        let spec = QuerySpec {
            condition: "true".to_owned(),
            ..QuerySpec::default()
        };
        let token = Continue::new(&spec, 7, 100);
        let continue_token = token.to_token();
        let next = QuerySpec {
            continue_token: continue_token.clone(),
            limit: 5,
            ..spec.clone()
        };
        assert_eq!(Continue::of(&next), Ok(Some(token)));
        assert_eq!(Continue::of(&spec), Ok(None));
        let other = QuerySpec {
            condition: "false".to_owned(),
            continue_token,
            ..spec
        };
        assert_eq!(Continue::of(&other), Err(NotContinuable::OfAnother));
        for continue_token in ["!", "e30", "eyJ2IjoieCJ9"] {
            let spec = QuerySpec {
                continue_token: continue_token.to_owned(),
                ..QuerySpec::default()
            };
            assert_eq!(Continue::of(&spec), Err(NotContinuable::Malformed));
        }
    }
}
