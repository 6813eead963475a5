//! A running client program. It speaks lines of JSON: it gets its task and the
//! runner's answers on stdin, and writes checks and steps to stdout.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// The time within which a program says its next line. All programs start at
/// the same time on machines with few cores.
const PATIENCE: Duration = Duration::from_secs(240);
/// The number of lines of its stderr that a failed program shows.
const SHOWN_LINES: usize = 40;

/// Names and versions of objects.
pub type Contents = BTreeMap<String, String>;

/// A line that a program writes.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Said {
    Version {
        version: String,
    },
    Check {
        check: String,
        ok: bool,
        #[serde(default)]
        detail: String,
    },
    Contents {
        informers: BTreeMap<String, Contents>,
    },
    /// The program waits for an answer.
    Step {
        step: String,
    },
}

pub struct Program {
    name: String,
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    log: PathBuf,
    /// What it said last, for whoever looks into a failure.
    last: String,
}

impl Program {
    pub async fn start(name: String, program: &Path, folder: &Path, task: &Value) -> Self {
        let log = folder.join(format!("{name}.log"));
        let mut child = Command::new(program)
            .current_dir(folder)
            .env("HOME", folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log).expect("a log file"))
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("starting {name}: {error}"));
        let stdin = child.stdin.take().expect("piped");
        let stdout = child.stdout.take().expect("piped");
        let mut program = Self {
            name,
            child,
            stdin,
            lines: BufReader::new(stdout).lines(),
            log,
            last: String::new(),
        };
        program.tell(task).await;
        program
    }

    pub async fn tell(&mut self, line: &Value) {
        let sent = self.stdin.write_all(format!("{line}\n").as_bytes()).await;
        if let Err(error) = sent {
            panic!("telling {}: {error}\n{}", self.name, self.log_tail());
        }
    }

    /// Returns the next line, or nothing if the program has ended well.
    pub async fn hear(&mut self) -> Option<Said> {
        let next = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
        let Ok(next) = next else {
            panic!("{} says nothing\n{}", self.name, self.log_tail());
        };
        if let Some(line) = next.expect("text") {
            let said = serde_json::from_str(&line);
            self.last.clone_from(&line);
            return Some(said.unwrap_or_else(|e| panic!("{} says {line}: {e}", self.name)));
        }
        let status = self.child.wait().await.expect("wait");
        let log = self.log_tail();
        assert!(status.success(), "{} ended: {status}\n{log}", self.name);
        None
    }

    /// Returns the end of its stderr, and what it said last.
    pub fn log_tail(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let text = format!(
            "{}\nIt said last: {}",
            String::from_utf8_lossy(&log),
            self.last
        );
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
    }
}
