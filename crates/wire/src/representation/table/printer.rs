//! Prints the objects of one resource as rows of a Table.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use chrono::{DateTime, Utc};

use super::{CustomColumn, Printed, PrintedRow, Row, columns, core, custom, releases};
use crate::api::{GroupVersionResource, Release};
use crate::negotiation::{IncludeObject, MetaVersion};
use crate::representation::json_envelope::{Envelope, Form, ListMeta};
use crate::representation::partial_object_metadata::Metadata;
use crate::representation::scan;

/// The object contains values that only its server can print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the object cannot be printed with certainty")]
pub struct NotPrintable;

impl From<serde_json::Error> for NotPrintable {
    fn from(_: serde_json::Error) -> Self {
        Self
    }
}

impl From<chrono::ParseError> for NotPrintable {
    fn from(_: chrono::ParseError) -> Self {
        Self
    }
}

pub(super) type PrintRow = fn(&[u8]) -> Result<Row, NotPrintable>;

/// Prints the objects of one resource.
#[derive(Clone, Debug)]
pub struct Printer {
    /// `columnDefinitions`, a JSON array.
    pub(super) columns: String,
    cells: Arc<Cells>,
    pub(super) quirks: Quirks,
    /// True if a watch had an object that could not be printed.
    baffled: Arc<AtomicBool>,
}

/// Behaviour that is peculiar to one resource.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Quirks {
    /// The order of the rows, if it differs from that of the objects.
    pub(super) order: Option<Order>,
    /// The object of a list that is printed differently from one alone.
    pub(super) chosen: Option<Chosen>,
    /// True if each event of a watch contains the columns.
    pub(super) repeats_columns: bool,
    /// True if the rows of an empty list are null.
    pub(super) null_rows: bool,
}

pub(super) type Order = fn(&[u8]) -> Result<(i64, String), NotPrintable>;

/// The choice of one object of a list, and its printer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    pub(super) choose: fn(&[Bytes]) -> Result<Option<usize>, NotPrintable>,
    pub(super) print: PrintRow,
}

/// Makes the cells of an object. It does not depend on the columns' names.
#[derive(Debug)]
pub struct Cells(Source);

#[derive(Debug)]
pub(super) enum Source {
    BuiltIn(PrintRow),
    Custom(Vec<custom::Column>),
    /// The columns Name and Created At.
    Default,
}

impl Cells {
    /// Tells whether both make equal rows.
    pub fn are(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        Arc::ptr_eq(self, other)
            || match (&self.0, &other.0) {
                (Source::Custom(ours), Source::Custom(theirs)) => ours == theirs,
                _ => false,
            }
    }

    /// Returns the row of an object. The object is whole or a list item.
    pub(crate) fn row(&self, object: &[u8]) -> Result<Row, NotPrintable> {
        match &self.0 {
            Source::BuiltIn(print) => print(object),
            Source::Custom(columns) => custom::row(columns, object),
            Source::Default => core::print_default(object),
        }
    }

    /// Returns the rows of several objects, to be kept. If an object is missing
    /// (`None`), the error is [`NotPrintable`].
    pub fn rows(
        &self,
        objects: impl Iterator<Item = Option<Bytes>>,
    ) -> Result<Printed, NotPrintable> {
        let mut printed = Printed::default();
        for object in objects {
            let object = object.ok_or(NotPrintable)?;
            printed.push(&self.row(&object)?, ends_initial_events(&object));
        }
        printed.shrink();
        Ok(printed)
    }
}

/// The kind of Table that a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TableOptions {
    /// The version of meta.k8s.io in which the Table is written.
    pub version: MetaVersion,
    /// The part of its object that each row carries.
    pub include: IncludeObject,
}

