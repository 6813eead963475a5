//! Orders of a store that is written by hand.

use std::sync::OnceLock;
use std::time::Instant;

use apifront_query::{OrderBy, QuerySpec};
use apifront_watch_cache::read::{self, Selection};
use apifront_watch_cache::store::{
    Resource, Snapshot, Store, StoreWriter, StoredObject, field_table,
};
use bytes::Bytes;
use kubernetes_wire::api::{GroupVersionResource, ListOptions};
use kubernetes_wire::representation::{Envelope, Form};

use super::super::order::LEAST_BYTES;
use super::*;

fn item(n: usize, version: usize) -> Bytes {
    let text = format!(
        r#"{{"metadata":{{"name":"m{n:03}","namespace":"a","uid":"{n}","resourceVersion":"{version}"}},"data":{{"n":"{}"}}}}"#,
        version % 7
    );
    text.into()
}

fn store(objects: usize) -> (StoreWriter, Arc<Store>) {
    let gvr = GroupVersionResource::new("", "v1", "configmaps");
    let resource = Resource {
        fields: field_table(&gvr),
        gvr,
        namespaced: true,
        envelope: Envelope::new(Form::Struct, "v1", "ConfigMap", "ConfigMapList"),
        bookmark: OnceLock::new(),
    };
    let objects = (0..objects).map(|n| StoredObject::parse(item(n, 1 + n), &resource.fields));
    let objects = objects.collect::<Result<_, _>>().unwrap();
    Store::new(resource, objects, 1000)
}

fn selections(store: &Store) -> Arc<Selections> {
    let options = ListOptions::default();
    let plan = read::list(&options).unwrap();
    let selection = Selection::new("", options, &plan, store).unwrap();
    let key = SelectionsKey {
        gvr: store.resource.gvr.clone(),
        label_selector: String::new(),
        field_selector: String::new(),
        lists: vec![(String::new(), None)],
    };
    let lists = vec![(selection, plan)];
    Arc::new(Selections { key, lists })
}

/// Returns the plan of a query that no other number has.
fn plan(number: usize) -> Arc<Plan> {
    let spec = QuerySpec {
        condition: format!("object.metadata.name != 'x{number}'"),
        order_by: vec![OrderBy {
            expression: "object.data.n".to_owned(),
            ..OrderBy::default()
        }],
        ..QuerySpec::default()
    };
    Arc::new(Plan::new(&spec, None).unwrap().ok().unwrap())
}

struct World {
    writer: StoreWriter,
    store: Arc<Store>,
    selections: Arc<Selections>,
    orders: KeptOrders,
}

impl World {
    fn new(max_bytes: usize) -> Self {
        let (writer, store) = store(50);
        Self {
            writer,
            selections: selections(&store),
            store,
            orders: KeptOrders::within(max_bytes, &Registry::new()).unwrap(),
        }
    }

    fn ask(&self, plan: &Arc<Plan>, user: &'static str) -> Result<u64, NotKept> {
        self.ask_of(&self.store.snapshot(), plan, user)
    }

    fn ask_of(
        &self,
        snapshot: &Arc<Snapshot>,
        plan: &Arc<Plan>,
        user: &'static str,
    ) -> Result<u64, NotKept> {
        let asked = self.asked(plan, user);
        let wanted = Wanted {
            store: &self.store,
            snapshot,
            until: None,
            goes_on: &|| true,
        };
        let answer = self
            .orders
            .read(&asked, &wanted, |order| order.answer(plan))?;
        Ok(answer?.total)
    }

    fn asked<'a>(&'a self, plan: &'a Arc<Plan>, user: &'static str) -> Asked<'a> {
        Asked {
            plan,
            selections: &self.selections,
            user: Some(user),
        }
    }

    fn kept_of(&self, user: &str) -> usize {
        let orders = self.orders.orders.lock();
        let own = orders
            .values()
            .filter(|o| o.owner().is_some_and(|o| &**o == user));
        own.count()
    }
}

