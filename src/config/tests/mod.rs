//! Tests of the configuration as users see it: files, flags, errors, reload.

mod access;
mod cache;
mod document;
mod flags;
mod flow;
mod modes;
mod observability;
mod queries;
mod reload;
mod shapes;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use tempfile::TempDir;

use super::*;

const MINIMAL: &str = include_str!("../../../config/minimal.yaml");

fn shipped(name: &str) -> PathBuf {
    Path::new(".").join("config").join(name)
}

fn load(args: &[&str]) -> Result<Config, ConfigErrors> {
    load_with(Demo::Included, args)
}

fn load_with(demo: Demo, args: &[&str]) -> Result<Config, ConfigErrors> {
    let args = ["apifront"].iter().chain(args);
    Source::new(Flags::try_parse_from(args).unwrap(), demo).load()
}

/// Loads `text` as a file; errors come without the file's name.
fn load_text(text: &str, flags: &[&str]) -> Result<Config, Vec<String>> {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("front.yaml");
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    load(&[&["--config", file], flags].concat())
        .map_err(|errors| errors.errors.iter().map(ToString::to_string).collect())
}

fn minimal_with(section: &str, lines: &str) -> String {
    let header = format!("{section}:\n");
    if MINIMAL.contains(&header) {
        MINIMAL.replace(&header, &format!("{header}{lines}\n"))
    } else {
        format!("{MINIMAL}{header}{lines}\n")
    }
}
