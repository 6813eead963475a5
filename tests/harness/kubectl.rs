//! The real kubectl, with a home of its own.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

use super::{binaries, process};

const DEADLINE: Duration = Duration::from_secs(60);

/// What a command printed and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Printed {
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

    /// Writes `input` to stdin and closes it.
    pub async fn run_with_input(&self, arguments: &[&str], input: &str) -> Printed {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped());
        let mut child = command.spawn().expect("kubectl");
        let mut stdin = child.stdin.take().expect("piped");
        let input = input.as_bytes().to_vec();
        let writing = tokio::spawn(async move {
            // It may end before it has read all.
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

    /// Starts a command that goes on; it ends with the value.
    pub fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped());
        command.spawn().expect("kubectl")
    }
}
