//! Checks that each public name is used.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{code_of, is_word, rust_files};

/// The compiler warns only of private dead code. A public name must therefore occur
/// in at least one other file.
#[test]
fn what_is_public_has_a_user() {
    let root = Path::new(".");
    let folders = ["src", "crates", "tests", "benches", "examples"];
    let files: Vec<(PathBuf, String)> = folders
        .iter()
        .flat_map(|folder| rust_files(&root.join(folder)))
        .map(|file| {
            let text = std::fs::read_to_string(&file).expect("source file");
            (file, code_of(&text))
        })
        .collect();
    let mut files_with: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, text) in &files {
        let words: BTreeSet<&str> = text.split(|c: char| !is_word(c)).collect();
        for word in words {
            *files_with.entry(word).or_default() += 1;
        }
    }
    let mut unused = Vec::new();
    let mut count = 0;
    for (file, text) in &files {
        let shown = file.strip_prefix(root).expect("below the root");
        if !(shown.starts_with("src") || shown.starts_with("crates")) {
            continue;
        }
        for name in text.lines().filter_map(public_name) {
            count += 1;
            if files_with[name] < 2 {
                unused.push(format!("{}: {name}", shown.display()));
            }
        }
    }
    assert!(unused.is_empty(), "\n{}", unused.join("\n"));
    assert!(count > 500, "only {count} public items");
}

/// Returns the name of a function, a constant or a trait that is `pub` without a
/// restriction.
fn public_name(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub ")?;
    let rest = ["async ", "const ", "unsafe "]
        .iter()
        .fold(rest, |rest, word| match rest.strip_prefix(word) {
            Some(after) if after.starts_with("fn ") || after.starts_with("async ") => after,
            _ => rest,
        });
    let rest = ["fn ", "const ", "static ", "trait "]
        .iter()
        .find_map(|word| rest.strip_prefix(word))?;
    rest.split(|c: char| !is_word(c)).next()
}
