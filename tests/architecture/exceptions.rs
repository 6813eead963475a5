//! Compares what a check found with its list of exceptions.

use std::collections::BTreeMap;

/// Fails unless the files in `found` are those of `list`. Each of `found` comes with
/// what was found in it, each of `list` with its reason. `advice` is for a file that is
/// not in the list, `absent` for one that need not be.
#[track_caller]
pub fn assert_listed(
    found: &BTreeMap<String, String>,
    list: &[(&str, &str)],
    advice: &str,
    absent: &str,
) {
    let wrong: Vec<String> = found
        .iter()
        .filter(|(shown, _)| !list.iter().any(|(file, _)| file == shown))
        .map(|(shown, names)| format!("{shown}: {names}"))
        .collect();
    assert!(wrong.is_empty(), "{advice}: {wrong:#?}");
    for (file, reason) in list {
        assert!(found.contains_key(*file), "{file} {absent}: {reason}");
    }
}
