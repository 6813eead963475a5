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
        self.add_bounded(path.get(..=MAX_DEPTH).unwrap_or(path));
    }

    fn add_bounded(&mut self, path: &[&str]) {
        let Wanted::Members(members) = &mut self.0 else {
            return;
        };
        match path.split_first() {
            None => *self = Self::whole(),
            Some((name, rest)) => {
                let name = Box::from(name.as_bytes());
                let below = members.entry(name).or_insert_with(Self::nothing);
                below.add_bounded(rest);
            }
        }
    }

    /// Tells whether the whole value is wanted.
    pub fn is_whole(&self) -> bool {
        self.0 == Wanted::Whole
    }

    /// Returns the wanted members. `None` if the whole value is wanted.
    pub(super) fn members(&self) -> Option<&Members> {
        match &self.0 {
            Wanted::Whole => None,
            Wanted::Members(members) => Some(members),
        }
    }

    /// Returns what is wanted of a member. `None` if nothing is.
    pub(super) fn member(&self, name: &[u8]) -> Option<&Self> {
        match &self.0 {
            Wanted::Whole => Some(self),
            Wanted::Members(members) => members.get(name),
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
