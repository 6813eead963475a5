//! Reads of the most recent state that many clients share. Each client is
//! answered from an upstream read that began after its request arrived, so the
//! answers are linearizable. Upstream gets the waiting reads of a resource as
//! one batch at a time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use kubernetes_wire::api::{GroupVersionResource, Status};
use parking_lot::Mutex;

use super::shared_batch::{Asked, Batches, NoAnswer};
use super::shared_plan::{ListQuery, Question, plan};
use super::shared_state::{SharedState, resolve};
use super::shared_upstream::{self, Exact, Failure};
use super::{BypassReason, HitCost, reached};
use crate::reflector::Entry;
use crate::store::{ObjectKey, Store, StoredObject};

/// The time before a server that cannot list metadata alone is asked again. It
/// may have been upgraded by then.
const REFUSED_RETRY_DELAY: Duration = Duration::from_secs(600);

/// The most different reads of one resource that run at a time. With several, a
/// small read does not wait for a large one before it.
const READS_AT_A_TIME: usize = 4;

/// Why a shared read has no answer.
#[derive(Clone, Debug)]
pub enum Unanswered {
    /// Upstream must decide each client's request itself.
    Bypass(BypassReason),
    /// Upstream failed, and would fail for every client. Each client gets this
    /// Status.
    Failed(Status),
    /// Upstream or apifront is overloaded.
    TooManyRequests,
    /// No API server could be reached.
    Unreachable,
    /// Upstream did not answer in time.
    Timeout,
}

impl From<BypassReason> for Unanswered {
    fn from(reason: BypassReason) -> Self {
        Self::Bypass(reason)
    }
}

impl From<NoAnswer> for Unanswered {
    fn from(none: NoAnswer) -> Self {
        match none {
            NoAnswer::TooMany => Self::TooManyRequests,
            NoAnswer::Lost => Self::Bypass(BypassReason::NotProvenFresh),
        }
    }
}

impl From<Failure> for Unanswered {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NotAcceptable | Failure::Refused => Self::Bypass(BypassReason::MostRecent),
            Failure::Malformed => Self::Bypass(BypassReason::NotProvenFresh),
            Failure::Failed(status) => Self::Failed(status),
            Failure::TooManyRequests => Self::TooManyRequests,
            Failure::Unreachable => Self::Unreachable,
        }
    }
}

type StateAnswer = Result<SharedState, Unanswered>;
type ObjectAnswer = Result<(Option<Arc<StoredObject>>, HitCost), Unanswered>;
type Batch = Vec<Asked<Question, StateAnswer>>;
type Refused = Arc<Mutex<HashMap<GroupVersionResource, Instant>>>;

#[derive(Default)]
pub struct SharedReads {
    lists: Batches<GroupVersionResource, Question, StateAnswer>,
    objects: Batches<(GroupVersionResource, ObjectKey), (), ObjectAnswer>,
    /// The resources whose server did not list metadata alone, and when it was
    /// asked.
    refused: Refused,
}

impl SharedReads {
    /// Returns the most recent state at a moment after this call, in objects of
    /// `store`, the store of `entry`. Waits for at most `patience`.
    pub async fn state(
        &self,
        entry: &Arc<Entry>,
        store: &Arc<Store>,
        question: Question,
        patience: Duration,
    ) -> StateAnswer {
        let gvr = &entry.gvr;
        let refused = self.refused.lock().get(gvr).copied();
        if refused.is_some_and(|at| at.elapsed() < REFUSED_RETRY_DELAY) {
            return Err(BypassReason::MostRecent.into());
        }
        let lists = Lists {
            entry: entry.clone(),
            refused: self.refused.clone(),
            patience,
        };
        let ask = move |batch| lists.clone().answer(batch);
        let answer = self.lists.join(gvr.clone(), question, ask);
        let state = within(patience, answer).await?;
        is_current(entry, store)?;
        Ok(state)
    }

    /// Returns one object as it is at a moment after this call, and what
    /// upstream was asked for it. The object is `None` if it does not exist.
    pub async fn object(
        &self,
        entry: &Arc<Entry>,
        store: &Arc<Store>,
        (namespace, name): (&str, &str),
        patience: Duration,
    ) -> ObjectAnswer {
        let key = ObjectKey::new(namespace, name);
        let one = One {
            entry: entry.clone(),
            store: store.clone(),
            key: key.clone(),
        };
        let ask = move |batch: Vec<Asked<(), ObjectAnswer>>| {
            let one = one.clone();
            async move {
                let read = tokio::time::timeout(patience, one.read());
                let mut answer: ObjectAnswer = match read.await {
                    Ok(Ok(found)) => Ok(found),
                    Ok(Err(failure)) => Err(failure.into()),
                    Err(_) => Err(Unanswered::Timeout),
                };
                for asked in batch {
                    asked.answer(answer.clone());
                    // Only the first caller's answer counts the cost of the
                    // question.
                    if let Ok((_, cost)) = &mut answer {
                        *cost = HitCost::Shared;
                    }
                }
            }
        };
        let answer = self.objects.join((entry.gvr.clone(), key), (), ask);
        let object = within(patience, answer).await?;
        is_current(entry, store)?;
        Ok(object)
    }
}

