//! What went wrong for single objects, for people.

use crate::candidate::Candidate;

/// The most different warnings.
const MAX_WARNINGS: usize = 16;

/// The longest text of an error, in bytes.
const MAX_TEXT: usize = 256;

#[derive(Default)]
pub(crate) struct Warnings(Vec<Warning>);

struct Warning {
    /// The field of the expression.
    field: String,
    error: String,
    /// The first object.
    object: String,
    objects: u64,
}

impl Warnings {
    pub(crate) fn add(&mut self, field: &str, error: &str, object: &impl Candidate) {
        let error = match error.get(..error.floor_char_boundary(MAX_TEXT)) {
            Some(start) if start.len() < error.len() => format!("{start}…"),
            _ => error.to_owned(),
        };
        let known = self.0.iter_mut();
        let mut known = known.filter(|known| known.field == field);
        if let Some(known) = known.find(|known| known.error == error) {
            known.objects = known.objects.saturating_add(1);
        } else if self.0.len() < MAX_WARNINGS {
            self.0.push(Warning {
                field: field.to_owned(),
                error,
                object: match object.namespace() {
                    "" => object.name().to_owned(),
                    namespace => format!("{namespace}/{}", object.name()),
                },
                objects: 1,
            });
        }
    }

    pub(crate) fn into_texts(self) -> Vec<String> {
        let text = |warning: Warning| {
            let Warning {
                field,
                error,
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
