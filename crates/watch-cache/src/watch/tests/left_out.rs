//! Events without managedFields are written as if their store had no managedFields.

use kubernetes_wire::api::{FieldSelector, LabelSelector};
use kubernetes_wire::negotiation::{IncludeObject, MetaVersion};
use kubernetes_wire::representation::table::{Printer, TableOptions};

use super::*;
use crate::LeftOut;
use crate::store::tests::managed::Stores;
use crate::watch::{FrameWriter, MetadataFrames, TableFrames};

/// What is written of events, without the things that are left out.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Whole(Encoding),
    Metadata(Encoding),
    Table(IncludeObject),
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::Whole(Encoding::Json),
        Self::Whole(Encoding::Protobuf),
        Self::Metadata(Encoding::Json),
        Self::Metadata(Encoding::Protobuf),
        Self::Table(IncludeObject::None),
        Self::Table(IncludeObject::Metadata),
        Self::Table(IncludeObject::Object),
    ];

    fn shows_managed_fields(self) -> bool {
        !matches!(self, Self::Table(IncludeObject::None))
    }

    fn frames(self, store: &Arc<Store>, left_out: Option<LeftOut>) -> Box<dyn FrameWriter> {
        let (store, version) = (store.clone(), MetaVersion::V1);
        match self {
            Self::Whole(encoding) => {
                Box::new(WholeFrames::new(store, encoding).leaving_out(left_out))
            }
            Self::Metadata(encoding) => {
                Box::new(MetadataFrames::new(store, encoding, version).leaving_out(left_out))
            }
            Self::Table(include) => {
                let printer = Arc::new(Printer::builtin(&resource().gvr).unwrap().clone());
                let options = TableOptions { version, include };
                Box::new(TableFrames::new(store, printer, options).leaving_out(left_out))
            }
        }
    }
}

fn selecting(labels: &str, store: &Store) -> WatchOptions {
    let labels = LabelSelector::parse(labels).unwrap();
    let filter = Filter::new("a", labels, FieldSelector::default(), &store.resource);
    WatchOptions {
        bookmarks: false,
        ..options(filter.unwrap(), Duration::from_secs(60))
    }
}

/// Reads this number of events of a watch, and what comes in the same batch.
async fn read(watch: &mut Watch, mut events: usize) -> Vec<u8> {
    let mut seen = Vec::new();
    while events > 0 {
        let (bytes, sent) = watch.next().await.unwrap();
        seen.extend_from_slice(&bytes);
        events = events.saturating_sub(sent);
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn watches_lack_only_managed_fields() {
    for stored in [Encoding::Json, Encoding::Protobuf] {
        for (kind, (labels, objects)) in Kind::ALL
            .into_iter()
            .flat_map(|kind| [("odd=1", 150), ("", 300)].map(|l| (kind, l)))
        {
            let stores = Stores::new(stored);
            let ((_, whole), (_, rest)) = (&stores.whole, &stores.rest);
            let watch = |store: &Arc<Store>, left_out: Option<&LeftOut>, compressed: bool| {
                let frames = kind.frames(store, left_out.cloned());
                let (snapshot, options) = (store.snapshot(), selecting(labels, store));
                let watch = Watch::with_initial_events(store.clone(), snapshot, options, frames);
                match compressed {
                    true => watch.compressed(),
                    false => watch,
                }
            };
            let left_out = LeftOut::default();
            let dropping = Some(&left_out);
            let mut watches = [
                watch(rest, None, false),
                watch(whole, dropping, false),
                watch(whole, dropping, false),
                watch(rest, None, true),
                watch(whole, dropping, true),
                watch(whole, None, false),
            ];
            let mut counted = 0;
            for version in [0, 10, 11] {
                if version > 0 {
                    stores.write(7, version);
                }
                let mut seen = [const { Vec::new() }; 6];
                for (watch, seen) in watches.iter_mut().zip(&mut seen) {
                    let events = if version == 0 { objects } else { 1 };
                    *seen = read(watch, events).await;
                }
                let [expected, made, again, compressed, made_compressed, all] = &seen;
                assert!(made == expected, "{stored:?} {version} {kind:?}");
                assert!(again == expected, "{stored:?} {version} {kind:?}");
                assert!(made_compressed == compressed, "{version} {kind:?}");
                // Each of the three watchers was not sent so much.
                let lacks = 3 * (all.len() - made.len());
                let all_counted = usize::try_from(left_out.bytes()).unwrap();
                let now = all_counted - counted;
                counted = all_counted;
                assert!(
                    (now..=now + 3 * 8 * objects).contains(&lacks),
                    "{kind:?} {lacks} {now}"
                );
                assert_eq!(now > 0, kind.shows_managed_fields(), "{kind:?}");
            }
        }
    }
}

/// Watchers of everything share the objects without managedFields that leaves keep.
#[tokio::test(start_paused = true)]
async fn watches_begin_with_what_leaves_keep() {
    for encoding in [Encoding::Json, Encoding::Protobuf] {
        let stores = Stores::new(Encoding::Json);
        let ((_, whole), (_, rest)) = (&stores.whole, &stores.rest);
        let begin = async |store: &Arc<Store>, snapshot, labels, left_out| {
            let frames = Kind::Whole(encoding).frames(store, left_out);
            let options = selecting(labels, store);
            let events = if labels.is_empty() { 300 } else { 150 };
            let mut watch = Watch::with_initial_events(store.clone(), snapshot, options, frames);
            read(&mut watch, events).await
        };
        let dropping = || Some(LeftOut::default());
        let now = || whole.snapshot();
        let expected = begin(rest, rest.snapshot(), "", None).await;
        let derived = || whole.memory().derived;
        begin(whole, now(), "odd=1", dropping()).await;
        assert_eq!(derived(), 0);
        assert!(begin(whole, now(), "", dropping()).await == expected);
        let kept = derived();
        assert!(kept > 0);
        assert!(begin(whole, now(), "", dropping()).await == expected);
        begin(whole, now(), "odd=1", dropping()).await;
        assert_eq!(derived(), kept);
        // Leaves of an earlier state keep nothing. The changes since then follow.
        let earlier = now();
        (0..300).for_each(|n| stores.write(n, 100 + n as u64));
        assert_eq!(derived(), 0);
        let seen = begin(whole, earlier, "", dropping()).await;
        assert!(seen.starts_with(&expected));
        assert_eq!(derived(), 0);
    }
}