/// The time that the store may take to reach a version that upstream told.
/// After it, the object itself is read.
const CATCH_UP_TIMEOUT: Duration = Duration::from_millis(100);

/// Asks for one object for all callers that wait for it.
#[derive(Clone)]
struct One {
    entry: Arc<Entry>,
    store: Arc<Store>,
    key: ObjectKey,
}

impl One {
    async fn read(&self) -> Result<(Option<Arc<StoredObject>>, HitCost), Failure> {
        let upstream = self.entry.upstream();
        let (namespace, name) = (self.key.namespace(), self.key.name());
        // If the resource has a definition, it would be a second question
        // whether objects are still shown as in the store. Two questions cost
        // more than the object.
        if !self.entry.has_definition() && name.bytes().all(is_plain) {
            match shared_upstream::listed(&*upstream, &self.store, namespace, name).await {
                Ok(None) => return Ok((None, HitCost::Metadata)),
                Ok(Some(listed)) => {
                    reached(&self.store, listed.resource_version, CATCH_UP_TIMEOUT).await;
                    let object = self.store.snapshot().get(namespace, name).cloned();
                    if let Some(object) = object.filter(|object| listed.is(object)) {
                        return Ok((Some(object), HitCost::Metadata));
                    }
                }
                Err(Failure::NotAcceptable) => {}
                Err(failure) => return Err(failure),
            }
        }
        let object = shared_upstream::object(&*upstream, &self.store, namespace, name).await?;
        Ok((object.map(Arc::new), HitCost::Object))
    }
}

/// Tells whether a character stands for itself in a field selector.
fn is_plain(character: u8) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, b'-' | b'.' | b':' | b'_')
}

async fn within<T>(
    patience: Duration,
    answer: impl Future<Output = Result<Result<T, Unanswered>, NoAnswer>>,
) -> Result<T, Unanswered> {
    match tokio::time::timeout(patience, answer).await {
        Ok(answer) => answer?,
        Err(_) => Err(Unanswered::Timeout),
    }
}

/// Fails if the resource was dropped or its store replaced meanwhile. The
/// answer is then about another store.
fn is_current(entry: &Entry, store: &Arc<Store>) -> Result<(), BypassReason> {
    let current = entry.store();
    let same = current.is_some_and(|current| Arc::ptr_eq(&current, store));
    same.then_some(()).ok_or(BypassReason::Filling)
}

/// Asks for the state of one resource for all callers that wait for it.
#[derive(Clone)]
struct Lists {
    entry: Arc<Entry>,
    refused: Refused,
    patience: Duration,
}

impl Lists {
    async fn answer(self, batch: Batch) {
        // The waiting callers may know a later store than the first caller did.
        let Some(store) = self.entry.store() else {
            for asked in batch {
                asked.answer(Err(BypassReason::Filling.into()));
            }
            return;
        };
        let snapshot = store.snapshot();
        let questions: Vec<_> = batch.iter().map(|a| a.question.clone()).collect();
        let (reads, answered_by) = plan(&questions, |scope| snapshot.count_from(scope, ""));
        drop(snapshot);
        let mut waiting: Vec<Batch> = reads.iter().map(|_| Vec::new()).collect();
        for (asked, read) in batch.into_iter().zip(answered_by) {
            match waiting.get_mut(read) {
                Some(waiting) => waiting.push(asked),
                None => asked.answer(Err(Unanswered::Timeout)),
            }
        }
        let store = &*store;
        let asked = reads
            .into_iter()
            .zip(waiting)
            .map(|(read, waiting)| self.answer_all(store, read, waiting));
        let mut answered = futures::stream::iter(asked).buffer_unordered(READS_AT_A_TIME);
        while answered.next().await.is_some() {}
    }

    async fn answer_all(&self, store: &Store, read: ListQuery, waiting: Batch) {
        let answer = tokio::time::timeout(self.patience, self.read(store, &read)).await;
        let answer = answer.unwrap_or(Err(Unanswered::Timeout));
        for asked in waiting {
            asked.answer(answer.clone());
        }
    }

    async fn read(&self, store: &Store, read: &ListQuery) -> StateAnswer {
        let upstream = self.entry.upstream();
        let (listing, defined) = tokio::join!(
            shared_upstream::list(&*upstream, store, read),
            self.entry.is_listed_by_current_definition(),
        );
        if let Err(Failure::NotAcceptable) = listing {
            self.refuse(Instant::now());
        }
        let listing = listing?;
        // Another definition shows objects differently under their old
        // versions. The listed versions would then be combined with bytes of
        // another form.
        if !defined {
            return Err(BypassReason::NotProvenFresh.into());
        }
        let fetch = Exact {
            upstream: &*upstream,
            store,
        };
        Ok(resolve(listing, read, store, &fetch).await?)
    }

    fn refuse(&self, now: Instant) {
        let mut refused = self.refused.lock();
        // The map has at most as many entries as the cache has resources.
        refused.retain(|_, at| now.saturating_duration_since(*at) < REFUSED_RETRY_DELAY);
        refused.insert(self.entry.gvr.clone(), now);
    }
}
