//! The memory of data that is being read and is in no store yet: pages,
//! half-read events, and the objects of a list until it is published.
//!
//! It counts against `cache.memoryLimit` together with the stores. Otherwise
//! many lists at once, for example after a restart of the API server, could
//! each be as large as the limit. When memory is short, the stores first free
//! what can be made again (`memory_limit.rs`). If that is not enough, the list
//! that began last is given up and tried again later, so that the first list
//! completes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::Observer;

/// The time that a reader waits for the stores to free memory. That takes
/// milliseconds, but the task that does it may not be running.
const SHED_WITHIN: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum MemoryExhausted {
    #[error("it is larger than what is left of cache.memoryLimit, {0} bytes")]
    TooLarge(usize),
    #[error("no memory while other resources are being read")]
    Later,
}

pub(super) struct MemoryPool {
    ledger: Mutex<Ledger>,
    /// Wakes the task that makes the stores free memory.
    attention: Arc<Notify>,
    /// Counts the times that the stores have freed memory.
    rounds: watch::Sender<u64>,
}

struct Ledger {
    limit: usize,
    /// The bytes that the stores held when they were last measured.
    held: usize,
    next: u64,
    /// Bytes by the reader's number. Readers without bytes are not in it.
    reading: BTreeMap<u64, usize>,
    /// The sum of `reading`, and who hears of its changes.
    total: usize,
    observer: Arc<dyn Observer>,
    /// The largest request since the stores were last measured for which there
    /// was no room.
    wanted: usize,
}

enum NoMemory {
    /// The reader alone exceeds the limit.
    TooLarge,
    /// There is no room now. The reader is the one that began before all
    /// others.
    TightForFirst,
    TightForLater,
}

impl Ledger {
    fn add(&mut self, number: u64, bytes: usize, replaces: usize) -> Result<(), NoMemory> {
        let own = self.reading.get(&number).copied().unwrap_or_default();
        let (own, total) = (own.saturating_add(bytes), self.total.saturating_add(bytes));
        if own > self.limit {
            return Err(NoMemory::TooLarge);
        }
        let first = self.reading.keys().next().is_none_or(|n| *n >= number);
        // The first reader may use the room of the data that it will replace.
        let (held, lack) = match first {
            true => (self.held.saturating_sub(replaces), NoMemory::TightForFirst),
            false => (self.held, NoMemory::TightForLater),
        };
        if held.saturating_add(total) > self.limit {
            self.wanted = self.wanted.max(bytes);
            return Err(lack);
        }
        if own > 0 {
            self.reading.insert(number, own);
        }
        self.total = total;
        self.show();
        Ok(())
    }

    fn remove(&mut self, number: u64, bytes: usize) {
        if let Some(own) = self.reading.get_mut(&number) {
            *own = own.saturating_sub(bytes);
            if *own == 0 {
                self.reading.remove(&number);
            }
        }
        self.total = self.total.saturating_sub(bytes);
        self.show();
    }

    fn show(&self) {
        self.observer.reading(self.total);
    }
}

impl MemoryPool {
    pub(super) fn new(attention: Arc<Notify>, observer: Arc<dyn Observer>) -> Self {
        Self {
            ledger: Mutex::new(Ledger {
                limit: usize::MAX,
                held: 0,
                next: 0,
                reading: BTreeMap::new(),
                total: 0,
                observer,
                wanted: 0,
            }),
            attention,
            rounds: watch::channel(0).0,
        }
    }

    #[cfg(test)]
    pub(super) fn unlimited() -> Arc<Self> {
        Arc::new(Self::new(Arc::default(), Arc::new(())))
    }

    pub(super) fn set_limit(&self, limit: usize) {
        self.ledger.lock().limit = limit;
    }

    /// Notes the bytes that the stores hold after they have freed memory.
    pub(super) fn hold(&self, bytes: usize) {
        let mut ledger = self.ledger.lock();
        ledger.held = bytes;
        ledger.wanted = 0;
        drop(ledger);
        self.rounds
            .send_modify(|rounds| *rounds = rounds.wrapping_add(1));
    }

    pub(super) fn reading(&self) -> usize {
        self.ledger.lock().total
    }

    pub(super) fn wanted(&self) -> usize {
        self.ledger.lock().wanted
    }

    /// Registers a reader. When it is done, `replaces` bytes of a store are
    /// dropped.
    pub(super) fn begin(self: &Arc<Self>, replaces: usize) -> MemoryReservation {
        let mut ledger = self.ledger.lock();
        ledger.next = ledger.next.wrapping_add(1);
        MemoryReservation {
            memory: self.clone(),
            number: ledger.next,
            replaces,
            bytes: 0,
        }
    }

    async fn shed(&self) {
        let mut rounds = self.rounds.subscribe();
        self.attention.notify_one();
        let _in_time = tokio::time::timeout(SHED_WITHIN, rounds.changed()).await;
    }
}

/// The bytes that one reader holds. Drop gives them back.
pub(super) struct MemoryReservation {
    memory: Arc<MemoryPool>,
    /// Readers that began earlier have lower numbers.
    number: u64,
    replaces: usize,
    bytes: usize,
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.memory.ledger.lock().remove(self.number, self.bytes);
    }
}

