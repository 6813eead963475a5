//! Checks that resources shared by callers are bounded through `crates/shares`,
//! which knows the caller. Files with other bounds are listed here, with the reason.

use std::collections::BTreeMap;
use std::path::Path;

use super::exceptions::assert_listed;
use super::{code_of, is_word, rust_files};

/// The crate of shares, and the crate with kube-apiserver's own algorithm for seats.
const NOT_SCANNED: [&str; 2] = ["crates/shares/", "crates/fairness/"];

/// The files with their own bounds or counts, each with the reason why callers have
/// no share of it.
const OWN_BOUNDS: &[(&str, &str)] = &[
    (
        "crates/embedded/src/serving.rs",
        "the connections of a demo, whose one client is apifront",
    ),
    (
        "crates/query/src/kept_order.rs",
        "the objects of one order, whose owner has a share of all orders",
    ),
    (
        "crates/upstream/src/request_body.rs",
        "the pieces of one request's body",
    ),
    (
        "crates/upstream/src/stream_slot.rs",
        "a full connection is no bound: another is opened. Streams have places in src/flow",
    ),
    (
        "crates/watch-cache/src/read/body/ahead.rs",
        "threads divide one work among themselves",
    ),
    (
        "crates/watch-cache/src/reflector/memory_pool.rs",
        "the process reads resources into memory, each for all callers",
    ),
    (
        "crates/watch-cache/src/saved/stores.rs",
        "the process reads its own files when it starts",
    ),
    (
        "crates/watch-cache/src/store/buffer.rs",
        "the bytes of a store, without a limit of their own",
    ),
    (
        "crates/watch-cache/src/store/event.rs",
        "the bytes of a store, without a limit of their own",
    ),
    (
        "crates/watch-cache/src/store/memory.rs",
        "the bytes of what others make of a store, without a limit of their own",
    ),
    (
        "crates/watch-cache/src/store/kept_table_frames.rs",
        "the bytes of a store, without a limit of their own",
    ),
    (
        "crates/watch-cache/src/store/tree_leaf.rs",
        "the bytes of a store, without a limit of their own",
    ),
    (
        "src/aggregation/metrics.rs",
        "the checks of an APIService, which end its series",
    ),
    (
        "src/audit/webhook.rs",
        "batches of all callers, whose events had their shares of the queue",
    ),
    (
        "src/flow/watermark.rs",
        "kube-apiserver's own limits without priority and fairness, which know no callers",
    ),
    (
        "src/server/answer/own/debug_cache.rs",
        "the sums of a report",
    ),
    (
        "src/server/answer/shadow/follow.rs",
        "the pieces of one watch, whose bytes are shares",
    ),
    (
        "src/server/stage/asking.rs",
        "the questions that one request waits for",
    ),
    (
        "src/server/state/drain.rs",
        "the open requests that the process waits for when it stops, without a limit",
    ),
    (
        "src/spans/export.rs",
        "a span that has ended names no caller; few requests have one",
    ),
];

/// A semaphore gives places in order of arrival, and a queue or a count lets one
/// caller have all of them.
#[test]
fn what_callers_share_is_held_through_one_type() {
    let root = Path::new(".");
    let mut found = BTreeMap::new();
    for file in ["src", "crates"]
        .map(|folder| rust_files(&root.join(folder)))
        .iter()
        .flatten()
    {
        let shown = file.strip_prefix(root).expect("below the root");
        let shown = shown.to_string_lossy().into_owned();
        let is_test = shown.ends_with("tests.rs") || shown.contains("/tests/");
        if is_test || NOT_SCANNED.iter().any(|crate_| shown.starts_with(crate_)) {
            continue;
        }
        let code = code_of(&std::fs::read_to_string(file).expect("source file"));
        let (code, _tests) = code.split_once("#[cfg(test)]\nmod ").unwrap_or((&code, ""));
        let bounds = own_bounds(code);
        if bounds.is_empty() {
            continue;
        }
        found.insert(shown, format!("{bounds:?}"));
    }
    let advice = "use crates/shares, or say here why no caller has a part";
    assert_listed(&found, OWN_BOUNDS, advice, "has no bound of its own");
}

