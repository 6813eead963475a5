//! Projections of the items of a list.

use super::super::{Encoding, Envelope, NotEncodable, transcode};
use super::{Projection, json};

impl Envelope {
    /// Appends the wanted parts of the JSON of a list item. They are those of the answer
    /// to a GET, which has kind and apiVersion. If there is an error, `out` is left
    /// unchanged.
    ///
    /// Parts that are not wanted are not checked, and may be malformed.
    pub fn project(
        &self,
        item: &[u8],
        encoding: Encoding,
        projection: &Projection,
        out: &mut Vec<u8>,
    ) -> Result<(), NotEncodable> {
        let before = out.len();
        let written = match encoding {
            Encoding::Json => self.project_json(item, projection, out),
            Encoding::Protobuf => self.project_protobuf(item, projection, out),
        };
        if written.is_err() {
            out.truncate(before);
        }
        written
    }

    fn project_json(
        &self,
        item: &[u8],
        projection: &Projection,
        out: &mut Vec<u8>,
    ) -> Result<(), NotEncodable> {
        let added = if self.lacks_type(item) {
            self.type_members()
        } else {
            b""
        };
        if projection.is_whole() {
            let (brace, rest) = item.split_at_checked(1).unwrap_or_default();
            out.extend_from_slice(brace);
            out.extend_from_slice(added);
            out.extend_from_slice(rest);
            return Ok(());
        }
        Ok(json::write(item, added, projection, out)?)
    }

    fn project_protobuf(
        &self,
        item: &[u8],
        projection: &Projection,
        out: &mut Vec<u8>,
    ) -> Result<(), NotEncodable> {
        let message = self.described.message();
        let message = message.ok_or(NotEncodable::UnknownKind)?;
        let added = self.type_members();
        transcode::to_projected_json(message, item, added, projection, out)?;
        Ok(())
    }
}
