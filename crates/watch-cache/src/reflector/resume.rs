//! Judges a saved store by what upstream is now, and fills a store from it instead of from
//! a list.
//!
//! ```text
//! header ─▶ same cluster and release? ─▶ objects and events ─▶ watch from the
//! saved version ─▶ same definition, same history? ─▶ caught up ─▶ published
//! ```
//!
//! A store is published only after the watch has brought all that upstream had
//! when it was asked. It is asked after the process began, so no answer is
//! older than an answer of the former process. In any doubt, the resource is
//! listed.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use apifront_source::{BodyLimit, ReadKind, Source, Unidentified};
use http::StatusCode;
use kubernetes_wire::api::{PartialObject, ResourceVersion};
use tokio::runtime::Handle;

use super::definition::{self, DefinitionState, ListedBy};
use super::entry::Entry;
use super::fill::{self, Filled};
use super::freshness_probe;
use super::memory_pool::{MemoryPool, MemoryReservation};
use super::origin::{self, Origin};
use super::presentation;
use super::store_slot::OwnedStore;
use super::upstream_watch::{self, UpstreamWatchEnd};
use super::watch_decoder::Frame;
use super::watch_list::Opened;
use crate::saved::{Header, Loaded, Refusal, SavedFile, SavedStores};
use crate::store::{
    FieldTable, KeyScope, Presentation, Resource, Store, StoredObject, field_table,
};

/// The time limit for the changes since the store was saved. If they take
/// longer, a list is faster.
const CATCH_UP: Duration = Duration::from_secs(30);

/// A watch that is silent for this long has brought all that upstream had
/// before. It is the longest time that proofs of freshness allow.
const QUIET_TIMEOUT: Duration = Duration::from_millis(250);

/// Why a saved store is not used.
pub(super) enum NotResumed {
    Refused(Refusal),
    /// Upstream could not answer now, but may later.
    Later(Option<Duration>),
}