/// Returns the means, other than shares, with which code bounds or counts.
fn own_bounds(code: &str) -> Vec<&str> {
    const WORDS: [&str; 7] = [
        "Semaphore",
        "OwnedSemaphorePermit",
        "ArrayQueue",
        "fetch_sub",
        "fetch_update",
        "compare_exchange",
        "compare_exchange_weak",
    ];
    let words = code
        .split(|c: char| !is_word(c))
        .filter(|word| WORDS.contains(word));
    let mut bounds: Vec<&str> = words.collect();
    bounds.extend(bounded_channels(code));
    bounds.extend(fields_of_counts(code));
    bounds
}

/// Returns the calls that create a bounded channel. The channels of `watch` and
/// `oneshot` hold one value and do not count.
fn bounded_channels(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for name in ["channel", "bounded"] {
        for (at, _) in code.match_indices(name) {
            let (before, rest) = (&code[..at], &code[at + name.len()..]);
            let before = before.strip_suffix("sync_").unwrap_or(before);
            let of_one = ["watch::", "oneshot::", "fn "];
            if before.ends_with(is_word) || of_one.iter().any(|path| before.ends_with(path)) {
                continue;
            }
            let arguments = match rest
                .strip_prefix("::<")
                .and_then(|rest| rest.split_once(">("))
            {
                Some((_, arguments)) => arguments,
                None => rest.strip_prefix('(').unwrap_or(")"),
            };
            if !arguments.trim_start().starts_with(')') {
                found.push(name);
            }
        }
    }
    found
}

/// Returns the types of fields that map something to counts.
fn fields_of_counts(code: &str) -> Vec<&str> {
    const COUNTS: [&str; 4] = ["usize", "u32", "AtomicUsize", "AtomicU32"];
    let mut found = Vec::new();
    for (at, _) in code.match_indices("Map<") {
        let line = code[..at]
            .rsplit(['\n', ';', '{'])
            .next()
            .unwrap_or_default();
        let is_field = !line
            .split(|c: char| !is_word(c))
            .any(|word| ["let", "fn"].contains(&word));
        let Some(map) = generic(&code[at..]).filter(|_| is_field) else {
            continue;
        };
        let inner = map.trim_end_matches('>').trim_end().trim_end_matches(',');
        let count = inner.rsplit([',', ' ', '<']).next().unwrap_or_default();
        if COUNTS.contains(&count) {
            found.push(map);
        }
    }
    found
}

/// Returns a type up to the end of its arguments.
fn generic(code: &str) -> Option<&str> {
    let mut depth = 0_usize;
    for (at, character) in code.char_indices() {
        match character {
            '<' => depth += 1,
            '>' if depth == 1 => return Some(&code[..=at]),
            '>' => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    None
}

#[test]
fn the_scan_finds_bounds() {
    for (code, found) in [
        ("use tokio::sync::{Notify, Semaphore};", true),
        ("tokio::sync::Semaphore::new(4)", true),
        ("turn: OwnedSemaphorePermit,", true),
        ("mpsc::channel(16)", true),
        ("channel(PIECES)", true),
        ("mpsc::channel::<Vec<u8>>(1)", true),
        ("sync_channel(0)", true),
        ("crossbeam::channel::bounded(8)", true),
        ("self.taken.fetch_update(Relaxed, Relaxed, room)", true),
        (
            "self.taken.compare_exchange_weak(a, b, Relaxed, Relaxed)",
            true,
        ),
        ("self.0.fetch_sub(1, Ordering::Relaxed);", true),
        (
            "struct Names {\n    of_one: HashMap<String, usize>,\n}",
            true,
        ),
        ("struct Names(Mutex<BTreeMap<(String, u64), usize>>);", true),
        (
            "struct Names {\n    of_one: HashMap<\n        Name,\n        usize,\n    >,\n}",
            true,
        ),
        ("watch::channel(false)", false),
        ("oneshot::channel()", false),
        ("mpsc::channel()", false),
        ("mpsc::unbounded_channel()", false),
        ("fn what_is_remembered_is_bounded() {", false),
        (
            "let mut places: HashMap<String, usize> = HashMap::new();",
            false,
        ),
        ("fn count(places: &HashMap<String, usize>) {}", false),
        (
            "struct Names {\n    of_one: HashMap<String, Usize>,\n}",
            false,
        ),
        (
            "struct Names {\n    versions: HashMap<usize, String>,\n}",
            false,
        ),
        ("self.asked.fetch_add(1, Relaxed)", false),
        ("semaphore", false),
    ] {
        assert_eq!(!own_bounds(code).is_empty(), found, "{code}");
    }
}
