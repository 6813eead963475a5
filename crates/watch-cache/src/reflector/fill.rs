//! Fills a store from a stream of initial events, or from a list in pages if
//! upstream does not support initial events. `run.rs` decides when, also that a list
//! follows a lost watch.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use apifront_source::{ServerIdentity, Source};
use http::HeaderValue;
use kubernetes_wire::api::Release;
use kubernetes_wire::representation::{BookmarkTemplate, Envelope};

use super::definition::{self, DefinitionState, ListedBy};
use super::entry::Entry;
use super::list;
use super::list_error::ListError;
use super::memory_pool::{MemoryPool, MemoryReservation};
use super::origin::{self, Origin};
use super::store_slot::OwnedStore;
use super::watch_list::{self, Opened};
use super::{discovery, freshness_probe, presentation, printer_check, source_encoding};
use crate::saved::Columns;
use crate::store::{FieldTable, Gathered, Presentation, Resource, Store, field_table};

/// The time limit of questions whose answers only refine the cache.
const LEARN_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct ListStrategy {
    /// Upstream does not support initial events.
    unsupported: bool,
    /// The last stream of initial events failed. Pages may succeed.
    failed: bool,
}

pub(super) struct Filled {
    /// The stream of initial events, which continues as the watch.
    pub(super) stream: Option<Opened>,
    pub(super) defined: DefinitionState,
}

/// All objects of a resource at one version, in whichever way they were listed.
struct All {
    envelope: Envelope,
    fields: FieldTable,
    namespaced: bool,
    resource_version: u64,
    objects: Gathered,
    warnings: Vec<HeaderValue>,
    bookmark: Option<BookmarkTemplate>,
}

impl ListStrategy {
    /// Forgets what was learnt, because upstream was replaced.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Lists the resource, and publishes the list in the entry's store or in a
    /// new store. Fails if there is no memory.
    pub(super) async fn fill(
        &mut self,
        entry: &Entry,
        upstream: &dyn Source,
        memory: &Arc<MemoryPool>,
    ) -> Result<Filled, ListError> {
        entry.provenance().set_release(release(upstream).await);
        match self.attempt(entry, upstream, memory).await {
            // The objects may be usable in the other encoding.
            Err(ListError::Object(error)) if entry.provenance().judge(&error) => {
                self.failed = false;
                self.attempt(entry, upstream, memory).await
            }
            filled => filled,
        }
    }

    async fn attempt(
        &mut self,
        entry: &Entry,
        upstream: &dyn Source,
        memory: &Arc<MemoryPool>,
    ) -> Result<Filled, ListError> {
        let accept = source_encoding::accept(&entry.gvr, entry.provenance().reads_json());
        let replaces = entry.store().map_or(0, |store| store.memory().total());
        let reading = memory.begin(replaces);
        if !self.unsupported && !self.failed {
            match watch_list::open(upstream, &entry.gvr, accept, reading.part()).await {
                Ok(Some(stream)) => {
                    let filling = Filling::begin(entry, upstream, reading, false).await;
                    let filled = filling.read_stream(stream).await;
                    self.failed = filled.is_err();
                    // A server that ignores the options for initial events,
                    // instead of refusing them, falls silent.
                    self.unsupported = matches!(filled, Err(ListError::Silent(_)));
                    return filled;
                }
                Ok(None) => {
                    tracing::debug!(resource = %entry.gvr, "no initial events, listing pages");
                    self.unsupported = true;
                }
                Err(error) => {
                    self.failed = true;
                    return Err(error);
                }
            }
        }
        let filling = Filling::begin(entry, upstream, reading, self.unsupported).await;
        let filled = filling.read_pages().await?;
        self.failed = false;
        Ok(filled)
    }
}

/// Asks for the release of the resource's server. Releases differ in how they
/// write some objects, print some Tables and write continue tokens.
pub(super) async fn release(upstream: &dyn Source) -> Option<Release> {
    let release = tokio::time::timeout(LEARN_TIMEOUT, upstream.release()).await;
    release.ok().flatten()
}

struct Filling<'a> {
    entry: &'a Entry,
    upstream: &'a dyn Source,
    reading: MemoryReservation,
    lacks_initial_events: bool,
    defined: DefinitionState,
    /// The server's identity. `None` if the store may not be saved or the
    /// server did not answer.
    server: Option<ServerIdentity>,
    began: Instant,
}

impl<'a> Filling<'a> {
    async fn begin(
        entry: &'a Entry,
        upstream: &'a dyn Source,
        reading: MemoryReservation,
        lacks_initial_events: bool,
    ) -> Self {
        let began = Instant::now();
        Self {
            entry,
            upstream,
            reading,
            lacks_initial_events,
            // A stream was opened before the definition is read. If the
            // definition changed before the stream was opened, this is the new
            // one. If it changes later, upstream ends the stream.
            defined: definition::read(upstream, &entry.gvr).await,
            server: match entry.provenance().is_savable() {
                true => origin::ask(upstream).await.ok(),
                false => None,
            },
            began,
        }
    }

