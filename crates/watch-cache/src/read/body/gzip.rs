//! Writes a list as one gzip member, joined from deflated leaves.
//!
//! kube-apiserver deflates every list for every client that asks. Here each
//! leaf of the current state is deflated once. A later list of the same objects
//! copies a few megabytes and combines some hundred checksums.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use kubernetes_wire::representation::deflate::{Deflater, Member, Run};
use kubernetes_wire::representation::{Encoding, Envelope, ListMeta};

use super::pieces::Pieces;
use super::shown::{Kept, Shown};
use crate::LeftOut;
use crate::read::Page;
use crate::store::{Derived, Leaf, Part, Resource, StoredObject};

/// Returns the bytes between two items of a list.
fn separator(encoding: Encoding) -> &'static [u8] {
    match encoding {
        Encoding::Json => b",",
        Encoding::Protobuf => b"",
    }
}

/// Returns the bytes between the separator and an item of this length.
fn prefix(encoding: Encoding, length: usize) -> BytesMut {
    let mut prefix = BytesMut::new();
    if encoding == Encoding::Protobuf {
        encoding.put_item_prefix(length, &mut prefix);
    }
    prefix
}

/// The deflated items of a leaf, with separators only between them. So they fit
/// at any place of a list.
pub(super) struct Deflated<const ENCODING: u8>(Run);

const JSON: u8 = Encoding::Json as u8;
const PROTOBUF: u8 = Encoding::Protobuf as u8;

impl<const ENCODING: u8> Derived for Deflated<ENCODING> {
    fn size(&self) -> usize {
        self.0.size()
    }
}

fn run(
    shown: &Shown<'_>,
    objects: &[Arc<StoredObject>],
    encoding: Encoding,
    deflater: &mut Deflater,
) -> Option<Run> {
    let items = objects.iter().map(|object| shown.item(object, encoding));
    let items = items.collect::<Option<Vec<Bytes>>>()?;
    let prefixes = items.iter().map(|item| prefix(encoding, item.len()));
    let prefixes: Vec<_> = prefixes.collect();
    let length = items.iter().map(Bytes::len).sum();
    let parts = items.iter().zip(&prefixes).enumerate();
    let parts = parts.flat_map(|(n, (item, prefix))| {
        let separator = if n > 0 { separator(encoding) } else { &[] };
        [separator, prefix, item]
    });
    deflater.run(parts, length)
}

pub(super) fn lacks(shown: &Shown<'_>, leaf: &Leaf, encoding: Encoding) -> bool {
    match encoding {
        Encoding::Json => shown.lacks::<Deflated<JSON>>(leaf),
        Encoding::Protobuf => shown.lacks::<Deflated<PROTOBUF>>(leaf),
    }
}

/// Deflates a leaf's items, which the leaf keeps. `None` if that fails.
pub(super) fn deflate(
    shown: &Shown<'_>,
    leaf: &Leaf,
    encoding: Encoding,
    deflater: &mut Deflater,
) -> Option<DeflatedItems> {
    let mut run = |shown: &Shown<'_>, leaf: &Leaf| run(shown, leaf.objects(), encoding, deflater);
    Some(match encoding {
        Encoding::Json => {
            let kept = shown.kept(leaf, |shown, leaf| run(shown, leaf).map(Deflated::<JSON>))?;
            DeflatedItems::Json(kept)
        }
        Encoding::Protobuf => {
            let kept = shown.kept(leaf, |shown, leaf| {
                run(shown, leaf).map(Deflated::<PROTOBUF>)
            })?;
            DeflatedItems::Protobuf(kept)
        }
    })
}

/// Returns the deflated items of a leaf if it keeps them.
fn ready(shown: &Shown<'_>, leaf: &Leaf, encoding: Encoding) -> Option<DeflatedItems> {
    match encoding {
        Encoding::Json => shown.ready(leaf).map(DeflatedItems::Json),
        Encoding::Protobuf => shown.ready(leaf).map(DeflatedItems::Protobuf),
    }
}

/// Deflated items that a leaf keeps, or that were made for one list.
pub(super) enum DeflatedItems {
    Json(Kept<Deflated<JSON>>),
    Protobuf(Kept<Deflated<PROTOBUF>>),
    Own(Run),
}

