//! Rights change at random, and change back, and each of three apifronts learns of
//! it late. Another authorizer also changes, of which they learn nothing. Clients
//! list, watch and resume at any of the three. In the end each client has exactly
//! the objects that it may see.
//!
//! Here no client has a version from another client's list: a version does not tell
//! which apifront gave it, and each apifront trusts the versions of its own lists.

use std::collections::{BTreeMap, BTreeSet};

use apifront_watch_cache::store::{
    Filter, ObjectKey, Resource, Store, StoreWriter, StoredObject, Visible, field_table,
};
use apifront_watch_cache::watch::{Step, Visibility, Watch, WatchEnd, WatchOptions, WholeFrames};
use bytes::Bytes;
use kubernetes_wire::api::{FieldSelector, LabelSelector};
use kubernetes_wire::representation::{BookmarkTemplate, Encoding, Envelope, Form};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

const NAMESPACES: [&str; 4] = ["a", "b", "c", "d"];
const NAMES: [&str; 3] = ["x", "y", "z"];
const REPLICAS: usize = 3;
const CLIENTS: usize = 4;

const STEPS: usize = 100;

/// The longest time until a replica learns of a change.
const LAG: Duration = Duration::from_secs(8);

const HOUR: Duration = Duration::from_secs(3600);

/// The simulated upstream, with the current RBAC and objects.
struct Truth {
    rights: Mutex<BTreeSet<&'static str>>,
    /// The namespace that another authorizer denies.
    denied: Mutex<&'static str>,
    writer: StoreWriter,
    store: Arc<Store>,
}

impl Truth {
    fn allows(&self, namespace: &str) -> bool {
        self.rights.lock().contains(namespace) && *self.denied.lock() != namespace
    }
}

#[async_trait]
impl Reviewer for Truth {
    async fn review(
        &self,
        _: &UserInfo,
        attributes: &Attributes,
        _: Instant,
    ) -> Result<PlaceReview, Status> {
        let Attributes::Resource { namespace, .. } = attributes else {
            panic!("no resource");
        };
        let asked = Instant::now();
        let allowed = self.allows(namespace);
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(PlaceReview {
            allowed,
            asked,
            remembered: false,
        })
    }
}

#[async_trait]
impl Versions for Truth {
    fn stored(&self) -> Option<u64> {
        Some(self.store.highest_version())
    }

    async fn upstream(&self) -> Option<u64> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Some(self.store.highest_version())
    }
}

/// One apifront's view.
struct Replica {
    view: Arc<View>,
    rights: watch::Sender<Option<Arc<Rights>>>,
    /// The changes that it will learn of, in order.
    unheard: Vec<(Instant, Arc<Rights>)>,
}

/// A client that trusts every event, as an informer does.
#[derive(Default)]
struct Client {
    believes: BTreeMap<String, u64>,
    version: u64,
    watch: Option<Watch>,
}

impl Client {
    fn hear(&mut self, line: &str) {
        let frame: Value = serde_json::from_str(line).unwrap();
        let meta = &frame["object"]["metadata"];
        self.version = meta["resourceVersion"].as_str().unwrap().parse().unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let key = format!("{}/{}", text(&meta["namespace"]), text(&meta["name"]));
        match frame["type"].as_str().unwrap() {
            "ADDED" | "MODIFIED" => drop(self.believes.insert(key, self.version)),
            "DELETED" => drop(self.believes.remove(&key)),
            "BOOKMARK" => {}
            other => panic!("{other}"),
        }
    }
}

#[derive(Debug, Default)]
struct Counts {
    histories: u64,
    changes_of_rights: u64,
    events: u64,
    lists: u64,
    resumed: u64,
    expired: u64,
    ended: u64,
}

struct Replicas {
    rng: StdRng,
    truth: Arc<Truth>,
    version: u64,
    replicas: Vec<Replica>,
    clients: Vec<Client>,
    /// Whether RBAC also changes in this history, and not only the other authorizer.
    rbac_changes: bool,
    counts: Counts,
}

fn pods() -> Resource {
    let gvr = GroupVersionResource::new("", "v1", "pods");
    let bookmark = br#"{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"1"},"spec":{"containers":null},"status":{}}"#;
    Resource {
        fields: field_table(&gvr),
        gvr,
        namespaced: true,
        envelope: Envelope::new(Form::Struct, "v1", "Pod", "PodList"),
        bookmark: BookmarkTemplate::learn(bookmark).unwrap().into(),
    }
}

fn pod(key: &str, version: u64) -> Bytes {
    let (namespace, name) = key.split_once('/').unwrap();
    let version = version.to_string();
    json!({"metadata": {"namespace": namespace, "name": name, "uid": "1", "resourceVersion": version}})
        .to_string()
        .into()
}

