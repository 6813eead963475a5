//! Checks that a module uses only the modules that the table allows (see
//! ARCHITECTURE.md). Cargo enforces this between crates; the table also enforces it
//! inside a crate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

#[path = "architecture/libraries.rs"]
mod libraries;
#[path = "architecture/links.rs"]
mod links;
#[path = "architecture/shares.rs"]
mod shares;

/// For each crate: the folder of its sources, its name in code, and its room if the
/// whole crate is one room.
const CRATES: &[(&str, &str, Option<&str>)] = &[
    ("crates/wire/src", "kubernetes_wire", None),
    ("crates/source/src", "apifront_source", Some("source")),
    ("crates/upstream/src", "apifront_upstream", Some("upstream")),
    ("crates/watch-cache/src", "apifront_watch_cache", None),
    ("crates/embedded/src", "apifront_embedded", Some("embedded")),
    ("crates/fairness/src", "apifront_fairness", Some("fairness")),
    ("crates/shares/src", "apifront_shares", Some("shares")),
    ("src", "apifront", None),
];

/// Each module and the modules that it may use. Every module may also use `api`,
/// `metrics` and `shares`. The table is not transitive: a module must name each
/// module that it uses.
const MAY_USE: &[(&str, &[&str])] = &[
    ("api", &[]),
    ("metrics", &["fairness", "request", "upstream"]),
    (
        "config",
        &[
            "aggregation",
            "audit",
            "authz",
            "browsers",
            "config_errors",
            "deprecation",
            "flow",
            "logging",
            "outage",
            "runtime_config",
            "upstream",
            "views",
        ],
    ),
    ("browsers", &[]),
    ("config_errors", &[]),
    ("runtime_config", &[]),
    ("request", &[]),
    ("negotiation", &[]),
    ("schema", &[]),
    ("representation", &["schema", "negotiation"]),
    ("store", &["representation"]),
    ("logging", &[]),
    ("source", &[]),
    ("upstream", &["source"]),
    ("resource_pattern", &[]),
    ("settings", &["resource_pattern"]),
    ("observer", &[]),
    ("saved", &["representation", "store"]),
    (
        "reflector",
        &["saved", "source", "store", "representation", "schema"],
    ),
    ("read", READERS),
    ("watch", READERS),
    (
        "self_check",
        &[
            "fingerprint",
            "reflector",
            "representation",
            "source",
            "store",
        ],
    ),
    ("fingerprint", &[]),
    ("authn", &["request", "upstream"]),
    ("authz", &["request", "upstream", "authn"]),
    ("identity", &["request", "upstream", "authn", "authz"]),
    ("aggregation", &["upstream", "request", "representation"]),
    ("documents", &["upstream"]),
    (
        "discovery",
        &[
            "aggregation",
            "documents",
            "negotiation",
            "representation",
            "runtime_config",
            "schema",
            "upstream",
        ],
    ),
    (
        "openapi",
        &[
            "aggregation",
            "documents",
            "negotiation",
            "representation",
            "runtime_config",
            "upstream",
        ],
    ),
    ("deprecation", &["source", "upstream"]),
    (
        "audit",
        &[
            "config_errors",
            "negotiation",
            "representation",
            "request",
            "schema",
            "upstream",
        ],
    ),
    (
        "doctor",
        &[
            "aggregation",
            "authn",
            "config",
            "flow",
            "reflector",
            "server",
            "upstream",
        ],
    ),
    ("spans", &["config_errors", "request"]),
    ("health", &["request", "resource_pattern"]),
    ("fairness", &["request"]),
    ("shares", &[]),
    ("flow", &["fairness", "request"]),
    ("outage", &["authz", "upstream"]),
    (
        "shadow",
        &["fingerprint", "negotiation", "representation", "schema"],
    ),
    ("status", &[]),
    // Its tests make their own store, which needs representations.
    ("views", &["authz", "representation", "store", "watch"]),
    (
        "embedded",
        &[
            "fairness",
            "schema",
            "representation",
            "negotiation",
            "request",
        ],
    ),
];

/// The modules that `read` and `watch` may use.
const READERS: &[&str] = &[
    "negotiation",
    "reflector",
    "representation",
    "request",
    "source",
    "store",
];

/// The room that may use all others except those above it. The embedded server is the
/// program's: only `demo.rs` uses it.
const SERVER: &str = "server";
const ABOVE_THE_SERVER: [&str; 2] = ["doctor", "embedded"];
/// The rooms inside the server, from the lowest up. Each may use those before it and
/// none after it.
const SERVER_ROOMS: [&str; 10] = [
    "listener", "state", "stage", "offload", "reply", "answer", "forward", "steps", "proxy",
    "process",
];
/// The room of the server that gives the other rooms their settings. All others have
/// what they need of the configuration as types of their own.
const READS_THE_CONFIGURATION: &str = "process";
const ALWAYS: [&str; 3] = ["api", "metrics", "shares"];
/// The crate's own files at the root. They are wiring, not rooms.
const ROOTS: [&str; 3] = ["lib", "main", "demo"];