impl DeflatedItems {
    fn run(&self) -> &Run {
        match self {
            Self::Json(kept) => &kept.0,
            Self::Protobuf(kept) => &kept.0,
            Self::Own(run) => run,
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
    left_out: Option<LeftOut>,
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
            left_out: None,
        }
    }

    /// Leaves managedFields out, and counts their bytes.
    #[must_use]
    pub fn leaving_out(mut self, left_out: Option<LeftOut>) -> Self {
        self.left_out = left_out;
        self
    }

    fn shown(&self) -> Shown<'_> {
        Shown::new(&self.envelope, self.left_out.is_some())
    }

    /// Tells whether the uncompressed list has more bytes than this.
    pub fn is_longer_than(&self, limit: usize) -> bool {
        // The length around an empty list. In protobuf, a longer list has a few
        // more bytes around it.
        let (before, after) = self.envelope.list(self.encoding, &self.meta, 0);
        let around = before.len().saturating_add(after.len());
        let mut items: usize = 0;
        let objects = self.objects.iter().flat_map(Objects::all);
        let shown = self.shown();
        for (n, object) in objects.enumerate() {
            if around.saturating_add(items) > limit {
                return true;
            }
            // A list that cannot be written has no length.
            let Some(item) = shown.item(object, self.encoding) else {
                return false;
            };
            let separator = if n > 0 {
                separator(self.encoding).len()
            } else {
                0
            };
            let prefix = prefix(self.encoding, item.len()).len();
            items = [separator, prefix, item.len()]
                .into_iter()
                .fold(items, usize::saturating_add);
        }
        let (before, after) = self.envelope.list(self.encoding, &self.meta, items);
        let around = before.len().saturating_add(after.len());
        around.saturating_add(items) > limit
    }

    /// Returns the compressed list if all of it is deflated already. This only
    /// copies.
    pub fn from_ready(&self) -> Option<Vec<Bytes>> {
        let shown = self.shown();
        self.stitch(&shown, |objects| match objects {
            Objects::Leaf(leaf) => ready(&shown, leaf, self.encoding),
            Objects::Some(_) => None,
        })
    }

    /// Returns the compressed list. This may take a second of CPU, and waits
    /// for other threads that deflate the same leaves. It must not run on a
    /// thread that serves connections.
    pub fn deflate(&self) -> Result<Vec<Bytes>, NotDeflated> {
        let mut deflater = Deflater::default();
        let shown = self.shown();
        let deflated = self.stitch(&shown, |objects| match objects {
            Objects::Leaf(leaf) => deflate(&shown, leaf, self.encoding, &mut deflater),
            Objects::Some(some) => {
                run(&shown, some, self.encoding, &mut deflater).map(DeflatedItems::Own)
            }
        });
        deflated.ok_or(NotDeflated)
    }

    /// Joins what `deflated` returns for all objects, and counts what was left out.
    fn stitch(
        &self,
        shown: &Shown<'_>,
        deflated: impl FnMut(&Objects) -> Option<DeflatedItems>,
    ) -> Option<Vec<Bytes>> {
        let runs = self.objects.iter().map(deflated);
        let runs = runs.collect::<Option<Vec<_>>>()?;
        let separators = runs.len().saturating_sub(1);
        let separators = separators.saturating_mul(separator(self.encoding).len());
        let items = runs.iter().map(|of| of.run().length()).sum::<usize>();
        let items = items.saturating_add(separators);
        let (prefix, suffix) = self.envelope.list(self.encoding, &self.meta, items);
        let mut pieces = Pieces::new();
        let mut member = Member::begin(|bytes: &[u8]| pieces.push(bytes));
        member.stored(&prefix);
        for (n, deflated) in runs.iter().enumerate() {
            if n > 0 {
                member.stored(separator(self.encoding));
            }
            member.run(deflated.run());
        }
        member.stored(&suffix);
        member.end();
        if let Some(left_out) = &self.left_out {
            left_out.add(shown.left_out());
        }
        Some(pieces.finish())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::super::tests::{store, written};
    use super::*;
    use crate::read::body::shown::Shown;
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
                let plain = whole::list(
                    &Shown::new(&store.resource.envelope, false),
                    &page,
                    Encoding::Json,
                )
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
                == whole::list(
                    &Shown::new(&store.resource.envelope, false),
                    &page(&after, ""),
                    Encoding::Json
                )
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
