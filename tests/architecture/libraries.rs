//! Checks that the crates that others can use bring no server with them.

use std::path::Path;

/// The crates that others can use. The program reaches API servers in its own way
/// (`crates/source`), and counts in its own way (`Observer` of the cache).
const LIBRARIES: [&str; 4] = ["shares", "source", "watch-cache", "wire"];
/// The families of servers, clients and metrics.
const HEAVY: [&str; 6] = ["hyper", "kube", "pingora", "prometheus", "rustls", "tower"];

#[test]
fn libraries_bring_no_server() {
    let mut wrong = Vec::new();
    for library in LIBRARIES {
        let manifest = Path::new("crates").join(library).join("Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).expect("a manifest");
        let (_, rest) = manifest.split_once("[dependencies]").expect("dependencies");
        let dependencies = rest.split("\n[").next().unwrap_or_default();
        for line in dependencies.lines() {
            let name = line.split(['.', ' ']).next().unwrap_or_default();
            let family = name.split('-').next().unwrap_or_default();
            let is_ours = name
                .strip_prefix("apifront-")
                .is_none_or(|ours| LIBRARIES.contains(&ours));
            if HEAVY.contains(&family) || !is_ours {
                wrong.push(format!("{library} depends on {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
