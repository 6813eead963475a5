//! The shape of an answer.

use std::sync::Arc;

use kubernetes_wire::negotiation::{IncludeObject, MetaVersion};
use kubernetes_wire::representation::Encoding;
use kubernetes_wire::representation::table::{Printer, TableOptions};

use super::shown::Shown;
use crate::LeftOut;
use crate::store::Resource;

/// The shape in which objects are shown.
#[derive(Clone, Debug)]
pub struct Shape {
    pub kind: ShapeKind,
    /// Counts what is left out, if the objects are shown without managedFields.
    pub without_managed_fields: Option<LeftOut>,
}

#[derive(Clone, Debug)]
pub enum ShapeKind {
    /// The objects as they are.
    Whole(Encoding),
    Table(Arc<Printer>, TableOptions),
    Partial(MetaVersion, Encoding),
}

impl Shape {
    pub fn whole(encoding: Encoding) -> Self {
        ShapeKind::Whole(encoding).into()
    }

    pub fn table(printer: Arc<Printer>, options: TableOptions) -> Self {
        ShapeKind::Table(printer, options).into()
    }

    pub fn partial(version: MetaVersion, encoding: Encoding) -> Self {
        ShapeKind::Partial(version, encoding).into()
    }

    /// Returns the shape without `metadata.managedFields`. `left_out` counts what is left
    /// out.
    #[must_use]
    pub fn without_managed_fields(self, left_out: LeftOut) -> Self {
        Self {
            without_managed_fields: Some(left_out),
            ..self
        }
    }

    /// Returns the encoding of objects that are shown with all their parts.
    pub fn of_all_parts(&self) -> Option<Encoding> {
        match self.kind {
            ShapeKind::Whole(encoding) if self.without_managed_fields.is_none() => Some(encoding),
            _ => None,
        }
    }

    pub(super) fn shown<'a>(&self, resource: &'a Resource) -> Shown<'a> {
        Shown::new(&resource.envelope, self.without_managed_fields.is_some())
    }

    /// Counts what was left out of an answer.
    pub(super) fn count(&self, shown: &Shown<'_>) {
        if let Some(left_out) = &self.without_managed_fields
            && self.kind.shows_managed_fields()
        {
            left_out.add(shown.left_out());
        }
    }
}

impl ShapeKind {
    /// Tells whether whole objects have their managedFields in this shape.
    pub fn shows_managed_fields(&self) -> bool {
        !matches!(self, Self::Table(_, options) if options.include == IncludeObject::None)
    }
}

impl From<ShapeKind> for Shape {
    fn from(kind: ShapeKind) -> Self {
        Self {
            kind,
            without_managed_fields: None,
        }
    }
}
