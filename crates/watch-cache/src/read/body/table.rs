//! Writes `as=Table`. Rows are printed once per leaf and version. Each answer
//! adds the rows' ages and the objects' metadata.

use std::sync::Arc;

use bytes::Bytes;
use chrono::Utc;
use kubernetes_wire::negotiation::IncludeObject;
use kubernetes_wire::representation::table::{
    Cells, NotPrintable, Printed, Printer, RowWriter, TableOptions,
};
use kubernetes_wire::representation::{Encoding, Envelope};

use super::partial_object_metadata::Metadatas;
use super::pieces::Pieces;
use super::shown::Shown;
use crate::read::Page;
use crate::store::{Derived, Leaf, Part, StoredObject};

pub(super) fn single(
    shown: &Shown<'_>,
    object: &StoredObject,
    printer: &Printer,
    options: TableOptions,
) -> Result<Bytes, NotPrintable> {
    let item = shown.json(object).ok_or(NotPrintable)?;
    printer
        .single(&item, shown.envelope(), options, Utc::now())
        .map(Bytes::from)
}

pub(super) fn list(
    shown: &Shown<'_>,
    page: &Page<'_>,
    printer: &Printer,
    options: TableOptions,
) -> Result<Vec<Bytes>, NotPrintable> {
    let envelope = shown.envelope();
    let json = |object: &StoredObject| shown.json(object).ok_or(NotPrintable);
    let empty = page.is_empty();
    let rows = RowWriter::new(envelope, options, Utc::now());
    let mut pieces = Pieces::new();
    pieces.push(&printer.list_prefix(&page.meta, options.version, empty));
    if printer.arranges() {
        let items = page.objects().map(|object| json(object));
        for (item, row) in printer.arrange(items.collect::<Result<_, _>>()?)? {
            pieces.next_item();
            rows.print_row(&row, &item, |text| pieces.share_of(&item, text))?;
        }
        pieces.push(printer.list_suffix(empty));
        return Ok(pieces.finish());
    }
    for part in &page.parts {
        match part {
            Part::Object(object) => {
                pieces.next_item();
                let item = json(object)?;
                rows.print(printer.cells(), &item, |text| pieces.share_of(&item, text))?;
            }
            Part::Leaf(leaf) => {
                let printed = Rows::for_leaf(leaf, printer.cells(), envelope)?;
                let (mut metadatas, mut items) = (None, Vec::new());
                match options.include {
                    IncludeObject::None => {}
                    IncludeObject::Metadata => {
                        metadatas = Some(Metadatas::for_leaf(shown, leaf).ok_or(NotPrintable)?);
                    }
                    IncludeObject::Object => {
                        if shown.is_whole() {
                            // This makes the JSON of all objects at once, if any
                            // object has none.
                            let _placed = leaf.joined(Encoding::Json, envelope);
                        }
                        let objects = leaf.objects().iter();
                        items = objects.map(|o| json(o)).collect::<Result<_, _>>()?;
                    }
                }
                for (i, (object, row)) in leaf.objects().iter().zip(printed.rows()).enumerate() {
                    let metadata = metadatas.as_ref().and_then(|all| all.get(i));
                    let item = match (items.get(i), metadata) {
                        (Some(item), _) => Some(item.clone()),
                        (None, Some(metadata)) => object.json_of(metadata, envelope),
                        (None, None) if row.marked => shown.json(object),
                        (None, None) => Some(Bytes::new()),
                    };
                    let item = item.ok_or(NotPrintable)?;
                    pieces.next_item();
                    rows.write(row, &item, metadata, |text| pieces.share_of(&item, text))?;
                }
            }
        }
    }
    pieces.push(printer.list_suffix(empty));
    Ok(pieces.finish())
}

pub(super) struct Rows {
    cells: Arc<Cells>,
    printed: Result<Arc<Printed>, NotPrintable>,
}

