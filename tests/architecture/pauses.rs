//! Checks that tests wait for states instead of sleeping.

use std::path::Path;

use super::{code_of, rust_files};

/// Tests poll for states. Pauses have names (harness::pace).
#[test]
fn tests_do_not_sleep() {
    let mut count = 0;
    for folder in ["tests/suite", "tests/harness"] {
        for file in rust_files(Path::new(folder)) {
            let text = code_of(&std::fs::read_to_string(&file).expect("source file"));
            let sleeps = text.contains("time::sleep(") || text.contains("thread::sleep(");
            let is_pace = file.ends_with("harness/pace.rs");
            assert_eq!(
                sleeps,
                is_pace,
                "{}: wait for the state with harness::eventually, or name the pause with \
                 harness::pace",
                file.display()
            );
            count += 1;
        }
    }
    assert!(count > 100, "only {count} files");
}
