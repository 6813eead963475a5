//! Reads a file that the configuration names and whose format is kube-apiserver's.

use std::io::Read;
use std::path::Path;

use super::error::{ConfigErrors, FieldError};

const MAX_BYTES: u64 = 1 << 20;

/// Reads a whole file. A longer one is refused.
pub fn read_text(file: &Path) -> Result<String, ConfigErrors> {
    let mut text = String::new();
    let read = std::fs::File::open(file)
        .and_then(|f| f.take(MAX_BYTES + 1).read_to_string(&mut text))
        .map_err(|error| format!("cannot be read: {error}"));
    let problem = match read {
        Ok(read) if read as u64 <= MAX_BYTES => return Ok(text),
        Ok(_) => format!("is larger than {MAX_BYTES} bytes"),
        Err(problem) => problem,
    };
    Err(ConfigErrors {
        file: Some(file.to_owned()),
        errors: vec![FieldError::of_file(problem)],
    })
}
