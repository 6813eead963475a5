//! Tests of the first list, and of later lists.

use super::fake::Asked;
use super::*;
use crate::reflector::unavailable::REFUSED_RETRY_DELAY;

#[tokio::test]
async fn a_list_is_read_page_by_page() {
    let fake = Fake::start(|asked, nth| match (asked, nth) {
        (Asked::List, 0) => pod_page(9, "t=1&", &[pod("a", 3), pod("b", 4)]),
        (Asked::List, 1) => pod_page(9, "t2", &[pod("c", 5)]),
        (Asked::List, _) => pod_page(9, "", &[pod("d", 9)]),
        (Asked::Watch, _) => Reply::Stays(String::new()),
    });
    let cache = cache(&fake);
    let (_, store) = filled(&cache, &pods()).await;
    assert_eq!(keys(&store), ["a/a@3", "a/b@4", "a/c@5", "a/d@9"]);
    assert_eq!(store.progress().resource_version, 9);
    assert_eq!(
        fake.asked(Asked::List),
        [
            "/api/v1/pods?limit=500",
            "/api/v1/pods?limit=500&continue=t%3D1%26",
            "/api/v1/pods?limit=500&continue=t2"
        ]
    );
}

#[tokio::test]
async fn a_list_whose_version_expires_is_asked_for_at_once() {
    let fake = Fake::start(|asked, nth| match (asked, nth) {
        (Asked::List, 0) => pod_page(9, "t", &[pod("a", 3), pod("gone", 4)]),
        (Asked::List, 1) => Reply::Code(410, "The provided continue parameter is too old"),
        (Asked::List, _) => pod_list(12, &[pod("a", 3), pod("b", 11)]),
        (Asked::Watch, _) => Reply::Stays(String::new()),
    });
    let cache = cache(&fake);
    let (_, store) = filled(&cache, &pods()).await;
    assert_eq!(keys(&store), ["a/a@3", "a/b@11"]);
    assert_eq!(fake.asked(Asked::List)[2], "/api/v1/pods");
}

#[tokio::test]
async fn lists_that_fail_are_asked_for_with_pauses() {
    for reply in [
        || Reply::Code(500, "etcdserver: request timed out"),
        || Reply::Code(410, "too old"),
        || Reply::Code(429, "slow down"),
        || Reply::Body("nonsense".into()),
        || Reply::Body(r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}"#.into()),
        || pod_list(5, &["{}".into()]),
        || Reply::Breaks(r#"{"kind":"PodList","#.into()),
    ] {
        let fake = Fake::start(move |_, _| reply());
        let cache = cache(&fake);
        let filling = cache.lookup(&pods(), &Everything).err();
        assert_eq!(filling, Some(Unavailable::Filling));
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert!(fake.count() <= 5, "asked {} times", fake.count());
        until("the next try", || (fake.count() >= 2).then_some(())).await;
        let filling = cache.lookup(&pods(), &Everything).err();
        assert_eq!(filling, Some(Unavailable::Filling));
    }
}

#[tokio::test]
async fn who_asks_while_a_slow_list_is_under_way_asks_upstream_once() {
    let fake = Fake::start(|asked, _| match asked {
        Asked::List => Reply::After(Duration::from_millis(200), Box::new(pod_list(9, &[]))),
        Asked::Watch => Reply::Stays(String::new()),
    });
    let cache = cache(&fake);
    for _ in 0..50 {
        let filling = cache.lookup(&pods(), &Everything).err();
        assert_eq!(filling, Some(Unavailable::Filling));
    }
    filled(&cache, &pods()).await;
    assert_eq!(fake.asked(Asked::List).len(), 1);
}

#[tokio::test]
async fn what_is_refused_is_not_asked_for_again_at_once() {
    for code in [401, 403, 404, 405, 406] {
        let fake = Fake::start(move |_, _| Reply::Code(code, "no"));
        let cache = cache(&fake);
        let refused = until("the refusal", || {
            cache
                .lookup(&pods(), &Everything)
                .err()
                .filter(|e| *e == Unavailable::Refused)
        });
        refused.await;
        for _ in 0..50 {
            let _ = cache.lookup(&pods(), &Everything);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(fake.count(), 1, "{code}");
    }
}

/// This server accepts all labels of pods but one.
#[tokio::test]
async fn labels_that_upstream_does_not_know_are_left_to_it() {
    let fake = Fake::start(|asked, _| match asked {
        Asked::List => pod_list(9, &[pod("a", 3)]),
        Asked::Watch => Reply::Stays(String::new()),
    });
    let cache = cache(&fake);
    let (_, store) = filled(&cache, &pods()).await;
    let known: Vec<_> = store.resource.fields.labels().collect();
    let all = crate::store::field_table(&pods());
    let expected: Vec<_> = all.labels().filter(|l| *l != "spec.hostNetwork").collect();
    assert_eq!(known, expected);
}

/// A server that cannot be followed is not asked again and again, and no caller
/// waits for it.
#[tokio::test]
async fn what_cannot_be_followed_is_given_up() {
    let scripts: [fn(Asked) -> Reply; 3] = [
        |_| Reply::Body(r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}"#.into()),
        |asked| match asked {
            Asked::List => pod_list(9, &[pod("a", 3)]),
            Asked::Watch => Reply::Code(405, "the server does not allow this method"),
        },
        |asked| match asked {
            Asked::List => pod_list(9, &[pod("a", 3)]),
            Asked::Watch => Reply::Ends(event("ADDED", r#"{"metadata":{}}"#)),
        },
    ];
    for script in scripts {
        let fake = Fake::start(move |asked, _| script(asked));
        let cache = cache(&fake);
        let given_up = || {
            let found = cache.lookup(&pods(), &Everything).err();
            (found == Some(Unavailable::Refused)).then_some(())
        };
        until("the resource is given up", given_up).await;
        let asked = fake.count();
        assert!(asked <= 20, "asked {asked} times");
        let entry = cache.entries().pop().expect("an entry");
        let (until, _) = entry.lifecycle().refusal().expect("a refusal");
        assert!(until > Instant::now());
        // Nobody waits for the next attempt, and the one after it comes later.
        assert_eq!(entry.lifecycle().until_filled(), Unavailable::Refused);
        assert!(entry.lifecycle().found_unusable() > REFUSED_RETRY_DELAY);
        assert_eq!(fake.count(), asked);
    }
}
