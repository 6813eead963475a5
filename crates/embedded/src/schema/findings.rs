//! The findings of a validation, which become the causes in the answer.

use kubernetes_wire::api::status::Cause;

#[derive(Default)]
pub(super) struct Findings {
    pub(super) causes: Vec<Cause>,
    /// A prefix for the names of fields, which the texts do not have.
    pub(super) prefix: &'static str,
}

/// If everything in a large list is wrong, this many errors are enough.
const MAX_ERRORS: usize = 100;

/// If there are findings of these kinds, the real server does not evaluate rules.
pub(super) const BLOCKING: [&str; 5] = [
    "FieldValueRequired",
    "FieldValueTypeInvalid",
    "FieldValueNotSupported",
    "FieldValueTooLong",
    "FieldValueTooMany",
];

impl Findings {
    pub(super) fn fork(&self) -> Self {
        Self {
            causes: Vec::new(),
            prefix: self.prefix,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.causes.is_empty()
    }

    pub(super) fn push(&mut self, reason: &str, name: &str, message: String) {
        let field = match (self.prefix, name) {
            ("", "") => "<nil>".to_owned(),
            ("", name) => name.to_owned(),
            (prefix, "") => prefix.to_owned(),
            (prefix, name) if name.starts_with('[') => format!("{prefix}{name}"),
            (prefix, name) => format!("{prefix}.{name}"),
        };
        self.put(Cause::new(reason, &field, message));
    }

    /// Adds a finding that has no field of its own.
    pub(super) fn general(&mut self, message: String) {
        let message = format!("Invalid value: \"\": {message}");
        self.put(Cause::new("FieldValueInvalid", "<nil>", message));
    }

    pub(super) fn extend(&mut self, other: Option<Self>) {
        for cause in other.into_iter().flat_map(|other| other.causes) {
            self.put(cause);
        }
    }

    fn put(&mut self, cause: Cause) {
        if self.causes.len() < MAX_ERRORS {
            self.causes.push(cause);
        }
    }

    pub(super) fn invalid(&mut self, name: &str, value: &str, what: &str) {
        let message = format!("Invalid value: {value}: {name} in body {what}");
        self.push("FieldValueInvalid", name, message);
    }

    pub(super) fn wrong_type(&mut self, name: &str, shown: &str, wanted: &str) {
        let message =
            format!("Invalid value: {shown}: {name} in body must be of type {wanted}: {shown}");
        self.push("FieldValueTypeInvalid", name, message);
    }

    pub(super) fn required(&mut self, name: &str) {
        self.push("FieldValueRequired", name, "Required value".to_owned());
    }
}
