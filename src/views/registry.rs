//! All views of the process.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use kubernetes_wire::api::{Attributes, GroupVersionResource, Reason, Status, UserInfo};
use parking_lot::Mutex;
use tokio::time::{Instant, MissedTickBehavior};

use super::follow::{self, Shared};
use super::metrics::{Refusal, ViewsMetrics};
use super::question_budget::Budgets;
use super::view_table::{Key, Room, ViewTable};
use super::{KnownRights, Reviewer, Versions, View, ViewsSettings};
use crate::authz::{self, Authorizer};

/// An unwatched view is forgotten when no request used it for this time. The next
/// request asks about each place again.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// The time between two searches for unused views.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub struct Asked<'a> {
    pub user: &'a UserInfo,
    pub gvr: &'a GroupVersionResource,
    /// list or watch.
    pub verb: &'static str,
    pub namespaced: bool,
    pub reviewer: Arc<Authorizer>,
    pub versions: Arc<dyn Versions>,
}

pub struct Views {
    views: Mutex<ViewTable<View>>,
    rights: KnownRights,
    shared: Arc<Shared>,
}

impl Views {
    pub fn new(rights: KnownRights, metrics: ViewsMetrics) -> Self {
        let none = ViewsSettings {
            review_ttl: Duration::ZERO,
            outage: Duration::ZERO,
            max_views: 0,
            max_grants: 0,
            max_names: 0,
        };
        Self {
            views: Mutex::default(),
            rights,
            shared: Arc::new(Shared {
                settings: ArcSwap::from_pointee(none),
                metrics,
                budgets: Budgets::default(),
            }),
        }
    }

    pub fn metrics(&self) -> &ViewsMetrics {
        &self.shared.metrics
    }

    /// Puts settings in force. All views end if the settings changed or views are
    /// off now.
    pub fn reload(&self, settings: Option<ViewsSettings>) {
        let before = **self.shared.settings.load();
        let fresh = settings.unwrap_or(ViewsSettings {
            max_views: 0,
            ..before
        });
        if before != fresh {
            self.shared.settings.store(Arc::new(fresh));
            self.forget();
        }
    }

    /// Ends all views, because the configuration or upstream is another now.
    pub fn forget(&self) {
        for view in self.views.lock().take_all() {
            view.end();
        }
    }

    /// Tells whether RBAC in memory lets the user read something of the resource,
    /// apart from rights in the whole cluster. This is only a hint, and the resource
    /// need not be in memory.
    pub fn may_hold(&self, user: &UserInfo, verb: &str, gvr: &GroupVersionResource) -> bool {
        let rights = self.rights.borrow().clone();
        rights.is_some_and(|rights| rights.has_places(user, verb, gvr))
    }

    /// Waits until RBAC in memory is known, for at most this time.
    pub async fn known_within(&self, within: Duration) -> bool {
        let mut rights = self.rights.clone();
        let known = rights.wait_for(Option::is_some);
        matches!(tokio::time::timeout(within, known).await, Ok(Ok(_)))
    }

    /// Returns the user's view, whose places are perhaps not known yet.
    pub fn view(&self, asked: &Asked<'_>) -> Result<Arc<View>, (Status, Refusal)> {
        let key = key(asked);
        let mut views = self.views.lock();
        if let Some(view) = views.get(&key) {
            return Ok(view);
        }
        self.make_room(&mut views, asked.user)?;
        let what = (asked.gvr.clone(), asked.verb, asked.namespaced);
        let (reviewer, versions) = (asked.reviewer.clone(), asked.versions.clone());
        let view = View::new(
            asked.user.clone(),
            what,
            reviewer as Arc<dyn Reviewer>,
            versions,
            Instant::now(),
        );
        let view = Arc::new(view);
        views.insert(key, view.clone());
        let follow = follow::follow(view.clone(), self.rights.clone(), self.shared.clone());
        tokio::spawn(follow);
        Ok(view)
    }

    /// Makes room for one more view of a user. Ends another view if necessary.
    fn make_room(
        &self,
        views: &mut ViewTable<View>,
        user: &UserInfo,
    ) -> Result<(), (Status, Refusal)> {
        let max = self.shared.settings.load().max_views;
        match views.room(user, max) {
            Room::There => return Ok(()),
            Room::InPlaceOf(key) => {
                if let Some(view) = views.remove(&key) {
                    view.end();
                }
                return Ok(());
            }
            Room::None => {}
        }
        let why = "too many views are watched, please try again later";
        let status = Status::failure(429, Reason::TooManyRequests, why.to_owned());
        Err((status.retry_soon(), Refusal::TooManyViews))
    }

    /// Forgets unused views and counts the others, forever.
    pub async fn run(&self) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let now = ticks.tick().await;
            let mut views = self.views.lock();
            let unused = views.take_if(|view| {
                let idle = view.idle_since();
                idle.is_some_and(|since| now.saturating_duration_since(since) >= IDLE_TIMEOUT)
            });
            unused.iter().for_each(|view| view.end());
            self.shared.budgets.forget_unused(now);
            let watched = views.all().filter(|view| view.is_watched()).count();
            self.shared.metrics.counted(views.len(), watched);
        }
    }
}

fn key(asked: &Asked<'_>) -> Key {
    let attributes = Attributes::Resource {
        verb: asked.verb.to_owned(),
        gvr: asked.gvr.clone(),
        namespace: String::new(),
        name: String::new(),
        subresource: String::new(),
        field_selector: String::new(),
        label_selector: String::new(),
    };
    authz::key(asked.user, &attributes)
}
