//! Checks that few files know pingora. The others see a request through
//! `src/server/exchange`, so that pingora can be replaced or updated there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::exceptions::assert_listed;
use super::{code_of, is_word, rust_files};

/// The rooms that lie on pingora's side.
const ROOMS: [&str; 2] = ["src/server/exchange/", "src/server/listener/"];

/// The other files that know pingora, each with the reason.
const FILES: &[(&str, &str)] = &[
    ("src/logging.rs", "the targets of pingora's own log"),
    (
        "src/server/forward/aggregator_request.rs",
        "the head of the request that pingora sends",
    ),
    (
        "src/server/forward/attempts.rs",
        "the server that pingora connects to, and its errors",
    ),
    (
        "src/server/forward/failed.rs",
        "the errors for which pingora asks for an answer",
    ),
    (
        "src/server/forward/request_head.rs",
        "the head of the request that pingora sends",
    ),
    (
        "src/server/process/listeners.rs",
        "the apps that pingora runs on the listeners",
    ),
    ("src/server/proxy.rs", "pingora's phases"),
];

#[test]
fn few_files_know_pingora() {
    let root = Path::new(".");
    let mut found = BTreeMap::new();
    for file in rust_files(&root.join("src")) {
        let shown = file.strip_prefix(root).expect("below the root");
        let shown = shown.to_string_lossy().into_owned();
        let code = code_of(&std::fs::read_to_string(&file).expect("source file"));
        let names = names_of_pingora(&code);
        if names.is_empty() || ROOMS.iter().any(|room| shown.starts_with(room)) {
            continue;
        }
        found.insert(shown, format!("{names:?}"));
    }
    let advice = "use src/server/exchange, or say here why the file knows pingora";
    assert_listed(&found, FILES, advice, "does not know pingora");
}

/// Returns the names of pingora's crates and of its sessions.
fn names_of_pingora(code: &str) -> BTreeSet<&str> {
    const TYPES: [&str; 3] = ["HttpSession", "ServerSession", "Session"];
    code.split(|c: char| !is_word(c))
        .filter(|word| word.starts_with("pingora_") || TYPES.contains(word))
        .collect()
}

#[test]
fn the_scan_finds_pingora() {
    for (code, found) in [
        ("use pingora_proxy::Session;", true),
        ("fn answer(session: &mut Session) {}", true),
        ("fn next() -> pingora_core::Result<()> {", true),
        (".with_target(\"pingora_core::apps\", level)", true),
        ("let for_pingora = head;", false),
        ("let session = Sessions::new();", false),
    ] {
        assert_eq!(!names_of_pingora(code).is_empty(), found, "{code}");
    }
}
