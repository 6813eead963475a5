//! Decodes the options of lists and watches, and refuses combinations that are
//! not allowed. The rules are those of apimachinery
//! `meta/internalversion/validation`, after the defaulting of
//! `meta/internalversion/defaults.go`.

use kubernetes_wire::api::{
    ListOptions, Query, ResourceVersion, Status, query::go_quote, status::Cause,
};

use super::errors::invalid_options;

const NOT_OLDER_THAN: &str = "NotOlderThan";

pub(super) fn decode(query: &Query, watch: bool) -> Result<ListOptions, Status> {
    let mut options = ListOptions::from_query(query).map_err(Status::bad_request)?;
    options.watch |= watch;
    if options.watch
        && matches!(options.resource_version.as_str(), "" | "0")
        && options.resource_version_match.is_empty()
        && options.send_initial_events.is_none()
    {
        // A plain watch has been a watch-list since 1.34 (KEP-3157).
        options.send_initial_events = Some(true);
        options.resource_version_match = NOT_OLDER_THAN.to_owned();
    }
    validate(&options)?;
    Ok(options)
}

const MATCH: &str = "resourceVersionMatch";

fn forbidden(field: &str, why: &str) -> Cause {
    Cause::new("FieldValueForbidden", field, format!("Forbidden: {why}"))
}

/// Makes apimachinery's checks, in its order.
fn validate(options: &ListOptions) -> Result<(), Status> {
    let (mut causes, supported) = if options.watch {
        check_watch(options)
    } else {
        check_list(options)
    };
    if let Some(supported) = supported {
        let message = format!(
            "Unsupported value: {}: supported values: {supported}",
            go_quote(&options.resource_version_match)
        );
        causes.push(Cause::new("FieldValueNotSupported", MATCH, message));
    }
    let has_match = !options.resource_version_match.is_empty();
    if options.watch && has_match && !options.continue_token.is_empty() {
        causes.push(forbidden(
            MATCH,
            "resourceVersionMatch is forbidden when continue is provided",
        ));
    }
    if causes.is_empty() {
        Ok(())
    } else {
        Err(invalid_options("ListOptions", causes))
    }
}

/// Returns all errors in a watch's options. If resourceVersionMatch has a value
/// that is not supported, the second result is the supported ones.
fn check_watch(options: &ListOptions) -> (Vec<Cause>, Option<&'static str>) {
    let version_match = options.resource_version_match.as_str();
    let mut causes = Vec::new();
    if options.send_initial_events.is_some() && version_match != NOT_OLDER_THAN {
        causes.push(forbidden(
            MATCH,
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ));
    }
    if version_match.is_empty() {
        return (causes, None);
    }
    if options.send_initial_events.is_none() {
        causes.push(forbidden(
            MATCH,
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ));
    }
    let supported = (version_match != NOT_OLDER_THAN).then_some("\"NotOlderThan\"");
    (causes, supported)
}

fn check_list(options: &ListOptions) -> (Vec<Cause>, Option<&'static str>) {
    let version_match = options.resource_version_match.as_str();
    let mut causes = Vec::new();
    let mut supported = None;
    if !version_match.is_empty() {
        if options.resource_version.is_empty() {
            causes.push(forbidden(
                MATCH,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        if !options.continue_token.is_empty() {
            causes.push(forbidden(
                MATCH,
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
        if options.version_match().is_err() {
            supported = Some("\"Exact\", \"NotOlderThan\", \"\"");
        } else if version_match == "Exact" && options.resource_version == "0" {
            causes.push(forbidden(
                MATCH,
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ));
        }
    }
    if options.send_initial_events.is_some() {
        causes.push(forbidden(
            "sendInitialEvents",
            "sendInitialEvents is forbidden for list",
        ));
    }
    (causes, supported)
}

/// Parses a resourceVersion. The error for a text that is not a number is the
/// storage's.
pub(super) fn parse_version(text: &str) -> Result<u64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    ResourceVersion::parse(text)
        .map(|version| version.0)
        .map_err(|e| format!("resourceVersion: Invalid value: {}: {e}", go_quote(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations() {
        for (query, expected) in [
            ("", ""),
            ("resourceVersion=5&resourceVersionMatch=Exact", ""),
            ("watch=1", ""),
            ("watch=1&resourceVersion=5", ""),
            (
                "resourceVersionMatch=Exact",
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
            ),
            (
                "resourceVersion=0&resourceVersionMatch=Exact",
                "resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ),
            (
                "resourceVersion=1&resourceVersionMatch=foo",
                "resourceVersionMatch: Unsupported value: \"foo\": supported values: \"Exact\", \"NotOlderThan\", \"\"",
            ),
            (
                "sendInitialEvents=false",
                "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
            ),
            (
                "watch=1&resourceVersionMatch=Exact&resourceVersion=1",
                "[resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided, resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"]",
            ),
        ] {
            let got = decode(&Query::parse(query), false)
                .err()
                .map(|status| status.message)
                .unwrap_or_default();
            let expected = if expected.is_empty() {
                String::new()
            } else {
                format!("ListOptions.meta.k8s.io \"\" is invalid: {expected}")
            };
            assert_eq!(got, expected, "{query}");
        }
    }
}
