//! The state of a view, as the requests that use it see it.
//!
//! A client's state is known only by its version. So a view remembers `since`: a
//! state at a later version can only belong to the present set. To find `since`,
//! upstream is asked for its version after the present set was published. `since` is
//! the version before the answer, or the newest version that any client was told of
//! here, if that is later. This is sound because a server that knows the present set
//! gives no later version under an earlier set. A client with an earlier version
//! lists again.
//!
//! Another replica may learn of a change earlier or later, by `spread` at most. So a
//! client's state at a later version surely belongs to the present set only if this
//! replica listed it, or if the version is after `everywhere`: upstream was asked
//! for that version when every replica knew the set. Other clients list again, too.
//!
//! The set is *in doubt* when it gains a place, and when RBAC changes even if the
//! set does not: a right can be given and withdrawn before its review is answered,
//! and another replica may have known it for a while, and shown its set to clients.
//! Then `everywhere` is not known any more. Watches end that were resumed less than
//! `spread` ago from a version of another replica.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use apifront_watch_cache::store::{Visible, VisibleEntry};
use apifront_watch_cache::watch::Visibility;
use kubernetes_wire::api::{Attributes, GroupVersionResource, Status, UserInfo};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::metrics::Refusal;
use super::{Reviewer, Versions};

/// The most versions of lists that a view remembers. A client with a forgotten
/// version lists again.
const MOST_LISTS: usize = 1000;

/// The time for which a request waits for namespaces that were just granted. After
/// that, the answer holds the namespaces that are known.
const GAINS_WITHIN: Duration = Duration::from_secs(1);

/// The part of one resource that one user may list or watch.
pub struct View {
    pub(super) user: UserInfo,
    pub(super) gvr: GroupVersionResource,
    /// list or watch.
    pub(super) verb: &'static str,
    pub(super) namespaced: bool,
    pub(super) reviewer: Arc<dyn Reviewer>,
    pub(super) versions: Arc<dyn Versions>,
    state: Mutex<State>,
    /// Notified of each change of the state.
    changed: watch::Sender<()>,
    /// Tells the view's task that the view is used.
    pub(super) woken: Notify,
    pub(super) ended: CancellationToken,
}

struct State {
    phase: Phase,
    /// The set, for watches. If the view fails, the channel is dropped, which ends
    /// them.
    visible: watch::Sender<Visible>,
    /// See the module's text. `None` while unknown for the present set.
    since: Option<u64>,
    /// See the module's text. `None` while unknown for the present set.
    everywhere: Option<u64>,
    /// The time in which every replica learns of a change.
    spread: Duration,
    /// The moment of the last publication or doubt.
    published_at: Instant,
    /// The versions of lists of the present set, up to `everywhere`.
    lists: BTreeSet<u64>,
    /// Gets the moment at which the set is in doubt. Each doubt has its own channel,
    /// so that a watch sees the first doubt after it was resumed.
    doubted: watch::Sender<Option<Instant>>,
    published: u64,
    /// The highest version that a client got with a list.
    given: u64,
    /// Whether any client has listed or watched.
    is_told: bool,
    /// The moment until which the grants hold for new requests.
    holds_until: Option<Instant>,
    lacks: Lacks,
    /// Whether new namespaces are being asked about.
    gains: bool,
    /// Whether a request waits for the view to be recent.
    wanted: bool,
    /// The moment until which the view's task has nothing to do for a request. `None`
    /// while it works, or waits for the next request.
    rests_until: Option<Instant>,
    used: Instant,
}

#[derive(Debug)]
enum Phase {
    /// The first questions are under way.
    Asking,
    Ready,
    Failed(Box<Status>, Refusal),
}

/// Places that RBAC allows and the view lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lacks {
    /// Names of a namespaced resource in every namespace.
    pub names_anywhere: bool,
    /// Names beyond the limits of a view.
    pub names_left_out: bool,
    /// Places without an answer.
    pub unanswered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coverage {
    pub namespaces: usize,
    pub names: usize,
}

impl Coverage {
    pub fn from_visible(visible: &Visible) -> Self {
        let is_namespace = |entry: &VisibleEntry<'_>| matches!(entry, VisibleEntry::Namespace(_));
        let namespaces = visible.iter().filter(is_namespace).count();
        Self {
            namespaces,
            names: visible.len().saturating_sub(namespaces),
        }
    }
}

