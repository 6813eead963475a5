//! A log file that is replaced when it is large. Names and rules are those of
//! kube-apiserver's log rotation: `audit.log` becomes
//! `audit-2006-01-02T15-04-05.000.log`, and compressed backups end with `.gz`.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use chrono::NaiveDateTime;
use flate2::Compression;
use flate2::write::GzEncoder;
use parking_lot::Mutex;

use super::settings::Rotation;
use super::text::file_time;

/// Only apifront's own user may read the log.
const NEW_FILE_MODE: u32 = 0o600;
const NEW_FOLDER_MODE: u32 = 0o700;

const GZIP: &str = ".gz";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) struct RotatingFile {
    path: PathBuf,
    rotation: Rotation,
    file: File,
    size: u64,
    /// True if the last line is incomplete because a write failed.
    is_broken: bool,
    /// Held by the thread that tidies up, so that there is only one.
    tidying: Arc<Mutex<()>>,
}

impl RotatingFile {
    pub(super) fn open(path: &Path, rotation: Rotation) -> io::Result<Self> {
        if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
            let mut builder = fs::DirBuilder::new();
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, NEW_FOLDER_MODE);
            builder.recursive(true).create(folder)?;
        }
        let file = append(path, NEW_FILE_MODE)?;
        let opened = Self {
            size: file.metadata()?.len(),
            path: path.to_owned(),
            rotation,
            file,
            is_broken: false,
            tidying: Arc::default(),
        };
        opened.tidy();
        Ok(opened)
    }

    /// Tells whether the file must be replaced before this many bytes are written.
    pub(super) fn is_full_with(&self, bytes: usize) -> bool {
        let most = self.rotation.max_bytes;
        self.size > 0 && most.is_some_and(|most| self.size.saturating_add(bytes as u64) > most)
    }

    /// Writes whole lines. Rotates the file first if they do not fit.
    pub(super) fn write(&mut self, lines: &[u8], now: SystemTime) -> io::Result<()> {
        if self.is_full_with(lines.len()) {
            self.rotate(now)?;
        }
        if self.is_broken {
            self.file.write_all(b"\n")?;
            self.size = self.size.saturating_add(1);
            self.is_broken = false;
        }
        let written = self.file.write_all(lines);
        if written.is_ok() {
            self.size = self.size.saturating_add(lines.len() as u64);
        } else if let Ok(metadata) = self.file.metadata() {
            self.is_broken = metadata.len() > self.size;
            self.size = metadata.len();
        }
        written
    }

    fn rotate(&mut self, now: SystemTime) -> io::Result<()> {
        let mode = self.file.metadata()?.permissions().mode();
        let backup = self.free_backup_name(now);
        match fs::rename(&self.path, &backup) {
            Ok(()) => {}
            // Somebody removed the file. A new one begins anyway.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        self.file = append(&self.path, mode)?;
        self.size = self.file.metadata()?.len();
        self.is_broken = false;
        self.tidy();
        Ok(())
    }

    /// Returns a name for the backup that is not taken. Two rotations within a
    /// millisecond must not overwrite each other.
    fn free_backup_name(&self, now: SystemTime) -> PathBuf {
        let (prefix, suffix) = names(&self.path);
        let mut at = now;
        loop {
            let name = format!("{prefix}{}{suffix}", file_time(at));
            let path = self.path.with_file_name(&name);
            let compressed = self.path.with_file_name(format!("{name}{GZIP}"));
            if !path.exists() && !compressed.exists() {
                return path;
            }
            let Some(later) = at.checked_add(Duration::from_millis(1)) else {
                return path;
            };
            at = later;
        }
    }

    /// Tidies up in another thread: compressing a file takes seconds, and events
    /// must be written meanwhile.
    fn tidy(&self) {
        if self.rotation.max_bytes.is_none() {
            return;
        }
        let (path, rotation) = (self.path.clone(), self.rotation.clone());
        let turn = self.tidying.clone();
        let work = move || {
            let Some(_turn) = turn.try_lock() else { return };
            if let Err(error) = tidy(&path, &rotation, SystemTime::now()) {
                tracing::warn!(%error, file = %path.display(), "old audit logs not tidied up");
            }
        };
        let builder = std::thread::Builder::new().name("audit-tidy".to_owned());
        if let Err(error) = builder.spawn(work) {
            tracing::warn!(%error, "no thread to tidy up old audit logs");
        }
    }
}

fn append(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(mode & 0o777)
        .open(path)
}

