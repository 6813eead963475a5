//! The source of a configuration, from which it can be read again.

use std::path::{Path, PathBuf};

use super::{Config, ConfigErrors, Flags, parse, raw};
use crate::config_file;

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
                let text =
                    config_file::text(path).map_err(|p| ConfigErrors::one(file.clone(), p))?;
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
