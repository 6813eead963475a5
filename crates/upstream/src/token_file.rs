//! A bearer token from a file. The file is replaced before the token expires.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use http::HeaderValue;
use parking_lot::Mutex;

/// The time for which a token is used before its file is read again. The tokens
/// of pods are replaced when a fifth of their hour is left.
const REREAD_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct TokenFile {
    path: PathBuf,
    last: Mutex<(Instant, HeaderValue)>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum TokenFileError {
    #[error("cannot read the token file {path:?}: {error}")]
    Read {
        path: PathBuf,
        error: std::io::Error,
    },
    #[error("the token file {path:?} holds no token")]
    NoToken { path: PathBuf },
}

impl TokenFile {
    pub(super) fn open(path: PathBuf, now: Instant) -> Result<Self, TokenFileError> {
        let header = read(&path)?;
        Ok(Self {
            path,
            last: Mutex::new((now, header)),
        })
    }

    /// Returns the `Authorization` header. If the file can no longer be read,
    /// the last token stays in use: some files are removed once a process has
    /// read them.
    pub(super) fn authorization(&self, now: Instant) -> HeaderValue {
        let mut last = self.last.lock();
        if now.saturating_duration_since(last.0) >= REREAD_INTERVAL {
            last.0 = now;
            match read(&self.path) {
                Ok(header) => last.1 = header,
                Err(error) => tracing::warn!(%error, "the last token stays"),
            }
        }
        last.1.clone()
    }
}

/// Reads the token. Editors and `echo` end files with a newline, which is not
/// part of the token.
fn read(path: &PathBuf) -> Result<HeaderValue, TokenFileError> {
    let text = std::fs::read_to_string(path).map_err(|error| TokenFileError::Read {
        path: path.clone(),
        error,
    })?;
    let token = text.trim();
    let no_token = || TokenFileError::NoToken { path: path.clone() };
    if token.is_empty() {
        return Err(no_token());
    }
    let header = HeaderValue::try_from(format!("Bearer {token}"));
    let mut header = header.map_err(|_| no_token())?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_token_is_read_and_a_removed_one_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let start = Instant::now();
        assert!(TokenFile::open(path.clone(), start).is_err());
        std::fs::write(&path, " \n").unwrap();
        assert!(TokenFile::open(path.clone(), start).is_err());
        std::fs::write(&path, "one\n").unwrap();
        let file = TokenFile::open(path.clone(), start).unwrap();
        std::fs::write(&path, "two\n").unwrap();
        assert_eq!(file.authorization(start), "Bearer one");
        assert_eq!(file.authorization(start + REREAD_INTERVAL), "Bearer two");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(
            file.authorization(start + REREAD_INTERVAL * 2),
            "Bearer two"
        );
    }
}