/// Returns the text before and after the time in the names of backups.
fn names(path: &Path) -> (String, String) {
    let text = |part: Option<&std::ffi::OsStr>| {
        part.map(|p| p.to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    let extension = path
        .extension()
        .map(|e| format!(".{}", e.to_string_lossy()));
    (
        format!("{}-", text(path.file_stem())),
        extension.unwrap_or_default(),
    )
}

struct Backup {
    path: PathBuf,
    /// The file name without `.gz`.
    name: String,
    made: SystemTime,
    is_compressed: bool,
}

/// Lists the backups, the newest first.
fn backups(path: &Path) -> io::Result<Vec<Backup>> {
    let (prefix, suffix) = names(path);
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut backups = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let file_name = entry.file_name().to_string_lossy().into_owned();
        let plain = file_name.strip_suffix(GZIP);
        let name = plain.unwrap_or(&file_name);
        let time = name
            .strip_prefix(&prefix)
            .and_then(|rest| rest.strip_suffix(&suffix))
            .and_then(|time| NaiveDateTime::parse_from_str(time, "%Y-%m-%dT%H-%M-%S%.3f").ok());
        if let Some(time) = time {
            backups.push(Backup {
                made: time.and_utc().into(),
                name: name.to_owned(),
                is_compressed: plain.is_some(),
                path: entry.path(),
            });
        }
    }
    backups.sort_by_key(|backup| std::cmp::Reverse(backup.made));
    Ok(backups)
}

/// Removes backups that are too old or too many, and compresses the others.
fn tidy(path: &Path, rotation: &Rotation, now: SystemTime) -> io::Result<()> {
    let mut kept: Vec<String> = Vec::new();
    let age = DAY.checked_mul(u32::try_from(rotation.max_age_days).unwrap_or(u32::MAX));
    let oldest = age.and_then(|age| now.checked_sub(age));
    for backup in backups(path)? {
        if kept.last() != Some(&backup.name) {
            kept.push(backup.name.clone());
        }
        let too_many = rotation.max_backups > 0 && kept.len() > rotation.max_backups;
        let too_old = rotation.max_age_days > 0 && oldest.is_some_and(|o| backup.made < o);
        if too_many || too_old {
            fs::remove_file(&backup.path)?;
        } else if rotation.compress && !backup.is_compressed {
            compress(&backup.path)?;
        }
    }
    Ok(())
}

/// Compresses a backup. The compressed file gets its final name when it is complete.
fn compress(path: &Path) -> io::Result<()> {
    let with = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let (partial, whole) = (with(".gz.partial"), with(GZIP));
    let mut from = File::open(path)?;
    let mode = from.metadata()?.permissions().mode() & 0o777;
    let to = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(mode)
        .open(&partial)?;
    to.set_permissions(Permissions::from_mode(mode))?;
    let mut encoder = GzEncoder::new(to, Compression::default());
    io::copy(&mut from, &mut encoder)?;
    encoder.finish()?.sync_all()?;
    fs::rename(&partial, &whole)?;
    fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    fn listed(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_full_file_is_replaced_and_old_ones_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sub/audit.log");
        let rotation = Rotation {
            max_bytes: Some(10),
            max_backups: 2,
            max_age_days: 1,
            compress: true,
        };
        let mut file = RotatingFile::open(&path, rotation.clone()).unwrap();
        // By the real clock, which the threads use, no backup is old.
        let now = UNIX_EPOCH + 60_000 * DAY;
        for line in [
            &b"12345\n"[..],
            b"123\n",
            b"a line longer than a file\n",
            b"x\n",
        ] {
            file.write(line, now).unwrap();
        }
        // Tidies up here, in order. The threads find nothing left to do.
        let _turn = file.tidying.lock();
        tidy(&path, &rotation, now).unwrap();
        let folder = path.parent().unwrap();
        assert_eq!(
            listed(folder),
            [
                "audit-2134-04-11T00-00-00.000.log.gz",
                "audit-2134-04-11T00-00-00.001.log.gz",
                "audit.log"
            ]
        );
        assert_eq!(fs::read(&path).unwrap(), b"x\n");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);

        fs::write(folder.join("audit-other.log"), "no backup").unwrap();
        let fewer = Rotation {
            max_backups: 1,
            ..rotation.clone()
        };
        tidy(&path, &fewer, now).unwrap();
        assert_eq!(listed(folder).len(), 3);
        tidy(&path, &rotation, now + 2 * DAY).unwrap();
        assert_eq!(listed(folder), ["audit-other.log", "audit.log"]);
    }
}
