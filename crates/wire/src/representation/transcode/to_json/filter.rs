//! Chooses the members that are written: all of them, or those of a projection.

use super::super::super::projection::json;
use super::super::{Result, compact};
use crate::representation::Projection;
use crate::schema::{Field, Message, Shape};

/// The choice for one value. It goes down with the writer, from member to member.
/// The writer is compiled for each filter on its own: [`All`] costs nothing.
pub(in super::super) trait Filter: Copy {
    /// Returns the fields with wanted members, as one bit per position.
    fn fields(self, message: &Message) -> u64;

    /// Returns the filter of the value of a member. `None` if the member is not wanted.
    fn member(self, name: &[u8]) -> Option<Self>;

    /// Appends those that are wanted of [`Field::added`].
    fn write_added(self, members: &[u8], out: &mut Vec<u8>);

    /// Appends the wanted parts of JSON for which there is no schema.
    fn write_opaque(self, content: &[u8], out: &mut Vec<u8>) -> Result;

    /// Returns the filter of a field's value. An inlined message has its members among
    /// those of its owner.
    #[inline]
    fn of_field(self, field: &Field) -> Option<Self> {
        match field.shape {
            Shape::Inline => Some(self),
            _ => self.member(field.name()),
        }
    }
}

/// The filter that lets everything through.
#[derive(Clone, Copy)]
pub(in super::super) struct All;

impl Filter for All {
    #[inline]
    fn fields(self, _: &Message) -> u64 {
        u64::MAX
    }

    #[inline]
    fn member(self, _: &[u8]) -> Option<Self> {
        Some(self)
    }

    #[inline]
    fn write_added(self, members: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(members);
    }

    #[inline]
    fn write_opaque(self, content: &[u8], out: &mut Vec<u8>) -> Result {
        compact::write(content, out)
    }

    #[inline]
    fn of_field(self, _: &Field) -> Option<Self> {
        Some(self)
    }
}

impl Filter for &Projection {
    fn fields(self, message: &Message) -> u64 {
        let Some(members) = self.members() else {
            return u64::MAX;
        };
        let positions = members.keys().filter_map(|n| message.field_with_member(n));
        // A position is below 64.
        positions.fold(0, |fields, at| fields | 1u64 << (at & 63))
    }

    fn member(self, name: &[u8]) -> Option<Self> {
        Projection::member(self, name).map(Projection::no_array)
    }

    fn of_field(self, field: &Field) -> Option<Self> {
        match field.shape {
            Shape::Inline => Some(self),
            Shape::List => Projection::member(self, field.name()).map(Projection::elements),
            _ => self.member(field.name()),
        }
    }

    fn write_added(self, members: &[u8], out: &mut Vec<u8>) {
        self.write_wanted(members, out);
    }

    fn write_opaque(self, content: &[u8], out: &mut Vec<u8>) -> Result {
        if self.is_whole() {
            compact::write(content, out)
        } else {
            json::write(content, b"", self, out)
        }
    }
}
