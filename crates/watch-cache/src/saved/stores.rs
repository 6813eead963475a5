//! All saved stores of a process: what it found, and what it saves. `file_format.rs`
//! checks a file's bytes, `reflector/resume.rs` whether upstream goes on from there.

use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kubernetes_wire::api::GroupVersionResource;
use kubernetes_wire::representation::Envelope;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::directory::{self, Directory, DirectoryError};
use super::file_format::{BlockReader, BlockWriter};
use super::found_stores::FoundStores;
use super::header::file_name;
use super::key::{Key, KeyError};
use super::records::{self, Decoder};
use super::{Header, Loaded, Refusal};
use crate::Observer;
use crate::store::{Cursor, FieldTable, SavedState, Store};

/// The most files that are read at a time. Reading takes a CPU's time, and the
/// first requests need CPUs as well.
const READS_AT_A_TIME: usize = 4;

/// A store without events is saved again after this many intervals, because its
/// version advances: upstream forgets old versions.
const INTERVALS_WITHOUT_EVENTS: u32 = 10;

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// The saved stores, in one directory.
pub struct SavedStores {
    directory: Directory,
    key: Option<Key>,
    observer: Arc<dyn Observer>,
    found: Mutex<FoundStores>,
    pub(crate) reads: Semaphore,
    /// The last save of each resource. The lock is held for a whole round of
    /// saving, so that one file is written at a time.
    pub(crate) rounds: tokio::sync::Mutex<HashMap<GroupVersionResource, LastSave>>,
    /// Makes a save that is under way give up its file.
    stopped: AtomicBool,
    /// It was logged that another process writes.
    told_locked: AtomicBool,
}

/// A store as it was last saved.
pub(crate) struct LastSave {
    store: Weak<Store>,
    cursor: Cursor,
    resource_version: u64,
    list_forms: Vec<String>,
    at: Instant,
}

impl LastSave {
    /// Tells whether a store must be saved again: it is another store or has new
    /// events, or its version or list forms differ and the last save is long ago. At
    /// the end of the process `interval` is `None`, and every save counts as long
    /// ago.
    pub(crate) fn is_past(
        &self,
        store: &Arc<Store>,
        list_forms: &[String],
        interval: Option<Duration>,
    ) -> bool {
        let now = store.snapshot();
        let same = std::ptr::eq(self.store.as_ptr(), Arc::as_ptr(store));
        if !same || !self.cursor.is_at(now.cursor) {
            return true;
        }
        let long = interval.is_none_or(|interval| {
            self.at.elapsed() > interval.saturating_mul(INTERVALS_WITHOUT_EVENTS)
        });
        let told = self.resource_version == now.resource_version;
        long && !(told && self.list_forms == list_forms)
    }
}

/// A file whose header was read.
pub(crate) struct SavedFile {
    pub(crate) header: Header,
    pub(crate) bytes: u64,
    /// The time since the file was saved.
    pub(crate) age: Duration,
    blocks: BlockReader<BufReader<File>>,
}

impl SavedStores {
    /// Every reason for which a saved store is not used.
    pub const REFUSALS: [&str; 18] = Refusal::REASONS;

    /// Checks directory and key without changing anything.
    pub fn check(directory: &Path, key_file: Option<&Path>) -> Result<(), OpenError> {
        key_file.map(Key::read).transpose()?;
        directory::check(directory)?;
        Ok(())
    }

