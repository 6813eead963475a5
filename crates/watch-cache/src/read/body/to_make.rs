//! Counts the bytes of objects that must be written for an answer, because they
//! are not kept in the requested form.
//!
//! Writing takes a millisecond for some hundred kilobytes, and anybody with the
//! right to write objects decides how large they are.

use std::ops::ControlFlow;
use std::sync::Arc;

use kubernetes_wire::negotiation::IncludeObject;
use kubernetes_wire::representation::{Encoding, partial_object_metadata_protobuf};

use super::partial_object_metadata::Metadatas;
use super::partial_object_metadata_protobuf::Messages;
use super::table::Rows;
use super::{Shape, ShapeKind};
use crate::read::Page;
use crate::store::{Leaf, Part, Resource, StoredObject};

/// Tells whether a list needs more than `most` bytes of objects to be written.
pub fn makes_more_than(most: usize, resource: &Resource, page: &Page<'_>, shape: &Shape) -> bool {
    let added = page.parts.iter().try_fold(0usize, |sum, part| {
        match sum.saturating_add(of_part(part, resource, shape)) {
            sum if sum > most => ControlFlow::Break(()),
            sum => ControlFlow::Continue(sum),
        }
    });
    added.is_break()
}

/// Returns the bytes of objects that must be written for a list, because no leaf keeps
/// them.
pub fn bytes_to_make_of_page(resource: &Resource, page: &Page<'_>, shape: &Shape) -> usize {
    let parts = page.parts.iter().map(|part| of_part(part, resource, shape));
    parts.fold(0, usize::saturating_add)
}

fn of_part(part: &Part<'_>, resource: &Resource, shape: &Shape) -> usize {
    match part {
        Part::Leaf(leaf) => of_leaf(leaf, resource, shape),
        Part::Object(object) => of_object(object, resource, shape),
    }
}

/// Returns the bytes that must be read to write an object in this shape.
pub fn bytes_to_make(object: &StoredObject, resource: &Resource, shape: &Shape) -> usize {
    of_object(object, resource, shape)
}

fn of_object(object: &StoredObject, resource: &Resource, shape: &Shape) -> usize {
    let is_at_hand = shape.without_managed_fields.is_none()
        && match &shape.kind {
            ShapeKind::Whole(encoding) => object.at_hand(*encoding).is_some(),
            ShapeKind::Partial(_, Encoding::Protobuf) => {
                partial_object_metadata_protobuf::is_slice(object.encoding(), &resource.envelope)
            }
            ShapeKind::Partial(_, Encoding::Json) | ShapeKind::Table(..) => false,
        };
    match is_at_hand {
        true => 0,
        false => object.size().saturating_mul(passes(shape)),
    }
}

/// Returns how often an object is read to write it.
fn passes(shape: &Shape) -> usize {
    match &shape.kind {
        ShapeKind::Table(printer, _) => printer.passes(),
        ShapeKind::Whole(_) | ShapeKind::Partial(..) => 1,
    }
}

fn of_leaf(leaf: &Leaf, resource: &Resource, shape: &Shape) -> usize {
    let unless = |is_kept| match is_kept {
        true => 0,
        false => bytes(leaf.objects()),
    };
    let shown = shape.shown(resource);
    match &shape.kind {
        ShapeKind::Whole(encoding) if shown.is_whole() => leaf.bytes_to_join(*encoding),
        ShapeKind::Whole(encoding) => {
            unless(leaf.ready_without_managed_fields(*encoding).is_some())
        }
        ShapeKind::Partial(_, Encoding::Json) => unless(shown.ready::<Metadatas>(leaf).is_some()),
        ShapeKind::Partial(_, Encoding::Protobuf) => {
            unless(!Messages::are_worth_it(&shown, leaf) || shown.ready::<Messages>(leaf).is_some())
        }
        ShapeKind::Table(printer, _) if printer.arranges() => bytes(leaf.objects()),
        ShapeKind::Table(_, options) => {
            let rows = unless(leaf.derived_if_ready::<Rows>().is_some());
            let rows = rows.saturating_mul(passes(shape));
            let shown = match options.include {
                IncludeObject::None => 0,
                IncludeObject::Metadata => unless(shown.ready::<Metadatas>(leaf).is_some()),
                IncludeObject::Object if shown.is_whole() => leaf.bytes_to_join(Encoding::Json),
                IncludeObject::Object => bytes(leaf.objects()),
            };
            rows.max(shown)
        }
    }
}