impl From<Refusal> for NotResumed {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

pub(super) async fn resume(
    entry: &Entry,
    upstream: &dyn Source,
    saved: &Arc<SavedStores>,
    memory: &Arc<MemoryPool>,
) -> Result<Filled, NotResumed> {
    let began = Instant::now();
    let gvr = entry.gvr.clone();
    // The permits keep CPUs free for requests. The semaphore is never closed.
    let _permit = saved.reads.acquire().await.ok();
    let file = blocking(saved, move |saved| saved.file(&gvr)).await?;
    let header = file.header.clone();
    let (age, bytes) = (file.age, file.bytes);
    let judged = judge(entry, upstream, saved, header).await?;
    let mut reading = memory.begin(0);
    let (loaded, fields) = judged.load(entry, file, &mut reading).await?;
    let count = (loaded.objects.objects().len(), loaded.events.len());
    let owned = judged.store(entry, loaded, fields);
    let mut opened = open(entry, upstream, &owned.store, memory).await?;
    let defined = judged
        .prove(entry, upstream, saved, &owned, &mut opened)
        .await?;
    let OwnedStore { store, writer } = owned;
    upstream_watch::warn(&store, &writer, std::mem::take(&mut opened.warnings));
    entry.provenance().set_origin(Some(judged.origin));
    entry.usage().demand().restore(&judged.header.list_forms);
    let version = store.progress().resource_version;
    entry.provenance().set_listed_by(ListedBy::Unsure);
    entry.fill(writer, store);
    entry
        .provenance()
        .set_listed_by(ListedBy::from_definition(&entry.gvr, &defined));
    tracing::info!(
        resource = %entry.gvr, objects = count.0, events = count.1, bytes,
        saved_version = judged.header.resource_version, resource_version = version,
        ?age, took = ?began.elapsed(), "resumed from the saved store"
    );
    reading.publish(entry.store().map_or(0, |store| store.memory().total()));
    saved.resumed(&entry.gvr, age);
    Ok(Filled {
        stream: Some(opened),
        defined,
    })
}

/// A saved store whose header fits upstream.
struct Judged {
    header: Header,
    origin: Origin,
    defined: DefinitionState,
}

/// Compares the saved store's header with upstream.
async fn judge(
    entry: &Entry,
    upstream: &dyn Source,
    saved: &SavedStores,
    header: Header,
) -> Result<Judged, NotResumed> {
    if !entry.provenance().is_savable() {
        return Err(Refusal::NotCached.into());
    }
    let (server, release, defined, current) = tokio::join!(
        origin::ask(upstream),
        fill::release(upstream),
        definition::read(upstream, &entry.gvr),
        current_version(entry, upstream),
    );
    let server = server.map_err(|why| match why {
        Unidentified::Later => NotResumed::Later(None),
        Unidentified::Untold => Refusal::Unanswered("which cluster and release it is").into(),
    })?;
    if server.cluster != header.cluster {
        return Err(Refusal::OtherCluster.into());
    }
    if server.git_version != header.git_version {
        return Err(Refusal::OtherRelease {
            saved: header.git_version,
            now: server.git_version,
        }
        .into());
    }
    let definition = origin::definition(&entry.gvr, &defined).ok_or_else(|| {
        let question = "how the resource is defined";
        match defined {
            DefinitionState::Unknown => unanswered(question, saved),
            _ => Refusal::Unanswered(question).into(),
        }
    })?;
    if definition != header.definition {
        return Err(Refusal::OtherDefinition.into());
    }
    is_reached(current, &header, saved)?;
    entry.provenance().set_release(release);
    entry.provenance().set_json_only(header.json_only);
    if entry.provenance().reads_json() != header.reads_json {
        let found = "its objects are in an encoding that is not used any more".to_owned();
        return Err(Refusal::Malformed(found).into());
    }
    let origin = Origin {
        server,
        definition,
        columns: header.columns.clone(),
    };
    Ok(Judged {
        header,
        origin,
        defined,
    })
}

/// An upstream that is too busy to answer is asked again: a list would cost it more.
fn unanswered(question: &'static str, stores: &SavedStores) -> NotResumed {
    match stores.is_starting() {
        true => NotResumed::Later(None),
        false => Refusal::Unanswered(question).into(),
    }
}

/// Returns upstream's version. Fails if it is before the saved one.
fn is_reached(
    current: Option<u64>,
    header: &Header,
    stores: &SavedStores,
) -> Result<u64, NotResumed> {
    let saved = header.resource_version;
    let now = current.ok_or_else(|| unanswered("its current version", stores))?;
    if now < saved {
        return Err(Refusal::Ahead { saved, now }.into());
    }
    Ok(now)
}

impl Judged {
    /// Reads objects and events within the memory limit.
    async fn load(
        &self,
        entry: &Entry,
        file: SavedFile,
        reading: &mut MemoryReservation,
    ) -> Result<(Loaded, FieldTable), Refusal> {
        let known = match self.defined.definition() {
            Some(definition) => definition.fields.clone(),
            None => field_table(&entry.gvr),
        };
        let fields = known.retain(|label| self.header.fields.iter().any(|f| f == label));
        let envelope = self.header.envelope();
        let mut part = reading.part();
        let (table, now) = (fields.clone(), Instant::now());
        let runtime = Handle::current();
        let read = tokio::task::spawn_blocking(move || {
            let reserve = |bytes| {
                let taken = runtime.block_on(part.take(bytes));
                taken.map_err(|error| Refusal::Memory(error.to_string()))
            };
            let loaded = file.read(&table, &envelope, now, reserve)?;
            Ok::<_, Refusal>((loaded, part))
        });
        let (loaded, part) = read
            .await
            .map_err(|e| Refusal::Malformed(e.to_string()))??;
        *reading = part;
        Ok((loaded, fields))
    }

    fn store(&self, entry: &Entry, loaded: Loaded, fields: FieldTable) -> OwnedStore {
        let header = &self.header;
        let envelope = header.envelope();
        let (defined, columns) = (&self.defined, &header.columns);
        let shown = presentation::presentation(entry, envelope.form, defined, columns);
        let resource = Resource {
            gvr: entry.gvr.clone(),
            namespaced: header.namespaced,
            envelope,
            fields,
            bookmark: header.bookmark().map_or_else(OnceLock::new, OnceLock::from),
        };
        let (writer, store) = Store::resume(
            resource,
            loaded.objects.finish(),
            header.since,
            loaded.events,
            header.resource_version,
            Instant::now(),
        );
        writer.present(Presentation {
            initial_events: header.initial_events,
            lacks_initial_events: header.lacks_initial_events,
            blueprint: header.blueprint,
            ..shown
        });
        OwnedStore { store, writer }
    }