    async fn read_stream(mut self, mut stream: Opened) -> Result<Filled, ListError> {
        let (upstream, gvr) = (self.upstream, &self.entry.gvr);
        let (listed, fields) = list::describe(upstream, gvr, &self.fields(), &self.reading).await?;
        let (initial, described) = tokio::try_join!(
            watch_list::initial_events(&mut stream, gvr, &fields, &mut self.reading),
            discovery::resource(upstream, gvr),
        )?;
        // The stream shows the envelope except for the list's kind, which is in
        // no event.
        let Envelope {
            form,
            api_version,
            kind,
            ..
        } = &initial.envelope;
        let all = All {
            envelope: Envelope::new(*form, api_version, kind, &listed.list_kind),
            fields,
            namespaced: described.namespaced,
            resource_version: initial.resource_version,
            objects: initial.objects,
            warnings: std::mem::take(&mut stream.warnings),
            bookmark: initial.bookmark,
        };
        stream.frames.go_on_as_watch();
        Ok(self.publish(all, Some(stream)).await)
    }

    async fn read_pages(mut self) -> Result<Filled, ListError> {
        let (upstream, gvr) = (self.upstream, &self.entry.gvr);
        let (_, fields) = list::describe(upstream, gvr, &self.fields(), &self.reading).await?;
        let accept = source_encoding::accept(gvr, self.entry.provenance().reads_json());
        let listed = list::list(upstream, gvr, accept, &fields, &mut self.reading).await?;
        let bookmark = freshness_probe::probe(upstream, gvr, false).await;
        let described = discovery::resource(upstream, gvr).await?;
        let Envelope {
            form,
            api_version,
            list_kind,
            ..
        } = &listed.envelope;
        // An empty list does not show the kind of its objects.
        let envelope = match described.kind.as_str() {
            "" => listed.envelope,
            kind => Envelope::new(*form, api_version, kind, list_kind),
        };
        let all = All {
            envelope,
            fields,
            namespaced: described.namespaced,
            resource_version: listed.resource_version,
            objects: listed.objects.finish(),
            warnings: listed.warnings,
            bookmark: bookmark.map(|(template, _)| template),
        };
        Ok(self.publish(all, None).await)
    }

    /// Returns the fields that can be selected, as far as they are known before
    /// the list.
    fn fields(&self) -> FieldTable {
        match self.defined.definition() {
            Some(definition) => definition.fields.clone(),
            None => field_table(&self.entry.gvr),
        }
    }

    /// Publishes the list, and reduces the reserved memory to what the store
    /// takes.
    async fn publish(self, all: All, stream: Option<Opened>) -> Filled {
        let entry = self.entry;
        let (count, version) = (all.objects.len(), all.resource_version);
        let columns = self.columns().await;
        let presentation = Presentation {
            warnings: all.warnings,
            // Only a server with initial events has shown a bookmark at this
            // time.
            initial_events: all.bookmark.is_some(),
            lacks_initial_events: self.lacks_initial_events && all.bookmark.is_none(),
            blueprint: all.bookmark.as_ref().is_some_and(|b| b.had_blueprint()),
            ..presentation::presentation(entry, all.envelope.form, &self.defined, &columns)
        };
        let resource = Resource {
            gvr: entry.gvr.clone(),
            namespaced: all.namespaced,
            envelope: all.envelope,
            fields: all.fields,
            bookmark: all.bookmark.map_or_else(OnceLock::new, OnceLock::from),
        };
        // While the list is not in the store, the store has no source and may
        // not be saved.
        entry.provenance().set_origin(None);
        entry.provenance().set_listed_by(ListedBy::Unsure);
        let owned = entry.owned();
        match owned
            .as_deref()
            .filter(|owned| same(&owned.store.resource, &resource))
        {
            Some(OwnedStore { store, writer }) => {
                if let Some(template) = resource.bookmark.into_inner() {
                    // A template that was learnt before stays.
                    let _ = store.resource.bookmark.set(template);
                }
                writer.present(presentation);
                writer.replace_gathered(all.objects, version, Instant::now());
            }
            None => {
                let (writer, store) = Store::from_gathered(resource, all.objects, version);
                writer.present(presentation);
                entry.fill(writer, store);
            }
        }
        drop(owned);
        entry.freshness().proven(self.began);
        entry.provenance().set_origin(self.origin(columns));
        entry
            .provenance()
            .set_listed_by(ListedBy::from_definition(&entry.gvr, &self.defined));
        tracing::info!(
            resource = %entry.gvr, objects = count, resource_version = version,
            took = ?self.began.elapsed(), "cache filled"
        );
        let total = entry.store().map_or(0, |store| store.memory().total());
        self.reading.publish(total);
        Filled {
            stream,
            defined: self.defined,
        }
    }

    async fn columns(&self) -> Columns {
        let asked = printer_check::ask(self.upstream, &self.entry.gvr);
        let asked = tokio::time::timeout(LEARN_TIMEOUT, asked).await;
        asked.unwrap_or_default()
    }

    /// Returns the source of the list, if its store may be saved.
    fn origin(&self, columns: Columns) -> Option<Origin> {
        Some(Origin {
            server: self.server.clone()?,
            definition: origin::definition(&self.entry.gvr, &self.defined)?,
            columns,
        })
    }
}

/// Tells whether a list fits into the existing store. A definition that was
/// deleted and created again may have another form or scope, and a changed
/// definition may have other fields. For clients that is another resource.
fn same(before: &Resource, now: &Resource) -> bool {
    before.envelope == now.envelope
        && before.namespaced == now.namespaced
        && before.fields == now.fields
}