impl MemoryReservation {
    /// Returns another reservation of the same reader.
    pub(super) fn part(&self) -> Self {
        Self {
            memory: self.memory.clone(),
            number: self.number,
            replaces: self.replaces,
            bytes: 0,
        }
    }

    /// Reserves more bytes. Cancel-safe.
    pub(super) async fn take(&mut self, bytes: usize) -> Result<(), MemoryExhausted> {
        for shed in [true, false] {
            match self.add(bytes) {
                Ok(()) => return Ok(()),
                Err(NoMemory::TooLarge) => break,
                Err(_) if shed => self.memory.shed().await,
                Err(NoMemory::TightForFirst) => break,
                Err(NoMemory::TightForLater) => return Err(MemoryExhausted::Later),
            }
        }
        Err(MemoryExhausted::TooLarge(self.memory.ledger.lock().limit))
    }

    /// Reserves exactly these bytes, in place of those reserved before.
    pub(super) async fn set(&mut self, bytes: usize) -> Result<(), MemoryExhausted> {
        match bytes.checked_sub(self.bytes) {
            Some(0) => Ok(()),
            Some(more) => self.take(more).await,
            None => {
                self.give_back(self.bytes.saturating_sub(bytes));
                Ok(())
            }
        }
    }

    fn add(&mut self, bytes: usize) -> Result<(), NoMemory> {
        let mut ledger = self.memory.ledger.lock();
        ledger.add(self.number, bytes, self.replaces)?;
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    pub(super) fn give_back(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes = self.bytes.saturating_sub(bytes);
        self.memory.ledger.lock().remove(self.number, bytes);
    }

    /// Notes that this reader will replace nothing.
    pub(super) fn replace_nothing(&mut self) {
        self.replaces = 0;
    }

    /// Returns the bytes that are free for this reader.
    pub(super) fn free(&self) -> usize {
        let ledger = self.memory.ledger.lock();
        let held = ledger.held.saturating_sub(self.replaces);
        let used = held.saturating_add(ledger.total);
        ledger.limit.saturating_sub(used)
    }

    /// Moves the data into a store, which holds these bytes.
    pub(super) fn publish(self, bytes: usize) {
        let mut ledger = self.memory.ledger.lock();
        let held = ledger.held.saturating_sub(self.replaces);
        ledger.held = held.saturating_add(bytes);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    async fn pool(limit: usize, held: usize) -> Arc<MemoryPool> {
        let memory = MemoryPool::unlimited();
        memory.set_limit(limit);
        memory.hold(held);
        memory
    }

    #[tokio::test(start_paused = true)]
    async fn readers_together_stay_within_the_limit() {
        let memory = pool(100, 30).await;
        let (mut first, mut second) = (memory.begin(0), memory.begin(0));
        assert_eq!(first.take(40).await, Ok(()));
        assert_eq!(second.take(30).await, Ok(()));
        assert_eq!((memory.reading(), first.free()), (70, 0));
        // The later reader must give up, and try again.
        assert_eq!(second.take(1).await, Err(MemoryExhausted::Later));
        assert_eq!(first.take(1).await, Err(MemoryExhausted::TooLarge(100)));
        drop(second);
        assert_eq!(first.part().take(30).await, Ok(()));
        assert_eq!(memory.reading(), 40);
        assert_eq!(first.take(31).await, Err(MemoryExhausted::TooLarge(100)));
        first.publish(50);
        assert_eq!(memory.reading(), 0);
        let mut third = memory.begin(0);
        assert_eq!(third.take(21).await, Err(MemoryExhausted::TooLarge(100)));
        assert_eq!(third.take(20).await, Ok(()));
        assert_eq!(third.set(5).await, Ok(()));
        assert_eq!(third.set(7).await, Ok(()));
        assert_eq!(memory.reading(), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_takes_the_place_of_the_one_before_it() {
        let memory = pool(100, 90).await;
        let (mut again, mut newcomer) = (memory.begin(60), memory.begin(0));
        assert_eq!(newcomer.take(11).await, Err(MemoryExhausted::TooLarge(100)));
        assert_eq!(again.take(70).await, Ok(()));
        assert_eq!(newcomer.take(1).await, Err(MemoryExhausted::Later));
        assert_eq!(again.take(1).await, Err(MemoryExhausted::TooLarge(100)));
        again.publish(70);
        assert_eq!(newcomer.take(0).await, Ok(()));
        assert_eq!(newcomer.take(1).await, Err(MemoryExhausted::TooLarge(100)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_stores_are_asked_to_give_something_up_first() {
        let memory = pool(100, 90).await;
        let mut reading = memory.begin(0);
        let mut taking = Box::pin(reading.take(20));
        assert!((&mut taking).now_or_never().is_none());
        memory.attention.notified().await;
        memory.hold(80);
        assert_eq!(taking.await, Ok(()));
        // Without a limit there is always room.
        memory.set_limit(usize::MAX);
        assert_eq!(reading.take(1 << 40).await, Ok(()));
    }
}