    /// Proves that the store has the same history as upstream, and lets it
    /// catch up.
    async fn prove(
        &self,
        entry: &Entry,
        upstream: &dyn Source,
        saved: &SavedStores,
        owned: &OwnedStore,
        opened: &mut Opened,
    ) -> Result<DefinitionState, NotResumed> {
        // A definition that changed while no watch was open has not ended a
        // watch, so it is read again.
        let (defined, current, same) = tokio::join!(
            definition::read(upstream, &entry.gvr),
            current_version(entry, upstream),
            same_history(upstream, &owned.store),
        );
        if self.defined.is_voided_by(&defined) {
            return Err(Refusal::OtherDefinition.into());
        }
        let now = is_reached(current, &self.header, saved)?;
        same?;
        let caught_up = catch_up(entry, owned, opened, now);
        match tokio::time::timeout(CATCH_UP, caught_up).await {
            Ok(done) => done?,
            Err(_) => return Err(Refusal::Late.into()),
        }
        Ok(match defined {
            DefinitionState::Unknown => self.defined.clone(),
            defined => defined,
        })
    }
}

async fn open(
    entry: &Entry,
    upstream: &dyn Source,
    store: &Store,
    memory: &Arc<MemoryPool>,
) -> Result<Opened, NotResumed> {
    let from = store.progress().resource_version;
    let opened = upstream_watch::open(entry, upstream, from, memory).await;
    opened.map_err(|end| match end {
        UpstreamWatchEnd::Expired => Refusal::TooOld(from).into(),
        UpstreamWatchEnd::Failed(after) => NotResumed::Later(after),
        _ => Refusal::WatchRefused.into(),
    })
}

/// Asks for upstream's version: a server without initial events by a list of
/// one object.
async fn current_version(entry: &Entry, upstream: &dyn Source) -> Option<u64> {
    match freshness_probe::probe(upstream, &entry.gvr, true).await {
        Some((_, version)) => Some(version),
        None => freshness_probe::listed_version(upstream, &entry.gvr, false).await,
    }
}

/// Checks whether upstream still knows the newest of the saved objects. If etcd
/// was restored from a backup, upstream does not know it: its history is
/// another one with the same versions.
async fn same_history(upstream: &dyn Source, store: &Store) -> Result<(), Refusal> {
    let snapshot = store.snapshot();
    let newest = snapshot
        .iter(&KeyScope::All)
        .max_by_key(|o| o.resource_version);
    let Some(object) = newest else {
        return Ok(());
    };
    let Some((uid, version)) = read(upstream, store, object).await else {
        return Ok(());
    };
    let same = version == object.resource_version && uid == object.uid();
    if same || version > snapshot.resource_version {
        return Ok(());
    }
    Err(Refusal::Diverged(object.key.as_str().to_owned()))
}

/// Returns the uid and the version that the object has upstream. `None` if it
/// was deleted or upstream does not answer. In both cases the watch decides.
async fn read(
    upstream: &dyn Source,
    store: &Store,
    object: &StoredObject,
) -> Option<(String, u64)> {
    let gvr = &store.resource.gvr;
    let escaped =
        |text| percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC);
    let mut path = gvr.group_version().path();
    if store.resource.namespaced {
        path.push_str(&format!("/namespaces/{}", escaped(object.key.namespace())));
    }
    path.push_str(&format!("/{}/{}", gvr.resource, escaped(object.key.name())));
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
    let response = upstream.get(ReadKind::Probe, &path, accept).await;
    let response = response.ok().filter(|r| r.status() == StatusCode::OK)?;
    let body = response.into_body().collect_bytes(BodyLimit::DOCUMENT);
    let found: PartialObject = serde_json::from_slice(&body.await.ok()?).ok()?;
    let version = ResourceVersion::parse(&found.metadata.resource_version).ok()?;
    Some((found.metadata.uid, version.0))
}

/// Applies events until the store has reached `version` or no events come. The
/// watch stays silent if nothing of this resource has changed.
async fn catch_up(
    entry: &Entry,
    owned: &OwnedStore,
    opened: &mut Opened,
    version: u64,
) -> Result<(), NotResumed> {
    let OwnedStore { store, writer } = owned;
    while store.progress().resource_version < version {
        let Ok(frame) = tokio::time::timeout(QUIET_TIMEOUT, opened.frames.next()).await else {
            return Ok(());
        };
        match frame {
            Ok(Some(Frame::Object { change, object })) => {
                if let Err(error) = upstream_watch::apply(owned, change, &object) {
                    entry.provenance().judge(&error);
                    return Err(Refusal::Malformed(error.to_string()).into());
                }
            }
            Ok(Some(Frame::Bookmark(object))) => {
                if let Some(version) = freshness_probe::version_of(&object) {
                    writer.advance(version, Instant::now());
                }
            }
            Ok(Some(Frame::Error(status))) => {
                return Err(match upstream_watch::ended_by(&status, entry) {
                    UpstreamWatchEnd::Expired => {
                        Refusal::TooOld(store.progress().resource_version).into()
                    }
                    _ => NotResumed::Later(None),
                });
            }
            Ok(None) | Err(_) => return Err(NotResumed::Later(None)),
        }
    }
    Ok(())
}

async fn blocking<T: Send + 'static>(
    saved: &Arc<SavedStores>,
    work: impl FnOnce(&SavedStores) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let saved = saved.clone();
    let done = tokio::task::spawn_blocking(move || work(&saved)).await;
    done.unwrap_or_else(|e| Err(Refusal::Malformed(e.to_string())))
}
