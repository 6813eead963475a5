//! Tests single cases of views.

use super::*;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Instant;

use tokio::sync::watch::{Sender, channel};

use super::super::super::{NotReached, Step, Visibility, WatchEnd};

/// Returns a store at version 10 with the objects a/x, b/y and c/z.
fn store() -> (StoreWriter, Arc<Store>) {
    let objects = [("a/x", 2), ("b/y", 3), ("c/z", 4)];
    let objects = objects.map(|(key, version)| Written::new(key, version).stored());
    Store::new(resource(), objects.into(), 10)
}

fn apply(writer: &StoreWriter, key: &str, version: u64) {
    let item = Written::new(key, version).item(None);
    writer.apply(false, item, Instant::now()).unwrap();
}

/// Begins a watch from version 10 under a set.
fn watch(store: &Arc<Store>, form: Form, set: &Sender<Visible>, bookmarks: bool) -> Watch {
    let options = WatchOptions {
        bookmarks,
        ..options(filter("", "", ""), HOUR)
    };
    let watch = Watch::from_version(store.clone(), 10, options, form.writer(store)).unwrap();
    let visibility = Visibility::new(set.borrow().clone(), set.subscribe());
    form.fitted(watch.of_view(visibility).unwrap())
}

/// Takes all that can be handed out without waiting.
fn take(watch: &mut Watch, form: Form) -> Vec<Frame> {
    let mut frames = Vec::new();
    loop {
        match watch.step().unwrap() {
            Step::Idle => return frames,
            Step::Again => {}
            Step::Batch(batch, events) => {
                let read = form.frames(&batch);
                assert_eq!(read.len(), events);
                frames.extend(read);
            }
        }
    }
}

