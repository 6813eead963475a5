//! Formats labels and label selectors as apimachinery's `labels` does.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::NotPrintable;
use super::meta::nullable;

/// `metav1.LabelSelector`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Selector {
    #[serde(deserialize_with = "nullable")]
    match_labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "nullable")]
    match_expressions: Vec<Expression>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Expression {
    key: String,
    operator: String,
    #[serde(deserialize_with = "nullable")]
    values: Vec<String>,
}

/// The most requirements for which Go's sort is stable. Go sorts requirements by
/// key only, so with more of them the order of equal keys is not known here.
const STABLE_SORT: usize = 12;

impl Selector {
    /// Returns the requirements, joined by commas. An invalid selector is not
    /// printable: some printers show an error for it, and only the server decides
    /// which selectors are invalid.
    pub fn text(&self) -> Result<String, NotPrintable> {
        let mut requirements = Vec::new();
        for (key, value) in &self.match_labels {
            check(key, [value])?;
            requirements.push((key, format!("{key}={value}")));
        }
        for expression in &self.match_expressions {
            let Expression {
                key,
                operator,
                values,
            } = expression;
            check(key, values)?;
            let mut values = values.clone();
            values.sort_unstable();
            let values = values.join(",");
            let text = match (operator.as_str(), expression.values.is_empty()) {
                ("In", false) => format!("{key} in ({values})"),
                ("NotIn", false) => format!("{key} notin ({values})"),
                ("Exists", true) => key.clone(),
                ("DoesNotExist", true) => format!("!{key}"),
                _ => return Err(NotPrintable),
            };
            requirements.push((key, text));
        }
        requirements.sort_by_key(|(key, _)| key.as_str());
        let repeated = requirements.windows(2).any(|w| match w {
            [(a, _), (b, _)] => a == b,
            _ => false,
        });
        if repeated && requirements.len() > STABLE_SORT {
            return Err(NotPrintable);
        }
        let texts: Vec<String> = requirements.into_iter().map(|(_, text)| text).collect();
        Ok(texts.join(","))
    }
}

impl Selector {
    /// Formats the selector as the Go method `String` of `metav1.LabelSelector`
    /// does, which one printer shows to users.
    pub(crate) fn go_string(&self) -> String {
        let labels: String = self
            .match_labels
            .iter()
            .map(|(key, value)| format!("{key}: {value},"))
            .collect();
        let expressions: String = self
            .match_expressions
            .iter()
            .map(|expression| {
                format!(
                    "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
                    expression.key,
                    expression.operator,
                    expression.values.join(" ")
                )
            })
            .collect();
        format!(
            "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
        )
    }
}

/// Like `metav1.FormatLabelSelector`.
pub(crate) fn format_selector(selector: Option<&Selector>) -> Result<String, NotPrintable> {
    let text = selector.map_or_else(|| Ok(String::new()), Selector::text)?;
    Ok(or_none(text))
}

/// Like `labels.FormatLabels`.
pub(crate) fn format_labels(labels: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    or_none(pairs.join(","))
}

fn or_none(text: String) -> String {
    if text.is_empty() {
        "<none>".to_owned()
    } else {
        text
    }
}

/// Checks the syntax of labels as far as a printer of valid selectors needs it.
fn check<'a>(key: &str, values: impl IntoIterator<Item = &'a String>) -> Result<(), NotPrintable> {
    let word = |text: &str| {
        text.len() <= 63
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
            && !text.starts_with(['-', '_', '.'])
            && !text.ends_with(['-', '_', '.'])
    };
    let (prefix, name) = key.split_once('/').unwrap_or(("p", key));
    let prefix_ok = !prefix.is_empty()
        && prefix.len() <= 253
        && prefix
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.'));
    if prefix_ok && !name.is_empty() && word(name) && values.into_iter().all(|v| word(v)) {
        Ok(())
    } else {
        Err(NotPrintable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_print_sorted() {
        let text = |json: &str| serde_json::from_str::<Selector>(json).unwrap().text();
        assert_eq!(
            text(r#"{"matchLabels":{"b":"2","a/c":"1"},"matchExpressions":[{"key":"z","operator":"In","values":["y","x"]},{"key":"aa","operator":"Exists"},{"key":"b","operator":"NotIn","values":["q"]},{"key":"n","operator":"DoesNotExist"}]}"#).unwrap(),
            "a/c=1,aa,b=2,b notin (q),!n,z in (x,y)"
        );
        assert_eq!(text("{}").unwrap(), "");
        assert_eq!(text(r#"{"matchLabels":{"a":"b c"}}"#), Err(NotPrintable));
        assert_eq!(
            text(r#"{"matchExpressions":[{"key":"a","operator":"In"}]}"#),
            Err(NotPrintable)
        );
        assert_eq!(format_selector(None).unwrap(), "<none>");
        assert_eq!(format_labels(&BTreeMap::new()), "<none>");
    }
}