impl Derived for Rows {
    fn size(&self) -> usize {
        let printed = self.printed.as_ref().map_or(0, |printed| printed.size());
        size_of::<Self>().saturating_add(printed)
    }
}

impl Rows {
    pub(super) fn for_leaf(
        leaf: &Leaf,
        cells: &Arc<Cells>,
        envelope: &Envelope,
    ) -> Result<Arc<Printed>, NotPrintable> {
        let print = || {
            let items = leaf.objects().iter().map(|object| object.json(envelope));
            cells.rows(items).map(Arc::new)
        };
        let kept = leaf.derived(|_| {
            Some(Self {
                cells: cells.clone(),
                printed: print(),
            })
        });
        match kept {
            Some(rows) if rows.cells.are(cells) => rows.printed.clone(),
            // After the definition has changed, other columns are printed for
            // the same objects.
            _ => print(),
        }
    }
}

#[cfg(test)]
mod tests {
    use kubernetes_wire::negotiation::MetaVersion;
    use kubernetes_wire::representation::ListMeta;
    use kubernetes_wire::representation::table::CustomColumn;

    use super::super::tests::{store, written};
    use super::*;
    use crate::store::{KeyScope, Store};

    fn body(store: &Store, printer: &Printer, include: IncludeObject) -> String {
        let snapshot = store.snapshot();
        let page = Page {
            parts: snapshot.parts(&KeyScope::All, "").collect(),
            meta: ListMeta::at(9),
        };
        let version = MetaVersion::V1;
        let options = TableOptions { version, include };
        let shown = Shown::new(&store.resource.envelope, false);
        let pieces = list(&shown, &page, printer, options).unwrap();
        // Makes the same table without anything that is kept.
        let envelope = &store.resource.envelope;
        let items: Vec<Bytes> = page.objects().filter_map(|o| o.json(envelope)).collect();
        let table = printer.list(&page.meta, items.iter(), envelope, options, Utc::now());
        assert_eq!(pieces.concat(), table.unwrap());
        String::from_utf8(pieces.concat()).unwrap()
    }

    #[test]
    fn rows_are_printed_once() {
        let (writer, store) = written(&[10; 300]);
        let printer = Printer::default_columns();
        let kept = || store.memory().derived;
        assert_eq!(kept(), 0);
        let none = body(&store, printer, IncludeObject::None);
        assert!(none.contains(r#"{"cells":["n007","0001-01-01T00:00:00Z"],"object":null}"#));
        let rows = kept();
        assert!(rows > 0);
        let metadata = body(&store, printer, IncludeObject::Metadata);
        assert!(metadata.contains(r#""metadata":{"name":"n007","resourceVersion":"5""#));
        let all = kept();
        assert!(all > rows);
        assert!(body(&store, printer, IncludeObject::Object).contains(r#""x":"xxxxxxxxxx""#));
        assert_eq!(body(&store, printer, IncludeObject::Metadata), metadata);
        assert_eq!(kept(), all);
        writer.shed_derived();
        assert_eq!(kept(), 0);
        assert_eq!(body(&store, printer, IncludeObject::Metadata), metadata);
    }

    #[test]
    fn another_printer_prints_anew() {
        let store = store(&[10; 3]);
        let columns = |path: &str| {
            let column = CustomColumn {
                r#type: "string".to_owned(),
                json_path: path.to_owned(),
                ..CustomColumn::default()
            };
            Printer::from_crd_columns(&[column]).unwrap()
        };
        let labels = columns(".metadata.labels.odd");
        assert!(body(&store, &labels, IncludeObject::None).contains(r#"["n001","1"]"#));
        let kept = store.memory().derived;
        let versions = columns(".metadata.resourceVersion");
        assert!(body(&store, &versions, IncludeObject::None).contains(r#"["n001","5"]"#));
        // A printer that was learnt again counts as equal.
        let again = columns(".metadata.labels.odd");
        assert!(body(&store, &again, IncludeObject::None).contains(r#"["n001","1"]"#));
        assert_eq!(store.memory().derived, kept);
    }
}
