//! Runs Prometheus' own parsers and query engine (`tests/prometheus`) on
//! metrics, queries and rules.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::{Value, json};

use super::binaries;

fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| binaries::program("prometheus"))
}

/// Scrapes for Prometheus, and the time at which queries are evaluated.
#[derive(Default)]
pub struct Prometheus {
    scrapes: Vec<Value>,
    at: u64,
}

#[derive(Debug, Deserialize)]
pub struct Said {
    pub queries: Vec<Found>,
    pub rules: Vec<Rule>,
    pub errors: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub struct Found {
    pub rows: Vec<Row>,
    /// The metrics that the query selects.
    pub names: Vec<String>,
    pub error: String,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Row {
    pub labels: std::collections::BTreeMap<String, String>,
    /// The value as Go writes it, for example `NaN`.
    pub value: String,
}

#[derive(Debug, Deserialize)]
pub struct Rule {
    pub record: String,
    pub alert: String,
    #[serde(flatten)]
    pub found: Found,
}

impl Prometheus {
    /// Adds a scrape of this text from `instance`, at second `at`. Queries are
    /// evaluated at the time of the last scrape.
    pub fn scrape(mut self, at: u64, instance: &str, text: &str) -> Self {
        let labels = json!({ "job": "apifront", "instance": instance });
        self.scrapes
            .push(json!({ "at": at, "labels": labels, "text": text }));
        self.at = at;
        self
    }

    /// Evaluates one query. Fails if Prometheus cannot parse it.
    #[track_caller]
    pub fn query(&self, query: &str) -> Vec<Row> {
        let mut said = self.ask(&[query], "");
        assert!(said.errors.is_empty(), "{:?}", said.errors);
        let found = said.queries.remove(0);
        assert!(found.error.is_empty(), "{query}: {}", found.error);
        found.rows
    }

    /// Evaluates queries and a rule file, and returns what is wrong with each.
    pub fn ask(&self, queries: &[&str], rules: &str) -> Said {
        let question = json!({
            "scrapes": self.scrapes, "at": self.at, "queries": queries, "rules": rules,
        });
        let mut child = Command::new(program())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program");
        // The program reads all its input before it writes anything.
        let mut stdin = child.stdin.take().expect("piped");
        stdin
            .write_all(question.to_string().as_bytes())
            .expect("it reads");
        drop(stdin);
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", output.status);
        serde_json::from_slice(&output.stdout).expect("its answer")
    }
}
