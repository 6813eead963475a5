//! Makes the forms of leaves before a list asks for them.
//!
//! After a resource was listed, its leaves have no forms. The first list in a
//! form that must be computed would take a second of CPU for 100,000 objects.
//! So several threads make the forms that clients asked for lately.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kubernetes_wire::negotiation::{IncludeObject, Representation, Transform};
use kubernetes_wire::representation::Encoding;
use kubernetes_wire::representation::deflate::Deflater;
use kubernetes_wire::representation::table::Printer;

use super::partial_object_metadata::Metadatas;
use super::partial_object_metadata_protobuf::Messages;
use super::shown::Shown;
use super::table::Rows;
use super::{gzip, whole};
use crate::store::{Leaf, ListForm, Store};

/// Returns the forms that a list is made of. `gzip` tells whether the client
/// accepts a compressed list.
pub fn list_forms(
    representation: Representation,
    include: IncludeObject,
    gzip: bool,
) -> Vec<ListForm> {
    let encoding = Encoding::from(representation.media_type);
    let mut forms = match (representation.transform, include) {
        (Transform::None, _) if gzip => vec![ListForm::Deflated(encoding)],
        (Transform::None, _) => vec![ListForm::Items(encoding)],
        (Transform::Table(_), IncludeObject::None) => vec![ListForm::Rows],
        (Transform::Table(_), IncludeObject::Metadata) => {
            vec![ListForm::Rows, ListForm::Metadata(Encoding::Json)]
        }
        (Transform::Table(_), IncludeObject::Object) => {
            vec![ListForm::Rows, ListForm::Items(Encoding::Json)]
        }
        (Transform::PartialObjectMetadata(_) | Transform::PartialObjectMetadataList(_), _) => {
            vec![ListForm::Metadata(encoding)]
        }
    };
    if representation.drops_managed_fields {
        let rest = |form: &mut ListForm| *form = form.without_managed_fields();
        forms.iter_mut().for_each(rest);
    }
    forms
}

/// The leaves of a store that lack a form.
pub struct Ahead {
    store: Arc<Store>,
    form: ListForm,
    printer: Option<Arc<Printer>>,
    leaves: Vec<Arc<Leaf>>,
    /// The number of leaves that no thread has taken yet.
    left: AtomicUsize,
}

impl Ahead {
    pub fn new(store: &Arc<Store>, form: ListForm) -> Self {
        let presentation = store.presentation();
        let writes = match form {
            ListForm::Items(encoding)
            | ListForm::ItemsWithoutManagedFields(encoding)
            | ListForm::Deflated(encoding)
            | ListForm::DeflatedWithoutManagedFields(encoding) => store.writes(encoding),
            ListForm::Rows | ListForm::Metadata(_) | ListForm::MetadataWithoutManagedFields(_) => {
                true
            }
        };
        let printer = presentation.printer.clone().filter(|p| !p.arranges());
        let mut made = Self {
            store: store.clone(),
            form,
            printer,
            leaves: Vec::new(),
            left: AtomicUsize::new(0),
        };
        if writes {
            let snapshot = store.snapshot();
            let leaves = snapshot.leaves().filter(|leaf| made.is_lacking(leaf));
            made.leaves = leaves.cloned().collect();
        }
        made.left = AtomicUsize::new(made.leaves.len());
        made
    }

    /// Returns the number of leaves that lacked the form at first.
    pub fn leaves(&self) -> usize {
        self.leaves.len()
    }

    /// Makes the form in one leaf after another. Several threads may do this
    /// together. They begin with the last leaf, because a list that comes
    /// meanwhile begins with the first.
    pub fn make(&self) {
        let mut deflater = Deflater::default();
        let take = |left: usize| left.checked_sub(1);
        let ordering = Ordering::Relaxed;
        while let Ok(left) = self.left.fetch_update(ordering, ordering, take) {
            let leaf = left.checked_sub(1).and_then(|last| self.leaves.get(last));
            // Meanwhile the form may have been made, or the leaf replaced.
            if let Some(leaf) = leaf.filter(|leaf| self.is_lacking(leaf)) {
                self.make_of(leaf, &mut deflater);
            }
        }
    }

