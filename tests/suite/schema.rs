//! The schema of built-in types is what the Go types say.

use std::path::Path;
use std::process::Command;

#[test]
fn schema_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut go = Command::new("go");
    go.args(["run", "."]).current_dir(root.join("tools/schema"));
    let written = go.output().expect("go, which the suite needs anyway");
    let errors = String::from_utf8_lossy(&written.stderr);
    assert!(written.status.success(), "{errors}");
    let kept = std::fs::read(root.join("src/schema/kubernetes.txt")).expect("the schema");
    assert!(written.stdout == kept, "not current: run `make schema`");
}
