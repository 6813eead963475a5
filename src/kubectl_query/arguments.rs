//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use apifront_query::{Column, QuerySpec, ResourceReference};
use clap::builder::NonEmptyStringValueParser;
use clap::{Parser, ValueEnum};
use kubernetes_wire::api::duration::parse_duration;

use super::sorting::Sorting;

const EXAMPLES: &str = "\
Examples:
  # Pods that do not run, the oldest first, with their nodes
  kubectl query pods --where \"object.status.phase != 'Running'\" \\
    --column node=object.spec.nodeName --sort object.metadata.creationTimestamp

  # How many pods each node has in each phase
  kubectl query pods --limit 1 --count-by object.spec.nodeName --count-by object.status.phase

  # The ten pods that restart most, as it changes
  kubectl query pods --limit 10 --watch \\
    --column 'restarts=object.status.containerStatuses[0].restartCount' \\
    --sort-down 'object.status.containerStatuses[0].restartCount'";

/// Ask apifront a Query: objects, sorted, filtered and counted by any field
///
/// It asks the API server of your kubeconfig, without a proxy. That must be an apifront with
/// `--enable-queries` or `queries.enabled: true`. Expressions are CEL with the variable
/// `object`. As a kubectl plugin it is a link to the program in a folder of PATH:
/// `ln -s apifront kubectl-query`.
#[derive(Debug, Parser)]
#[command(name = "kubectl-query", max_term_width = 100, after_long_help = EXAMPLES)]
pub struct Arguments {
    /// What to ask about: pods, po, pod, deployments.apps or deployments.v1.apps
    #[arg(value_name = "RESOURCE[.GROUP]", value_parser = NonEmptyStringValueParser::new())]
    pub(super) resource: String,

    /// Only this namespace; may be repeated [default: all]
    #[arg(short, long = "namespace", value_name = "NAME", help_heading = OBJECTS)]
    namespaces: Vec<String>,

    /// Only objects with these labels, as of kubectl get
    #[arg(short = 'l', long, value_name = "LABELS", help_heading = OBJECTS)]
    #[arg(
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    selector: String,

    /// Only objects with these fields, as of kubectl get
    #[arg(long, value_name = "FIELDS", help_heading = OBJECTS)]
    #[arg(default_value = "", hide_default_value = true)]
    field_selector: String,

    /// Only objects for which this is true
    #[arg(long = "where", value_name = "CEL", help_heading = OBJECTS)]
    #[arg(
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    condition: String,

    /// Answer from memory as it is (resourceVersion 0), without asking whether it is the newest
    /// state. Of many objects, asking takes longer than answering. A watch always begins so
    #[arg(long, help_heading = OBJECTS)]
    cached: bool,

    /// Show a value; may be repeated
    #[arg(long = "column", value_name = "NAME=CEL", help_heading = SHOWN)]
    #[arg(value_parser = column, allow_hyphen_values = true)]
    columns: Vec<Column>,

    #[command(flatten)]
    sorting: Sorting,

    /// Count the objects by a value; may be repeated
    #[arg(long, value_name = "CEL", help_heading = SHOWN, allow_hyphen_values = true)]
    count_by: Vec<String>,

    /// Rows of a page [default: 100; at most 1000]
    #[arg(long, value_name = "N", help_heading = SHOWN)]
    #[arg(default_value_t = 0, hide_default_value = true)]
    #[arg(value_parser = clap::value_parser!(i64).range(0..))]
    limit: i64,

    /// Skip rows
    #[arg(long, value_name = "N", help_heading = SHOWN)]
    #[arg(default_value_t = 0, hide_default_value = true)]
    #[arg(value_parser = clap::value_parser!(i64).range(0..))]
    offset: i64,

    /// How the answer is written
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT", help_heading = SHOWN)]
    pub(super) output: Output,

    /// Go on with changes until Ctrl-C: on a terminal the table is drawn again, elsewhere there
    /// is a line for each change, which begins with `+` (new), `-` (gone), `~` (other values),
    /// `>` (moved) or `=` (a count)
    #[arg(short, long, help_heading = SHOWN)]
    pub(super) watch: bool,

    /// Changes of a watch in a second [default: 1; at most 10]
    #[arg(long, value_name = "N", help_heading = SHOWN, requires = "watch")]
    #[arg(default_value_t = 0, hide_default_value = true)]
    #[arg(value_parser = clap::value_parser!(i64).range(0..))]
    updates_per_second: i64,

    #[command(flatten)]
    pub(super) access: Access,
}