    fn shown(&self) -> Shown<'_> {
        let envelope = &self.store.resource.envelope;
        Shown::new(envelope, self.form.is_without_managed_fields())
    }

    fn is_lacking(&self, leaf: &Leaf) -> bool {
        let shown = self.shown();
        match self.form {
            ListForm::Items(encoding) | ListForm::ItemsWithoutManagedFields(encoding) => {
                whole::lacks(&shown, leaf, encoding)
            }
            ListForm::Deflated(encoding) | ListForm::DeflatedWithoutManagedFields(encoding) => {
                gzip::lacks(&shown, leaf, encoding)
            }
            ListForm::Rows => self.printer.is_some() && leaf.lacks::<Rows>(),
            ListForm::Metadata(Encoding::Json)
            | ListForm::MetadataWithoutManagedFields(Encoding::Json) => {
                shown.lacks::<Metadatas>(leaf)
            }
            ListForm::Metadata(Encoding::Protobuf)
            | ListForm::MetadataWithoutManagedFields(Encoding::Protobuf) => {
                Messages::are_worth_it(&shown, leaf) && shown.lacks::<Messages>(leaf)
            }
        }
    }

    /// Makes the form in one leaf. Failures are ignored: a list that needs the
    /// form reports the reason.
    fn make_of(&self, leaf: &Leaf, deflater: &mut Deflater) {
        let shown = self.shown();
        match self.form {
            ListForm::Items(encoding) | ListForm::ItemsWithoutManagedFields(encoding) => {
                drop(whole::joined(&shown, leaf, encoding));
            }
            ListForm::Deflated(encoding) | ListForm::DeflatedWithoutManagedFields(encoding) => {
                let _deflated = gzip::deflate(&shown, leaf, encoding, deflater);
            }
            ListForm::Rows => {
                if let Some(printer) = &self.printer {
                    let _printed = Rows::for_leaf(leaf, printer.cells(), shown.envelope());
                }
            }
            ListForm::Metadata(Encoding::Json)
            | ListForm::MetadataWithoutManagedFields(Encoding::Json) => {
                drop(Metadatas::for_leaf(&shown, leaf));
            }
            ListForm::Metadata(Encoding::Protobuf)
            | ListForm::MetadataWithoutManagedFields(Encoding::Protobuf) => {
                drop(Messages::for_leaf(&shown, leaf));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kubernetes_wire::negotiation::MetaVersion;
    use kubernetes_wire::representation::ListMeta;
    use kubernetes_wire::representation::table::TableOptions;

    use super::super::tests::{store, written};
    use super::super::{GzipList, Shape, list_body, makes_more_than};
    use super::*;
    use crate::LeftOut;
    use crate::read::Page;
    use crate::store::{KeyScope, Presentation, StoreWriter, StoredObject};

    const FORMS: [ListForm; 7] = [
        ListForm::Items(Encoding::Json),
        ListForm::Deflated(Encoding::Json),
        ListForm::Rows,
        ListForm::Metadata(Encoding::Protobuf),
        ListForm::ItemsWithoutManagedFields(Encoding::Json),
        ListForm::DeflatedWithoutManagedFields(Encoding::Json),
        ListForm::MetadataWithoutManagedFields(Encoding::Protobuf),
    ];

    fn made_by(threads: usize, store: &Arc<Store>, form: ListForm) -> usize {
        let ahead = Ahead::new(store, form);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| ahead.make());
            }
        });
        ahead.leaves()
    }

    fn presented(sizes: &[usize]) -> (StoreWriter, Arc<Store>) {
        let (writer, store) = written(sizes);
        let printer = Some(Arc::new(Printer::default_columns().clone()));
        let presentation = (*store.presentation()).clone();
        writer.present(Presentation {
            printer,
            ..presentation
        });
        (writer, store)
    }

    #[test]
    fn lists_find_everything_made() {
        let (_, store) = presented(&[1_000; 1_000]);
        for form in FORMS {
            assert!(made_by(4, &store, form) > 10, "{form:?}");
            assert_eq!(made_by(1, &store, form), 0, "{form:?}");
        }
        let held = store.memory();
        let snapshot = store.snapshot();
        let page = || Page {
            parts: snapshot.parts(&KeyScope::All, "").collect(),
            meta: ListMeta::at(9),
        };
        let list = GzipList::new(&store.resource, &page(), Encoding::Json);
        assert!(list.from_ready().is_some());
        let left_out = Some(LeftOut::default());
        assert!(list.leaving_out(left_out).from_ready().is_some());
        let version = MetaVersion::V1;
        let include = IncludeObject::None;
        let options = TableOptions { version, include };
        let printer = store.presentation().printer.clone().unwrap();
        for shape in [
            Shape::whole(Encoding::Json),
            Shape::table(printer, options),
            Shape::partial(MetaVersion::V1, Encoding::Protobuf),
            Shape::whole(Encoding::Json).without_managed_fields(LeftOut::default()),
            Shape::partial(MetaVersion::V1, Encoding::Protobuf)
                .without_managed_fields(LeftOut::default()),
        ] {
            assert!(!makes_more_than(0, &store.resource, &page(), &shape));
            list_body(&store, &page(), &shape).unwrap();
        }
        assert_eq!(store.memory(), held);
    }

    #[test]
    fn what_nobody_asks_for_is_dropped() {
        let (writer, store) = presented(&[10; 300]);
        let envelope = &store.resource.envelope;
        // The bytes of the objects themselves stay, joined or not.
        assert!(made_by(1, &store, ListForm::Items(Encoding::Json)) > 0);
        assert_eq!(store.memory().derived, 0);
        for form in [ListForm::Rows, ListForm::Metadata(Encoding::Json)] {
            made_by(1, &store, form);
        }
        let all = store.memory().derived;
        let rounds = |count: usize| {
            (0..count).for_each(|_| writer.shed_unused());
            store.memory().derived
        };
        assert_eq!(rounds(4), all);
        for leaf in store.snapshot().leaves() {
            assert!(
                Metadatas::for_leaf(&Shown::new(&store.resource.envelope, false), leaf).is_some()
            );
        }
        let used = rounds(1);
        assert!(used > 0 && used < all, "{used} of {all}");
        assert_eq!(rounds(3), used);
        assert_eq!(rounds(1), 0);
        let snapshot = store.snapshot();
        let mut leaves = snapshot.leaves();
        assert!(leaves.all(|leaf| !leaf.is_unjoined(Encoding::Json)));
        let items = snapshot.iter(&KeyScope::All);
        assert!(items.map(|o| o.json(envelope)).all(|item| item.is_some()));
    }

    #[test]
    fn another_encoding_is_dropped_with_its_objects() {
        let resource = store(&[]).resource.clone();
        let object = |n: usize, version: u64| {
            let item = format!(
                r#"{{"metadata":{{"name":"n{n:03}","resourceVersion":"{version}"}},"spec":{{}}}}"#
            );
            StoredObject::parse(item.into(), &resource.fields).unwrap()
        };
        let objects = (0..300).map(|n| object(n, 5)).collect();
        let (writer, store) = Store::new(resource.clone(), objects, 9);
        let form = ListForm::Items(Encoding::Protobuf);
        assert!(made_by(2, &store, form) > 0);
        let all = store.memory().derived;
        assert!(all > 0);
        // A leaf that changes all the time is never old, but its objects are.
        let now = std::time::Instant::now();
        for version in 10..14 {
            writer.apply_object(false, object(7, version), now);
            writer.shed_unused();
            assert!(store.memory().derived > all * 3 / 4);
        }
        writer.apply_object(false, object(7, 20), now);
        writer.shed_unused();
        assert_eq!(store.memory().derived, 0);
        assert!(made_by(1, &store, form) > 0);
    }

    #[test]
    fn what_cannot_be_written_is_not_tried() {
        let (_, store) = presented(&[10; 100]);
        store.fail_to_write(Encoding::Protobuf);
        for form in [ListForm::Items, ListForm::Deflated] {
            assert_eq!(Ahead::new(&store, form(Encoding::Protobuf)).leaves(), 0);
        }
    }

    #[test]
    fn a_list_beside_it_shares_the_work() {
        let (_, store) = presented(&[10_000; 2_000]);
        let shape = Shape::whole(Encoding::Json);
        let snapshot = store.snapshot();
        let page = || Page {
            parts: snapshot.parts(&KeyScope::All, "").collect(),
            meta: ListMeta::at(9),
        };
        let makes = |most| makes_more_than(most, &store.resource, &page(), &shape);
        assert!(makes(19_000_000) && !makes(22_000_000));
        let listed = std::thread::scope(|scope| {
            let list = scope.spawn(|| list_body(&store, &page(), &shape).unwrap());
            assert!(made_by(2, &store, FORMS[0]) <= 2_000);
            list.join().unwrap()
        });
        let again = list_body(&store, &page(), &shape).unwrap();
        assert_eq!(listed.concat(), again.concat());
        assert!(!makes(0));
    }
}
