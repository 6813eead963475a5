//! Writes a list as one gzip member, joined from deflated leaves.
//!
//! kube-apiserver deflates every list for every client that asks. Here each
//! leaf of the current state is deflated once. A later list of the same objects
//! copies a few megabytes and combines some hundred checksums.

use std::marker::PhantomData;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use kubernetes_wire::representation::deflate::{Deflater, Member, Run};
use kubernetes_wire::representation::{Encoding, Envelope, ListMeta};

use super::pieces::Pieces;
use crate::read::Page;
use crate::store::{CountedValue, Derived, Leaf, Part, Resource, StoredObject};

/// How objects are written as items of a list.
trait Items: Send + Sync + 'static {
    const ENCODING: Encoding;
    const SEPARATOR: &'static [u8];

    /// Returns the bytes between the separator and an item of this length.
    fn prefix(length: usize) -> BytesMut;
}

enum Json {}

impl Items for Json {
    const ENCODING: Encoding = Encoding::Json;
    const SEPARATOR: &'static [u8] = b",";

    fn prefix(_: usize) -> BytesMut {
        BytesMut::new()
    }
}

enum Protobuf {}

impl Items for Protobuf {
    const ENCODING: Encoding = Encoding::Protobuf;
    const SEPARATOR: &'static [u8] = b"";

    fn prefix(length: usize) -> BytesMut {
        let mut prefix = BytesMut::new();
        Self::ENCODING.put_item_prefix(length, &mut prefix);
        prefix
    }
}

/// The deflated items of a leaf, with separators only between them. So they fit
/// at any place of a list.
struct Deflated<I> {
    run: Run,
    items: PhantomData<fn() -> I>,
}

impl<I: Items> Deflated<I> {
    fn new(
        objects: &[Arc<StoredObject>],
        envelope: &Envelope,
        deflater: &mut Deflater,
    ) -> Option<Self> {
        let items = objects.iter().map(|o| o.item(I::ENCODING, envelope));
        let items = items.collect::<Option<Vec<Bytes>>>()?;
        let prefixes: Vec<_> = items.iter().map(|item| I::prefix(item.len())).collect();
        let length = items.iter().map(Bytes::len).sum();
        let parts = items.iter().zip(&prefixes).enumerate();
        let parts = parts.flat_map(|(n, (item, prefix))| {
            let separator = if n > 0 { I::SEPARATOR } else { &[] };
            [separator, prefix, item]
        });
        let run = deflater.run(parts, length)?;
        let items = PhantomData;
        Some(Self { run, items })
    }
}

impl<I: Items> Derived for Deflated<I> {
    fn size(&self) -> usize {
        self.run.size()
    }
}

pub(super) fn lacks(leaf: &Leaf, encoding: Encoding) -> bool {
    match encoding {
        Encoding::Json => leaf.lacks::<Deflated<Json>>(),
        Encoding::Protobuf => leaf.lacks::<Deflated<Protobuf>>(),
    }
}

/// Deflates a leaf's items. `None` if that fails.
pub(super) fn deflate(
    leaf: &Leaf,
    encoding: Encoding,
    envelope: &Envelope,
    deflater: &mut Deflater,
) -> Option<()> {
    let objects = leaf.objects();
    match encoding {
        Encoding::Json => leaf
            .derived(|_| Deflated::<Json>::new(objects, envelope, deflater))
            .map(drop),
        Encoding::Protobuf => leaf
            .derived(|_| Deflated::<Protobuf>::new(objects, envelope, deflater))
            .map(drop),
    }
}

/// Deflated items that a leaf keeps, or that were made for one list.
enum DeflatedItems<I: Items> {
    Kept(Arc<CountedValue<Deflated<I>>>),
    Own(Deflated<I>),
}

impl<I: Items> DeflatedItems<I> {
    fn run(&self) -> &Run {
        match self {
            Self::Kept(kept) => &kept.run,
            Self::Own(own) => &own.run,
        }
    }
}

/// Objects that follow each other in a list.
enum Objects {
    Leaf(Arc<Leaf>),
    /// A part of a leaf. It is deflated each time.
    Some(Vec<Arc<StoredObject>>),
}

impl Objects {
    fn all(&self) -> &[Arc<StoredObject>] {
        match self {
            Self::Leaf(leaf) => leaf.objects(),
            Self::Some(objects) => objects,
        }
    }
}

