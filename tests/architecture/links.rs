//! Checks that each link in the documents leads to an existing file and section, and
//! that no page is too long to read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The most words of a page, without code.
const PAGE: usize = 1_500;
/// Pages to look things up in, which may be longer.
const REFERENCES: [&str; 1] = ["docs/metrics.md"];
/// The folders with documents, in addition to the root.
const FOLDERS: [&str; 7] = [
    "charts", "config", "crates", "docs", "examples", "tests", "tools",
];

#[test]
fn each_link_leads_somewhere() {
    let mut missing = Vec::new();
    let mut count = 0;
    let mut sections = BTreeMap::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in links(&text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            count += 1;
            let (path, section) = link.split_once('#').unwrap_or((&link, ""));
            let target = match path {
                "" => page.clone(),
                path => page.parent().unwrap().join(path),
            };
            let mut has_section = || {
                let target = target.canonicalize().unwrap();
                sections
                    .entry(target.clone())
                    .or_insert_with(|| anchors(&std::fs::read_to_string(&target).unwrap()))
                    .contains(section)
            };
            if !target.exists() || (!section.is_empty() && !has_section()) {
                missing.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(count > 100, "only {count} links");
}

#[test]
fn no_page_is_too_long() {
    let mut long = Vec::new();
    for page in pages() {
        let is_reference = REFERENCES.iter().any(|name| page.ends_with(name));
        let words = words(&std::fs::read_to_string(&page).unwrap());
        if words > PAGE && !is_reference {
            long.push(format!("{}: {words} words", page.display()));
        }
    }
    assert!(long.is_empty(), "more than {PAGE} words: {long:#?}");
}

fn pages() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(PathBuf::from).collect();
    let mut pages = markdown(Path::new("."), &mut Vec::new());
    while let Some(folder) = folders.pop() {
        pages.extend(markdown(&folder, &mut folders));
    }
    assert!(pages.len() > 20, "only {} pages", pages.len());
    pages
}

/// Returns the documents in a folder, and adds its subfolders to `below`.
fn markdown(folder: &Path, below: &mut Vec<PathBuf>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_installed = path.ends_with("node_modules") || path.ends_with("target");
        if path.is_dir() && !is_installed {
            below.push(path);
        } else if path.extension().is_some_and(|end| end == "md") {
            found.push(path);
        }
    }
    found
}

/// Returns the lines that are not code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        !fenced && !is_fence && !line.starts_with("    ")
    })
}

fn words(text: &str) -> usize {
    let words = prose(text).flat_map(str::split_whitespace);
    words
        .filter(|word| word.contains(char::is_alphanumeric))
        .count()
}

/// Returns the targets of links `[text](target)`. The text may span several lines.
fn links(text: &str) -> Vec<String> {
    let text: Vec<&str> = prose(text).collect();
    let text = text.join("\n");
    let targets = text.split("](").skip(1);
    let targets = targets.filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect()
}

/// Returns the anchors of a page: those that GitHub and mdBook derive from headings,
/// and those that the page sets itself.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for line in prose(text) {
        if line.starts_with('#') {
            let heading = line.trim_start_matches('#').trim();
            let name = heading.to_lowercase().replace(' ', "-");
            let is_kept = |c: &char| c.is_alphanumeric() || ['-', '_'].contains(c);
            anchors.insert(name.chars().filter(is_kept).collect());
        }
        let ids = line.split("<a id=\"").skip(1);
        anchors.extend(ids.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
    }
    anchors
}