fn brief(frames: &[Frame]) -> Vec<(&str, &str, u64, u64)> {
    frames.iter().map(Frame::brief).collect()
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_set_is_told_at_the_watchers_place() {
    for form in Form::ALL {
        for bookmarks in [true, false] {
            let (writer, store) = store();
            let (set, _) = channel(visible(["a/", "c/z"]));
            let mut watch = watch(&store, form, &set, bookmarks);
            assert_eq!(take(&mut watch, form), []);
            // The watcher has not read these events when the set changes. It
            // must not be sent the new state of an object that it no longer
            // sees.
            apply(&writer, "a/x", 11);
            apply(&writer, "b/y", 12);
            set.send_replace(visible(["b/", "c/z"]));
            apply(&writer, "a/x", 13);
            apply(&writer, "c/z", 14);
            let heard = take(&mut watch, form);
            let mut expected = vec![
                ("DELETED", "a/x", 10, 2),
                ("ADDED", "b/y", 3, 3),
                ("BOOKMARK", "/", 10, 0),
                ("MODIFIED", "b/y", 12, 12),
                ("MODIFIED", "c/z", 14, 14),
            ];
            if !bookmarks {
                expected.remove(2);
            }
            assert_eq!(brief(&heard), expected, "{form:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn only_what_is_selected_is_hidden_and_shown() {
    let (writer, store) = store();
    let other = Written {
        app: "2",
        ..Written::new("a/x", 11)
    };
    writer
        .apply(false, other.item(None), Instant::now())
        .unwrap();
    let (set, newest) = channel(visible(["a/"]));
    let options = options(filter("", "app=1", ""), HOUR);
    let watch = watch_from(&store, 11, options).unwrap();
    let visibility = Visibility::new(set.borrow().clone(), newest);
    let mut watch = watch.of_view(visibility).unwrap();
    set.send_replace(visible(["c/"]));
    let heard = take(&mut watch, Form::Whole);
    assert_eq!(
        brief(&heard),
        [("ADDED", "c/z", 4, 4), ("BOOKMARK", "/", 11, 0)]
    );
    // The object leaves the selection while it is visible.
    let other = Written {
        key: "c/z".into(),
        version: 12,
        ..other
    };
    writer
        .apply(false, other.item(None), Instant::now())
        .unwrap();
    set.send_replace(visible(["c/", "d/"]));
    set.send_replace(visible(["c/"]));
    let heard = take(&mut watch, Form::Whole);
    assert_eq!(brief(&heard), [("DELETED", "c/z", 12, 4)]);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_waits_is_woken_by_another_set() {
    let (_, store) = store();
    let (set, _) = channel(visible(["a/"]));
    let mut watch = watch(&store, Form::Whole, &set, true);
    assert_eq!(take(&mut watch, Form::Whole), []);
    assert!(!watch.waits_for_events(), "a group does not look at sets");
    let waiting = tokio::spawn(async move { (watch.next().await, watch) });
    tokio::task::yield_now().await;
    set.send_replace(Visible::default());
    let (batch, mut watch) = waiting.await.unwrap();
    let heard = Form::Whole.frames(&batch.unwrap().0);
    assert_eq!(brief(&heard), [("DELETED", "a/x", 10, 2)]);
    take(&mut watch, Form::Whole);
    let waiting = tokio::spawn(async move { watch.next().await });
    tokio::task::yield_now().await;
    drop(set);
    assert_eq!(waiting.await.unwrap().unwrap_err(), WatchEnd::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_a_view_begins_at_what_the_store_has() {
    let (writer, store) = store();
    let (set, newest) = channel(visible(["a/"]));
    let begin = |version| {
        let watch = watch_from(&store, version, options(filter("", "", ""), HOUR)).unwrap();
        let visibility = Visibility::new(set.borrow().clone(), newest.clone());
        watch.of_view(visibility).map(drop)
    };
    assert_eq!((begin(10), begin(11)), (Ok(()), Err(NotReached)));
    assert_eq!(store.highest_version(), 10);
    apply(&writer, "b/y", 11);
    assert_eq!((begin(11), store.highest_version()), (Ok(()), 11));
}

/// The version of a list may be one that the store has not reached.
#[tokio::test(start_paused = true)]
async fn a_watch_of_a_view_waits_for_what_the_store_lacks() {
    let (writer, store) = store();
    let (set, newest) = channel(visible(["a/"]));
    let watch = watch_from(&store, 12, options(filter("", "", ""), HOUR)).unwrap();
    let visibility = Visibility::new(set.borrow().clone(), newest);
    let mut watch = watch.of_view_when_reached(visibility);
    // Neither another set nor an event that the client knows is sent.
    set.send_replace(visible(["b/"]));
    apply(&writer, "a/x", 11);
    assert!(matches!(watch.step(), Ok(Step::Idle)));
    let waiting = tokio::spawn(async move {
        watch.changed().await;
        watch
    });
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    assert!(!waiting.is_finished());
    apply(&writer, "b/y", 12);
    let mut watch = waiting.await.unwrap();
    let mut told = Vec::new();
    while told.len() < 2 {
        let (batch, _) = watch.next().await.unwrap();
        told.extend(Form::Whole.frames(&batch));
    }
    let told: Vec<_> = told.iter().map(Frame::brief).collect();
    assert_eq!(told, [("DELETED", "a/x", 12, 11), ("ADDED", "b/y", 12, 12)]);
    // The end of the view also ends the watch before that.
    let (set, newest) = channel(visible(["a/"]));
    let watch = watch_from(&store, 20, options(filter("", "", ""), HOUR)).unwrap();
    let visibility = Visibility::new(set.borrow().clone(), newest);
    let mut watch = watch.of_view_when_reached(visibility);
    drop(set);
    watch.changed().await;
    assert_eq!(watch.next().await.unwrap_err(), WatchEnd::Closed);
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watcher_sleeps_through_what_it_does_not_see() {
    let (writer, store) = store();
    let (set, _) = channel(visible(["a/", "b/n"]));
    let mut watch = watch(&store, Form::Whole, &set, true);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let mut context = Context::from_waker(&waker);
    let mut poll = |watch: &mut Watch| {
        let mut next = Box::pin(watch.next());
        assert!(next.as_mut().poll(&mut context).is_pending());
        for version in 11..20 {
            apply(&writer, "b/y", version);
        }
        let before = woken.0.load(Ordering::Relaxed);
        apply(&writer, "b/n", 20);
        (before, woken.0.load(Ordering::Relaxed))
    };
    assert_eq!(poll(&mut watch), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_sleeps_long_is_told_of_another_set() {
    for bookmarks in [true, false] {
        let (writer, store) = store();
        let (set, _) = channel(visible(["a/"]));
        let mut watch = watch(&store, Form::Whole, &set, bookmarks);
        assert_eq!(take(&mut watch, Form::Whole), []);
        apply(&writer, "b/y", 11);
        let waiting = tokio::spawn(async move { (watch.next().await, watch) });
        tokio::time::sleep(Duration::from_secs(61)).await;
        // The watcher has read none of this, but it has missed nothing.
        writer.trim_history(0, Instant::now() + Duration::from_secs(1));
        set.send_replace(visible(["b/"]));
        let (_, mut watch) = match bookmarks {
            true => {
                let (batch, watch) = waiting.await.unwrap();
                let bookmark = Form::Whole.frames(&batch.as_ref().unwrap().0);
                assert_eq!(brief(&bookmark), [("BOOKMARK", "/", 11, 0)]);
                (batch, watch)
            }
            false => {
                let (batch, watch) = waiting.await.unwrap();
                let first = Form::Whole.frames(&batch.as_ref().unwrap().0);
                assert_eq!(brief(&first), [("DELETED", "a/x", 11, 2)]);
                (batch, watch)
            }
        };
        let heard = take(&mut watch, Form::Whole);
        assert!(
            brief(&heard).contains(&("ADDED", "b/y", 11, 11)),
            "{heard:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn sets_may_change_while_a_long_change_is_told() {
    // There are too many objects for one batch. Some of their namespaces are
    // hidden.
    const NAMESPACES: usize = 12;
    let namespaces: Vec<_> = (0..NAMESPACES).map(|n| format!("n{n:02}/")).collect();
    let set = |chosen: fn(usize) -> bool| {
        let chosen = namespaces.iter().enumerate().filter(|(n, _)| chosen(*n));
        visible(chosen.map(|(_, namespace)| namespace.as_str()))
    };
    let objects = || {
        let keys = namespaces
            .iter()
            .flat_map(|n| (0..100).map(move |i| format!("{n}x{i:03}")));
        keys.map(|key| Written::new(&key, 2).stored())
    };
    let (_, store) = Store::new(resource(), objects().collect(), 10);
    for form in [Form::Whole, Form::Compressed] {
        let (sets, newest) = channel(set(|n| n != 3));
        let options = options(filter("", "", ""), HOUR);
        let frames = form.writer(&store);
        let watch = Watch::with_initial_events(store.clone(), store.snapshot(), options, frames);
        let visibility = Visibility::new(sets.borrow().clone(), newest);
        let mut watch = form.fitted(watch.of_view(visibility).unwrap());
        let mut client = Client::default();
        let others: [fn(usize) -> bool; 5] =
            [|n| n != 0, |n| n % 2 == 0, |_| true, |n| n > 10, |n| n < 6];
        for next in others {
            let (batch, events) = watch.next().await.unwrap();
            assert!((100..1200).contains(&events), "{events}");
            form.frames(&batch)
                .iter()
                .for_each(|frame| client.hear(frame));
            sets.send_replace(set(next));
        }
        assert!(!watch.has_begun());
        let rest = take(&mut watch, form);
        rest.iter().for_each(|frame| client.hear(frame));
        let ends = rest.iter().filter(|frame| frame.ends_initial).count();
        assert_eq!(
            (ends, watch.has_begun(), client.version),
            (1, true, Some(10))
        );
        let scope = crate::store::KeyScope::Visible(sets.borrow().clone());
        assert_eq!(client.believes, believed(store.snapshot().iter(&scope)));
        assert_eq!(client.believes.len(), 600);
    }
}

/// Prints how long events take while many views of a few namespaces wait.
#[tokio::test(start_paused = true)]
async fn views_of_a_few_of_many_namespaces_cost_little() {
    const NAMESPACES: usize = 1_000;
    const VIEWS: usize = 500;
    const OF_ONE: usize = 20;
    for (views, of_one) in [(0, 0), (VIEWS, OF_ONE), (VIEWS, NAMESPACES)] {
        let (writer, store) = store();
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let mut context = Context::from_waker(&waker);
        let mut watches: Vec<_> = (0..views)
            .map(|view| {
                // Each view has a different set.
                let own = (0..of_one).map(|n| format!("n{}/", (view * 37 + n * 7) % NAMESPACES));
                let own: Vec<_> = own.chain([format!("own{view}/")]).collect();
                let (set, _) = channel(visible(own.iter().map(String::as_str)));
                let watch = watch(&store, Form::Whole, &set, true);
                (watch, set)
            })
            .collect();
        let mut waiting: Vec<_> = watches
            .iter_mut()
            .map(|(w, _)| Box::pin(w.next()))
            .collect();
        for next in &mut waiting {
            assert!(next.as_mut().poll(&mut context).is_pending());
        }
        let began = Instant::now();
        for n in 0..NAMESPACES {
            apply(&writer, &format!("n{n}/x"), 11 + n as u64);
        }
        let took = began.elapsed();
        let mut told = 0;
        for next in &mut waiting {
            if let std::task::Poll::Ready(next) = next.as_mut().poll(&mut context) {
                told += next.unwrap().1;
            }
        }
        println!(
            "{views} views of {of_one}: {:?} for an event, {told} events told in {:?}",
            took / NAMESPACES as u32,
            began.elapsed() - took,
        );
        // Sets of a thousand namespaces are too many for topics of their own.
        // The bytes of a batch are limited.
        if of_one <= OF_ONE {
            let own = if of_one > 0 { views } else { 0 };
            assert_eq!(woken.0.load(Ordering::Relaxed), own, "once for all events");
            assert_eq!(told, views * of_one);
        } else {
            assert!(told > views * OF_ONE);
        }
    }
}

/// Another replica may have shown the client another set than this one knows.
#[tokio::test(start_paused = true)]
async fn a_doubt_soon_after_a_resume_ends_the_watch() {
    let later = Duration::from_secs(10);
    for (after, doubts, ends) in [
        (Duration::ZERO, true, true),
        (Duration::ZERO, false, false),
        (later, true, false),
    ] {
        for gains in [false, true] {
            let (_, store) = store();
            let (set, newest) = channel(visible(["a/"]));
            let (doubted, doubt) = channel(None);
            let now = tokio::time::Instant::now;
            let visibility = Visibility::new(set.borrow().clone(), newest);
            let visibility = visibility.resumed(doubt, now() + later);
            let watch = watch_from(&store, 10, options(filter("", "", ""), HOUR)).unwrap();
            let mut watch = watch.of_view(visibility).unwrap();
            assert!(matches!(watch.step(), Ok(Step::Idle)));
            let case = format!("{after:?} {doubts} {gains}");
            tokio::time::advance(after).await;
            let woken = tokio::time::timeout(Duration::from_secs(1), watch.changed());
            let tell = async {
                tokio::task::yield_now().await;
                if doubts {
                    doubted.send_replace(Some(now()));
                }
                if gains {
                    set.send_replace(visible(["a/", "b/"]));
                }
                drop(doubted);
            };
            let (woken, ()) = tokio::join!(woken, tell);
            assert_eq!(woken.is_ok(), ends || gains, "{case}");
            let ended = matches!(watch.step(), Err(WatchEnd::FellBehind));
            assert_eq!(ended, ends, "{case}");
        }
    }
}
