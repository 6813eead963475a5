//! Views with simulated servers, on virtual time.

mod replicas;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use kubernetes_wire::api::{Attributes, GroupVersionResource, Status, UserInfo};
use parking_lot::Mutex;
use prometheus::Registry;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, advance};

use super::follow::{Shared, follow};
use super::question_budget::{Budgets, Rate};
use super::{Coverage, Refusal, Reviewer, Versions, View, ViewsMetrics, ViewsSettings};
use crate::authz::PlaceReview;
use crate::authz::rbac::{RbacObjects, Rights};

const TTL: Duration = Duration::from_secs(100);
const OUTAGE: Duration = Duration::from_secs(30);
const SOON: Duration = Duration::from_secs(5);

/// A simulated upstream: what it allows, and the questions it got.
#[derive(Default)]
struct Upstream {
    denied: Mutex<Vec<String>>,
    is_away: Mutex<bool>,
    /// The place about which upstream never answers.
    hangs: Mutex<String>,
    asked: Mutex<Vec<String>>,
    version: AtomicU64,
    stored: AtomicU64,
}

#[async_trait]
impl Reviewer for Upstream {
    async fn review(
        &self,
        _: &UserInfo,
        attributes: &Attributes,
        since: Instant,
    ) -> Result<PlaceReview, Status> {
        let Attributes::Resource {
            namespace, name, ..
        } = attributes
        else {
            panic!("no resource");
        };
        let asked = Instant::now();
        assert!(since <= asked);
        tokio::time::sleep(Duration::from_millis(1)).await;
        if *self.is_away.lock() {
            return Err(Status::service_unavailable("away".to_owned()));
        }
        let place = format!("{namespace}/{name}");
        if *self.hangs.lock() == place {
            std::future::pending::<()>().await;
        }
        let allowed = !self.denied.lock().contains(&place);
        self.asked.lock().push(place);
        Ok(PlaceReview {
            allowed,
            asked,
            remembered: false,
        })
    }
}

#[async_trait]
impl Versions for Upstream {
    fn stored(&self) -> Option<u64> {
        Some(self.stored.load(Ordering::Relaxed))
    }

    async fn upstream(&self) -> Option<u64> {
        Some(self.version.load(Ordering::Relaxed))
    }
}

struct World {
    upstream: Arc<Upstream>,
    rights: watch::Sender<Option<Arc<Rights>>>,
    view: Arc<View>,
}

impl World {
    fn new(namespaces: &[&str]) -> Self {
        Self::sharing(namespaces, shared(3))
    }

    fn sharing(namespaces: &[&str], shared: Arc<Shared>) -> Self {
        let upstream = Arc::new(Upstream::default());
        upstream.version.store(10, Ordering::Relaxed);
        let rights = watch::Sender::new(Some(rights(namespaces)));
        let user = UserInfo {
            name: "ann".into(),
            ..UserInfo::default()
        };
        let pods = GroupVersionResource::new("", "v1", "pods");
        let view = View::new(
            user,
            (pods, "list", true),
            upstream.clone(),
            upstream.clone(),
            Instant::now(),
        );
        let view = Arc::new(view);
        tokio::spawn(follow(view.clone(), rights.subscribe(), shared));
        Self {
            upstream,
            rights,
            view,
        }
    }

    fn bind(&self, namespaces: &[&str]) {
        self.rights.send_replace(Some(rights(namespaces)));
    }

    async fn ready(&self) -> Result<String, u16> {
        let ready = self.view.ready(SOON).await;
        ready.map_err(|(status, _)| status.code)?;
        Ok(self.shown())
    }

    fn shown(&self) -> String {
        let visible = self.view.list_at(0).expect("a set");
        let entries = visible.iter().map(|entry| match entry {
            apifront_watch_cache::store::VisibleEntry::Namespace(namespace) => namespace.to_owned(),
            apifront_watch_cache::store::VisibleEntry::Object(key) => format!("={key}"),
        });
        entries.collect::<Vec<_>>().join(" ")
    }

    fn take_asked(&self) -> String {
        let mut asked = std::mem::take(&mut *self.upstream.asked.lock());
        asked.sort();
        asked.join(" ")
    }
}

/// Returns the state that tasks of views share, with this limit of grants.
fn shared(max_grants: usize) -> Arc<Shared> {
    Arc::new(Shared {
        settings: arc_swap::ArcSwap::from_pointee(ViewsSettings {
            review_ttl: TTL,
            outage: OUTAGE,
            max_views: 10,
            max_grants,
            max_names: 2,
        }),
        metrics: ViewsMetrics::register(&Registry::new()).unwrap(),
        budgets: Budgets::default(),
    })
}