impl View {
    pub(super) fn new(
        user: UserInfo,
        (gvr, verb, namespaced): (GroupVersionResource, &'static str, bool),
        reviewer: Arc<dyn Reviewer>,
        versions: Arc<dyn Versions>,
        now: Instant,
    ) -> Self {
        Self {
            user,
            gvr,
            verb,
            namespaced,
            reviewer,
            versions,
            state: Mutex::new(State {
                phase: Phase::Asking,
                visible: watch::channel(Visible::default()).0,
                since: None,
                everywhere: None,
                spread: Duration::ZERO,
                published_at: now,
                lists: BTreeSet::new(),
                doubted: watch::channel(None).0,
                published: 0,
                given: 0,
                is_told: false,
                holds_until: None,
                lacks: Lacks::default(),
                gains: false,
                wanted: false,
                rests_until: None,
                used: now,
            }),
            changed: watch::channel(()).0,
            woken: Notify::new(),
            ended: CancellationToken::new(),
        }
    }

    /// Waits until the view is known and its grants hold.
    pub async fn ready(&self, within: Duration) -> Result<(), (Status, Refusal)> {
        let mut changed = self.changed.subscribe();
        let asked = Instant::now();
        {
            let mut state = self.state.lock();
            state.used = asked;
            if state.rests(asked) && matches!(state.answer(asked), Some(Ok(()))) {
                return Ok(());
            }
            state.wanted = true;
            // Every caller may cause another attempt, as with any other question.
            if matches!(state.phase, Phase::Failed(_, Refusal::Unavailable)) {
                state.phase = Phase::Asking;
            }
        }
        self.woken.notify_one();
        let patience = within.min(GAINS_WITHIN);
        if let Some(found) = self.answered(&mut changed, patience, true).await {
            return found;
        }
        let left = within.saturating_sub(patience);
        if let Some(found) = self.answered(&mut changed, left, false).await {
            return found;
        }
        Err(not_known_yet())
    }

    /// Waits for the answer to a request. The answer includes or leaves out the
    /// namespaces that are being asked about.
    async fn answered(
        &self,
        changed: &mut watch::Receiver<()>,
        within: Duration,
        with_gains: bool,
    ) -> Option<Result<(), (Status, Refusal)>> {
        let answered = async {
            loop {
                changed.borrow_and_update();
                let found = {
                    let state = self.state.lock();
                    let waits = with_gains && state.gains;
                    state.answer(Instant::now()).filter(|_| !waits)
                };
                if found.is_some() {
                    return found;
                }
                if changed.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::time::timeout(within, answered).await.ok().flatten()
    }

    /// Returns the version after which a state can only belong to the present set.
    /// `None` while that is unknown.
    pub fn since(&self) -> Option<u64> {
        self.state.lock().since
    }

    /// Returns the present set for a list at this version. Later sets belong to
    /// later versions. `None` if there is no set any more.
    pub fn list_at(&self, version: u64) -> Option<Visible> {
        let mut state = self.state.lock();
        state.given = state.given.max(version);
        state.is_told = true;
        state.listed(version);
        let is_ready = matches!(state.phase, Phase::Ready);
        let visible = state.visible.borrow().clone();
        is_ready.then_some(visible)
    }

    /// Returns the set for a watch from this version, or `None` if the client may
    /// have another set.
    pub fn watch_from(&self, version: u64) -> Option<Visibility> {
        let is_later = |than: Option<u64>| than.is_some_and(|than| version > than);
        let mut resumed = None;
        let visibility = self.watch(|state| {
            let listed_here = state.lists.contains(&version);
            if !listed_here {
                let until = Instant::now().checked_add(state.spread);
                resumed = until.map(|until| (state.doubted.subscribe(), until));
            }
            is_later(state.since) && (listed_here || is_later(state.everywhere))
        })?;
        Some(match resumed {
            Some((doubted, until)) => visibility.resumed(doubted, until),
            None => visibility,
        })
    }

    /// Returns the set for a watch that begins with the state at this version.
    /// `None` if there is no set any more.
    pub fn watch_state(&self, version: u64) -> Option<Visibility> {
        self.watch(|state| {
            state.given = state.given.max(version);
            true
        })
    }

    fn watch(&self, may: impl FnOnce(&mut State) -> bool) -> Option<Visibility> {
        let visibility = {
            let mut state = self.state.lock();
            let may = may(&mut state) && matches!(state.phase, Phase::Ready);
            may.then(|| {
                state.is_told = true;
                let receiver = state.visible.subscribe();
                Visibility::new(state.visible.borrow().clone(), receiver)
            })?
        };
        // The task renews the grants of a watched view in time.
        self.woken.notify_one();
        Some(visibility)
    }

    pub fn visible(&self) -> Visible {
        self.state.lock().visible.borrow().clone()
    }

    /// Returns the set of a view that was ready. Fails if the view failed since, and if
    /// all places are left out for now because none has an answer: an empty set would
    /// say that the caller may read nothing.
    pub fn granted(&self) -> Result<Visible, (Status, Refusal)> {
        let state = self.state.lock();
        let visible = state.visible.borrow().clone();
        match &state.phase {
            Phase::Failed(status, why) => Err(((**status).clone(), *why)),
            // Another request asks anew about a view that failed.
            Phase::Asking => Err(not_known_yet()),
            Phase::Ready if visible.is_empty() && state.lacks.unanswered => Err(not_known_yet()),
            Phase::Ready => Ok(visible),
        }
    }

    pub fn lacks(&self) -> Lacks {
        self.state.lock().lacks
    }

    /// Notes which places the view lacks, and whether requests wait a while for a
    /// namespace.
    pub(super) fn note_lacks(&self, lacks: Lacks, gains: bool) {
        let mut state = self.state.lock();
        state.lacks = lacks;
        state.gains = gains;
        drop(state);
        self.changed.send_replace(());
    }

    pub(super) fn question(&self, namespace: &str, name: &str) -> Attributes {
        let field_selector = match name {
            "" => String::new(),
            name => format!("metadata.name={name}"),
        };
        Attributes::Resource {
            verb: self.verb.to_owned(),
            gvr: self.gvr.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: String::new(),
            field_selector,
            label_selector: String::new(),
        }
    }

    pub(super) fn is_watched(&self) -> bool {
        self.state.lock().visible.receiver_count() > 0
    }

    /// Returns the time of the last request, if nobody watches.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let state = self.state.lock();
        (state.visible.receiver_count() == 0).then_some(state.used)
    }

    /// Tells whether a request waits for the view, or watches it.
    pub(super) fn is_in_use(&self) -> bool {
        let state = self.state.lock();
        state.wanted || state.visible.receiver_count() > 0
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.state.lock().phase, Phase::Ready)
    }

    /// Publishes the granted set. Returns how many places were gained and lost, if
    /// the view was known before. Every replica learns of the change within
    /// `spread`.
    pub(super) fn publish(&self, visible: Visible, spread: Duration) -> Option<(usize, usize)> {
        let mut state = self.state.lock();
        state.spread = spread;
        let was_ready = matches!(state.phase, Phase::Ready);
        let before = state.visible.borrow().clone();
        if was_ready && before == visible {
            return None;
        }
        // The versions are forgotten before the set changes, so that nobody resumes
        // with an old version under the new set.
        state.forget_versions();
        let changed = was_ready.then(|| difference(&before, &visible));
        if changed.is_some_and(|(gained, _)| gained > 0) {
            state.doubt();
        }
        state.visible.send_replace(visible.clone());
        state.phase = Phase::Ready;
        drop(state);
        self.changed.send_replace(());
        changed
    }

    /// Notes that other replicas may have had another set for a while.
    pub(super) fn doubt(&self) {
        self.state.lock().doubt();
    }

    /// Returns the number of the present set if its `since` is unknown.
    pub(super) fn lacks_since(&self) -> Option<u64> {
        let state = self.state.lock();
        let lacks = matches!(state.phase, Phase::Ready) && state.since.is_none();
        lacks.then_some(state.published)
    }

    /// Returns the moment from which upstream's version can become `everywhere`.
    /// `None` if `everywhere` is known.
    pub(super) fn spreads_until(&self) -> Option<Instant> {
        let state = self.state.lock();
        let lacks = matches!(state.phase, Phase::Ready) && state.everywhere.is_none();
        lacks.then(|| state.spreads_until()).flatten()
    }

    pub(super) fn published(&self) -> u64 {
        self.state.lock().published
    }

    /// Takes a version that upstream was asked for at this moment, after the set
    /// with this number was published.
    pub(super) fn published_before(&self, published: u64, upstream: u64, asked: Instant) {
        let mut state = self.state.lock();
        if state.published != published {
            return;
        }
        // Watchers have been told of all that the store has.
        let stored = state.is_told.then(|| self.versions.stored()).flatten();
        let told = stored.unwrap_or_default().max(state.given);
        // A state at upstream's own version may belong to the present set, unless a
        // client was told of that version here. As long as nothing is written, there
        // is no later version.
        let since = told.max(upstream.saturating_sub(1));
        state.since.get_or_insert(since);
        let is_everywhere = state.spreads_until().is_some_and(|until| until <= asked);
        if is_everywhere && state.everywhere.is_none() {
            state.everywhere = Some(told.max(upstream));
        }
        drop(state);
        self.changed.send_replace(());
    }

    /// Notes that every grant holds until this moment.
    pub(super) fn settled(&self, holds_until: Option<Instant>) {
        let mut state = self.state.lock();
        state.holds_until = holds_until;
        state.wanted = false;
        drop(state);
        self.changed.send_replace(());
    }

    /// Notes that requests need not wake the view's task before this moment, or that
    /// they must.
    pub(super) fn rest(&self, until: Option<Instant>) {
        self.state.lock().rests_until = until;
    }

    /// Notes that some places have no answer yet.
    pub(super) fn unsettled(&self) {
        self.state.lock().holds_until = None;
    }

    /// Makes requests wait for an answer, because an earlier refusal no longer
    /// applies.
    pub(super) fn ask_anew(&self) {
        self.state.lock().phase = Phase::Asking;
    }

    /// Ends the watches. Requests get this status from now on.
    pub(super) fn fail(&self, status: Status, why: Refusal) {
        let mut state = self.state.lock();
        state.phase = Phase::Failed(Box::new(status), why);
        state.visible = watch::channel(Visible::default()).0;
        state.forget_versions();
        state.holds_until = None;
        state.wanted = false;
        drop(state);
        self.changed.send_replace(());
    }

    pub(super) fn end(&self) {
        let why = "the views were made anew, please try again";
        let status = Status::service_unavailable(why.to_owned()).retry_soon();
        self.fail(status, Refusal::Unavailable);
        self.ended.cancel();
    }
}

impl State {
    /// Forgets the facts about the present set's versions, because another set
    /// follows.
    fn forget_versions(&mut self) {
        self.since = None;
        self.everywhere = None;
        self.lists.clear();
        self.published_at = Instant::now();
        self.published = self.published.saturating_add(1);
    }

