//! The errors of a file that configures apifront, all at once and each with its
//! field. Besides the configuration itself, these are the files that it names and
//! whose format is kube-apiserver's.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The most bytes of a file that the configuration names.
const MAX_BYTES: u64 = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The field, such as `serving.securePort`, or the flag that set it.
    pub field: String,
    /// The value as written; empty when there was none.
    pub value: String,
    /// The reason why the value is wrong, and the allowed values.
    pub problem: String,
}

impl FieldError {
    pub fn of_file(problem: impl Into<String>) -> Self {
        Self {
            field: String::new(),
            value: String::new(),
            problem: problem.into(),
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        if !self.value.is_empty() {
            write!(f, "{:?}: ", self.value)?;
        }
        f.write_str(&self.problem)
    }
}

/// All errors of one configuration. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    /// `None` if there were only flags.
    pub file: Option<PathBuf>,
    pub errors: Vec<FieldError>,
}

impl std::error::Error for ConfigErrors {}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.errors.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            // The value of a flag is not in the file.
            match &self.file {
                Some(file) if !error.field.starts_with("--") => {
                    write!(f, "{}: {error}", file.display())?;
                }
                _ => write!(f, "{error}")?,
            }
        }
        Ok(())
    }
}

impl ConfigErrors {
    pub fn one(file: Option<PathBuf>, problem: String) -> Self {
        Self {
            file,
            errors: vec![FieldError {
                field: String::new(),
                value: String::new(),
                problem,
            }],
        }
    }
}

/// Reads a whole file that the configuration names. A longer one is refused.
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