impl Printer {
    /// Returns the printer of a built-in resource, if there is one. Versions that
    /// only older releases have are printed like their replacements.
    pub fn builtin(gvr: &GroupVersionResource) -> Option<&'static Self> {
        columns::printer(gvr).or_else(|| releases::replacement(gvr))
    }

    /// Returns the printer of a built-in resource for one release of Kubernetes, if
    /// it is known.
    pub fn builtin_in(gvr: &GroupVersionResource, release: Release) -> Option<Self> {
        releases::printer(gvr, release)
    }

    /// Makes the printer of a custom resource from the
    /// `additionalPrinterColumns` of its version. The result is `None` if a
    /// column's JSONPath is not supported.
    pub fn from_crd_columns(columns: &[CustomColumn]) -> Option<Self> {
        custom::printer(columns)
    }

    /// Returns the printer with the columns Name and Created At, which servers use
    /// for kinds without a printer. In front of another server, compare its columns
    /// with [`Printer::has_columns_of`]: its kinds may have printers of their own.
    pub fn default_columns() -> &'static Self {
        columns::default_printer()
    }

    /// Returns this printer with the columns of a server's own Table, since their
    /// descriptions differ between versions. `None` if that Table has columns that
    /// this printer has not: then the server's version is unknown.
    pub fn with_columns_of(&self, table: &[u8]) -> Option<Self> {
        let columns = scan::get(table, &["columnDefinitions"])?;
        let shape = |json: &[u8]| -> Option<Vec<Vec<u8>>> {
            let mut all = Vec::new();
            for column in scan::elements(json) {
                let (_, column) = column.ok()?;
                let part = |key| scan::get(column, &[key]).map(<[u8]>::to_vec);
                all.push(
                    [
                        part("name")?,
                        part("type")?,
                        part("format")?,
                        part("priority")?,
                    ]
                    .concat(),
                );
            }
            Some(all)
        };
        if shape(columns)? != shape(self.columns.as_bytes())? {
            return None;
        }
        Some(Self {
            columns: String::from_utf8(columns.to_vec()).ok()?,
            cells: self.cells.clone(),
            quirks: self.quirks,
            baffled: Arc::default(),
        })
    }

    /// Tells whether a server's own Table has exactly these columns, byte for
    /// byte.
    pub fn has_columns_of(&self, table: &[u8]) -> bool {
        scan::get(table, &["columnDefinitions"]) == Some(self.columns.as_bytes())
    }

    pub(super) fn with_columns(&self, columns: &str) -> Self {
        Self {
            columns: columns.to_owned(),
            ..self.clone()
        }
    }

    /// Returns this printer with other cells. Its rows do not depend on the other
    /// objects of a list.
    pub(super) fn printing(&self, source: Source) -> Self {
        Self {
            quirks: Quirks {
                chosen: None,
                ..self.quirks
            },
            ..Self::new(self.columns.clone(), source)
        }
    }

    pub(super) fn new(columns: String, source: Source) -> Self {
        Self {
            columns,
            cells: Arc::new(Cells(source)),
            quirks: Quirks::default(),
            baffled: Arc::default(),
        }
    }

    /// Returns what makes the cells. It can be kept with the rows, to tell by
    /// [`Cells::are`] whether they are still right.
    pub fn cells(&self) -> &Arc<Cells> {
        &self.cells
    }

    /// Returns how many times an object is read for its row: once for each column
    /// of a definition.
    pub fn passes(&self) -> usize {
        match &self.cells.0 {
            Source::Custom(columns) => columns.len().max(1),
            Source::BuiltIn(_) | Source::Default => 1,
        }
    }

    /// Tells whether a cell shows something of `metadata.managedFields`, or may.
    pub fn reads_managed_fields(&self) -> bool {
        match &self.cells.0 {
            Source::Custom(columns) => columns.iter().any(custom::Column::reads_managed_fields),
            Source::BuiltIn(_) | Source::Default => false,
        }
    }

    /// Tells whether the rows of a list, or their order, depend on all of its
    /// objects: see [`Printer::arrange`].
    pub fn arranges(&self) -> bool {
        self.quirks.order.is_some() || self.quirks.chosen.is_some()
    }

    /// Returns the objects of a list with their rows, in the order of the rows.
    pub fn arrange(&self, fragments: Vec<Bytes>) -> Result<Vec<(Bytes, Row)>, NotPrintable> {
        let chosen = self.quirks.chosen.as_ref();
        let at = chosen
            .map(|chosen| (chosen.choose)(&fragments))
            .transpose()?;
        let mut keyed = Vec::with_capacity(fragments.len());
        for (i, fragment) in fragments.into_iter().enumerate() {
            let row = match chosen {
                Some(chosen) if at == Some(Some(i)) => (chosen.print)(&fragment),
                _ => self.cells.row(&fragment),
            }?;
            let order = self.quirks.order.map(|order| order(&fragment));
            keyed.push((order.transpose()?, (fragment, row)));
        }
        keyed.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(keyed.into_iter().map(|(_, arranged)| arranged).collect())
    }

    /// Returns false once a watch had to end because one of its objects cannot be
    /// printed here. Another watch would also end at this object.
    pub fn can_watch(&self) -> bool {
        !self.baffled.load(Ordering::Relaxed)
    }

    /// Returns the body of a LIST.
    pub fn list<'a>(
        &self,
        meta: &ListMeta,
        fragments: impl Iterator<Item = &'a Bytes>,
        envelope: &Envelope,
        options: TableOptions,
        now: DateTime<Utc>,
    ) -> Result<Vec<u8>, NotPrintable> {
        let fragments = self.arrange(fragments.cloned().collect())?;
        let empty = fragments.is_empty();
        let mut out = self.list_prefix(meta, options.version, empty);
        let rows = RowWriter::new(envelope, options, now);
        for (i, (fragment, row)) in fragments.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            rows.print_row(row, fragment, |text| out.extend_from_slice(text))?;
        }
        out.extend_from_slice(self.list_suffix(empty));
        Ok(out)
    }

    /// Returns the body of a GET.
    pub fn single(
        &self,
        fragment: &Bytes,
        envelope: &Envelope,
        options: TableOptions,
        now: DateTime<Utc>,
    ) -> Result<Vec<u8>, NotPrintable> {
        let mut out = self.event_object(fragment, envelope, options, true, now)?;
        out.push(b'\n');
        Ok(out)
    }

    /// Returns the object of a watch event or bookmark: a Table of one row.
    /// Only the first event of a watch contains the columns.
    pub fn event_object(
        &self,
        fragment: &Bytes,
        envelope: &Envelope,
        options: TableOptions,
        first: bool,
        now: DateTime<Utc>,
    ) -> Result<Vec<u8>, NotPrintable> {
        let version = scan::text_at(fragment, &["metadata", "resourceVersion"]);
        let meta = ListMeta::at(version.unwrap_or_default());
        let columns = first || self.quirks.repeats_columns;
        let mut out = self.prefix(&meta.to_json(Form::Struct), options.version, columns);
        let rows = RowWriter::new(envelope, options, now);
        rows.print(&self.cells, fragment, |text| out.extend_from_slice(text))
            .inspect_err(|_| self.baffled.store(true, Ordering::Relaxed))?;
        out.extend_from_slice(b"]}");
        Ok(out)
    }

    /// Returns the bytes before the first row of a list.
    pub fn list_prefix(&self, meta: &ListMeta, version: MetaVersion, empty: bool) -> Vec<u8> {
        let mut out = self.prefix(&meta.to_json(Form::Struct), version, true);
        if self.writes_null(empty) {
            out.truncate(out.len().saturating_sub(1));
            out.extend_from_slice(b"null");
        }
        out
    }

    /// Returns the bytes after the last row of a list.
    pub fn list_suffix(&self, empty: bool) -> &'static [u8] {
        if self.writes_null(empty) {
            b"}\n"
        } else {
            b"]}\n"
        }
    }

    /// Tells whether the rows are written as null. Upstream's default printer,
    /// and that of custom resource definitions, leave the rows of an empty list
    /// nil; other printers make an empty slice.
    fn writes_null(&self, empty: bool) -> bool {
        empty && (self.quirks.null_rows || matches!(self.cells.0, Source::Default))
    }

    fn prefix(&self, meta: &str, version: MetaVersion, columns: bool) -> Vec<u8> {
        let columns = if columns { &self.columns } else { "null" };
        format!(
            "{{\"kind\":\"Table\",\"apiVersion\":\"{}\",\"metadata\":{meta},\"columnDefinitions\":{columns},\"rows\":[",
            version.api_version()
        )
        .into_bytes()
    }
}

