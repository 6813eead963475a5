//! The cost of many views, and of RBAC writes under them: reviews in an hour of
//! virtual time, and processor time without upstream and network. It takes a minute:
//! `cargo test --release --lib views::cost -- --ignored --nocapture`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use apifront_watch_cache::watch::Visibility;
use async_trait::async_trait;
use bytes::Bytes;
use kubernetes_wire::api::{Attributes, GroupVersionResource, Status, UserInfo};
use prometheus::Registry;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use super::follow::{Shared, follow};
use super::question_budget::Budgets;
use super::{Coverage, Reviewer, Versions, View, ViewsMetrics, ViewsSettings};
use crate::authz::PlaceReview;
use crate::authz::rbac::{Binding, Index, RbacObjects, Rights, Role};

const NAMESPACES: usize = 1_000;
const USERS: usize = 500;
const OF_EACH: usize = 20;
const HOUR: Duration = Duration::from_secs(3_600);
const CHANGE_EACH: Duration = Duration::from_secs(60);

/// A reviewer that allows everything after a millisecond, and counts.
#[derive(Default)]
struct Counting(AtomicU64);

#[async_trait]
impl Reviewer for Counting {
    async fn review(
        &self,
        _: &UserInfo,
        _: &Attributes,
        _: Instant,
    ) -> Result<PlaceReview, Status> {
        let asked = Instant::now();
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(PlaceReview {
            allowed: true,
            asked,
            remembered: false,
        })
    }
}

#[async_trait]
impl Versions for Counting {
    fn stored(&self) -> Option<u64> {
        Some(1)
    }

    async fn upstream(&self) -> Option<u64> {
        Some(1)
    }
}

/// Returns all RBAC objects, which bind each user in a number of namespaces. `more`
/// moves the last binding of the first user.
fn objects(more: usize) -> RbacObjects {
    let role = json!({
        "metadata": {"name": "reads", "managedFields": []},
        "rules": [{"verbs": ["get", "list", "watch"], "apiGroups": ["", "apps"], "resources": ["*"]}],
    });
    let binding = |user: usize, n: usize| {
        let shift = if user == 0 && n == 0 { more } else { 0 };
        let namespace = (user * 2 + n * 50 + shift) % NAMESPACES;
        let object = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {
                "namespace": format!("ns-{namespace}"), "name": format!("b-{user}"),
                "uid": "00000000-0000-0000-0000-000000000000", "resourceVersion": "1",
            },
            "subjects": [{"kind": "User", "name": format!("user-{user}")}],
            "roleRef": {"kind": "ClusterRole", "name": "reads"},
        });
        Bytes::from(object.to_string())
    };
    RbacObjects {
        cluster_roles: vec![role.to_string().into()],
        role_bindings: (0..USERS)
            .flat_map(|user| (0..OF_EACH).map(move |n| binding(user, n)))
            .collect(),
        ..RbacObjects::default()
    }
}

/// Returns the processor time of this process so far.
fn used() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("stat");
    let (_, rest) = stat.rsplit_once(')').expect("a name");
    let ticks = rest.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.map(|text| text.parse::<u64>().expect("ticks")).sum();
    Duration::from_millis(ticks * 10)
}

/// Begins a view for each of the first users, and watches it.
async fn watched(
    users: usize,
    max_grants: usize,
    rights: &watch::Sender<Option<Arc<Rights>>>,
    counting: &Arc<Counting>,
) -> Vec<(Visibility, Arc<View>)> {
    let shared = Arc::new(Shared {
        settings: arc_swap::ArcSwap::from_pointee(ViewsSettings {
            review_ttl: Duration::from_secs(300),
            outage: Duration::from_secs(30),
            max_views: users,
            max_grants,
            max_names: 0,
        }),
        metrics: ViewsMetrics::register(&Registry::new()).unwrap(),
        budgets: Budgets::default(),
    });
    let mut watched = Vec::new();
    for user in 0..users {
        let user = UserInfo {
            name: format!("user-{user}"),
            groups: vec!["tenants".into(), "system:authenticated".into()],
            ..UserInfo::default()
        };
        let what = (GroupVersionResource::new("", "v1", "pods"), "watch", true);
        let (reviewer, versions) = (counting.clone(), counting.clone());
        let view = Arc::new(View::new(user, what, reviewer, versions, Instant::now()));
        tokio::spawn(follow(view.clone(), rights.subscribe(), shared.clone()));
        view.ready(Duration::from_secs(60)).await.expect("a view");
        watched.push((view.watch_state(1).expect("a set"), view));
    }
    watched
}

