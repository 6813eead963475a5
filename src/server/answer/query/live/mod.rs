//! Live answers: a page of an order, and how it changes.

mod event;
mod followed;

use std::sync::Arc;
use std::time::Duration;

use apifront_query::{
    Answer as Answered, Count, Failed, KeptOrder, NotKept, Page, Plan, Query, QuerySpec, RowChange,
    Window,
};
use apifront_watch_cache::store::Progress;
use apifront_watch_cache::watch::Visibility;
use bytes::Bytes;
use event::{Update, line};
use followed::Followed;
use futures::future::select_all;
use futures::stream::{self, BoxStream, StreamExt};
use kubernetes_wire::api::status::Cause;
use kubernetes_wire::api::{Reason, Status, UserInfo};
use kubernetes_wire::representation::Encoding;
use kubernetes_wire::representation::error_status::watch_error;
use parking_lot::Mutex;
use rand::Rng;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep};

use super::Unanswered;
use super::evaluate::status_of;
use crate::queries::{self, OpenWindow, Order, QueriedObject, Shown};
use crate::server::answer::cached::Selected;
use crate::server::offload::OffloadUser;
use crate::server::stage::Identified;
use crate::server::state::process_state::ProcessState;

/// The time after which a reader without news is told that nothing happened.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// The most updates in a row that may not be made.
const MAX_LOST: u32 = 60;

/// The greatest `timeoutSeconds`. Others are those of a watch.
const MAX_SECONDS: i64 = 24 * 60 * 60;

const RIGHTS_CHANGED: &str = "what you may list has changed: ask again";
const NO_EVENTS: &str = "a live answer cannot be about APIServices while some are configured here";
const RESOURCE_GONE: &str = "the resource is no longer served from memory: ask again";

/// A live answer, after its first event.
pub(super) struct Live {
    plan: Arc<Plan>,
    shown: Arc<Shown>,
    followed: Followed,
    views: Vec<Visibility>,
    window: Arc<Mutex<Window<QueriedObject>>>,
    version: u64,
    total: u64,
    progress: Receiver<Progress>,
    interval: Duration,
    updated: Instant,
    told: Instant,
    /// The updates in a row that could not be made.
    lost: u32,
    began: Instant,
    lasts: Duration,
    process: Arc<ProcessState>,
    user: Option<UserInfo>,
    open: OpenWindow,
    /// The order stays while it is held.
    _order: Arc<Order>,
}

/// Why a live answer ends.
enum End {
    TimeOut,
    Error(Box<Status>),
}

impl From<Status> for End {
    fn from(status: Status) -> Self {
        Self::Error(Box::new(status))
    }
}

