//! Checks that a module uses only the modules that the table allows (see
//! ARCHITECTURE.md). Cargo enforces this between crates; the table also enforces it
//! inside a crate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{CRATES, code_of, identifier, rust_files};

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
            "config_file",
            "deprecation",
            "flow",
            "logging",
            "outage",
            "queries",
            "runtime_config",
            "shapes",
            "upstream",
            "views",
        ],
    ),
    ("browsers", &[]),
    ("config_errors", &[]),
    ("config_file", &["config_errors"]),
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
    ("left_out", &[]),
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
    (
        "aggregation",
        &["documents", "representation", "request", "upstream"],
    ),
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
            "config_file",
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
            "queries",
            "shapes",
            "upstream",
        ],
    ),
    ("spans", &["config_errors", "config_file", "request"]),
    ("health", &["request", "resource_pattern"]),
    ("fairness", &["request"]),
    ("shares", &[]),
    ("flow", &["fairness", "request"]),
    ("outage", &["authz", "upstream"]),
    (
        "shadow",
        &["fingerprint", "negotiation", "representation", "schema"],
    ),
    ("shapes", &["authz"]),
    ("query", &["representation"]),
    (
        "queries",
        &[
            "aggregation",
            "documents",
            "negotiation",
            "query",
            "read",
            "representation",
            "store",
        ],
    ),
    // A client of the server: it stands apart.
    ("kubectl_query", &["query", "upstream"]),
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

const ABOVE_THE_SERVER: [&str; 3] = ["doctor", "embedded", "kubectl_query"];

/// The rooms inside the server, from the lowest up. Each may use those before it and
/// none after it.
const SERVER_ROOMS: [&str; 11] = [
    "listener", "exchange", "state", "stage", "offload", "reply", "answer", "forward", "steps",
    "proxy", "process",
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
