//! What went wrong for single objects, for people.

use std::sync::Arc;

use crate::candidate::Candidate;

/// The most different warnings.
const MAX_WARNINGS: usize = 16;

/// The longest text of an error, in bytes.
const MAX_TEXT: usize = 256;

/// What went wrong for one object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Note {
    /// The field of the expression.
    pub(crate) field: Arc<str>,
    pub(crate) error: String,
}

impl Note {
    pub(crate) fn new(field: &str, error: &str) -> Self {
        let error = match error.get(..error.floor_char_boundary(MAX_TEXT)) {
            Some(start) if start.len() < error.len() => format!("{start}…"),
            _ => error.to_owned(),
        };
        Self {
            field: field.into(),
            error,
        }
    }
}

#[derive(Default)]
pub(crate) struct Warnings(Vec<Warning>);

struct Warning {
    note: Note,
    /// The first object.
    object: String,
    objects: u64,
}

impl Warnings {
    pub(crate) fn add(&mut self, note: Note, object: &impl Candidate) {
        self.add_many(note, object, 1);
    }

    /// Adds what went wrong for some objects, of which this is the first.
    pub(crate) fn add_many(&mut self, note: Note, first: &impl Candidate, objects: u64) {
        let known = self.0.iter_mut().find(|known| known.note == note);
        if let Some(known) = known {
            known.objects = known.objects.saturating_add(objects);
        } else if self.0.len() < MAX_WARNINGS {
            self.0.push(Warning {
                note,
                object: match first.namespace() {
                    "" => first.name().to_owned(),
                    namespace => format!("{namespace}/{}", first.name()),
                },
                objects,
            });
        }
    }

    pub(crate) fn into_texts(self) -> Vec<String> {
        let text = |warning: Warning| {
            let Warning {
                note: Note { field, error },
                object,
                objects,
            } = warning;
            match objects {
                1 => format!("{field} has no value for {object}: {error}"),
                _ => format!(
                    "{field} has no value for {objects} objects, of which the first is {object}: {error}"
                ),
            }
        };
        self.0.into_iter().map(text).collect()
    }
}
