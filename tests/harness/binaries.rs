//! Finds the real servers, and builds them when they are missing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::release::Release;

/// Returns the folder with kube-apiserver, etcd, kubectl, sample-apiserver and
/// kwok.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        eprintln!("test servers: minutes when they are not built yet");
        built("tests/kubernetes/build.sh", &[])
    })
}

/// Returns the kube-apiserver of the release under test. The default release
/// has it in [`folder`].
pub fn kube_apiserver() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match Release::is_other() {
        true => built("tests/kubernetes/release.sh", &[]),
        false => path("kube-apiserver"),
    })
}

/// Returns one of the tests' own Go programs, by its folder in `tests`.
pub fn program(name: &str) -> PathBuf {
    built("tests/build-program.sh", &[name])
}

/// Builds or installs a client, by its folder in `tests/KIND`, and returns the file
/// to start.
pub fn client(name: &str, kind: &str) -> PathBuf {
    built("tests/clients/build.sh", &[name, kind])
}

pub fn chromium() -> PathBuf {
    built("tests/status-page/chromium.sh", &[])
}

/// Runs a script that builds or finds a program, and returns the path in its last line.
fn built(script: &str, arguments: &[&str]) -> PathBuf {
    let output = Command::new("bash")
        .arg(script)
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .unwrap_or_else(|error| panic!("bash for {script}: {error}"));
    assert!(
        output.status.success(),
        "{script} {arguments:?} failed: the suites need the real things"
    );
    let text = String::from_utf8_lossy(&output.stdout);
    PathBuf::from(text.lines().last().expect("the script prints a path"))
}

pub fn path(name: &str) -> PathBuf {
    let path = folder().join(name);
    assert!(path.exists(), "{} is not there", path.display());
    path
}
