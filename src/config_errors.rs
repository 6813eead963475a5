//! The errors of a file that configures apifront, all at once and each with its
//! field. Besides the configuration itself, these are the files that it names and
//! whose format is kube-apiserver's.

use std::fmt;
use std::path::PathBuf;

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
