//! An object that may be shown.

use std::cmp::Ordering;

use kubernetes_wire::representation::Projection;

/// The stored bytes of an object cannot be read as its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the object cannot be read")]
pub struct Unreadable;

pub trait Candidate {
    /// Empty for an object of no namespace.
    fn namespace(&self) -> &str;
    fn name(&self) -> &str;
    fn uid(&self) -> &str;
    /// Appends the JSON of the wanted parts of the object.
    fn project(&self, wanted: &Projection, out: &mut Vec<u8>) -> Result<(), Unreadable>;

    /// Tells whether both are surely the same state of one object.
    fn is(&self, _other: &Self) -> bool {
        false
    }

    /// Compares the places of two objects in the order of lists.
    fn compare(&self, other: &Self) -> Ordering {
        if self.namespace() == other.namespace() {
            return self.name().cmp(other.name());
        }
        // A list is in the order of namespace/name. `-` comes before `/`.
        let bytes = |of: &str| of.bytes().chain(*b"/").collect::<Vec<u8>>();
        bytes(self.namespace()).cmp(&bytes(other.namespace()))
    }
}

impl<C: Candidate> Candidate for &C {
    fn namespace(&self) -> &str {
        C::namespace(self)
    }

    fn name(&self) -> &str {
        C::name(self)
    }

    fn uid(&self) -> &str {
        C::uid(self)
    }

    fn project(&self, wanted: &Projection, out: &mut Vec<u8>) -> Result<(), Unreadable> {
        C::project(self, wanted, out)
    }

    fn is(&self, other: &Self) -> bool {
        C::is(self, other)
    }

    fn compare(&self, other: &Self) -> Ordering {
        C::compare(self, other)
    }
}
