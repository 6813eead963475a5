//! Runs client-go's informer (`tests/informer`) as its own program. It prints a line
//! when it has synced, and one when it has heard of a certain object.

use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use serde::de::DeserializeOwned;

use super::binaries;
use super::certificates::Pair;

pub struct Informer {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Informer {
    /// Starts an informer of `resource` as the user of a certificate. `options`
    /// are further flags of the program.
    pub fn start(
        server: &str,
        (ca, certificate): (&Path, &Pair),
        resource: &str,
        options: &[&str],
    ) -> Self {
        static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
        let program = PROGRAM.get_or_init(|| binaries::program("informer"));
        let mut child = Command::new(program)
            .args(["-server", server, "-resource", resource])
            .args(options)
            .arg("-ca")
            .arg(ca)
            .arg("-cert")
            .arg(&certificate.cert)
            .arg("-key")
            .arg(&certificate.key)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the informer starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        Self { child, lines }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub async fn next<T: DeserializeOwned + Send + 'static>(mut self) -> (Self, T) {
        let read = move || {
            let line = self.lines.next().expect("a line").expect("text");
            let said = serde_json::from_str(&line).expect("JSON");
            (self, said)
        };
        tokio::task::spawn_blocking(read).await.expect("a line")
    }
}

impl Drop for Informer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
