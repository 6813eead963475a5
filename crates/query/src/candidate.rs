//! An object that may be shown.

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
}