#[tokio::test(start_paused = true)]
#[ignore = "measures"]
async fn an_hour_of_many_views() {
    let all = objects(0);
    let before = used();
    let read = Rights::read(&all).expect("RBAC");
    println!(
        "RBAC of {} bindings is read in {:?}",
        USERS * OF_EACH,
        used() - before
    );
    let rights = watch::Sender::new(Some(Arc::new(read)));
    let counting = Arc::new(Counting::default());
    let before = used();
    let watched = watched(USERS, NAMESPACES, &rights, &counting).await;
    for (_, view) in &watched {
        assert_eq!(Coverage::from_visible(&view.visible()).namespaces, OF_EACH);
    }
    let asked = counting.0.swap(0, Ordering::Relaxed);
    println!(
        "{USERS} views begin with {asked} reviews and {:?}",
        used() - before
    );
    assert_eq!(asked, (USERS * OF_EACH) as u64);

    let before = used();
    tokio::time::sleep(HOUR).await;
    let asked = counting.0.swap(0, Ordering::Relaxed);
    println!(
        "an hour without changes: {asked} reviews, {:?}",
        used() - before
    );

    let changes = HOUR.as_secs() / CHANGE_EACH.as_secs();
    let (before, mut reading) = (used(), Duration::ZERO);
    for change in 0..changes {
        let all = objects(usize::try_from(change).expect("small") + 1);
        let began = used();
        let read = Rights::read(&all).expect("RBAC");
        reading += used() - began;
        rights.send_replace(Some(Arc::new(read)));
        tokio::time::sleep(CHANGE_EACH).await;
    }
    let with_changes = counting.0.load(Ordering::Relaxed);
    println!(
        "an hour with {changes} changes of bindings: {with_changes} reviews, {:?}, of which {reading:?} \
         for reading RBAC (and some for making the test's objects)",
        used() - before
    );
    assert!(with_changes >= asked && with_changes <= asked + 10 * changes);
}

const ALL_NAMESPACES: usize = 5_000;
const BINDINGS: usize = 20_000;
const SUBJECTS: usize = 2_000;
const VIEWS: usize = 1_000;
const WRITES: u32 = 500;

fn binding_of(n: usize, user: usize) -> Binding {
    let binding = json!({
        "metadata": {"namespace": format!("ns-{}", n % ALL_NAMESPACES), "name": format!("b-{n}")},
        "subjects": [{"kind": "User", "name": format!("user-{user}")}],
        "roleRef": {"kind": "ClusterRole", "name": "reads"},
    });
    Binding::read(binding.to_string().as_bytes()).expect("a binding")
}

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages = statm.split_whitespace().nth(1).expect("pages");
    pages.parse::<usize>().expect("a number") * 4096
}

#[tokio::test(start_paused = true)]
#[ignore = "measures"]
async fn writes_of_rbac_under_many_views() {
    let (before, began) = (resident(), used());
    let mut index = Index::default();
    for role in &objects(0).cluster_roles {
        index.put_role(Role::read(role).expect("a role"));
    }
    for n in 0..BINDINGS {
        index.put_binding(binding_of(n, n % SUBJECTS));
    }
    println!(
        "{BINDINGS} bindings of {SUBJECTS} subjects are read in {:?}, and take {} KiB ({} KiB are counted)",
        used() - began,
        (resident() - before) / 1024,
        index.bytes() / 1024,
    );
    let rights = watch::Sender::new(Some(index.rights()));
    let counting = Arc::new(Counting::default());
    let _watched = watched(VIEWS, ALL_NAMESPACES, &rights, &counting).await;
    counting.0.store(0, Ordering::Relaxed);
    // A binding goes from a user without a view to a user with one, and back.
    let began = used();
    for write in 0..WRITES {
        let user = if write % 2 == 0 { 0 } else { SUBJECTS - 1 };
        index.put_binding(binding_of(7, user));
        rights.send_replace(Some(index.rights()));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!(
        "a write takes {:?} with {VIEWS} views, and {:.1} reviews",
        (used() - began) / WRITES,
        counting.0.load(Ordering::Relaxed) as f64 / f64::from(WRITES),
    );
}
