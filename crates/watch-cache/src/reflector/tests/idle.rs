//! Tests which resources are evicted, and which stay.

use super::fake::Asked;
use super::*;
use crate::{
    CacheModes, Consistency, DropManagedFields, MemoryLimit, ResourcePattern, Settings,
    ShardedListAndWatch,
};

const HALF_AN_HOUR: Duration = Duration::from_secs(1800);

pub(super) fn config() -> Settings {
    Settings {
        modes: CacheModes::SERVE,
        consistency: Consistency::Strict,
        sharded_list_and_watch: ShardedListAndWatch::Upstream,
        drop_managed_fields: DropManagedFields::Upstream,
        max_staleness: Duration::from_secs(30),
        self_check_interval: Duration::ZERO,
        idle_timeout: HALF_AN_HOUR,
        memory_limit: MemoryLimit::Unlimited,
        include: vec![ResourcePattern::All],
        exclude: vec![],
        preload: vec![],
        aggregated: vec![],
        pinned: vec![],
        persistence: None,
    }
}

fn quiet() -> Fake {
    Fake::start(|asked, _| match asked {
        Asked::List => pod_list(9, &[pod("a", 3)]),
        Asked::Watch => Reply::Stays(String::new()),
    })
}

async fn is_closed(store: &Store) {
    let mut progress = store.subscribe();
    let closed = progress.wait_for(|p| p.closed);
    let closed = tokio::time::timeout(Duration::from_secs(5), closed).await;
    closed.unwrap().unwrap();
}

#[tokio::test]
async fn what_nobody_reads_is_dropped_and_comes_back_on_demand() {
    let fake = quiet();
    let cache = cache(&fake);
    let (entry, store) = filled(&cache, &pods()).await;
    let store = {
        let weak = Arc::downgrade(&store);
        drop(store);
        weak
    };
    let idle = Instant::now() + HALF_AN_HOUR + Duration::from_secs(1);
    cache.evict_idle(&config(), Instant::now());
    assert!(entry.store().is_some(), "it was read just now");
    cache.evict_idle(
        &Settings {
            idle_timeout: Duration::ZERO,
            ..config()
        },
        idle,
    );
    assert!(entry.store().is_some(), "nothing is ever idle");
    cache.evict_idle(&config(), idle);
    until("the end of the store", || {
        store.upgrade().is_none().then_some(())
    })
    .await;
    assert_eq!(
        entry.lifecycle().disconnected_for(Instant::now()),
        Duration::MAX
    );
    assert!(cache.entries().is_empty());
    let (again, store) = filled(&cache, &pods()).await;
    assert!(!Arc::ptr_eq(&entry, &again));
    assert_eq!(keys(&store), ["a/a@3"]);
    assert_eq!(fake.asked(Asked::List).len(), 2);
}

#[tokio::test]
async fn a_watcher_is_a_reader() {
    let fake = quiet();
    let cache = cache(&fake);
    let (entry, store) = filled(&cache, &pods()).await;
    let later = |n| Instant::now() + HALF_AN_HOUR * n + Duration::from_secs(1);
    // The holder of a store may be a watch.
    cache.evict_idle(&config(), later(1));
    cache.evict_idle(&config(), later(2));
    assert!(entry.store().is_some());
    drop(store);
    // The idle time counts from the last check that saw the holder.
    cache.evict_idle(&config(), later(2));
    assert!(entry.store().is_some());
    cache.evict_idle(&config(), later(4));
    until("the end", || entry.store().is_none().then_some(())).await;
}

#[tokio::test]
async fn what_is_excluded_is_closed_even_while_it_is_watched() {
    let fake = quiet();
    let cache = cache(&fake);
    let (_, store) = filled(&cache, &pods()).await;
    let excluding = Settings {
        exclude: vec![ResourcePattern::parse("pods").unwrap()],
        preload: vec![ResourcePattern::parse("pods").unwrap()],
        ..config()
    };
    cache.evict_idle(&excluding, Instant::now());
    is_closed(&store).await;
    assert!(cache.entries().is_empty());
}

#[tokio::test]
async fn what_the_owner_reads_stays_even_if_it_is_excluded() {
    let fake = quiet();
    let cache = cache(&fake);
    let (entry, store) = filled(&cache, &pods()).await;
    drop(store);
    let pattern = ResourcePattern::parse("pods").unwrap();
    let pinning = Settings {
        exclude: vec![pattern.clone()],
        pinned: vec![pattern.clone()],
        ..config()
    };
    let later = Instant::now() + HALF_AN_HOUR * 2;
    cache.evict_idle(&pinning, later);
    assert!(entry.store().is_some());
    let excluding = Settings {
        pinned: vec![],
        ..pinning
    };
    cache.evict_idle(&excluding, later);
    until("the end", || entry.store().is_none().then_some(())).await;
}

#[tokio::test]
async fn what_is_preloaded_stays_until_it_is_no_longer() {
    let fake = quiet();
    let cache = cache(&fake);
    let pattern = ResourcePattern::parse("pods").unwrap();
    cache.preload(&pattern, &Everything).await;
    let entry = until("the entry", || cache.entries().pop()).await;
    until("the first list", || entry.store()).await;
    let preloading = Settings {
        preload: vec![pattern],
        ..config()
    };
    let later = Instant::now() + HALF_AN_HOUR * 2;
    cache.evict_idle(&preloading, later);
    assert!(entry.store().is_some());
    cache.evict_idle(&config(), later);
    until("the end", || entry.store().is_none().then_some(())).await;
}

#[tokio::test]
async fn what_is_preloaded_is_asked_for_again_after_a_refusal() {
    let fake = Fake::start(|asked, nth| match (asked, nth) {
        (Asked::List, 0) => Reply::Code(404, "not defined yet"),
        (Asked::List, _) => pod_list(9, &[]),
        (Asked::Watch, _) => Reply::Stays(String::new()),
    });
    let cache = cache(&fake);
    let pattern = ResourcePattern::parse("pods").unwrap();
    cache.preload(&pattern, &Everything).await;
    let entry = until("the entry", || cache.entries().pop()).await;
    until("the refusal", || entry.lifecycle().refusal()).await;
    let preloading = Settings {
        preload: vec![pattern],
        ..config()
    };
    cache.evict_idle(&preloading, Instant::now());
    assert_eq!(fake.asked(Asked::List).len(), 1, "too early");
    cache.evict_idle(&preloading, Instant::now() + Duration::from_secs(11));
    let entry = until("another entry", || {
        cache.entries().pop().filter(|e| !Arc::ptr_eq(e, &entry))
    })
    .await;
    until("the first list", || entry.store()).await;
    assert!(entry.lifecycle().is_preloaded());
}