    /// Opens the directory, and notes the files in it.
    pub fn open(
        directory: &Path,
        key_file: Option<&Path>,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, OpenError> {
        let key = key_file.map(Key::read).transpose()?;
        let directory = Directory::open(directory)?;
        let found = directory.resources();
        observer.saved_bytes(directory.bytes());
        Ok(Self {
            directory,
            key,
            observer,
            found: Mutex::new(FoundStores::new(found, Instant::now())),
            reads: Semaphore::new(READS_AT_A_TIME),
            rounds: tokio::sync::Mutex::default(),
            stopped: AtomicBool::new(false),
            told_locked: AtomicBool::new(false),
        })
    }

    /// Returns the resources whose files were found at the start and are not in
    /// use yet.
    pub(crate) fn found(&self) -> Vec<GroupVersionResource> {
        self.found.lock().found()
    }

    pub(crate) fn claim(&self, gvr: &GroupVersionResource) -> bool {
        self.found.lock().claim(gvr)
    }

    /// Tells whether a file that was found at the start may still be used.
    pub(crate) fn is_waiting(&self, gvr: &GroupVersionResource) -> bool {
        self.found.lock().is_waiting(gvr)
    }

    /// Tells whether a resource's name is safe in a file's name.
    pub(crate) fn can_name(gvr: &GroupVersionResource) -> bool {
        file_name(gvr).is_some()
    }

    /// Notes that a reflector has ended. A saved store that is still waiting then
    /// counts as refused.
    pub(crate) fn ended(&self, gvr: &GroupVersionResource) {
        self.settle(gvr, None);
    }

    pub(crate) fn remove(&self, gvr: &GroupVersionResource) {
        match self.directory.remove(gvr) {
            Ok(()) => tracing::info!(resource = %gvr, "saved store removed"),
            Err(error) => {
                tracing::warn!(resource = %gvr, %error, "saved store not removed");
                self.observer.save_failed();
            }
        }
    }

    /// Returns how many saved stores must be in use or refused before the process is
    /// ready.
    pub(crate) fn unready(&self) -> usize {
        self.found.lock().unready(Instant::now())
    }

    /// Tells whether saved stores may still be waited for.
    pub(crate) fn is_starting(&self) -> bool {
        self.found.lock().is_starting(Instant::now())
    }

    pub(crate) fn resumed(&self, gvr: &GroupVersionResource, age: Duration) {
        self.observer.saved_store_read("resumed");
        self.settle(gvr, Some(age));
    }

    pub(crate) fn refused(&self, gvr: &GroupVersionResource, why: &Refusal) {
        tracing::warn!(
            resource = %gvr, reason = why.as_str(), error = %why, "saved store not used"
        );
        self.observer.saved_store_read(why.as_str());
        self.settle(gvr, None);
    }

    fn settle(&self, gvr: &GroupVersionResource, age: Option<Duration>) {
        let settled = self.found.lock().settle(gvr, age);
        if let Some(all) = settled {
            tracing::info!(
                resumed = all.resumed, refused = all.refused, oldest = ?all.oldest,
                "saved stores read"
            );
        }
    }

    /// Opens a resource's file and reads its header. The call blocks.
    pub(crate) fn file(&self, gvr: &GroupVersionResource) -> Result<SavedFile, Refusal> {
        let (file, bytes) = self.directory.file(gvr)?;
        let (header, blocks) = BlockReader::open(BufReader::new(file), bytes, self.key.as_ref())?;
        if header.gvr() != *gvr {
            return Err(Refusal::OtherResource(header.gvr().to_string()));
        }
        Ok(SavedFile {
            age: millis_since_epoch()
                .checked_sub(header.saved_at)
                .map(Duration::from_millis)
                .unwrap_or_default(),
            header,
            bytes,
            blocks,
        })
    }

    /// Takes the right to write to the directory. Another process may have it:
    /// during a roll-out, the one that is about to stop.
    pub(crate) fn may_write(&self) -> bool {
        match self.directory.lock() {
            Ok(true) => true,
            Ok(false) => {
                if !self.told_locked.swap(true, Ordering::Relaxed) {
                    tracing::info!(
                        "stores are not saved while another process saves to the directory"
                    );
                }
                false
            }
            Err(error) => {
                tracing::warn!(%error, "cannot save stores: the directory cannot be locked");
                self.observer.save_failed();
                false
            }
        }
    }

    /// Saves a store. `header` makes a header without the versions and the time,
    /// which are set here. It is called before and after the state is taken. If the
    /// headers differ, the resource was listed anew, perhaps from another server,
    /// and nothing is saved. The call blocks.
    pub(crate) fn save(
        &self,
        store: &Arc<Store>,
        header: impl Fn() -> Option<Header>,
    ) -> Option<LastSave> {
        let began = Instant::now();
        let gvr = &store.resource.gvr;
        let before = header();
        let state = store.saved_state();
        let header = before.filter(|before| header().as_ref() == Some(before))?;
        let header = Header {
            saved_at: millis_since_epoch(),
            since: state.base.resource_version,
            resource_version: state.resource_version,
            ..header
        };
        let written = self.directory.replace(gvr, |out| {
            self.write(out, &header, &state, &store.resource.envelope)
        });
        match written {
            Ok(bytes) => {
                self.observer.store_saved(began.elapsed());
                tracing::debug!(
                    resource = %gvr, bytes, resource_version = state.resource_version,
                    took = ?began.elapsed(), "store saved"
                );
                Some(LastSave {
                    store: Arc::downgrade(store),
                    cursor: state.cursor,
                    resource_version: state.resource_version,
                    list_forms: header.list_forms,
                    at: Instant::now(),
                })
            }
            Err(error) => {
                tracing::warn!(resource = %gvr, %error, "store not saved");
                self.observer.save_failed();
                None
            }
        }
    }

    fn write(
        &self,
        out: impl std::io::Write,
        header: &Header,
        state: &SavedState,
        envelope: &Envelope,
    ) -> std::io::Result<u64> {
        let mut blocks = BlockWriter::new(out, header, self.key.as_ref())?;
        records::write(state, envelope, Instant::now(), |start, item| {
            if self.stopped.load(Ordering::Relaxed) {
                return Err(std::io::Error::other("the process ends"));
            }
            blocks.record(|block| {
                block.extend_from_slice(start);
                block.extend_from_slice(item);
                Ok(())
            })
        })?;
        blocks.finish()
    }

    /// Removes the files of resources that `keep` refuses, and measures the rest.
    /// The call blocks.
    pub(crate) fn tidy(&self, keep: impl Fn(&GroupVersionResource) -> bool) {
        for gvr in self.directory.resources() {
            if !keep(&gvr) {
                self.remove(&gvr);
            }
        }
        self.observer.saved_bytes(self.directory.bytes());
    }

    /// Notes that a round has saved every store.
    pub(crate) fn round_done(&self) {
        self.observer.all_saved();
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

impl SavedFile {
    /// Reads objects and events. `reserve` counts the memory that they take. The
    /// call blocks.
    pub(crate) fn read(
        mut self,
        fields: &FieldTable,
        envelope: &Envelope,
        now: Instant,
        mut reserve: impl FnMut(usize) -> Result<(), Refusal>,
    ) -> Result<Loaded, Refusal> {
        let mut decoder = Decoder {
            fields,
            envelope,
            reached: self.header.since,
            newest: self.header.resource_version,
            now,
            passed: self.age,
        };
        let mut loaded = Loaded::default();
        while let Some(block) = self.blocks.next()? {
            reserve(decoder.block(&block, &mut loaded)?)?;
        }
        Ok(loaded)
    }
}

fn millis_since_epoch() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
