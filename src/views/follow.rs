//! The task of a view: it follows RBAC, asks about places, and publishes the set of
//! granted places.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::StreamExt;
use kubernetes_wire::api::{Reason, Status};
use tokio::time::{Instant, timeout};

use super::grants::{Grants, Place};
use super::metrics::{Refusal, ViewsMetrics};
use super::question_budget::{Budgets, Rate};
use super::view::Lacks;
use super::{KnownRights, View, ViewsSettings};
use crate::authz::PlaceReview;
use crate::authz::rbac::{PlacesLimits, Rights};

/// The questions of one view at a time. The caller's own requests have other turns.
const MAX_CONCURRENT_QUESTIONS: usize = 4;

/// The questions about new places that one namespace may cause for one user within
/// `reviewTTL`, in addition to four times its names: as many as a user has views.
const OF_NAMESPACES: u32 = 64;

/// The time in which upstream must tell its version, and the pause before it is
/// asked again.
const VERSION_WITHIN: Duration = Duration::from_secs(5);
const VERSION_AGAIN: Duration = Duration::from_millis(500);

/// The longest sleep of a view that nothing wakes.
const MAX_SLEEP: Duration = Duration::from_secs(60);

pub(super) struct Shared {
    pub(super) settings: ArcSwap<ViewsSettings>,
    pub(super) metrics: ViewsMetrics,
    pub(super) budgets: Budgets,
}

/// Follows the rights of a view's user until the view ends.
pub(super) async fn follow(view: Arc<View>, rights: KnownRights, shared: Arc<Shared>) {
    let ended = view.ended.clone();
    let mut task = Task {
        view: &view,
        rights,
        shared: &shared,
        grants: Grants::default(),
        known: None,
        is_refused: false,
        lacks: Lacks::default(),
        goes_on: false,
    };
    tokio::select! {
        () = ended.cancelled() => {}
        () = task.run() => {}
    }
}

struct Task<'a> {
    view: &'a View,
    rights: KnownRights,
    shared: &'a Shared,
    grants: Grants,
    known: Option<Arc<Rights>>,
    /// The rights have more places than a view may have.
    is_refused: bool,
    /// The places that RBAC allows and the view cannot have.
    lacks: Lacks,
    /// New names must still be asked about, after the namespaces.
    goes_on: bool,
}

