//! The directory of saved stores. Only its owner may write to it and use its files.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use kubernetes_wire::api::GroupVersionResource;
use parking_lot::Mutex;
use rustix::fs::OFlags;

use super::Refusal;
use super::header::{file_name, gvr_of};

/// The lock file. The process that holds its lock may write stores.
const LOCK: &str = ".lock";

/// The beginning of the names of files that are being written.
const UNFINISHED: &str = ".unfinished-";

/// The most files that are looked at. It is more than the most resources that
/// are cached, and bounds the work if the directory holds something else.
const MAX_FILES: usize = 10_000;

#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    #[error("cannot use {path:?}: {error}")]
    Io { path: PathBuf, error: io::Error },
    #[error("{path:?} is not a directory (a symbolic link is not followed)")]
    NoDirectory { path: PathBuf },
    #[error("{path:?} has mode {mode:04o}: its group or others may write to it")]
    Writable { path: PathBuf, mode: u32 },
    #[error("{path:?} belongs to user {owner}, and this process is user {own}")]
    Owner { path: PathBuf, owner: u32, own: u32 },
}

/// A directory that [`open`](Self::open) found to be safe.
pub(super) struct Directory {
    path: PathBuf,
    /// The id of this process' user.
    owner: u32,
    /// The locked file, while this process is the one that writes.
    lock: Mutex<Option<File>>,
}

/// Checks the directory. If it does not exist yet, its parent must.
pub(super) fn check(path: &Path) -> Result<(), DirectoryError> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_dir() => Err(DirectoryError::NoDirectory {
            path: path.to_owned(),
        }),
        Ok(found) if found.mode() & 0o022 != 0 => Err(DirectoryError::Writable {
            path: path.to_owned(),
            mode: found.mode() & 0o7777,
        }),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match path.parent() {
            Some(parent) if parent.as_os_str().is_empty() || parent.is_dir() => Ok(()),
            _ => Err(failed(path)(error)),
        },
        Err(error) => Err(failed(path)(error)),
    }
}

fn failed(path: &Path) -> impl Fn(io::Error) -> DirectoryError + '_ {
    |error| DirectoryError::Io {
        path: path.to_owned(),
        error,
    }
}

impl Directory {
    /// Opens the directory. Makes it if it does not exist, but not its parents.
    pub(super) fn open(path: &Path) -> Result<Self, DirectoryError> {
        let made = DirBuilder::new().mode(0o700).create(path);
        if let Err(error) = made
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(failed(path)(error));
        }
        check(path)?;
        let found = fs::symlink_metadata(path).map_err(failed(path))?;
        // A new file belongs to this process' user.
        let mut directory = Self {
            path: path.to_owned(),
            owner: found.uid(),
            lock: Mutex::default(),
        };
        let probe = directory.path.join(format!("{UNFINISHED}{}", uuid()));
        let own = new_file(&probe).and_then(|file| file.metadata());
        let removed = fs::remove_file(&probe);
        let own = own.map_err(failed(path))?.uid();
        removed.map_err(failed(path))?;
        if own != directory.owner {
            return Err(DirectoryError::Owner {
                path: path.to_owned(),
                owner: directory.owner,
                own,
            });
        }
        directory.owner = own;
        Ok(directory)
    }

    /// Takes the right to write. Returns false if another process has it. A process
    /// keeps it until it ends.
    pub(super) fn lock(&self) -> io::Result<bool> {
        let mut held = self.lock.lock();
        if held.is_some() {
            return Ok(true);
        }
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(no_follow())
            .open(self.path.join(LOCK))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        *held = Some(file);
        drop(held);
        self.remove_unfinished();
        Ok(true)
    }

    /// Removes the unfinished files of processes that ended while they wrote.
    fn remove_unfinished(&self) {
        for name in self.names() {
            if name.starts_with(UNFINISHED) {
                // A file that stays only takes space until the next start.
                let _ = fs::remove_file(self.path.join(name));
            }
        }
    }

    pub(super) fn resources(&self) -> Vec<GroupVersionResource> {
        self.names()
            .iter()
            .filter_map(|name| gvr_of(name))
            .collect()
    }

    fn names(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(&self.path) else {
            return Vec::new();
        };
        let names = entries.take(MAX_FILES).flatten();
        names
            .filter_map(|e| e.file_name().into_string().ok())
            .collect()
    }

    /// Opens a resource's file, and returns its length.
    pub(super) fn file(&self, gvr: &GroupVersionResource) -> Result<(File, u64), Refusal> {
        let name = file_name(gvr).ok_or(Refusal::NotCached)?;
        let opened = OpenOptions::new()
            .read(true)
            // Without NONBLOCK, opening a named pipe would block.
            .custom_flags(no_follow() | OFlags::NONBLOCK.bits().cast_signed())
            .open(self.path.join(name));
        let file = opened.map_err(|error| match error.raw_os_error() {
            Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => {
                Refusal::Permissions("is a symbolic link")
            }
            _ => Refusal::Unreadable(error),
        })?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(Refusal::Permissions("is not a regular file"));
        }
        if found.uid() != self.owner {
            return Err(Refusal::Permissions("belongs to another user"));
        }
        if found.mode() & 0o077 != 0 {
            return Err(Refusal::Permissions(
                "may be used by its group or by others",
            ));
        }
        Ok((file, found.len()))
    }

    /// Writes a resource's file. The previous file stays until the new one is
    /// complete and on disk.
    pub(super) fn replace(
        &self,
        gvr: &GroupVersionResource,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<u64>,
    ) -> io::Result<u64> {
        let name = file_name(gvr).ok_or_else(|| io::Error::other("no name for the file"))?;
        let unfinished = self.path.join(format!("{UNFINISHED}{}", uuid()));
        let written = self.write_new(&unfinished, write).and_then(|bytes| {
            fs::rename(&unfinished, self.path.join(name))?;
            File::open(&self.path)?.sync_all()?;
            Ok(bytes)
        });
        if written.is_err() {
            // The file may not exist, or may be renamed already.
            let _ = fs::remove_file(&unfinished);
        }
        written
    }

    fn write_new(
        &self,
        path: &Path,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<u64>,
    ) -> io::Result<u64> {
        let mut file = BufWriter::new(new_file(path)?);
        let bytes = write(&mut file)?;
        let file = file.into_inner().map_err(|e| e.into_error())?;
        file.sync_all()?;
        Ok(bytes)
    }

    pub(super) fn remove(&self, gvr: &GroupVersionResource) -> io::Result<()> {
        let Some(name) = file_name(gvr) else {
            return Ok(());
        };
        match fs::remove_file(self.path.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        let size = |gvr| {
            let path = self.path.join(file_name(gvr)?);
            Some(fs::symlink_metadata(path).ok()?.len())
        };
        let sizes: Vec<u64> = self.resources().iter().filter_map(size).collect();
        sizes.iter().fold(0, |sum, size| sum.saturating_add(*size))
    }
}

fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(no_follow())
        .open(path)
}

fn no_follow() -> i32 {
    OFlags::NOFOLLOW.bits().cast_signed()
}

/// Returns a name that no other process has.
fn uuid() -> String {
    format!("{:032x}", rand::random::<u128>())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn pods() -> GroupVersionResource {
        GroupVersionResource::new("", "v1", "pods")
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn write(directory: &Directory, text: &[u8]) -> io::Result<u64> {
        directory.replace(&pods(), |file| {
            file.write_all(text)?;
            Ok(text.len() as u64)
        })
    }

    #[test]
    fn only_the_owner_may_use_directory_and_files() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("stores");
        check(&path).unwrap();
        let directory = Directory::open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        write(&directory, b"text").unwrap();
        let file = path.join("pods_v1_.store");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert_eq!(directory.file(&pods()).unwrap().1, 4);
        assert_eq!(directory.bytes(), 4);
        assert_eq!(directory.resources(), [pods()]);

        for mode in [0o604, 0o620, 0o640, 0o666] {
            set_mode(&file, mode);
            let refused = directory.file(&pods()).unwrap_err();
            assert_eq!(refused.as_str(), "permissions", "{mode:o}");
        }
        fs::rename(&file, path.join("elsewhere")).unwrap();
        symlink(path.join("elsewhere"), &file).unwrap();
        assert_eq!(directory.file(&pods()).unwrap_err().as_str(), "permissions");
        fs::remove_file(&file).unwrap();
        assert_eq!(directory.file(&pods()).unwrap_err().as_str(), "unreadable");
        fs::create_dir(&file).unwrap();
        assert_eq!(directory.file(&pods()).unwrap_err().as_str(), "permissions");

        for mode in [0o720, 0o702, 0o777, 0o1777] {
            set_mode(&path, mode);
            let refused = Directory::open(&path);
            assert!(matches!(refused, Err(DirectoryError::Writable { .. })));
        }
        set_mode(&path, 0o755);
        Directory::open(&path).unwrap();
        let link = parent.path().join("link");
        symlink(&path, &link).unwrap();
        let refused = Directory::open(&link);
        assert!(matches!(refused, Err(DirectoryError::NoDirectory { .. })));
        assert!(Directory::open(&parent.path().join("a/b")).is_err());
        assert!(check(&parent.path().join("a/b")).is_err());
    }

    #[test]
    fn a_failed_write_leaves_the_file_before_it() {
        let parent = tempfile::tempdir().unwrap();
        let directory = Directory::open(parent.path()).unwrap();
        write(&directory, b"first").unwrap();
        let failed = directory.replace(&pods(), |file| {
            file.write_all(b"second")?;
            Err(io::Error::other("no space"))
        });
        assert!(failed.is_err());
        assert_eq!(directory.file(&pods()).unwrap().1, 5);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
        directory.remove(&pods()).unwrap();
        directory.remove(&pods()).unwrap();
        assert_eq!(directory.resources(), []);
    }

    #[test]
    fn one_process_writes() {
        let parent = tempfile::tempdir().unwrap();
        let (first, second) = (
            Directory::open(parent.path()).unwrap(),
            Directory::open(parent.path()).unwrap(),
        );
        let left = parent.path().join(format!("{UNFINISHED}1"));
        fs::write(&left, "torn").unwrap();
        assert!(first.lock().unwrap());
        assert!(!left.exists());
        assert!(first.lock().unwrap());
        assert!(!second.lock().unwrap());
        drop(first);
        assert!(second.lock().unwrap());
    }
}