/// How to reach the API server.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Access {
    /// Kubeconfig file [default: those in KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE", help_heading = SERVER)]
    pub(super) kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", help_heading = SERVER)]
    pub(super) context: Option<String>,

    /// Address of the API server, in place of the kubeconfig's
    #[arg(short, long, value_name = "URL", help_heading = SERVER)]
    pub(super) server: Option<String>,

    /// The longest time for an answer, such as 5s or 2m; 0 is no limit
    #[arg(long, value_name = "DURATION", help_heading = SERVER)]
    #[arg(default_value = "0", value_parser = timeout)]
    pub(super) request_timeout: Duration,
}

const OBJECTS: &str = "Objects";
pub(super) const SHOWN: &str = "Rows and counts";
const SERVER: &str = "Server";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    #[default]
    Table,
    Json,
    Yaml,
}

impl Arguments {
    /// Returns the question about this resource.
    pub(super) fn spec(&self, resource: ResourceReference) -> QuerySpec {
        QuerySpec {
            resource,
            namespaces: self.namespaces.clone(),
            label_selector: self.selector.clone(),
            field_selector: self.field_selector.clone(),
            condition: self.condition.clone(),
            columns: self.columns.clone(),
            order_by: self.sorting.0.clone(),
            limit: self.limit,
            offset: self.offset,
            count_by: self.count_by.clone(),
            resource_version: self.resource_version().to_owned(),
            max_updates_per_second: self.updates_per_second,
            ..QuerySpec::default()
        }
    }

    fn resource_version(&self) -> &'static str {
        match self.cached || self.watch {
            true => "0",
            false => "",
        }
    }
}

/// Reads `NAME=CEL`. An expression without a name is its own name.
fn column(text: &str) -> Result<Column, String> {
    let (name, expression) = text.split_once('=').unwrap_or((text, text));
    if name.is_empty() || expression.is_empty() {
        return Err("it has the form NAME=CEL".to_owned());
    }
    Ok(Column {
        name: name.to_owned(),
        expression: expression.to_owned(),
    })
}

/// Reads a duration as kubectl does: a number without a unit has seconds.
fn timeout(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map(Duration::from_secs).ok();
    let duration = seconds.or_else(|| parse_duration(text));
    duration.ok_or_else(|| "a duration is like 5s, 2m or 1h30m".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use serde_json::json;

    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from([&["kubectl-query"], arguments].concat())
    }

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn options_become_the_fields_of_a_query() {
        let arguments = parsed(&[
            "pods",
            "-n",
            "a",
            "--namespace=b",
            "-l",
            "app=web",
            "--field-selector",
            "spec.nodeName=n",
            "--where",
            "-1 < object.x",
            "--column",
            "node=object.spec.nodeName",
            "--column=object.kind",
            "--sort",
            "object.a",
            "--sort-down",
            "object.b",
            "--sort",
            "object.c",
            "--count-by",
            "object.d",
            "--limit",
            "5",
            "--offset",
            "2",
            "--watch",
            "--updates-per-second",
            "4",
            "--cached",
        ]);
        let spec = parsed_spec(arguments.unwrap());
        let expected = json!({
            "resource": { "version": "v1", "resource": "pods" },
            "namespaces": ["a", "b"],
            "labelSelector": "app=web",
            "fieldSelector": "spec.nodeName=n",
            "where": "-1 < object.x",
            "columns": [
                { "name": "node", "expression": "object.spec.nodeName" },
                { "name": "object.kind", "expression": "object.kind" },
            ],
            "orderBy": [
                { "expression": "object.a" },
                { "expression": "object.b", "descending": true },
                { "expression": "object.c" },
            ],
            "countBy": ["object.d"],
            "limit": 5,
            "offset": 2,
            "maxUpdatesPerSecond": 4,
            "resourceVersion": "0",
        });
        assert_eq!(spec, expected);
        let least = parsed_spec(parsed(&["pods"]).unwrap());
        let resource = json!({ "resource": { "version": "v1", "resource": "pods" } });
        assert_eq!(least, resource);
    }

    fn parsed_spec(arguments: Arguments) -> serde_json::Value {
        let resource = ResourceReference {
            version: "v1".into(),
            resource: "pods".into(),
            ..ResourceReference::default()
        };
        serde_json::to_value(arguments.spec(resource)).unwrap()
    }

    #[test]
    fn durations_are_those_of_kubectl() {
        for (text, seconds) in [("0", 0), ("5", 5), ("2m", 120), ("1h30m", 5400)] {
            assert_eq!(timeout(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert!(timeout("soon").is_err() && timeout("").is_err());
    }

    #[test]
    fn wrong_usage_is_refused() {
        for arguments in [
            &[][..],
            &["a", "b"],
            &[""],
            &["pods", "--sort"],
            &["pods", "--limit", "-1"],
            &["pods", "--updates-per-second", "2"],
            &["pods", "--column", "=object.kind"],
            &["pods", "-o", "wide"],
            &["pods", "--nothing"],
        ] {
            let error = parsed(arguments).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{arguments:?}");
        }
    }
}
