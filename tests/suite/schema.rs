//! The schema of built-in types and the table of deprecations agree with the Go
//! types.

use std::path::Path;
use std::process::Command;

#[test]
fn schema_is_current() {
    is_current(&[], "crates/wire/src/schema/kubernetes.txt");
}

#[test]
fn deprecations_are_current() {
    is_current(&["deprecations"], "src/deprecation/kubernetes.txt");
}

#[track_caller]
fn is_current(arguments: &[&str], file: &str) {
    let root = Path::new(".");
    let mut go = Command::new("go");
    go.args(["run", "."]).args(arguments);
    let written = go.current_dir(root.join("tools/schema")).output();
    let written = written.expect("go, which the suite needs anyway");
    let errors = String::from_utf8_lossy(&written.stderr);
    assert!(written.status.success(), "{errors}");
    let kept = std::fs::read(root.join(file)).expect("the file");
    assert!(
        written.stdout == kept,
        "{file} is not current: run `make schema`"
    );
}
