//! Runs the real kubectl. Each instance has its own home folder.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

use super::ages::equal_but_for_ages;
use super::{ages_have_ticked, binaries, process};

/// The number of tries. Ages tick and leases are renewed between two commands.
const TRIES: usize = 8;
/// The number of tries in which nothing may differ. In later tries ages may differ:
/// on a busy machine, a command that takes several requests may find no moment
/// without a tick.
pub const EXACT_TRIES: usize = 3;
const DEADLINE: Duration = Duration::from_secs(60);

/// The output of a command and its exit status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Printed {
    /// Tells whether the outputs differ only in ages.
    pub fn ticked_into(&self, other: &Self, elapsed: Duration) -> bool {
        self.code == other.code
            && self.stderr == other.stderr
            && equal_but_for_ages(&self.stdout, &other.stdout, elapsed)
    }

    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(
            self.code,
            Some(0),
            "kubectl: {}{}",
            self.stdout,
            self.stderr
        );
        self.stdout
    }
}

pub struct Kubectl {
    kubeconfig: PathBuf,
    home: PathBuf,
    environment: Vec<(String, String)>,
}

impl Kubectl {
    pub fn new(kubeconfig: &Path) -> Self {
        Self {
            kubeconfig: kubeconfig.to_owned(),
            home: process::temporary_folder("kubectl"),
            environment: Vec::new(),
        }
    }

    pub fn with_env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binaries::path("kubectl"));
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &self.home)
            .env("GOGC", std::env::var_os("GOGC").unwrap_or("100".into()))
            .envs(self.environment.iter().map(|(k, v)| (k, v)))
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--cache-dir")
            .arg(self.home.join("cache"))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    pub async fn run(&self, arguments: &[&str]) -> Printed {
        self.run_with_input(arguments, "").await
    }

    /// Runs kubectl, writes `input` to its stdin and closes that.
    pub async fn run_with_input(&self, arguments: &[&str], input: &str) -> Printed {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped());
        let mut child = command.spawn().expect("kubectl");
        let mut stdin = child.stdin.take().expect("piped");
        let input = input.as_bytes().to_vec();
        let writing = tokio::spawn(async move {
            // kubectl may end before it has read all input.
            let _ = stdin.write_all(&input).await;
        });
        let output = tokio::time::timeout(DEADLINE, child.wait_with_output())
            .await
            .unwrap_or_else(|_| panic!("kubectl {arguments:?} took more than {DEADLINE:?}"))
            .expect("kubectl");
        writing.abort();
        Printed {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Starts a command that keeps running. The process ends when the value is
    /// dropped.
    pub fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped());
        command.spawn().expect("kubectl")
    }
}

/// Two ways to the same data. `direct` is right.
pub struct Both {
    pub direct: Kubectl,
    pub front: Kubectl,
    urls: [String; 2],
}

impl Both {
    /// Takes the kubeconfig and its URL for each.
    pub fn new(direct: (&Path, String), front: (&Path, String)) -> Self {
        Self {
            direct: Kubectl::new(direct.0),
            front: Kubectl::new(front.0),
            urls: [direct.1, front.1],
        }
    }

    /// Runs a command that changes nothing through both. Returns the common output,
    /// or the difference. Only lines for which `counts` holds are compared.
    pub async fn same(
        &self,
        command: &[&str],
        counts: impl Fn(&str) -> bool,
    ) -> Result<Printed, String> {
        let mut difference = String::new();
        for n in 0..TRIES {
            if n > 0 {
                ages_have_ticked().await;
            }
            let began = Instant::now();
            let (direct, front) = tokio::join!(self.direct.run(command), self.front.run(command));
            let took = began.elapsed();
            let direct = neutral(direct, &self.urls[0], &counts);
            let front = neutral(front, &self.urls[1], &counts);
            if direct == front || n >= EXACT_TRIES && direct.ticked_into(&front, took) {
                return Ok(front);
            }
            difference = first_lines(&direct, &front);
        }
        Err(format!("kubectl {}\n{difference}", command.join(" ")))
    }

    /// Does the same as [`Both::same`] for all lines, and fails on a
    /// difference.
    pub async fn must_be_same(&self, command: &[&str]) -> Printed {
        let same = self.same(command, |_| true).await;
        same.unwrap_or_else(|difference| panic!("(- direct, + front)\n{difference}"))
    }
}

fn neutral(mut printed: Printed, url: &str, counts: &impl Fn(&str) -> bool) -> Printed {
    let kept = |text: &str| -> String {
        let lines = text.split_inclusive('\n').filter(|line| counts(line));
        lines.collect::<String>().replace(url, "SERVER")
    };
    printed.stdout = kept(&printed.stdout);
    printed.stderr = kept(&printed.stderr);
    printed
}

/// Shows the first lines in which two outputs differ.
pub fn first_lines(expected: &Printed, got: &Printed) -> String {
    const SHOWN: usize = 6;
    let mut text = String::new();
    if expected.code != got.code || expected.stderr != got.stderr {
        text += &format!(
            "- {:?} {}\n+ {:?} {}\n",
            expected.code, expected.stderr, got.code, got.stderr
        );
    }
    let (mut left, mut right) = (expected.stdout.lines(), got.stdout.lines());
    let mut shown = 0;
    let mut number = 0;
    while shown < SHOWN {
        number += 1;
        match (left.next(), right.next()) {
            (None, None) => break,
            (left, right) if left == right => {}
            (left, right) => {
                let (left, right) = (left.unwrap_or("(end)"), right.unwrap_or("(end)"));
                text += &format!("line {number}\n- {left:.400}\n+ {right:.400}\n");
                shown += 1;
            }
        }
    }
    text
}
