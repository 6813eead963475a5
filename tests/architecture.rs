//! Checks of the whole source and of the documents: who uses whom, what is read and
//! bounded where, and what the documents name.

use std::path::{Path, PathBuf};

#[path = "architecture/documents.rs"]
mod documents;
#[path = "architecture/exceptions.rs"]
mod exceptions;
#[path = "architecture/libraries.rs"]
mod libraries;
#[path = "architecture/links.rs"]
mod links;
#[path = "architecture/pauses.rs"]
mod pauses;
#[path = "architecture/pingora.rs"]
mod pingora;
#[path = "architecture/public_names.rs"]
mod public_names;
#[path = "architecture/rooms.rs"]
mod rooms;
#[path = "architecture/shares.rs"]
mod shares;
#[path = "architecture/upgrades.rs"]
mod upgrades;

/// For each crate: the folder of its sources, its name in code, and its room if the
/// whole crate is one room.
const CRATES: &[(&str, &str, Option<&str>)] = &[
    ("crates/wire/src", "kubernetes_wire", None),
    ("crates/source/src", "apifront_source", Some("source")),
    ("crates/upstream/src", "apifront_upstream", Some("upstream")),
    ("crates/watch-cache/src", "apifront_watch_cache", None),
    ("crates/embedded/src", "apifront_embedded", Some("embedded")),
    ("crates/fairness/src", "apifront_fairness", Some("fairness")),
    ("crates/query/src", "apifront_query", Some("query")),
    ("crates/shares/src", "apifront_shares", Some("shares")),
    ("src", "apifront", None),
];

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("folder") {
        let path = entry.expect("entry").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    files
}

fn code_of(text: &str) -> String {
    text.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .map(|line| format!("{line}\n"))
        .collect()
}

fn identifier(text: &str) -> Option<String> {
    let end = text
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    (end > 0).then(|| text[..end].to_owned())
}
