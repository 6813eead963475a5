//! `meta/internalversion ListOptions`: the query of LIST and WATCH.

use super::{FieldSelector, LabelSelector, Query, ShardSelector};

/// How a list uses its resourceVersion (`metav1.ResourceVersionMatch`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceVersionMatch {
    /// The list shows the state at exactly this version.
    Exact,
    /// The list shows the state at this version or a later one.
    NotOlderThan,
}

/// The options, decoded but not validated: the allowed combinations depend on
/// the verb.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// The parameter `labelSelector`.
    pub label_selector: LabelSelector,
    /// The parameter `fieldSelector`.
    pub field_selector: FieldSelector,
    /// The shard selector. It is not read from the query; a server that supports
    /// shards sets it: see [`ShardSelector::parse`].
    pub shard_selector: Option<ShardSelector>,
    /// The parameter `watch`: the request is for a watch.
    pub watch: bool,
    /// The parameter `allowWatchBookmarks`: the client of a watch understands
    /// bookmarks.
    pub allow_watch_bookmarks: bool,
    /// Empty when unset.
    pub resource_version: String,
    /// The value as written; see [`ListOptions::version_match`].
    pub resource_version_match: String,
    /// The timeout in seconds. `None` and 0 leave it to the server.
    pub timeout_seconds: Option<i64>,
    /// The most objects of a page. Without the parameter it is 0, which means no
    /// limit. It may be negative here.
    pub limit: i64,
    /// The parameter `continue`, empty when unset: the position of the next page.
    /// See [`ContinueToken::parse`](super::ContinueToken::parse).
    pub continue_token: String,
    /// The parameter `sendInitialEvents` of a watch (KEP-3157), or `None` when
    /// unset.
    pub send_initial_events: Option<bool>,
}

impl ListOptions {
    /// Tells whether a selector may exclude objects.
    pub fn selects(&self) -> bool {
        !self.label_selector.is_empty()
            || !self.field_selector.is_empty()
            || self.shard_selector.is_some()
    }

    /// Reads the options. The error is the message of a `400 BadRequest`.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    ///
    /// use kubernetes_wire::api::{ListOptions, Query, ResourceVersionMatch};
    ///
    /// let query = Query::parse(
    ///     "labelSelector=app%3Dweb&limit=500&resourceVersion=7&resourceVersionMatch=Exact",
    /// );
    /// let options = ListOptions::from_query(&query)?;
    /// assert_eq!(options.limit, 500);
    /// assert_eq!(options.resource_version, "7");
    /// assert_eq!(options.version_match(), Ok(Some(ResourceVersionMatch::Exact)));
    /// let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
    /// assert!(options.label_selector.matches(&labels));
    ///
    /// let refused = ListOptions::from_query(&Query::parse("limit=many"));
    /// let message = "strconv.ParseInt: parsing \"many\": invalid syntax";
    /// assert_eq!(refused, Err(message.to_owned()));
    /// # Ok::<(), String>(())
    /// ```
    pub fn from_query(query: &Query) -> Result<Self, String> {
        let text = |key| query.get(key).unwrap_or_default().to_owned();
        Ok(Self {
            label_selector: LabelSelector::parse(query.get("labelSelector").unwrap_or_default())?,
            field_selector: FieldSelector::parse(query.get("fieldSelector").unwrap_or_default())?,
            shard_selector: None,
            watch: query.truthy("watch"),
            allow_watch_bookmarks: query.truthy("allowWatchBookmarks"),
            resource_version: text("resourceVersion"),
            resource_version_match: text("resourceVersionMatch"),
            timeout_seconds: integer(query, "timeoutSeconds")?,
            limit: integer(query, "limit")?.unwrap_or(0),
            continue_token: text("continue"),
            send_initial_events: query
                .contains("sendInitialEvents")
                .then(|| query.truthy("sendInitialEvents")),
        })
    }

    /// Replaces both selectors, whatever the query says. The error is the same as
    /// that of [`ListOptions::from_query`]. A selector can have thousands of
    /// requirements, so an equal one is not parsed again.
    pub fn select(&mut self, labels: &str, fields: &str) -> Result<(), String> {
        if !self.label_selector.is_from(labels) {
            self.label_selector = LabelSelector::parse(labels)?;
        }
        if !self.field_selector.is_from(fields) {
            self.field_selector = FieldSelector::parse(fields)?;
        }
        Ok(())
    }

    /// Returns the match mode. The error is a value that is no known mode.
    pub fn version_match(&self) -> Result<Option<ResourceVersionMatch>, &str> {
        match self.resource_version_match.as_str() {
            "" => Ok(None),
            "Exact" => Ok(Some(ResourceVersionMatch::Exact)),
            "NotOlderThan" => Ok(Some(ResourceVersionMatch::NotOlderThan)),
            other => Err(other),
        }
    }
}

fn integer(query: &Query, key: &str) -> Result<Option<i64>, String> {
    match query.get(key) {
        None => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| {
            format!(
                "strconv.ParseInt: parsing {}: invalid syntax",
                super::query::go_quote(text)
            )
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_what_clients_send() {
        let options = ListOptions::from_query(&Query::parse(
            "watch=true&resourceVersion=5&allowWatchBookmarks=true&timeoutSeconds=30&limit=2",
        ))
        .unwrap();
        assert!(options.watch && options.allow_watch_bookmarks);
        assert_eq!(options.resource_version, "5");
        assert_eq!(options.timeout_seconds, Some(30));
        assert_eq!(options.limit, 2);
        assert_eq!(options.send_initial_events, None);
        assert_eq!(
            ListOptions::from_query(&Query::parse("limit=x")).unwrap_err(),
            r#"strconv.ParseInt: parsing "x": invalid syntax"#
        );
    }
}