fn bytes(objects: &[Arc<StoredObject>]) -> usize {
    objects.iter().map(|object| object.size()).sum()
}

#[cfg(test)]
mod tests {
    use kubernetes_wire::negotiation::MetaVersion;
    use kubernetes_wire::representation::ListMeta;
    use kubernetes_wire::representation::table::{Printer, TableOptions};

    use super::super::list_body;
    use super::super::tests::{store, written};
    use super::*;
    use crate::LeftOut;
    use crate::store::{KeyScope, Snapshot, Store};

    fn page(snapshot: &Snapshot) -> Page<'_> {
        Page {
            parts: snapshot.parts(&KeyScope::All, "").collect(),
            meta: ListMeta::at(9),
        }
    }

    fn makes(store: &Store, snapshot: &Snapshot, shape: &Shape) -> bool {
        makes_more_than(1 << 20, &store.resource, &page(snapshot), shape)
    }

    fn shapes() -> [Shape; 8] {
        let table = |include| {
            let printer = Arc::new(Printer::default_columns().clone());
            let version = MetaVersion::V1;
            Shape::table(printer, TableOptions { version, include })
        };
        let partial = |encoding| Shape::partial(MetaVersion::V1, encoding);
        let rest = |shape: Shape| shape.without_managed_fields(LeftOut::default());
        [
            table(IncludeObject::None),
            table(IncludeObject::Metadata),
            partial(Encoding::Json),
            partial(Encoding::Protobuf),
            rest(Shape::whole(Encoding::Json)),
            rest(table(IncludeObject::Metadata)),
            rest(partial(Encoding::Json)),
            rest(partial(Encoding::Protobuf)),
        ]
    }

    /// A few objects may have more bytes than very many.
    #[test]
    fn bytes_count_until_they_are_kept() {
        for shape in shapes() {
            let large = store(&[200_000; 10]);
            let snapshot = large.snapshot();
            assert!(makes(&large, &snapshot, &shape), "{shape:?}");
            let small = store(&[10; 1_000]);
            assert!(!makes(&small, &small.snapshot(), &shape), "{shape:?}");
            list_body(&large, &page(&snapshot), &shape).unwrap();
            assert!(!makes(&large, &snapshot, &shape), "{shape:?}");
        }
    }

    /// Nothing is kept in the leaves of an earlier state, so each list of it
    /// writes their objects again.
    #[test]
    fn objects_of_earlier_states_count_each_time() {
        let (writer, store) = written(&[200_000; 10]);
        let earlier = store.snapshot();
        let item = r#"{"metadata":{"name":"n000","resourceVersion":"20"}}"#;
        let now = std::time::Instant::now();
        writer.apply(false, item.into(), now).unwrap();
        for shape in shapes() {
            for _ in 0..2 {
                assert!(makes(&store, &earlier, &shape), "{shape:?}");
                list_body(&store, &page(&earlier), &shape).unwrap();
            }
        }
        // The objects' JSON is the bytes that came.
        let json = Shape::whole(Encoding::Json);
        assert!(!makes(&store, &earlier, &json));
        let object = earlier.get("", "n003").unwrap();
        let made = |shape| bytes_to_make(object, &store.resource, shape);
        assert_eq!(made(&json), 0);
        assert_eq!(made(&Shape::whole(Encoding::Protobuf)), object.size());
    }
}
