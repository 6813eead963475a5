//! The headers in which a trusted front proxy names a user.

use http::{HeaderMap, HeaderName, HeaderValue};
use kubernetes_wire::api::UserInfo;

use super::extra_key;

/// The names of the headers, case-insensitive. The defaults are those of delegating
/// API servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeaderNames {
    /// The first header with a value names the user.
    pub username: Vec<String>,
    pub uid: Vec<String>,
    /// Every value of every header is a group.
    pub group: Vec<String>,
    /// Prefixes of header names for extra. The rest of the name is the key.
    pub extra_prefix: Vec<String>,
}

impl Default for RequestHeaderNames {
    fn default() -> Self {
        let one = |name: &str| vec![name.to_owned()];
        Self {
            username: one("X-Remote-User"),
            uid: one("X-Remote-Uid"),
            group: one("X-Remote-Group"),
            extra_prefix: one("X-Remote-Extra-"),
        }
    }
}

/// The error for a header value that is not text. Decoding it anyway could make one
/// name of two.
#[derive(Debug, thiserror::Error)]
#[error("header {0} is not UTF-8")]
pub struct NotText(HeaderName);

impl RequestHeaderNames {
    /// Returns the user that the headers name. `None` without a user name.
    ///
    /// The caller must first check that the sender may name users.
    pub fn user(&self, headers: &HeaderMap) -> Result<Option<UserInfo>, NotText> {
        let Some(name) = first(headers, &self.username)? else {
            return Ok(None);
        };
        let mut user = UserInfo {
            name: name.to_owned(),
            uid: first(headers, &self.uid)?.unwrap_or_default().to_owned(),
            ..UserInfo::default()
        };
        for header in &self.group {
            for group in values(headers, header)? {
                if !group.is_empty() {
                    user.groups.push(group.to_owned());
                }
            }
        }
        for prefix in &self.extra_prefix {
            for header in headers.keys() {
                let Some(key) = strip_prefix_ignore_case(header.as_str(), prefix) else {
                    continue;
                };
                let entry = user.extra.entry(extra_key::decode(key)).or_default();
                for value in values(headers, header.as_str())? {
                    entry.push(value.to_owned());
                }
            }
        }
        Ok(Some(user))
    }

    /// Tells whether a header with this name would be read.
    pub fn contains(&self, header: &str) -> bool {
        let named = [&self.username, &self.uid, &self.group];
        named
            .into_iter()
            .flatten()
            .any(|name| name.eq_ignore_ascii_case(header))
            || self
                .extra_prefix
                .iter()
                .any(|prefix| strip_prefix_ignore_case(header, prefix).is_some())
    }
}

/// Returns the first value, as Go's `Header.Get` over several names does: only the
/// first value of each name counts.
fn first<'a>(headers: &'a HeaderMap, names: &[String]) -> Result<Option<&'a str>, NotText> {
    for name in names {
        let Some(value) = headers.get(name.as_str()) else {
            continue;
        };
        let value = text(name, value)?;
        if !value.is_empty() {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

fn values<'a>(headers: &'a HeaderMap, name: &str) -> Result<Vec<&'a str>, NotText> {
    let all = headers.get_all(name);
    all.iter().map(|value| text(name, value)).collect()
}

fn text<'a>(name: &str, value: &'a HeaderValue) -> Result<&'a str, NotText> {
    std::str::from_utf8(value.as_bytes()).map_err(|_| {
        let name = HeaderName::from_bytes(name.as_bytes());
        NotText(name.unwrap_or(HeaderName::from_static("x-remote-user")))
    })
}

/// Strips a prefix. An empty prefix matches nothing, because every header would have
/// it.
fn strip_prefix_ignore_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    (!prefix.is_empty() && start.eq_ignore_ascii_case(prefix)).then_some(rest)
}
