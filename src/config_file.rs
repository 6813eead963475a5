//! Reads the configuration's file, and those that it names. Each has a bounded size, and
//! those in a format of kube-apiserver a bounded depth.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::Value;
use serde_saphyr::options::DuplicateKeyPolicy;

use crate::config_errors::FieldError;

/// The most bytes of a file. A ConfigMap holds at most 1 MiB.
const MAX_BYTES: u64 = 1 << 20;

/// The most anchors of a document, and the most places where they stand for something.
const MAX_ANCHORS: usize = 64;
const MAX_ALIASES: usize = 256;

/// Returns the text of a whole file, or why it has none. A longer one is refused.
pub fn text(file: &Path) -> Result<String, String> {
    let mut text = String::new();
    let read = File::open(file)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text))
        .map_err(|error| format!("cannot be read: {error}"))?;
    if read as u64 > MAX_BYTES {
        return Err(format!("is larger than {MAX_BYTES} bytes"));
    }
    Ok(text)
}

/// The bounds of a document, and how the format reads a key that comes twice.
pub struct Format {
    pub max_depth: usize,
    pub max_nodes: usize,
    pub duplicate_keys: DuplicateKeyPolicy,
}

impl Format {
    /// Parses a file's text.
    pub fn parse(self, text: &str) -> Result<Value, Vec<FieldError>> {
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! {
                max_depth: self.max_depth,
                max_nodes: self.max_nodes,
                max_anchors: MAX_ANCHORS,
                max_aliases: MAX_ALIASES,
            },
            duplicate_keys: self.duplicate_keys,
            with_snippet: false,
        };
        serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| vec![FieldError::of_file(error.to_string())])
    }
}
