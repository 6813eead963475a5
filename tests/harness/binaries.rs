//! Where the real servers are, building them when they are not there.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The folder with kube-apiserver, etcd, kubectl, sample-apiserver and kwok.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kubernetes/build.sh");
        eprintln!("test servers: {script} (minutes when they are not built yet)");
        let output = Command::new("bash")
            .arg(script)
            .stderr(Stdio::inherit())
            .output()
            .expect("bash for tests/kubernetes/build.sh");
        assert!(
            output.status.success(),
            "tests/kubernetes/build.sh failed: the suites need the real servers"
        );
        let text = String::from_utf8_lossy(&output.stdout);
        PathBuf::from(text.lines().last().expect("the script prints the folder"))
    })
}

pub fn path(name: &str) -> PathBuf {
    let path = folder().join(name);
    assert!(path.exists(), "{} is not there", path.display());
    path
}