#[test]
fn one_user_has_half_of_the_orders() {
    let world = World::new(10 * LEAST_BYTES);
    for number in 0..30 {
        assert_eq!(world.ask(&plan(number), "greedy"), Ok(50));
    }
    assert_eq!(world.kept_of("greedy"), 5);
    // Others who see the same use the order, and it stays its owner's.
    assert_eq!(world.ask(&plan(29), "other"), Ok(50));
    assert_eq!(world.kept_of("other"), 0);
    for number in 100..110 {
        assert_eq!(world.ask(&plan(number), "other"), Ok(50));
    }
    assert_eq!(world.kept_of("other"), 3);
    assert_eq!(world.kept_of("greedy"), 5);
    // What is held is not dropped for another.
    let held: Vec<_> = (200..204)
        .map(|number| {
            let plan = plan(number);
            assert_eq!(world.ask(&plan, "greedy"), Ok(50));
            world.orders.hold(&world.asked(&plan, "greedy"))
        })
        .collect();
    assert_eq!(world.ask(&plan(300), "greedy"), Err(NotKept::TooLarge));
    assert_eq!(world.kept_of("greedy"), 4);
    drop(held);
    assert_eq!(world.ask(&plan(301), "greedy"), Ok(50));
}

#[test]
fn an_order_follows_its_objects_until_nobody_uses_it() {
    let world = World::new(10 * LEAST_BYTES);
    let plan = plan(1);
    let memory = world.store.memory().objects;
    assert_eq!(world.ask(&plan, "a"), Ok(50));
    assert!(world.store.memory().objects > memory);
    for n in 50..60 {
        let (item, now) = (item(n, 1001 + n), Instant::now());
        world.writer.apply(false, item, now).unwrap();
    }
    let orders = world.orders.drop_unused(true);
    assert_eq!(orders.len(), 1);
    assert!(orders[0].follow(&|| true));
    drop(orders);
    assert_eq!(world.ask(&plan, "a"), Ok(60));
    // An order that cannot follow in time is made again when it is asked for.
    world
        .writer
        .apply(true, item(0, 2000), Instant::now())
        .unwrap();
    let orders = world.orders.drop_unused(true);
    assert!(!orders[0].follow(&|| false));
    world.orders.forget(&orders[0]);
    drop(orders);
    assert_eq!(world.kept_of("a"), 0);
    assert_eq!(world.ask(&plan, "a"), Ok(59));
    // When memory is short, only what is held stays.
    let held = world.orders.hold(&world.asked(&plan, "a"));
    assert_eq!(world.orders.drop_unused(false).len(), 1);
    drop(held);
    assert!(world.orders.drop_unused(false).is_empty());
    assert_eq!(world.store.memory().objects, world.store.snapshot().bytes());
    // Nobody keeps the store for an order.
    assert_eq!(world.ask(&plan, "a"), Ok(59));
    let World {
        store,
        orders,
        writer,
        ..
    } = world;
    drop((store, writer));
    let kept = orders.drop_unused(true);
    assert!(!kept[0].follow(&|| true));
}

/// A page of an earlier state must not make others wait.
#[test]
fn an_order_goes_back_a_little_only() {
    let world = World::new(10 * LEAST_BYTES);
    let plan = plan(1);
    assert_eq!(world.ask(&plan, "a"), Ok(50));
    let put = |from: usize, to: usize| {
        for n in from..to {
            world
                .writer
                .apply(false, item(n, 1001 + n), Instant::now())
                .unwrap();
        }
        world.store.snapshot()
    };
    let earlier = put(50, 60);
    let later = put(60, 1060);
    assert_eq!(world.ask_of(&later, &plan, "a"), Ok(1060));
    assert_eq!(world.ask_of(&earlier, &plan, "b"), Ok(60));
    let latest = put(1060, 1061);
    assert_eq!(world.ask_of(&latest, &plan, "a"), Ok(1061));
    assert_eq!(world.ask_of(&earlier, &plan, "b"), Err(NotKept::OfLater));
    assert_eq!(world.kept_of("a"), 1);
    assert_eq!(world.ask_of(&latest, &plan, "a"), Ok(1061));
}