/// Returns the rights of a user who may list pods in these namespaces. `b=x` is a
/// single pod.
fn rights(namespaces: &[&str]) -> Arc<Rights> {
    let rule = |names: Value| json!({"verbs": ["list"], "apiGroups": [""], "resources": ["pods"], "resourceNames": names});
    let role = |name: &str, names: Value| {
        json!({"metadata": {"name": name}, "rules": [rule(names)]}).to_string()
    };
    let binding = |namespace: &str| {
        let (namespace, role) = namespace.split_once('=').unwrap_or((namespace, "all"));
        let object = json!({
            "metadata": {"namespace": namespace, "name": "b"},
            "subjects": [{"kind": "User", "name": "ann"}],
            "roleRef": {"kind": "ClusterRole", "name": role},
        });
        object.to_string().into()
    };
    let objects = RbacObjects {
        cluster_roles: vec![
            role("all", json!([])).into(),
            role("x", json!(["x"])).into(),
        ],
        role_bindings: namespaces
            .iter()
            .map(|namespace| binding(namespace))
            .collect(),
        ..RbacObjects::default()
    };
    Arc::new(Rights::read(&objects).unwrap())
}

async fn wait(time: Duration) {
    // Tasks have turns before and after the time has passed.
    for step in [Duration::ZERO, time, Duration::from_millis(20)] {
        advance(step).await;
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
}

/// A caller whose namespaces had all their questions is not told to have no rights.
#[tokio::test(start_paused = true)]
async fn a_view_without_any_answer_is_not_a_refusal() {
    let shared = shared(3);
    let rate = Rate {
        questions: 2 * 4 + 64,
        within: TTL,
    };
    let spent = || shared.budgets.take(("ann", "a"), rate, Instant::now());
    while spent().is_ok() {}
    let world = World::sharing(&["a"], shared.clone());
    assert_eq!(world.ready().await, Ok(String::new()));
    let granted = |world: &World| {
        let granted = world.view.granted();
        granted
            .map(|visible| visible.len())
            .map_err(|(s, _)| s.code)
    };
    assert_eq!(granted(&world), Err(503));
    wait(TTL).await;
    assert_eq!(world.ready().await, Ok("a".to_owned()));
    assert_eq!(granted(&world), Ok(1));
    // A place that upstream denies has an answer.
    let world = World::new(&["a"]);
    *world.upstream.denied.lock() = vec!["a/".to_owned()];
    assert_eq!(world.ready().await, Ok(String::new()));
    assert_eq!(granted(&world), Ok(0));
    // It fails, and another request asks anew.
    world.view.end();
    assert_eq!(granted(&world), Err(503));
    world.view.ask_anew();
    assert_eq!(granted(&world), Err(503));
}

#[tokio::test(start_paused = true)]
async fn a_view_follows_rbac_and_asks_about_what_is_new() {
    let world = World::new(&["a", "b=x"]);
    *world.upstream.denied.lock() = vec!["c/".to_owned()];
    assert_eq!(world.ready().await, Ok("a =b/x".to_owned()));
    assert_eq!(world.take_asked(), "a/ b/x");
    let coverage = Coverage {
        namespaces: 1,
        names: 1,
    };
    assert_eq!(Coverage::from_visible(&world.view.visible()), coverage);
    // Another request asks nothing again.
    assert_eq!(world.ready().await, Ok("a =b/x".to_owned()));
    assert_eq!(world.take_asked(), "");
    let told = world.view.watch_state(1).unwrap();
    world.bind(&["b=x", "c", "d"]);
    wait(Duration::from_millis(50)).await;
    assert_eq!(world.ready().await, Ok("=b/x d".to_owned()));
    assert_eq!(world.take_asked(), "c/ d/");
    // Upstream's own RBAC is late, so the place is asked about again.
    world.upstream.denied.lock().clear();
    wait(Duration::from_millis(150)).await;
    assert_eq!(
        (world.shown(), world.take_asked()),
        ("=b/x c d".into(), "c/".into())
    );
    // A place that RBAC lost is lost without a question, even if upstream is away.
    *world.upstream.is_away.lock() = true;
    world.bind(&["c"]);
    wait(Duration::from_millis(10)).await;
    assert_eq!((world.shown(), world.take_asked()), ("c".into(), "".into()));
    world.bind(&[]);
    wait(Duration::from_millis(10)).await;
    assert_eq!(world.shown(), "");
    drop(told);
}

#[tokio::test(start_paused = true)]
async fn a_watch_begins_after_the_present_set() {
    let world = World::new(&["a"]);
    assert_eq!(world.view.since(), None);
    world.ready().await.unwrap();
    assert_eq!(world.view.since(), Some(9));
    // Another replica may have given version 11 under another set.
    assert!(world.view.watch_from(11).is_none());
    for version in [9, 10, 11] {
        assert!(world.view.list_at(version).is_some());
    }
    assert!(world.view.watch_from(9).is_none());
    assert!(world.view.watch_from(10).is_some() && world.view.watch_from(11).is_some());
    // A list that was given belongs to the earlier set.
    assert!(world.view.list_at(25).is_some());
    world.upstream.version.store(20, Ordering::Relaxed);
    world.bind(&["a", "b"]);
    wait(Duration::from_millis(50)).await;
    world.ready().await.unwrap();
    assert_eq!(world.view.since(), Some(25));
    // The store may have a later version than upstream told.
    world.upstream.version.store(100, Ordering::Relaxed);
    world.bind(&["b"]);
    wait(Duration::from_millis(10)).await;
    world.ready().await.unwrap();
    assert_eq!(world.view.since(), Some(99));
    // Rights that stay the same make no new set.
    world.upstream.version.store(200, Ordering::Relaxed);
    world.bind(&["b"]);
    wait(Duration::from_millis(50)).await;
    world.ready().await.unwrap();
    assert_eq!(world.view.since(), Some(99));
    // Watchers have the store's version, perhaps with objects of the earlier set.
    world.upstream.stored.store(300, Ordering::Relaxed);
    world.upstream.version.store(300, Ordering::Relaxed);
    world.bind(&["a"]);
    wait(Duration::from_millis(50)).await;
    world.ready().await.unwrap();
    assert_eq!(world.view.since(), Some(300));
}

#[tokio::test(start_paused = true)]
async fn a_state_of_another_replica_is_believed_when_all_know_the_set() {
    let world = World::new(&["a"]);
    world.ready().await.unwrap();
    let watched = world.view.watch_state(1).unwrap();
    let from = |version| world.view.watch_from(version).is_some();
    world.upstream.version.store(20, Ordering::Relaxed);
    wait(TTL).await;
    assert!(!from(15) && !from(21));
    wait(OUTAGE).await;
    // Version 20 was asked for after every replica knew the set.
    assert!(!from(15) && !from(20) && from(21));
    world.bind(&["a", "b"]);
    wait(Duration::from_millis(50)).await;
    assert!(!from(21) && !from(100));
    // This replica's own lists are known to have the new set.
    assert!(world.view.list_at(30).is_some());
    assert!(from(30) && !from(31));
    world.bind(&["a"]);
    wait(Duration::from_millis(50)).await;
    assert!(!from(30) && !from(31));
    drop(watched);
}

/// Another replica may have shown a place that was granted for a moment.
#[tokio::test(start_paused = true)]
async fn rights_that_change_back_put_the_set_in_doubt() {
    let world = World::new(&["a"]);
    world.ready().await.unwrap();
    let watched = world.view.watch_state(1).unwrap();
    wait(TTL + OUTAGE).await;
    let from = |version| world.view.watch_from(version).is_some();
    assert!(from(11));
    let since = world.view.since();
    world.take_asked();
    // b is withdrawn before upstream has answered about it.
    *world.upstream.is_away.lock() = true;
    for namespaces in [&["a", "b"][..], &["a"]] {
        world.bind(namespaces);
        wait(Duration::from_millis(10)).await;
        assert_eq!((world.shown(), from(11)), ("a".to_owned(), false));
    }
    // The set did not change, so this replica's own lists are still good.
    assert_eq!(world.view.since(), since);
    assert!(world.view.list_at(12).is_some() && from(12));
    *world.upstream.is_away.lock() = false;
    world.upstream.version.store(20, Ordering::Relaxed);
    wait(TTL + OUTAGE).await;
    assert!(!from(20) && from(21));
    drop(watched);
}

#[tokio::test(start_paused = true)]
async fn only_a_view_in_use_is_reviewed_again() {
    let world = World::new(&["a"]);
    world.ready().await.unwrap();
    assert_eq!(world.take_asked(), "a/");
    wait(TTL * 3).await;
    assert_eq!(world.take_asked(), "");
    // A request finds the grant too old.
    world.ready().await.unwrap();
    assert_eq!(world.take_asked(), "a/");
    let watched = world.view.watch_state(1).unwrap();
    assert!(world.view.is_watched());
    wait(TTL.mul_f64(0.95)).await;
    assert_eq!(world.take_asked(), "a/");
    *world.upstream.denied.lock() = vec!["a/".to_owned()];
    wait(TTL.mul_f64(0.95)).await;
    assert_eq!(world.shown(), "");
    drop(watched);
    assert_eq!(
        (world.view.is_watched(), world.view.is_in_use()),
        (false, false)
    );
}

/// The task goes through all places at each turn, so not each request may cause one.
#[tokio::test(start_paused = true)]
async fn a_request_to_a_view_at_rest_wakes_nothing() {
    let world = World::new(&["a"]);
    world.ready().await.unwrap();
    wait(TTL / 20).await;
    let is_woken = async || {
        world.ready().await.unwrap();
        world.view.is_in_use()
    };
    assert!(!is_woken().await);
    world.take_asked();
    // The grant is old enough to be asked about again.
    wait(TTL * 9 / 10).await;
    assert!(is_woken().await);
    wait(Duration::from_millis(10)).await;
    assert_eq!(world.take_asked(), "a/");
    assert!(!is_woken().await);
    // Every replica knows the set now: upstream's version can be asked for.
    wait(OUTAGE + TTL / 10).await;
    assert!(is_woken().await);
    wait(Duration::from_millis(10)).await;
    assert!(!is_woken().await);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_reviewed_ends() {
    let world = World::new(&["a"]);
    *world.upstream.is_away.lock() = true;
    assert_eq!(world.ready().await, Err(503));
    *world.upstream.is_away.lock() = false;
    wait(Duration::from_secs(1)).await;
    assert_eq!(world.ready().await, Ok("a".to_owned()));
    let watched = world.view.watch_state(1).unwrap();
    *world.upstream.is_away.lock() = true;
    wait(TTL).await;
    assert_eq!(
        (world.ready().await, world.view.is_watched()),
        (Ok("a".to_owned()), true)
    );
    for _ in 0..OUTAGE.as_secs() + 5 {
        wait(Duration::from_secs(1)).await;
    }
    assert_eq!(
        (world.ready().await, world.view.is_watched()),
        (Err(503), false)
    );
    assert!(world.view.list_at(1).is_none() && world.view.watch_state(1).is_none());
    // RBAC in memory does not count while it is not known to be current.
    *world.upstream.is_away.lock() = false;
    wait(Duration::from_secs(1)).await;
    assert_eq!(world.ready().await, Ok("a".to_owned()));
    world.rights.send_replace(None);
    wait(Duration::from_millis(10)).await;
    assert_eq!(world.ready().await, Err(503));
    world.bind(&["a"]);
    assert_eq!(world.ready().await, Ok("a".to_owned()));
    drop(watched);
    world.view.end();
    assert!(world.view.list_at(1).is_none());
}

#[tokio::test(start_paused = true)]
async fn what_is_granted_is_served_while_a_new_place_is_asked_about() {
    let world = World::new(&["a"]);
    assert_eq!(world.ready().await, Ok("a".to_owned()));
    *world.upstream.hangs.lock() = "b/".to_owned();
    world.bind(&["a", "b"]);
    wait(Duration::from_millis(10)).await;
    let asked = Instant::now();
    assert_eq!(world.ready().await, Ok("a".to_owned()));
    assert_eq!(asked.elapsed().as_secs(), 1);
    assert!(world.view.lacks().unanswered);
    // Requests do not wait for names.
    *world.upstream.hangs.lock() = "b/x".to_owned();
    world.bind(&["a", "b=x"]);
    wait(Duration::from_millis(10)).await;
    let asked = Instant::now();
    assert_eq!(world.ready().await, Ok("a".to_owned()));
    assert!(asked.elapsed() < Duration::from_secs(1) && world.view.lacks().unanswered);
    // A place that RBAC loses meanwhile is lost at once.
    world.bind(&["b=x"]);
    wait(Duration::from_millis(10)).await;
    assert_eq!(world.shown(), "");
}

#[tokio::test(start_paused = true)]
async fn a_view_has_a_bound() {
    let world = World::new(&["a", "b", "c", "d"]);
    let refused = world.view.ready(SOON).await.unwrap_err();
    assert_eq!((refused.0.code, refused.1), (403, Refusal::TooManyGrants));
    assert!(
        refused.0.message.contains("more than 3 namespaces"),
        "{}",
        refused.0.message
    );
    assert_eq!(world.take_asked(), "");
    world.bind(&["a", "b", "c"]);
    wait(Duration::from_millis(10)).await;
    assert_eq!(world.ready().await, Ok("a b c".to_owned()));
}
