//! Tests what is given up when memory is short, and in which order.

use super::fake::Asked;
use super::*;

/// Returns a server and a cache for a few hundred bytes of pods and of widgets.
async fn both() -> (Fake, Cache) {
    let fake = Fake::start(|asked, nth| match (asked, nth) {
        (Asked::List, 0) => pod_list(9, &[pod("a", 3), pod("b", 4)]),
        (Asked::List, 1) => widget_list(9, &[widget("a", 3), widget("b", 4), widget("c", 5)]),
        (Asked::List, _) => pod_list(9, &[pod("a", 3)]),
        (Asked::Watch, _) => Reply::Stays(String::new()),
    });
    let cache = cache(&fake);
    (fake, cache)
}

fn bytes(store: &Store) -> usize {
    store.memory().total()
}

fn why(cache: &Cache, gvr: &GroupVersionResource) -> Option<Unavailable> {
    cache.lookup(gvr, &Everything).err()
}

#[tokio::test]
async fn a_list_above_the_limit_is_given_up() {
    let (_fake, cache) = both().await;
    cache.keep_within(100, Instant::now());
    assert_eq!(why(&cache, &pods()), Some(Unavailable::Filling));
    until("the refusal", || {
        (why(&cache, &pods()) == Some(Unavailable::MemoryLimit)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_newcomer_without_room_goes_and_comes_back() {
    let (fake, cache) = both().await;
    let (entry, old) = filled(&cache, &pods()).await;
    let now = Instant::now();
    // While a list is read, it takes more memory.
    cache.keep_within(bytes(&old) * 9, now);
    let (_, new) = filled(&cache, &widgets()).await;
    let limit = bytes(&old) + bytes(&new) / 2;
    // Both stores are read, and nothing else can be given up.
    cache.keep_within(limit, now);
    until("the newcomer's end", || new.progress().closed.then_some(())).await;
    assert!(Arc::ptr_eq(&entry.store().unwrap(), &old));
    assert!(!old.progress().closed);
    assert_eq!(why(&cache, &widgets()), Some(Unavailable::MemoryLimit));
    let other = GroupVersionResource::new("", "v1", "secrets");
    assert_eq!(why(&cache, &other), Some(Unavailable::MemoryLimit));
    assert_eq!(fake.asked(Asked::List).len(), 2);
    cache.keep_within(usize::MAX, now);
    assert_eq!(why(&cache, &other), Some(Unavailable::Filling));
    assert_eq!(why(&cache, &widgets()), Some(Unavailable::MemoryLimit));
}

#[tokio::test]
async fn the_least_recently_read_goes_first() {
    let (_fake, cache) = both().await;
    let (first, store) = filled(&cache, &pods()).await;
    let size = bytes(&store);
    drop(store);
    let (second, store) = filled(&cache, &widgets()).await;
    let limit = size + bytes(&store);
    drop(store);
    cache.keep_within(limit, Instant::now());
    let later = Instant::now() + Duration::from_secs(60);
    first.usage().touch(later - Duration::from_secs(40));
    cache.keep_within(limit - 1, Instant::now());
    assert!(
        first.store().is_some() && second.store().is_some(),
        "both were read just now"
    );
    cache.keep_within(limit - 1, later);
    until("the end", || second.store().is_none().then_some(())).await;
    assert!(first.store().is_some());
    // The resource can be read again, because it was stopped as unused and not
    // as too large.
    assert_eq!(why(&cache, &widgets()), Some(Unavailable::Filling));
}

#[tokio::test]
async fn history_goes_but_for_the_last_minutes() {
    let (_fake, cache) = both().await;
    let (entry, store) = filled(&cache, &pods()).await;
    let now = Instant::now();
    cache.keep_within(usize::MAX, now);
    for version in 10..30 {
        let item = bytes::Bytes::from(pod("a", version));
        let owned = entry.owned().clone().unwrap();
        owned.writer.apply(false, item, now).unwrap();
    }
    let before = store.memory();
    let limit = before.total() - before.history / 2;
    cache.keep_within(limit, now + Duration::from_secs(74));
    store.position(9).unwrap();
    cache.keep_within(limit, now + Duration::from_secs(76));
    let after = store.memory();
    assert!(after.history < before.history / 2, "{before:?} {after:?}");
    assert!(store.position(9).is_err() && store.position(29).is_ok());
    assert!(!store.progress().closed);
    assert_eq!(keys(&store), ["a/a@29", "a/b@4"]);
}