/// Writes rows, each with the part of its object that the client wants.
#[derive(Clone, Copy, Debug)]
pub struct RowWriter<'a> {
    envelope: &'a Envelope,
    options: TableOptions,
    now: DateTime<Utc>,
}

impl<'a> RowWriter<'a> {
    /// Makes a writer for objects of one resource. Ages are computed for the time
    /// `now`.
    pub fn new(envelope: &'a Envelope, options: TableOptions, now: DateTime<Utc>) -> Self {
        Self {
            envelope,
            options,
            now,
        }
    }

    /// Writes a printed row. `metadata` is the metadata of its object, if
    /// known.
    pub fn write(
        &self,
        row: PrintedRow<'_>,
        fragment: &Bytes,
        metadata: Option<&Metadata>,
        out: impl FnMut(&[u8]),
    ) -> Result<(), NotPrintable> {
        match self.options.include {
            IncludeObject::None if !row.marked => row.write(self.now, &[b"null"], out),
            IncludeObject::Object => {
                let [prefix, rest] = self.envelope.object_parts(fragment);
                row.write(self.now, &[&prefix, &rest], out);
            }
            IncludeObject::None | IncludeObject::Metadata => {
                let found;
                let metadata = match metadata {
                    Some(metadata) => metadata,
                    None => {
                        found = Metadata::find(fragment, self.envelope).ok_or(NotPrintable)?;
                        &found
                    }
                };
                let object = metadata.object(fragment, self.options.version);
                row.write(self.now, &object, out);
            }
        }
        Ok(())
    }

    /// Prints an object and writes its row.
    pub fn print(
        &self,
        cells: &Cells,
        fragment: &Bytes,
        out: impl FnMut(&[u8]),
    ) -> Result<(), NotPrintable> {
        self.print_row(&cells.row(fragment)?, fragment, out)
    }

    /// Writes the row of an object.
    pub fn print_row(
        &self,
        row: &Row,
        fragment: &Bytes,
        mut out: impl FnMut(&[u8]),
    ) -> Result<(), NotPrintable> {
        let mut printed = Printed::default();
        printed.push(row, ends_initial_events(fragment));
        for row in printed.rows() {
            self.write(row, fragment, None, &mut out)?;
        }
        Ok(())
    }
}

/// Tells whether the object has the annotation of the bookmark that ends a watch's
/// initial events. The row of an object with this annotation, bookmark or not, has
/// the metadata even if the client asked for none.
fn ends_initial_events(object: &[u8]) -> bool {
    let annotation = ["metadata", "annotations", "k8s.io/initial-events-end"];
    scan::get(object, &annotation) == Some(b"\"true\"")
}
