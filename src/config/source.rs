//! The source of a configuration, from which it can be read again.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::{Config, ConfigErrors, Flags, parse, raw};

/// The most bytes of a configuration file. A ConfigMap holds at most 1 MiB.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Whether this program can serve the demo, for which it brings an API server of its
/// own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demo {
    Included,
    Absent,
}

#[derive(Clone, Debug)]
pub struct Source {
    flags: Flags,
    demo: Demo,
}

impl Source {
    pub fn new(flags: Flags, demo: Demo) -> Self {
        Self { flags, demo }
    }

    pub fn file(&self) -> Option<&Path> {
        self.flags.config.as_deref()
    }

    /// Reads the file, applies the flags and checks the result.
    pub fn load(&self) -> Result<Config, ConfigErrors> {
        let file = self.flags.config.clone();
        let errors = |errors| ConfigErrors {
            file: file.clone(),
            errors,
        };
        let mut raw = match &file {
            None => raw::FrontConfiguration::default(),
            Some(path) => {
                let text = read(path).map_err(|p| ConfigErrors::one(file.clone(), p))?;
                parse::parse(&text).map_err(errors)?
            }
        };
        let overrides = self.flags.apply(&mut raw);
        Config::check(&raw, self.flags.shape(), self.demo, overrides).map_err(errors)
    }

    /// Returns every file that must be watched: the configuration's own and
    /// those it names.
    pub fn files(&self, config: &Config) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = self.flags.config.iter().cloned().collect();
        files.extend(config.files());
        files.sort();
        files.dedup();
        files
    }
}

fn read(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let read = File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text))
        .map_err(|error| format!("cannot be read: {error}"))?;
    if read as u64 > MAX_FILE_BYTES {
        return Err(format!("is larger than {MAX_FILE_BYTES} bytes"));
    }
    Ok(text)
}