/// A list that is about to be compressed. It keeps the objects alive, but not
/// their state.
pub struct GzipList {
    encoding: Encoding,
    envelope: Envelope,
    meta: ListMeta,
    objects: Vec<Objects>,
}

/// The compressor failed.
#[derive(Debug, thiserror::Error)]
#[error("a list could not be deflated")]
pub struct NotDeflated;

impl GzipList {
    /// Takes the objects of a page.
    pub fn new(resource: &Resource, page: &Page<'_>, encoding: Encoding) -> Self {
        let mut objects = Vec::new();
        for part in &page.parts {
            match (part, objects.last_mut()) {
                (Part::Leaf(leaf), _) => objects.push(Objects::Leaf(Arc::clone(leaf))),
                (Part::Object(object), Some(Objects::Some(run))) => run.push(Arc::clone(object)),
                (Part::Object(object), _) => objects.push(Objects::Some(vec![Arc::clone(object)])),
            }
        }
        Self {
            encoding,
            envelope: resource.envelope.clone(),
            meta: page.meta.clone(),
            objects,
        }
    }

    /// Tells whether the uncompressed list has more bytes than this.
    pub fn is_longer_than(&self, limit: usize) -> bool {
        match self.encoding {
            Encoding::Json => self.is_longer::<Json>(limit),
            Encoding::Protobuf => self.is_longer::<Protobuf>(limit),
        }
    }

    /// Returns the compressed list if all of it is deflated already. This only
    /// copies.
    pub fn from_ready(&self) -> Option<Vec<Bytes>> {
        match self.encoding {
            Encoding::Json => self.ready::<Json>(),
            Encoding::Protobuf => self.ready::<Protobuf>(),
        }
    }

    /// Returns the compressed list. This may take a second of CPU, and waits
    /// for other threads that deflate the same leaves. It must not run on a
    /// thread that serves connections.
    pub fn deflate(&self) -> Result<Vec<Bytes>, NotDeflated> {
        let deflated = match self.encoding {
            Encoding::Json => self.deflated::<Json>(),
            Encoding::Protobuf => self.deflated::<Protobuf>(),
        };
        deflated.ok_or(NotDeflated)
    }

    fn is_longer<I: Items>(&self, limit: usize) -> bool {
        // The length around an empty list. In protobuf, a longer list has a few
        // more bytes around it.
        let (prefix, suffix) = self.envelope.list(self.encoding, &self.meta, 0);
        let around = prefix.len().saturating_add(suffix.len());
        let mut items: usize = 0;
        let objects = self.objects.iter().flat_map(Objects::all);
        for (n, object) in objects.enumerate() {
            if around.saturating_add(items) > limit {
                return true;
            }
            // A list that cannot be written has no length.
            let Some(item) = object.item(I::ENCODING, &self.envelope) else {
                return false;
            };
            let separator = if n > 0 { I::SEPARATOR.len() } else { 0 };
            let prefix = I::prefix(item.len()).len();
            items = [separator, prefix, item.len()]
                .into_iter()
                .fold(items, usize::saturating_add);
        }
        let (prefix, suffix) = self.envelope.list(self.encoding, &self.meta, items);
        let around = prefix.len().saturating_add(suffix.len());
        around.saturating_add(items) > limit
    }

    fn ready<I: Items>(&self) -> Option<Vec<Bytes>> {
        let kept = |objects: &Objects| match objects {
            Objects::Leaf(leaf) => leaf.derived_if_ready::<Deflated<I>>(),
            Objects::Some(_) => None,
        };
        let runs: Option<Vec<_>> = self.objects.iter().map(kept).collect();
        let runs = runs?;
        let runs: Vec<&Run> = runs.iter().map(|kept| &kept.run).collect();
        Some(self.stitch::<I>(&runs))
    }

    fn deflated<I: Items>(&self) -> Option<Vec<Bytes>> {
        let mut deflater = Deflater::default();
        let mut make = |objects: &Objects| match objects {
            Objects::Leaf(leaf) => leaf
                .derived(|leaf| Deflated::<I>::new(leaf.objects(), &self.envelope, &mut deflater))
                .map(DeflatedItems::Kept),
            Objects::Some(some) => {
                Deflated::new(some, &self.envelope, &mut deflater).map(DeflatedItems::Own)
            }
        };
        let runs: Option<Vec<_>> = self.objects.iter().map(&mut make).collect();
        let runs = runs?;
        let runs: Vec<&Run> = runs.iter().map(DeflatedItems::run).collect();
        Some(self.stitch::<I>(&runs))
    }

