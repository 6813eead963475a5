//! Saves the stores of a cache at intervals, and when the process ends.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use kubernetes_wire::api::GroupVersionResource;
use tokio::time::Instant;

use super::cache::{Cache, Selection};
use super::saved_header;
use super::unavailable::Unavailable;
use crate::saved::{Refusal, SavedStores};
use crate::{Policy, Settings};

/// The time between two checks whether the interval, which the configuration
/// may change, is over.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Saving takes at most a tenth of the time.
const MIN_INTERVAL_FACTOR: u32 = 10;

impl Cache {
    /// Starts the reflectors of all saved stores. Removes stores that may not
    /// be saved any more.
    pub fn resume(&self, settings: &Settings, selection: &dyn Selection) {
        let Some(saved) = &self.saved else {
            return;
        };
        for gvr in saved.found() {
            if !settings.saves(&gvr) {
                saved.refused(&gvr, &Refusal::NotCached);
                saved.remove(&gvr);
                continue;
            }
            match self.resume_one(&gvr, selection) {
                Ok(_) | Err(Unavailable::Filling) => {}
                Err(
                    Unavailable::Aggregated
                    | Unavailable::Withdrawn
                    | Unavailable::Excluded
                    | Unavailable::Refused
                    | Unavailable::Full,
                ) => {
                    saved.refused(&gvr, &Refusal::NotCached);
                }
                Err(Unavailable::MemoryLimit) => {
                    let why = "other resources take all of it".to_owned();
                    saved.refused(&gvr, &Refusal::Memory(why));
                }
            }
        }
    }

    /// Returns the number of saved stores that are still being read.
    pub fn resuming(&self) -> usize {
        self.saved.as_ref().map_or(0, |saved| saved.unready())
    }

    /// Saves stores at the interval of the current policy.
    pub async fn run_saving<P: Policy>(&self, current: impl Fn() -> Arc<P>) {
        let Some(saved) = &self.saved else {
            return;
        };
        let mut last = Instant::now();
        let mut took = Duration::ZERO;
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            let policy = current();
            let Some(persistence) = &policy.settings().persistence else {
                continue;
            };
            let interval = persistence.interval;
            if last.elapsed() < interval.max(took.saturating_mul(MIN_INTERVAL_FACTOR)) {
                continue;
            }
            let began = Instant::now();
            self.round(saved, policy.settings(), Some(interval)).await;
            last = Instant::now();
            took = began.elapsed();
        }
    }

    /// Saves every store for the next process. Gives up after `within`.
    pub async fn save(&self, settings: &Settings, within: Duration) {
        let Some(saved) = &self.saved else {
            return;
        };
        let round = self.round(saved, settings, None);
        if tokio::time::timeout(within, round).await.is_err() {
            tracing::warn!(?within, "not every store was saved in time");
            saved.stop();
        }
    }

    async fn round(
        &self,
        saved: &Arc<SavedStores>,
        settings: &Settings,
        interval: Option<Duration>,
    ) {
        let mut last = saved.rounds.lock().await;
        if !blocking(saved, SavedStores::may_write)
            .await
            .unwrap_or(false)
        {
            return;
        }
        let mut entries = self.entries();
        entries.retain(|entry| settings.saves(&entry.gvr));
        let mut kept = HashSet::new();
        let mut complete = true;
        for entry in entries {
            let gvr = &entry.gvr;
            let Some(store) = entry
                .store()
                .filter(|_| entry.provenance().origin().is_some())
            else {
                if saved.is_waiting(gvr) {
                    kept.insert(gvr.clone());
                }
                continue;
            };
            kept.insert(gvr.clone());
            // The forms are read before the header is written, so that a list
            // that comes meanwhile does not change the header.
            let forms = entry
                .usage()
                .demand()
                .forms()
                .map(|form| form.as_str().to_owned());
            let forms: Vec<String> = forms.collect();
            let last_save = last.get(gvr);
            if last_save.is_some_and(|l| !l.is_past(&store, &forms, interval)) {
                continue;
            }
            let saved_entry = entry.clone();
            let done = blocking(saved, move |saved| {
                saved.save(&store, || {
                    saved_header::saved_header(&saved_entry, &store, &forms)
                })
            });
            let done = done.await;
            match done.flatten() {
                Some(save) => drop(last.insert(gvr.clone(), save)),
                None => complete = false,
            }
        }
        last.retain(|gvr, _| kept.contains(gvr));
        let tidied = blocking(saved, move |saved| {
            saved.tidy(|gvr: &GroupVersionResource| kept.contains(gvr));
        });
        tidied.await;
        if complete {
            saved.round_done();
        }
    }
}

/// Does file work on a thread that may block. `None` if it panicked.
async fn blocking<T: Send + 'static>(
    saved: &Arc<SavedStores>,
    work: impl FnOnce(&SavedStores) -> T + Send + 'static,
) -> Option<T> {
    let saved = saved.clone();
    let done = tokio::task::spawn_blocking(move || work(&saved)).await;
    done.inspect_err(|error| tracing::error!(%error, "saving panicked"))
        .ok()
}