#[test]
fn modules_use_what_the_table_allows() {
    let root = Path::new(".");
    let rules: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    let mut wrong = BTreeSet::new();
    for (folder, own, room) in CRATES {
        let source = root.join(folder);
        for file in rust_files(&source) {
            let relative = file.strip_prefix(&source).expect("below src");
            let module = room.map_or_else(|| module_of(relative), str::to_owned);
            if ROOTS.contains(&module.as_str()) {
                continue;
            }
            let shown = file.strip_prefix(root).expect("below the root").display();
            if module == SERVER {
                let text = std::fs::read_to_string(&file).expect("source file");
                let used = used_modules(&text, own);
                let above = ABOVE_THE_SERVER.iter().filter(|room| used.contains(**room));
                wrong.extend(above.map(|room| format!("{shown}: `server` may not use `{room}`")));
                continue;
            }
            let Some(allowed) = rules.get(module.as_str()) else {
                wrong.insert(format!("{shown}: module `{module}` is not in the table"));
                continue;
            };
            let text = std::fs::read_to_string(&file).expect("source file");
            for used in used_modules(&text, own) {
                let fine = used == module
                    || ALWAYS.contains(&used.as_str())
                    || allowed.contains(&used.as_str());
                let known = rules.contains_key(used.as_str()) || used == SERVER;
                if known && !fine {
                    wrong.insert(format!("{shown}: `{module}` may not use `{used}`"));
                }
            }
        }
    }
    let list: Vec<String> = wrong.into_iter().collect();
    assert!(list.is_empty(), "\n{}", list.join("\n"));
}

/// Data flows one way: no module may use a module that uses it, not even through
/// others.
#[test]
fn the_table_has_no_circles() {
    let rules: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    // The modules whose chains of uses are known to end. Each round finds more of
    // them. The server's chains end too, unless they lead to a module above the
    // server, which another test forbids.
    let mut ends: BTreeSet<&str> = BTreeSet::from([SERVER]);
    loop {
        let more: Vec<&str> = rules
            .iter()
            .filter(|(module, uses)| {
                !ends.contains(*module) && uses.iter().all(|used| ends.contains(used))
            })
            .map(|(module, _)| *module)
            .collect();
        if more.is_empty() {
            break;
        }
        ends.extend(more);
    }
    let circle: Vec<&&str> = rules.keys().filter(|m| !ends.contains(*m)).collect();
    assert!(circle.is_empty(), "in a circle or above one: {circle:?}");
}

#[test]
fn rooms_of_the_server_use_those_below() {
    let server = Path::new(".").join("src/server");
    let floor = |room: &str| SERVER_ROOMS.iter().position(|r| *r == room);
    let mut wrong = BTreeSet::new();
    for file in rust_files(&server) {
        let relative = file.strip_prefix(&server).expect("below the server");
        let shown = relative.display();
        let room = module_of(relative);
        if room == "mod" {
            continue;
        }
        let Some(own) = floor(&room) else {
            wrong.insert(format!("{shown}: room `{room}` is not in the table"));
            continue;
        };
        let text = std::fs::read_to_string(&file).expect("source file");
        assert!(!text.contains("super::super::"), "{shown}: name the room");
        if room != READS_THE_CONFIGURATION && used_modules(&text, "apifront").contains("config") {
            wrong.insert(format!("{shown}: `{room}` may not use `config`"));
        }
        for used in used_after(&code_of(&text), "crate::server::") {
            match floor(&used) {
                Some(floor) if floor <= own => {}
                Some(_) => drop(wrong.insert(format!("{shown}: `{room}` may not use `{used}`"))),
                None => drop(wrong.insert(format!("{shown}: `{used}` is no room"))),
            }
        }
    }
    let list: Vec<String> = wrong.into_iter().collect();
    assert!(list.is_empty(), "\n{}", list.join("\n"));
}

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

#[test]
fn the_scan_finds_what_is_used() {
    let text = "use kubernetes_wire::api::Status;\n// crate::server is only named here\n\
                use apifront_watch_cache::{store::{Log, Topic}, watch};\n\
                use apifront_upstream::Endpoint;\nfn f(x: crate::authn::User) {}\n";
    let found: Vec<String> = used_modules(text, "apifront").into_iter().collect();
    assert_eq!(found, ["api", "authn", "store", "upstream", "watch"]);
    let of_one_room = used_modules("use crate::storage::Stored;", "apifront_embedded");
    assert_eq!(of_one_room, BTreeSet::from(["embedded".to_owned()]));
}

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

fn module_of(relative: &Path) -> String {
    let first = relative.iter().next().expect("a component");
    Path::new(first)
        .file_stem()
        .expect("a name")
        .to_string_lossy()
        .into_owned()
}

/// Returns the rooms that code uses (comments do not count): the first path segments
/// after the names of crates. `own` is the crate that `crate` means.
fn used_modules(text: &str, own: &str) -> BTreeSet<String> {
    let code = code_of(text);
    let mut found = BTreeSet::new();
    for (_, name, room) in CRATES {
        let names = [*name, "crate"];
        let names = &names[..if *name == own { 2 } else { 1 }];
        for prefix in names.iter().map(|name| format!("{name}::")) {
            let used = used_after(&code, &prefix);
            match room {
                Some(_) if used.is_empty() => {}
                Some(room) => drop(found.insert((*room).to_owned())),
                None => found.extend(used),
            }
        }
    }
    found
}

fn code_of(text: &str) -> String {
    text.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .map(|line| format!("{line}\n"))
        .collect()
}

/// Returns the first segment of each path that begins with `prefix`.
fn used_after(code: &str, prefix: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        let boundary = code[..at].chars().next_back();
        if boundary.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        match rest.strip_prefix('{') {
            Some(group) => found.extend(group_heads(group)),
            None => found.extend(identifier(rest)),
        }
    }
    found
}

/// Returns the first segments in `a::b, c::{d, e}, f}`.
fn group_heads(text: &str) -> Vec<String> {
    let mut heads = Vec::new();
    let (mut depth, mut at_head) = (0usize, true);
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => at_head = true,
            c if at_head && !c.is_whitespace() => {
                heads.extend(identifier(&text[at..]));
                at_head = false;
            }
            _ => {}
        }
    }
    heads
}

fn identifier(text: &str) -> Option<String> {
    let end = text
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    (end > 0).then(|| text[..end].to_owned())
}

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