    fn stitch<I: Items>(&self, runs: &[&Run]) -> Vec<Bytes> {
        let separators = runs.len().saturating_sub(1);
        let separators = separators.saturating_mul(I::SEPARATOR.len());
        let items = runs.iter().map(|run| run.length()).sum::<usize>();
        let items = items.saturating_add(separators);
        let (prefix, suffix) = self.envelope.list(self.encoding, &self.meta, items);
        let mut pieces = Pieces::new();
        let mut member = Member::begin(|bytes: &[u8]| pieces.push(bytes));
        member.stored(&prefix);
        for (n, run) in runs.iter().enumerate() {
            if n > 0 {
                member.stored(I::SEPARATOR);
            }
            member.run(run);
        }
        member.stored(&suffix);
        member.end();
        pieces.finish()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::super::tests::{store, written};
    use super::*;
    use crate::read::body::whole;
    use crate::store::{KeyScope, Snapshot};

    fn page<'s>(snapshot: &'s Snapshot, start: &str) -> Page<'s> {
        Page {
            parts: snapshot.parts(&KeyScope::All, start).collect(),
            meta: ListMeta::at(9),
        }
    }

    fn unpacked(gzip: &[Bytes]) -> Vec<u8> {
        let gzip = gzip.concat();
        let mut plain = Vec::new();
        GzDecoder::new(&gzip[..]).read_to_end(&mut plain).unwrap();
        plain
    }

    #[test]
    fn holds_what_the_plain_list_is() {
        for sizes in [&[][..], &[10], &[1_000; 300], &[300_000; 3], &[70_000; 33]] {
            let store = store(sizes);
            let snapshot = store.snapshot();
            for start in ["", "n001", "n010", "n299"] {
                let page = page(&snapshot, start);
                let plain = whole::list(&store.resource, &page, Encoding::Json)
                    .unwrap()
                    .concat();
                let list = GzipList::new(&store.resource, &page, Encoding::Json);
                assert!(unpacked(&list.deflate().unwrap()) == plain, "{sizes:?}");
                assert!(list.is_longer_than(plain.len() - 1));
                assert!(!list.is_longer_than(plain.len()));
            }
        }
    }

    #[test]
    fn leaves_are_deflated_once() {
        let (writer, store) = written(&[1_000; 300]);
        let before = store.snapshot();
        let list = |snapshot: &Snapshot, start| {
            GzipList::new(&store.resource, &page(snapshot, start), Encoding::Json)
        };
        assert!(list(&before, "").from_ready().is_none());
        let made = list(&before, "").deflate().unwrap();
        assert_eq!(list(&before, "").from_ready(), Some(made.clone()));
        // Deflated parts of a leaf are not kept.
        assert_eq!(list(&before, "n001").from_ready(), None);

        // A change drops only the deflated items of its leaf.
        let derived = store.memory().derived;
        let changed = r#"{"metadata":{"name":"n150","resourceVersion":"10"}}"#;
        writer
            .apply(
                false,
                Bytes::from_static(changed.as_bytes()),
                std::time::Instant::now(),
            )
            .unwrap();
        let less = store.memory().derived;
        assert!(
            less < derived && less > derived * 3 / 4,
            "{less} of {derived}"
        );
        let after = store.snapshot();
        assert_eq!(list(&after, "").from_ready(), None);
        let plain = unpacked(&list(&after, "").deflate().unwrap());
        assert!(list(&after, "").from_ready().is_some());
        assert!(
            plain
                == whole::list(&store.resource, &page(&after, ""), Encoding::Json)
                    .unwrap()
                    .concat()
        );
        assert!(unpacked(&list(&before, "").deflate().unwrap()) == unpacked(&made));
        assert_eq!(list(&before, "").from_ready(), None);
    }

    #[test]
    fn those_that_come_at_once_deflate_it_once() {
        let store = store(&[10_000; 300]);
        let snapshot = store.snapshot();
        let page = page(&snapshot, "");
        let list = || GzipList::new(&store.resource, &page, Encoding::Json);
        let lists: Vec<_> = std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(|| list().deflate().unwrap()));
            threads.map(|thread| thread.join().unwrap()).into()
        });
        assert!(lists.windows(2).all(|pair| pair[0] == pair[1]));
        let one = lists[0].concat().len();
        let kept = store.memory().derived;
        assert!(kept < one, "{kept} bytes are kept of a list of {one}");
        assert_eq!(list().from_ready().as_ref(), lists.first());
    }
}