/// Checks that a query can be live.
pub(super) fn check(spec: &QuerySpec) -> Result<(), Status> {
    let is_exact = spec.resource_version_match == "Exact";
    let mut wrong = Vec::new();
    for (field, value, is_wrong) in [
        (
            "spec.continue",
            &spec.continue_token,
            !spec.continue_token.is_empty(),
        ),
        (
            "spec.resourceVersionMatch",
            &spec.resource_version_match,
            is_exact,
        ),
    ] {
        if is_wrong {
            let message = format!("Invalid value: {value:?}: a live answer is of no single state");
            wrong.push(Cause::new("FieldValueInvalid", field, message));
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(Status::invalid(&queries::kind(), "", wrong)),
    }
}

/// Returns how long a live answer lasts, as for a watch.
fn lasts(identified: &Identified) -> Result<Duration, Status> {
    let seconds = match identified.query().get("timeoutSeconds") {
        None | Some("") => 0,
        Some(text) => text.parse().unwrap_or(-1),
    };
    match seconds {
        0 => {
            let shortest = identified.generation().settings.min_request_timeout;
            // The time is spread, so that what began together does not end together.
            Ok(shortest.mul_f64(1.0 + rand::rng().random_range(0.0..1.0)))
        }
        1..=MAX_SECONDS => Ok(Duration::from_secs(seconds.unsigned_abs())),
        _ => Err(Status::bad_request(format!(
            "timeoutSeconds must be a number from 0 to {MAX_SECONDS}"
        ))),
    }
}

/// The first answer, and the page that it shows.
struct Begun {
    answered: Answered,
    page: Page<QueriedObject>,
}

impl Live {
    /// Evaluates the first answer.
    pub(super) async fn begin(
        identified: &Arc<Identified>,
        plan: &Arc<Plan>,
        shown: &Arc<Shown>,
        selected: &Arc<Selected>,
        by: OffloadUser<'_>,
    ) -> Result<(Self, Answered), Unanswered> {
        let lasts = lasts(identified)?;
        if selected.is_overlaid {
            return Err(Status::bad_request(NO_EVENTS).into());
        }
        if !selected.is_of_views() {
            return Err(Status::expired(RIGHTS_CHANGED).into());
        }
        let process = identified.generation().process.clone();
        let user = identified.user();
        let name = user.map(|user| user.name.as_str());
        let open = process.query_windows.open(name, plan.window_bytes());
        let open = open.ok_or(Unanswered::Overloaded)?;
        let mut progress = selected.store.subscribe();
        // Events after the first state are news.
        progress.mark_changed();
        let followed = Followed {
            store: selected.store.clone(),
            selections: selected.selections.clone(),
        };
        let order = process.query_orders.hold(&followed.asked(plan, name));
        let work = {
            let (process, plan, shown) = (process.clone(), plan.clone(), shown.clone());
            let (selected, user) = (selected.clone(), user.cloned());
            let followed = followed.clone();
            move || {
                let name = user.as_ref().map(|user| user.name.as_str());
                let read = |order: &KeptOrder<_>| {
                    let mut answered = order.answer(&plan)?;
                    shown.complete(&mut answered, &selected.snapshot)?;
                    let page = order.page(&plan);
                    Ok::<_, Failed>(Begun { answered, page })
                };
                let asked = followed.asked(&plan, name);
                followed.read_order(&process, &asked, &selected.snapshot, read)
            }
        };
        let begun = by.run(work).await;
        let begun = begun.map_err(|_| Unanswered::Overloaded)?;
        let begun = begun.unwrap_or(Err(NotKept::Failed(Failed::GivenUp)));
        let Begun { answered, page } = begun.map_err(refusal)?.map_err(status_of)?;
        let now = Instant::now();
        let live = Self {
            window: Arc::new(Mutex::new(Window::new(page, &answered.rows))),
            version: selected.snapshot.resource_version,
            total: answered.total,
            plan: plan.clone(),
            shown: shown.clone(),
            followed,
            views: selected.views.clone(),
            progress,
            interval: plan.update_interval(),
            updated: now,
            told: now,
            lost: 0,
            began: now,
            lasts,
            user: user.cloned(),
            process,
            open,
            _order: order,
        };
        Ok((live, answered))
    }

    /// Returns the events: the first answer, and then what changes.
    pub(super) fn events(self, first: &Query) -> BoxStream<'static, Bytes> {
        let first = line("ADDED", first);
        let rest = stream::unfold(Some(self), async |live| {
            let mut live = live?;
            match live.next().await {
                Ok(line) => Some((line, Some(live))),
                Err(End::TimeOut) => None,
                Err(End::Error(status)) => Some((watch_error(&status, Encoding::Json), None)),
            }
        });
        stream::once(async { first }).chain(rest).boxed()
    }

    async fn next(&mut self) -> Result<Bytes, End> {
        loop {
            let rest = |of: Duration, since: Instant| sleep(of.saturating_sub(since.elapsed()));
            let (over, silent) = (
                rest(self.lasts, self.began),
                rest(BOOKMARK_EVERY, self.told),
            );
            let (progress, may_update) = (&mut self.progress, rest(self.interval, self.updated));
            let changed = async {
                // Until then, events wake nobody.
                may_update.await;
                progress.changed().await
            };
            tokio::select! {
                biased;
                () = over => return Err(End::TimeOut),
                () = seen_changes(&self.views) => {
                    return Err(Status::expired(RIGHTS_CHANGED).into());
                }
                changed = changed => {
                    if changed.is_err() || self.progress.borrow().closed {
                        return Err(Status::expired(RESOURCE_GONE).into());
                    }
                    if let Some(line) = self.update().await? {
                        return Ok(line);
                    }
                }
                () = silent => {
                    self.told = Instant::now();
                    return Ok(line("BOOKMARK", &self.news(None, Vec::new())));
                }
            }
        }
    }

    /// Evaluates what changed. Returns `None` if the page and its numbers are as before.
    async fn update(&mut self) -> Result<Option<Bytes>, End> {
        self.updated = Instant::now();
        let window = self.window.clone();
        let (process, plan) = (self.process.clone(), self.plan.clone());
        let (followed, shown) = (self.followed.clone(), self.shown.clone());
        let user = self.user.clone();
        let work = move || {
            let name = user.as_ref().map(|user| user.name.as_str());
            let asked = followed.asked(&plan, name);
            // Windows that are updated together show one state.
            let snapshot = followed.store.snapshot();
            let read = |order: &KeptOrder<_>| order.page(&plan);
            let page = followed.read_order(&process, &asked, &snapshot, read)?;
            let turned = window.lock().turn(page, |changed| shown.rows(changed));
            Ok((snapshot.resource_version, turned?))
        };
        let flow = self.process.flow.clone();
        let by = OffloadUser::of(&flow, self.user.as_ref());
        let run = async |work| {
            let _ = by.run(work).await;
        };
        let Some(turned) = self.open.update(work, run).await else {
            // The user has too much other work. The next update shows what changed.
            self.lost = self.lost.saturating_add(1);
            if self.lost > MAX_LOST {
                return Err(Status::internal_error("updates fail").into());
            }
            self.progress.mark_changed();
            return Ok(None);
        };
        self.lost = 0;
        let (version, difference) = match turned {
            Ok(turned) => turned,
            Err(NotKept::Failed(Failed::GivenUp) | NotKept::OfLater) => {
                self.progress.mark_changed();
                return Ok(None);
            }
            Err(not_kept) => return Err(refusal(not_kept).into()),
        };
        // Nothing is shown that the caller may not list any more.
        if self.views.iter().any(Visibility::is_over) {
            return Err(Status::expired(RIGHTS_CHANGED).into());
        }
        self.version = version;
        let Some(difference) = difference else {
            return Ok(None);
        };
        self.total = difference.total;
        self.told = Instant::now();
        self.open.updated();
        let news = self.news(difference.counts, difference.changes);
        Ok(Some(line("MODIFIED", &news)))
    }

    fn news(&self, counts: Option<Vec<Count>>, changes: Vec<RowChange>) -> Update {
        Update::new(self.version, self.total, counts, changes)
    }
}

/// Resolves when the caller may see other objects than at the beginning.
async fn seen_changes(views: &[Visibility]) {
    if views.is_empty() {
        return std::future::pending().await;
    }
    select_all(views.iter().map(|view| Box::pin(view.clone().changed()))).await;
}

fn refusal(not_kept: NotKept) -> Status {
    match not_kept {
        NotKept::Failed(failed) => status_of(failed),
        NotKept::TooLarge | NotKept::OfLater => {
            let why =
                "there is no memory to keep the order of a live query: narrow it, or end others";
            Status::failure(429, Reason::TooManyRequests, why)
        }
    }
}