impl Replicas {
    fn new(mut rng: StdRng, counts: Counts) -> Self {
        let (writer, store) = Store::new(pods(), vec![], 10);
        let truth = Arc::new(Truth {
            rights: Mutex::new(BTreeSet::from(["a", "b", "c"])),
            denied: Mutex::new("b"),
            writer,
            store,
        });
        let replica = |_| {
            let user = UserInfo {
                name: "ann".into(),
                ..UserInfo::default()
            };
            let what = (GroupVersionResource::new("", "v1", "pods"), "list", true);
            let now = Instant::now();
            let view = View::new(user, what, truth.clone(), truth.clone(), now);
            let view = Arc::new(view);
            let rights = watch::Sender::new(Some(rights(&["a", "b", "c"])));
            let shared = shared(NAMESPACES.len());
            tokio::spawn(follow(view.clone(), rights.subscribe(), shared));
            Replica {
                view,
                rights,
                unheard: Vec::new(),
            }
        };
        Self {
            rbac_changes: rng.random_bool(0.7),
            rng,
            replicas: (0..REPLICAS).map(replica).collect(),
            truth,
            version: 10,
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
            counts,
        }
    }

    /// The replicas make their views, and later review them, at different moments.
    async fn begin(&mut self) {
        for replica in 0..REPLICAS {
            self.list_at(replica, replica).await;
            let time = TTL.mul_f64(self.rng.random_range(0.0..0.5));
            self.pass(time).await;
        }
        self.pass(TTL + OUTAGE).await;
    }

    async fn step(&mut self) {
        let client = self.rng.random_range(0..CLIENTS);
        match self.rng.random_range(0..100) {
            0..35 => self.write(),
            35..45 if self.rbac_changes => self.change_rights(),
            45..60 => self.list(client).await,
            60..75 => {
                self.clients[client].watch = None;
                self.resume(client).await;
            }
            75..78 => self.pass(TTL + OUTAGE).await,
            // The other authorizer changes each namespace only once: a change that
            // it takes back between two reviews would go unnoticed.
            78 if *self.truth.denied.lock() == "b" => *self.truth.denied.lock() = "c",
            78..90 => {
                let time = Duration::from_millis(self.rng.random_range(0..4_000));
                self.pass(time).await;
            }
            _ => self.pass(Duration::ZERO).await,
        }
    }

    fn write(&mut self) {
        self.version += 1;
        let namespace = NAMESPACES[self.rng.random_range(0..NAMESPACES.len())];
        let name = NAMES[self.rng.random_range(0..NAMES.len())];
        let store = &self.truth.store;
        let is_there = store.snapshot().get(namespace, name).is_some();
        let deleted = is_there && self.rng.random_bool(0.4);
        let object = StoredObject::parse(
            pod(&format!("{namespace}/{name}"), self.version),
            &store.resource.fields,
        );
        let writer = &self.truth.writer;
        writer.apply_object(deleted, object.unwrap(), std::time::Instant::now());
    }

    /// Changes the rights, often for a moment only.
    fn change_rights(&mut self) {
        let before = self.truth.rights.lock().clone();
        let mut after = before.clone();
        let namespace = NAMESPACES[self.rng.random_range(0..NAMESPACES.len())];
        if !after.remove(namespace) {
            after.insert(namespace);
        }
        self.publish(after);
        if self.rng.random_bool(0.3) {
            self.publish(before);
        }
    }

    /// Writes something else upstream.
    fn advance(&mut self) {
        self.version += 1;
        let writer = &self.truth.writer;
        writer.advance(self.version, std::time::Instant::now());
    }

    fn publish(&mut self, set: BTreeSet<&'static str>) {
        // RBAC's objects share the history of versions.
        self.advance();
        self.counts.changes_of_rights += 1;
        let namespaces: Vec<_> = set.iter().copied().collect();
        let rights = rights(&namespaces);
        *self.truth.rights.lock() = set;
        let now = Instant::now();
        for replica in &mut self.replicas {
            let lag = LAG.mul_f64(self.rng.random_range(0.0..1.0));
            // Changes at the same moment would be noticed as one.
            let after = replica.unheard.last().map_or(now, |(at, _)| *at);
            let at = (now + lag).max(after + Duration::from_millis(5));
            replica.unheard.push((at, rights.clone()));
        }
    }

    /// Lets time pass. Replicas learn of changes meanwhile, and clients get events.
    async fn pass(&mut self, time: Duration) {
        let until = Instant::now() + time;
        loop {
            let unheard = self.replicas.iter().filter_map(|r| r.unheard.first());
            let next = unheard.map(|(at, _)| *at).min();
            let next = next.filter(|next| *next <= until);
            tokio::time::sleep_until(next.unwrap_or(until)).await;
            for replica in &mut self.replicas {
                if replica
                    .unheard
                    .first()
                    .is_some_and(|(at, _)| *at <= Instant::now())
                {
                    let (_, rights) = replica.unheard.remove(0);
                    replica.rights.send_replace(Some(rights));
                }
            }
            // Views follow the change and ask their questions.
            tokio::time::sleep(Duration::from_millis(2)).await;
            for client in 0..CLIENTS {
                if self.rng.random_bool(0.7) {
                    self.read(client);
                }
            }
            if next.is_none() {
                return;
            }
        }
    }

