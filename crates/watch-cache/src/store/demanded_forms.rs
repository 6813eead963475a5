//! The forms in which clients list a resource.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use kubernetes_wire::representation::Encoding;

/// A value that nobody has asked for in `KEPT_ROUNDS` rounds is dropped. `ROUND_TIME` is
/// the duration of a round.
pub(crate) const ROUND_TIME: Duration = Duration::from_secs(60);
pub(crate) const KEPT_ROUNDS: u8 = 5;

/// A form of objects that a leaf makes once for all lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListForm {
    /// Whole objects.
    Items(Encoding),
    /// Whole objects, compressed.
    Deflated(Encoding),
    /// The rows of a Table, without the metadata that most Tables have.
    Rows,
    /// PartialObjectMetadata.
    Metadata(Encoding),
    ItemsWithoutManagedFields(Encoding),
    DeflatedWithoutManagedFields(Encoding),
    MetadataWithoutManagedFields(Encoding),
}

impl ListForm {
    const ALL: [Self; 13] = [
        Self::Items(Encoding::Json),
        Self::Items(Encoding::Protobuf),
        Self::Deflated(Encoding::Json),
        Self::Deflated(Encoding::Protobuf),
        Self::Rows,
        Self::Metadata(Encoding::Json),
        Self::Metadata(Encoding::Protobuf),
        Self::ItemsWithoutManagedFields(Encoding::Json),
        Self::ItemsWithoutManagedFields(Encoding::Protobuf),
        Self::DeflatedWithoutManagedFields(Encoding::Json),
        Self::DeflatedWithoutManagedFields(Encoding::Protobuf),
        Self::MetadataWithoutManagedFields(Encoding::Json),
        Self::MetadataWithoutManagedFields(Encoding::Protobuf),
    ];

    /// Returns the form without managedFields. Rows have none.
    #[must_use]
    pub fn without_managed_fields(self) -> Self {
        match self {
            Self::Items(encoding) => Self::ItemsWithoutManagedFields(encoding),
            Self::Deflated(encoding) => Self::DeflatedWithoutManagedFields(encoding),
            Self::Metadata(encoding) => Self::MetadataWithoutManagedFields(encoding),
            Self::Rows
            | Self::ItemsWithoutManagedFields(_)
            | Self::DeflatedWithoutManagedFields(_)
            | Self::MetadataWithoutManagedFields(_) => self,
        }
    }

    pub(crate) fn is_without_managed_fields(self) -> bool {
        matches!(
            self,
            Self::ItemsWithoutManagedFields(_)
                | Self::DeflatedWithoutManagedFields(_)
                | Self::MetadataWithoutManagedFields(_)
        )
    }

    /// Returns the form's name in saved stores and in the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Items(Encoding::Json) => "json",
            Self::Items(Encoding::Protobuf) => "protobuf",
            Self::Deflated(Encoding::Json) => "gzipJSON",
            Self::Deflated(Encoding::Protobuf) => "gzipProtobuf",
            Self::Rows => "rows",
            Self::Metadata(Encoding::Json) => "metadataJSON",
            Self::Metadata(Encoding::Protobuf) => "metadataProtobuf",
            Self::ItemsWithoutManagedFields(Encoding::Json) => "jsonWithoutManagedFields",
            Self::ItemsWithoutManagedFields(Encoding::Protobuf) => "protobufWithoutManagedFields",
            Self::DeflatedWithoutManagedFields(Encoding::Json) => "gzipJSONWithoutManagedFields",
            Self::DeflatedWithoutManagedFields(Encoding::Protobuf) => {
                "gzipProtobufWithoutManagedFields"
            }
            Self::MetadataWithoutManagedFields(Encoding::Json) => {
                "metadataJSONWithoutManagedFields"
            }
            Self::MetadataWithoutManagedFields(Encoding::Protobuf) => {
                "metadataProtobufWithoutManagedFields"
            }
        }
    }
}

/// The time since something was asked for, in rounds. 255 for never.
#[derive(Debug)]
pub(super) struct Unasked(AtomicU8);

impl Default for Unasked {
    fn default() -> Self {
        Self(AtomicU8::new(u8::MAX))
    }
}

impl Unasked {
    pub(super) fn ask(&self) {
        // Most calls find 0. They do not write, so the value stays in other cores'
        // caches.
        if self.0.load(Ordering::Relaxed) != 0 {
            self.0.store(0, Ordering::Relaxed);
        }
    }

    /// Counts a round, and returns the number of rounds.
    pub(super) fn pass_round(&self) -> u8 {
        let rounds = self.0.load(Ordering::Relaxed).saturating_add(1);
        // A call of `ask` meanwhile may be lost. The next one is not.
        self.0.store(rounds, Ordering::Relaxed);
        rounds
    }

    fn is_recent(&self) -> bool {
        self.0.load(Ordering::Relaxed) < KEPT_ROUNDS
    }
}

/// The forms in which all of a resource was listed lately, by any client and
/// whether or not the cache answered.
#[derive(Debug, Default)]
pub struct Demand {
    unasked: [Unasked; ListForm::ALL.len()],
}

impl Demand {
    fn unasked(&self, form: ListForm) -> Option<&Unasked> {
        let mut all = ListForm::ALL.iter().zip(&self.unasked);
        all.find(|(each, _)| **each == form)
            .map(|(_, unasked)| unasked)
    }

    /// Notes that all of the resource is asked for in this form.
    pub fn ask(&self, form: ListForm) {
        if let Some(unasked) = self.unasked(form) {
            unasked.ask();
        }
    }

    /// Returns the forms that were asked for lately.
    pub fn forms(&self) -> impl Iterator<Item = ListForm> {
        let all = ListForm::ALL.iter().zip(&self.unasked);
        all.filter(|(_, of)| of.is_recent()).map(|(form, _)| *form)
    }

    /// Notes the forms that another process was asked for. Unknown names are
    /// ignored.
    pub(crate) fn restore(&self, names: &[String]) {
        let named = |form: &&ListForm| names.iter().any(|name| name == form.as_str());
        ListForm::ALL
            .iter()
            .filter(named)
            .for_each(|f| self.ask(*f));
    }

    pub(crate) fn pass_round(&self) {
        for unasked in &self.unasked {
            unasked.pass_round();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forms(demand: &Demand) -> Vec<ListForm> {
        demand.forms().collect()
    }

    #[test]
    fn forms_are_wanted_for_some_rounds() {
        let demand = Demand::default();
        assert_eq!(forms(&demand), []);
        demand.ask(ListForm::Rows);
        for _ in 1..KEPT_ROUNDS {
            demand.pass_round();
            assert_eq!(forms(&demand), [ListForm::Rows]);
        }
        demand.ask(ListForm::Deflated(Encoding::Json));
        demand.pass_round();
        assert_eq!(forms(&demand), [ListForm::Deflated(Encoding::Json)]);
        for _ in 0..1000 {
            demand.pass_round();
        }
        assert_eq!(forms(&demand), []);
    }

    #[test]
    fn another_process_learns_of_them() {
        let (before, after) = (Demand::default(), Demand::default());
        ListForm::ALL.iter().for_each(|form| before.ask(*form));
        let names = before.forms().map(|form| form.as_str().to_owned());
        let names: Vec<String> = names.chain(["unheard of".to_owned()]).collect();
        after.restore(&names);
        assert_eq!(forms(&after), ListForm::ALL);
    }
}
