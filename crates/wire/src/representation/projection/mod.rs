//! The JSON of an object reduced to chosen paths, made from its stored bytes. What is
//! not wanted is skipped without decoding.

mod envelope;
pub(super) mod json;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::transcode::MAX_DEPTH;

/// The parts of an object that are wanted: a tree of the names of members.
///
/// A path goes through arrays to each of their elements, and into maps by key. If it
/// goes on below a scalar, the scalar is wanted.
///
/// ```
/// use kubernetes_wire::representation::{Encoding, Envelope, Form, Projection};
///
/// let mut projection = Projection::nothing();
/// projection.add(&["kind"]);
/// projection.add(&["spec", "containers", "image"]);
/// let pods = Envelope::new(Form::Struct, "v1", "Pod", "PodList");
/// let item = br#"{"metadata":{"name":"a"},"spec":{"containers":[{"name":"b","image":"c"}]}}"#;
/// let mut out = Vec::new();
/// pods.project(item, Encoding::Json, &projection, &mut out)?;
/// assert_eq!(
///     String::from_utf8_lossy(&out),
///     r#"{"kind":"Pod","spec":{"containers":[{"image":"c"}]}}"#
/// );
/// # Ok::<(), kubernetes_wire::representation::NotEncodable>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Projection(Wanted);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    Whole,
    Members(Members),
    /// This is wanted of each element of an array. Any other value is wanted whole.
    Elements(Box<Projection>),
}

static WHOLE: Projection = Projection(Wanted::Whole);

/// A step from a value to a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathStep {
    /// The member of this name.
    Member(String),
    /// Each element, if the value is an array. If it is something else, all of it.
    Elements,
}

/// The wanted members of an object, and what is wanted of each one.
pub(super) type Members = BTreeMap<Box<[u8]>, Projection>;

impl Projection {
    /// The whole value is wanted.
    pub fn whole() -> Self {
        Self(Wanted::Whole)
    }

    /// No member is wanted. An object is then `{}`.
    pub fn nothing() -> Self {
        Self(Wanted::Members(Members::new()))
    }

    /// Adds a path of names of members. The value at its end is wanted as a whole. The
    /// empty path is that of the whole object.
    ///
    /// Objects are read to [`MAX_DEPTH`], so what a longer path has after it makes no
    /// difference.
    pub fn add(&mut self, path: &[&str]) {
        let mut at = self;
        for name in path.get(..=MAX_DEPTH).unwrap_or(path) {
            let Some(below) = at.below(name.as_bytes()) else {
                return;
            };
            at = below;
        }
        *at = Self::whole();
    }

    /// Adds a path that tells arrays from objects. The value at its end is wanted as a
    /// whole.
    pub fn add_steps(&mut self, path: &[PathStep]) {
        if let Some(end) = self.end(path) {
            *end = Self::whole();
        }
    }

    /// Adds such a path for the number of the elements at its end, of which nothing else
    /// is wanted.
    pub fn reach(&mut self, path: &[PathStep]) {
        self.end(path);
    }

    /// Adds what another projection wants.
    pub fn merge(&mut self, other: &Self) {
        match &other.0 {
            Wanted::Whole => *self = Self::whole(),
            Wanted::Members(others) => {
                for (name, other) in others {
                    if let Some(below) = self.below(name) {
                        below.merge(other);
                    }
                }
            }
            Wanted::Elements(others) => {
                if let Some(elements) = self.of_elements() {
                    elements.merge(others);
                }
            }
        }
    }

    /// Returns what is wanted at the end of a path. `None` if more is wanted already.
    fn end(&mut self, path: &[PathStep]) -> Option<&mut Self> {
        let path = path.get(..=MAX_DEPTH).unwrap_or(path);
        let mut at = self;
        for step in path {
            at = match step {
                PathStep::Member(name) => at.below(name.as_bytes())?,
                PathStep::Elements => at.of_elements()?,
            };
        }
        Some(at)
    }

    /// Returns what is wanted of a member, which may be nothing so far. `None` if the
    /// whole value is wanted.
    fn below(&mut self, name: &[u8]) -> Option<&mut Self> {
        if matches!(self.0, Wanted::Elements(_)) {
            // Some want the value to be an array, and others an object.
            *self = Self::whole();
        }
        match &mut self.0 {
            Wanted::Members(members) => {
                Some(members.entry(Box::from(name)).or_insert_with(Self::nothing))
            }
            Wanted::Whole | Wanted::Elements(_) => None,
        }
    }

    fn of_elements(&mut self) -> Option<&mut Self> {
        match &self.0 {
            Wanted::Members(members) if members.is_empty() => {
                self.0 = Wanted::Elements(Box::new(Self::nothing()));
            }
            Wanted::Members(_) => *self = Self::whole(),
            Wanted::Whole | Wanted::Elements(_) => {}
        }
        match &mut self.0 {
            Wanted::Elements(elements) => Some(elements),
            Wanted::Whole | Wanted::Members(_) => None,
        }
    }

    /// Tells whether the whole value is wanted.
    pub fn is_whole(&self) -> bool {
        self.0 == Wanted::Whole
    }

    /// Returns the wanted members of an object. `None` if the whole object is wanted.
    pub(super) fn members(&self) -> Option<&Members> {
        match &self.0 {
            Wanted::Whole | Wanted::Elements(_) => None,
            Wanted::Members(members) => Some(members),
        }
    }

    /// Returns what is wanted of a member of an object. `None` if nothing is.
    pub(super) fn member(&self, name: &[u8]) -> Option<&Self> {
        match &self.0 {
            Wanted::Whole | Wanted::Elements(_) => Some(&WHOLE),
            Wanted::Members(members) => members.get(name),
        }
    }

    /// Returns what is wanted of each element of an array.
    pub(super) fn elements(&self) -> &Self {
        match &self.0 {
            Wanted::Elements(elements) => elements,
            Wanted::Whole | Wanted::Members(_) => self,
        }
    }

    /// Returns what is wanted of a value that is no array.
    pub(super) fn no_array(&self) -> &Self {
        match &self.0 {
            Wanted::Elements(_) => &WHOLE,
            Wanted::Whole | Wanted::Members(_) => self,
        }
    }

    /// Appends the wanted ones of `members`, and returns their number. Each one is a
    /// name with a text that needs no escapes, and a comma: `"kind":"Pod",`.
    pub(super) fn write_wanted(&self, members: &[u8], out: &mut Vec<u8>) -> usize {
        let mut count = 0usize;
        for member in members.split_inclusive(|byte| *byte == b',') {
            let name = member.split(|byte| *byte == b'"').nth(1);
            if name.is_some_and(|name| self.member(name).is_some()) {
                out.extend_from_slice(member);
                count = count.saturating_add(1);
            }
        }
        count
    }
}