    async fn list(&mut self, client: usize) {
        let at = self.rng.random_range(0..REPLICAS);
        self.list_at(at, client).await;
    }

    /// Lists at a replica, and often watches there.
    async fn list_at(&mut self, at: usize, client: usize) {
        let view = self.replicas[at].view.clone();
        view.ready(HOUR).await.unwrap();
        self.advance();
        let store = &self.truth.store;
        let version = store.highest_version();
        let visible = view.list_at(version).unwrap();
        let believes = believed(store, &visible);
        self.advance();
        self.counts.lists += 1;
        self.clients[client] = Client {
            believes,
            version,
            watch: None,
        };
        if self.rng.random_bool(0.7) {
            let visibility = view.watch_from(version);
            self.clients[client].watch = visibility.map(|v| self.watch(version, v));
        }
    }

    /// Resumes at any replica from the client's version.
    async fn resume(&mut self, client: usize) {
        let version = self.clients[client].version;
        let at = self.rng.random_range(0..REPLICAS);
        let view = self.replicas[at].view.clone();
        view.ready(HOUR).await.unwrap();
        match view.watch_from(version) {
            Some(visibility) => {
                self.counts.resumed += 1;
                self.clients[client].watch = Some(self.watch(version, visibility));
            }
            None => {
                self.counts.expired += 1;
                self.list(client).await;
            }
        }
    }

    fn watch(&self, version: u64, visibility: Visibility) -> Watch {
        let store = &self.truth.store;
        let filter = Filter::new(
            "",
            LabelSelector::parse("").unwrap(),
            FieldSelector::parse("").unwrap(),
            &store.resource,
        );
        let options = WatchOptions {
            filter: filter.unwrap(),
            bookmarks: true,
            lasts: 100 * HOUR,
        };
        let frames = Box::new(WholeFrames::new(store.clone(), Encoding::Json));
        let watch = Watch::from_version(store.clone(), version, options, frames);
        watch.unwrap().of_view_when_reached(visibility)
    }

    /// The client reads the events that its watch has now.
    fn read(&mut self, client: usize) {
        let client = &mut self.clients[client];
        while let Some(watch) = &mut client.watch {
            match watch.step() {
                Ok(Step::Batch(frames, events)) => {
                    self.counts.events += events as u64;
                    let text = std::str::from_utf8(&frames).unwrap();
                    text.lines().for_each(|line| client.hear(line));
                }
                Ok(Step::Again) => {}
                Ok(Step::Idle) => return,
                Err(WatchEnd::FellBehind) => {
                    self.counts.ended += 1;
                    *client = Client::default();
                }
                Err(end) => panic!("{end:?}"),
            }
        }
    }

    /// Lets everybody learn of everything, and compares.
    async fn settle(&mut self) {
        self.pass(TTL + OUTAGE).await;
        assert!(
            self.replicas
                .iter()
                .all(|replica| replica.unheard.is_empty())
        );
        let allowed = NAMESPACES.iter().filter(|n| self.truth.allows(n));
        let namespaces = allowed.map(|n| (*n).to_owned()).collect();
        let visible = Visible::new(&namespaces, &BTreeMap::new());
        let expected = believed(&self.truth.store, &visible);
        for client in 0..CLIENTS {
            self.read(client);
            if self.clients[client].watch.is_none() {
                self.resume(client).await;
            }
            self.pass(Duration::from_secs(1)).await;
            self.read(client);
            let believes = &self.clients[client].believes;
            assert_eq!(*believes, expected);
        }
    }
}

fn believed(store: &Store, visible: &Visible) -> BTreeMap<String, u64> {
    let snapshot = store.snapshot();
    let all = NAMESPACES.iter().flat_map(|n| NAMES.map(|name| (*n, name)));
    let there = all.filter_map(|(namespace, name)| {
        let object = snapshot.get(namespace, name)?;
        let is_visible = visible.contains(&ObjectKey::new(namespace, name));
        is_visible.then(|| (object.key.as_str().to_owned(), object.resource_version))
    });
    there.collect()
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect(variable))
}

#[tokio::test(start_paused = true)]
async fn clients_move_between_replicas_whose_rights_lag() {
    let seed = number("APIFRONT_TEST_SEED").unwrap_or_else(rand::random);
    let events = number("APIFRONT_TEST_EVENTS").unwrap_or(20_000);
    println!("APIFRONT_TEST_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut counts = Counts::default();
    while counts.events < events {
        let mut world = Replicas::new(StdRng::from_rng(&mut rng), counts);
        world.begin().await;
        for _ in 0..STEPS {
            world.step().await;
        }
        world.settle().await;
        world.replicas.iter().for_each(|replica| replica.view.end());
        counts = world.counts;
        counts.histories += 1;
    }
    println!("{counts:?}");
    assert!(counts.resumed > 0 && counts.expired > 0 && counts.ended > 0);
}
