//! Checks that `Connection` and `Upgrade` are read in one place.

use std::collections::BTreeSet;
use std::path::Path;

use super::{code_of, is_word, rust_files};

const READS_THE_CONNECTION: &str = "crates/wire/src/request/connection_options.rs";

/// The other files that name `Upgrade`, and their reasons. None of them reads it.
const NAMES_UPGRADE: [(&str, &str); 4] = [
    (
        "crates/upstream/src/hop_by_hop.rs",
        "the fields of one connection, which are removed",
    ),
    (
        "src/server/listener/head/mod.rs",
        "the head's parser judges syntax, and rewrites heads",
    ),
    (
        "src/server/listener/http2_head/field.rs",
        "a field that HTTP/2 has not",
    ),
    (
        "src/server/stage/handshake.rs",
        "the field of an answer, which is written",
    ),
];

/// If two places read `Upgrade` differently, one request is authorized and another
/// one is sent. So all code asks the first stage of a request.
#[test]
fn upgrades_are_read_in_one_place() {
    let root = Path::new(".");
    let files = ["src", "crates"].map(|folder| rust_files(&root.join(folder)));
    let mut wrong = Vec::new();
    let mut named = BTreeSet::new();
    for file in files.iter().flatten() {
        let shown = file.strip_prefix(root).expect("below the root");
        let shown = shown.to_string_lossy().into_owned();
        if shown == READS_THE_CONNECTION || shown.ends_with("tests.rs") || shown.contains("/tests/")
        {
            continue;
        }
        let code = code_of(&std::fs::read_to_string(file).expect("source file"));
        let (code, _tests) = code.split_once("#[cfg(test)]\nmod ").unwrap_or((&code, ""));
        if names_field(code, "UPGRADE", "upgrade") {
            named.insert(shown.clone());
            if !NAMES_UPGRADE.iter().any(|(file, _)| *file == shown) {
                wrong.push(format!("{shown} names Upgrade"));
            }
        }
        let reads = ["get(", "get_all(", "contains_key(", "entry("];
        let reads_connection = reads.iter().any(|read| {
            let fields = code.match_indices(read);
            fields.into_iter().any(|(at, _)| {
                let argument = code[at..].split(')').next().unwrap_or_default();
                names_field(argument, "CONNECTION", "connection")
            })
        });
        if reads_connection {
            wrong.push(format!("{shown} reads Connection"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    for (file, what) in NAMES_UPGRADE {
        assert!(named.contains(file), "{file} does not name it: {what}");
    }
}

/// Tells whether code names a header field, by its constant or by a literal.
fn names_field(code: &str, constant: &str, name: &str) -> bool {
    let in_constant = code.split(|c: char| !is_word(c)).any(|w| w == constant);
    in_constant || code.to_ascii_lowercase().contains(&format!("\"{name}\""))
}

#[test]
fn the_scan_finds_fields() {
    for (code, found) in [
        ("use http::header::{HOST, UPGRADE};", true),
        ("headers.get(header::UPGRADE)", true),
        ("headers.get(\"Upgrade\")", true),
        ("HeaderName::from_static(\"upgrade\")", true),
        ("Sending::Upgrade", false),
        ("upgrade.fields()", false),
        ("let IS_UPGRADE = 1;", false),
        ("\"hyper::upgrade::on\"", false),
    ] {
        assert_eq!(names_field(code, "UPGRADE", "upgrade"), found, "{code}");
    }
}