impl Task<'_> {
    async fn run(&mut self) {
        loop {
            let settings = **self.shared.settings.load();
            if !self.take_up_rights(&settings) {
                self.wait(None).await;
                continue;
            }
            // Places that RBAC lost are lost at once, whatever questions remain.
            if self.view.is_ready() {
                self.publish(&settings);
            }
            let now = Instant::now();
            if self.grants.are_over(now, &settings) {
                self.fail(unavailable(), Refusal::Unavailable);
                continue;
            }
            if !self.view.is_in_use() && !self.goes_on {
                self.rest(None).await;
                continue;
            }
            self.goes_on = false;
            let due = self.grants.due(now);
            if !due.is_empty() && !self.ask(due, now, &settings).await {
                continue;
            }
            // Granted places are served while new ones are asked about.
            if self.grants.are_known() || self.view.is_ready() {
                self.publish(&settings);
                self.note_lacks();
                self.goes_on = self.grants.lack_new(Instant::now());
                if !self.learn_since().await {
                    continue;
                }
                let until = self.grants.hold_until(&settings);
                // An empty view holds until something changes.
                let until = until.or(Instant::now().checked_add(settings.review_ttl));
                self.view.settled(until);
                let spreads_until = self.view.spreads_until();
                if spreads_until.is_some_and(|until| until <= Instant::now()) {
                    self.ask_version(self.view.published()).await;
                    continue;
                }
            }
            self.rest(self.next()).await;
        }
    }

    /// Returns the moment from which there is work for a view that is in use.
    fn next(&self) -> Option<Instant> {
        let next = self.grants.next().into_iter();
        next.chain(self.view.spreads_until()).min()
    }

    /// Waits, and lets requests be answered meanwhile that leave nothing to do.
    async fn rest(&mut self, until: Option<Instant>) {
        self.view.rest(self.next().or(longest_sleep()));
        self.wait(until).await;
        self.view.rest(None);
    }

    /// Reads the newest rights. Returns false if they allow no view.
    fn take_up_rights(&mut self, settings: &ViewsSettings) -> bool {
        let Some(rights) = self.rights.borrow_and_update().clone() else {
            self.fail(unavailable(), Refusal::Unavailable);
            return false;
        };
        if self
            .known
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, &rights))
        {
            return !self.is_refused;
        }
        let view = self.view;
        if let Some(known) = &self.known
            && rights.are_same_of(&view.user, known)
        {
            // Only the rights of other users changed.
            self.known = Some(rights);
            return !self.is_refused;
        }
        let limits = PlacesLimits {
            all: settings.max_grants,
            names_of_one: settings.max_names,
        };
        let places = rights.places(&view.user, view.verb, &view.gvr, view.namespaced, limits);
        let was_refused = self.is_refused;
        self.is_refused = places.is_err();
        let Ok(places) = places else {
            self.fail(too_many(settings), Refusal::TooManyGrants);
            self.known = Some(rights);
            return false;
        };
        self.known = Some(rights);
        self.lacks.names_anywhere = places.names_anywhere;
        self.lacks.names_left_out = places.names_left_out;
        if self.grants.follow(&places, Instant::now()) {
            view.doubt();
        }
        if was_refused {
            self.view.ask_anew();
        }
        if !self.grants.are_known() && !self.view.is_ready() {
            self.view.unsettled();
        }
        self.note_lacks();
        true
    }

    fn note_lacks(&mut self) {
        self.lacks.unanswered = self.grants.are_incomplete();
        let awaited = self.grants.lack_a_namespace();
        self.view.note_lacks(self.lacks, awaited);
    }

    /// Returns the places that may be asked about now. A new place is postponed if
    /// its namespace had many questions.
    fn within_budget(&mut self, due: Vec<Place>, settings: &ViewsSettings) -> Vec<Place> {
        let names = u32::try_from(settings.max_names).unwrap_or(u32::MAX);
        let rate = Rate {
            questions: names.saturating_mul(4).saturating_add(OF_NAMESPACES),
            within: settings.review_ttl,
        };
        let (user, now) = (&self.view.user.name, Instant::now());
        let mut within = Vec::with_capacity(due.len());
        for place in due {
            let taken = match self.grants.is_new(&place) {
                true => self
                    .shared
                    .budgets
                    .take((user, &place.namespace), rate, now),
                false => Ok(()),
            };
            match taken {
                Ok(()) => within.push(place),
                Err(until) => self.grants.postpone(&place, until),
            }
        }
        within
    }

    /// Asks about places, and notices losses meanwhile. Returns false if there can
    /// be no view any more.
    async fn ask(&mut self, due: Vec<Place>, since: Instant, settings: &ViewsSettings) -> bool {
        let (view, shared) = (self.view, self.shared);
        let due = self.within_budget(due, settings);
        let questions = due.into_iter().map(|place| async move {
            let question = view.question(&place.namespace, &place.name);
            let answer = view.reviewer.review(&view.user, &question, since).await;
            (place, answer)
        });
        let mut answers =
            futures::stream::iter(questions).buffer_unordered(MAX_CONCURRENT_QUESTIONS);
        let mut failure = None;
        loop {
            let answered = tokio::select! {
                biased;
                changed = self.rights.changed() => {
                    self.end_if(changed.is_err());
                    // The questions in progress go on. Otherwise they would never
                    // end while rights keep changing.
                    if !self.take_up_rights(settings) {
                        return false;
                    }
                    if view.is_ready() {
                        self.publish(settings);
                    }
                    continue;
                }
                answered = answers.next() => answered,
            };
            let Some((place, answer)) = answered else {
                break;
            };
            let now = Instant::now();
            match answer {
                Ok(PlaceReview {
                    allowed,
                    asked,
                    remembered,
                }) => {
                    shared.metrics.reviewed(match (remembered, allowed) {
                        (true, _) => "remembered",
                        (false, true) => "allowed",
                        (false, false) => "denied",
                    });
                    self.grants.answered(&place, allowed, asked, now, settings);
                }
                Err(status) => {
                    shared.metrics.reviewed("error");
                    self.grants.failed(&place, now);
                    failure = Some(status);
                }
            }
        }
        drop(answers);
        if let Some(status) = failure
            && !self.grants.are_known()
            && !view.is_ready()
        {
            view.fail(status, Refusal::Unavailable);
        }
        true
    }

    fn publish(&self, settings: &ViewsSettings) {
        // No replica uses a grant for longer than this without asking.
        let spread = settings.review_ttl.saturating_add(settings.outage);
        if let Some((gained, lost)) = self.view.publish(self.grants.visible(), spread) {
            self.shared.metrics.changed(gained, lost);
        }
    }

    /// Asks for upstream's version if that was not done since the set was published.
    /// Returns false if the rights changed meanwhile.
    async fn learn_since(&self) -> bool {
        while let Some(published) = self.view.lacks_since() {
            if !self.ask_version(published).await {
                return false;
            }
        }
        true
    }

    /// Asks for upstream's version after the set with this number was published.
    /// Returns false if the rights changed meanwhile.
    async fn ask_version(&self, published: u64) -> bool {
        let mut rights = self.rights.clone();
        let asked = Instant::now();
        let ask = async {
            let version = timeout(VERSION_WITHIN, self.view.versions.upstream()).await;
            match version {
                Ok(Some(version)) => self.view.published_before(published, version, asked),
                Ok(None) | Err(_) => tokio::time::sleep(VERSION_AGAIN).await,
            }
        };
        tokio::select! {
            changed = rights.changed() => {
                self.end_if(changed.is_err());
                false
            }
            () = ask => true,
        }
    }

    /// Ends the view if no more rights will be published, because the process ends.
    fn end_if(&self, is_over: bool) {
        if is_over {
            self.view.end();
        }
    }

    fn fail(&mut self, status: Status, why: Refusal) {
        self.grants = Grants::default();
        self.known = None;
        self.view.fail(status, why);
    }

    /// Waits until the rights change, a request uses the view, or `until`.
    async fn wait(&mut self, until: Option<Instant>) {
        let until = until.into_iter().chain(longest_sleep()).min();
        let timer = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = self.rights.changed() => self.end_if(changed.is_err()),
            () = self.view.woken.notified() => {}
            () = timer => {}
        }
    }
}

fn longest_sleep() -> Option<Instant> {
    Instant::now().checked_add(MAX_SLEEP)
}

/// The answer while the rights in memory are not known to be current.
fn unavailable() -> Status {
    let why = "the namespaces that you may read cannot be found out now";
    Status::service_unavailable(why.to_owned()).retry_soon()
}

fn too_many(settings: &ViewsSettings) -> Status {
    let message = format!(
        "a view may not have more than {} namespaces (views.maxGrantsPerView); \
         list and watch the namespaces one by one",
        settings.max_grants
    );
    Status::failure(403, Reason::Forbidden, message)
}