    /// Puts the set in doubt: see the module's text.
    fn doubt(&mut self) {
        let now = Instant::now();
        self.everywhere = None;
        self.published_at = now;
        let next = watch::channel(None).0;
        std::mem::replace(&mut self.doubted, next).send_replace(Some(now));
    }

    fn listed(&mut self, version: u64) {
        if self
            .everywhere
            .is_some_and(|everywhere| version > everywhere)
        {
            return;
        }
        self.lists.insert(version);
        if self.lists.len() > MOST_LISTS {
            self.lists.pop_first();
        }
    }

    fn spreads_until(&self) -> Option<Instant> {
        self.published_at.checked_add(self.spread)
    }

    fn rests(&self, now: Instant) -> bool {
        !self.gains && self.rests_until.is_some_and(|until| now < until)
    }

    fn answer(&self, now: Instant) -> Option<Result<(), (Status, Refusal)>> {
        match &self.phase {
            Phase::Asking => None,
            Phase::Failed(status, why) => Some(Err(((**status).clone(), *why))),
            Phase::Ready => {
                let holds = self.holds_until.is_some_and(|until| now < until);
                (holds && self.since.is_some()).then_some(Ok(()))
            }
        }
    }
}

fn not_known_yet() -> (Status, Refusal) {
    let why = "the namespaces that you may read are not known yet";
    let status = Status::service_unavailable(why.to_owned()).retry_soon();
    (status, Refusal::Unavailable)
}

/// Counts the places that only the second set has, and those that only the first
/// has.
fn difference(before: &Visible, after: &Visible) -> (usize, usize) {
    let keys = |visible: &Visible| {
        let keys = visible.iter().map(|entry| match entry {
            VisibleEntry::Namespace(namespace) => format!("{namespace}/"),
            VisibleEntry::Object(key) => key.to_owned(),
        });
        keys.collect::<std::collections::HashSet<_>>()
    };
    let (before, after) = (keys(before), keys(after));
    let gained = after.difference(&before).count();
    (gained, before.difference(&after).count())
}
