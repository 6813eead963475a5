//! Checks that the files and the tests that documents name exist.

use std::collections::BTreeSet;
use std::path::Path;

use super::{CRATES, identifier, rust_files};

#[test]
fn the_map_names_what_exists() {
    let root = Path::new(".");
    let pages = ["ARCHITECTURE.md", "docs/where-is.md"];
    let map = pages.map(|page| std::fs::read_to_string(root.join(page)).unwrap());
    let map = map.join("\n");
    let named = map.split('`').skip(1).step_by(2).filter(|word| {
        word.ends_with(".rs") && word.contains('/') && !word.contains(['*', '{', ' '])
    });
    let mut count = 0;
    for file in named {
        let found = root.join(file).exists()
            || (CRATES.iter()).any(|(folder, _, _)| root.join(folder).join(file).exists());
        assert!(found, "the map names {file}");
        count += 1;
    }
    assert!(count > 50, "the map names only {count} files");
}

/// The documents about security, joined. The promises come last.
fn security_documents(root: &Path) -> String {
    let pages = ["threat-model", "costs", "promises"];
    let read = |page: &str| {
        let file = root.join(format!("docs/security/{page}.md"));
        std::fs::read_to_string(file).expect("a document about security")
    };
    pages.map(read).join("\n")
}

/// docs/security/promises.md names a test for each promise. These tests must exist
/// and run.
#[test]
fn each_promise_names_a_test_that_exists() {
    let root = Path::new(".");
    let text = security_documents(root);
    let (_, promises) = text.split_once("\n# Promises").expect("the promises");
    let mut missing = Vec::new();
    let mut count = 0;
    for row in promises.lines().filter(|line| line.starts_with("| ")) {
        let is_test = |word: &&str| [".rs", ".sh"].iter().any(|end| word.ends_with(end));
        let tests: Vec<&str> = row.split('`').filter(is_test).collect();
        let is_header = row == "| promise | test |";
        if tests.is_empty() && !is_header {
            missing.push(format!("no test: {row}"));
        }
        for test in tests {
            count += 1;
            if !is_run(root, test) {
                missing.push(format!("no such test: {test}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(count > 20, "only {count} tests");
}

/// Tells whether a test runs. A Rust file must have tests, and the module of its
/// folder must declare it. A script must belong to a target of the Makefile.
fn is_run(root: &Path, test: &str) -> bool {
    let file = root.join(test);
    let Ok(text) = std::fs::read_to_string(&file) else {
        return false;
    };
    if test.ends_with(".sh") {
        let makefile = std::fs::read_to_string(root.join("Makefile")).unwrap();
        return makefile.lines().any(|line| line == format!("\t{test}"));
    }
    let has_tests = ["#[test]", "#[tokio::test", "proptest!"];
    if !has_tests.iter().any(|attribute| text.contains(attribute)) {
        return false;
    }
    let (Some(name), Some(folder)) = (file.file_stem(), file.parent()) else {
        return false;
    };
    let (folder, name) = match name.to_str() {
        Some("mod") => (folder.parent(), folder.file_name()),
        _ => (Some(folder), Some(name)),
    };
    let (Some(folder), Some(name)) = (folder, name.and_then(|n| n.to_str())) else {
        return false;
    };
    // A file that is its own cargo target needs no declaration.
    let parents = [folder.join("mod.rs"), folder.join("main.rs")];
    let mut parents = parents.iter().filter(|parent| parent.exists()).peekable();
    parents.peek().is_none()
        || parents.any(|parent| {
            let text = std::fs::read_to_string(parent).unwrap_or_default();
            text.contains(&format!("mod {name};"))
        })
}

/// Tables of docs/security whose last column is `test` name test functions. These
/// functions must exist.
#[test]
fn each_row_names_tests_that_exist() {
    let root = Path::new(".");
    let text = security_documents(root);
    let mut tests = BTreeSet::new();
    for folder in ["src", "crates", "tests"] {
        for file in rust_files(&root.join(folder)) {
            tests.extend(test_functions(&std::fs::read_to_string(file).unwrap()));
        }
    }
    let (mut missing, mut count, mut is_of_tests) = (Vec::new(), 0, false);
    for row in text.lines() {
        match row.strip_suffix(" |").and_then(|row| row.rsplit_once("| ")) {
            None => is_of_tests &= row.starts_with("|-"),
            Some((before, "test")) => is_of_tests = before != "| promise ",
            Some((_, named)) if is_of_tests => {
                let named: Vec<&str> = named.split('`').skip(1).step_by(2).collect();
                if named.is_empty() {
                    missing.push(format!("no test: {row}"));
                }
                for test in named {
                    count += 1;
                    let (_, function) = test.rsplit_once("::").unwrap_or(("", test));
                    if !tests.contains(function) {
                        missing.push(format!("no such test: {test}"));
                    }
                }
            }
            Some(_) => {}
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(count > 50, "only {count} tests");
}

fn test_functions(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        let head = line.strip_prefix("pub ").unwrap_or(line);
        let head = head.strip_prefix("async ").unwrap_or(head);
        if let Some(name) = head.strip_prefix("fn ").and_then(identifier)
            && std::mem::take(&mut is_test)
        {
            found.insert(name);
        }
    }
    found
}
