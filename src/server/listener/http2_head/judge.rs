//! Judges all fields of a block together: how the server treats them.

use super::field::{Field, Nature, Pseudo};
use super::table::Found;
use crate::server::listener::head::{HeadRefusal, MAX_HEAD_LINES};

/// The bytes that Go's server adds to the configured limit of a block: HTTP/2's
/// overhead for ten fields that are always there (`http2Server.maxHeaderListSize`).
const OVERHEAD_BYTES: usize = 10 * 32;

/// Above this size, a head may not be much larger than the octets that came. It is
/// larger only if the block names a field of the table again and again, so that few
/// octets cause much work.
const EXPANSION_CHECKED_ABOVE_BYTES: usize = 256 << 10;
/// How many times larger Huffman's code and a table of 4 KiB can make a block of
/// that size, at most.
const MAX_EXPANSION: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// h2 reads it with the same meaning as Go's server.
    Plain,
    /// h2 does so only if it is written in another way.
    Odd,
    /// The answer is a Status.
    Refused(HeadRefusal),
    /// The stream is reset.
    Malformed,
}

#[derive(Debug, Default)]
pub(super) struct Block {
    /// All fields, or those up to the limit.
    fields: Vec<Found>,
    size: usize,
    seen: Seen,
    is_malformed: bool,
    is_odd: bool,
    refusal: Option<HeadRefusal>,
}

#[derive(Debug, Default)]
struct Seen {
    method: bool,
    connect: bool,
    scheme: bool,
    authority: bool,
    path: bool,
    protocol: bool,
    host: bool,
    regular: bool,
}

impl Block {
    pub(super) fn add(&mut self, found: Found, limit: usize) {
        let field = found.field();
        self.size = self.size.saturating_add(field.size());
        self.look_at(field);
        if self.size > limit.saturating_add(OVERHEAD_BYTES) || self.fields.len() >= MAX_HEAD_LINES {
            self.refuse(HeadRefusal::TooLarge);
            return;
        }
        self.fields.push(found);
    }

    fn look_at(&mut self, field: &Field) {
        let seen = &mut self.seen;
        let is_again = match field.nature {
            Nature::Regular => {
                seen.regular = true;
                return;
            }
            Nature::Host => {
                seen.regular = true;
                seen.host = true;
                return;
            }
            Nature::Malformed => true,
            Nature::Pseudo(Pseudo::Method) => std::mem::replace(&mut seen.method, true),
            Nature::Pseudo(Pseudo::Connect) => {
                seen.connect = true;
                std::mem::replace(&mut seen.method, true)
            }
            Nature::OddMethod => {
                self.refuse(HeadRefusal::Malformed("invalid method"));
                std::mem::replace(&mut self.seen.method, true)
            }
            Nature::Pseudo(Pseudo::Scheme) => std::mem::replace(&mut seen.scheme, true),
            Nature::Pseudo(Pseudo::Authority) => std::mem::replace(&mut seen.authority, true),
            Nature::Pseudo(Pseudo::NoAuthority) => {
                self.is_odd = true;
                false
            }
            Nature::OddAuthority => {
                self.refuse(HeadRefusal::Malformed("malformed Host header"));
                std::mem::replace(&mut self.seen.authority, true)
            }
            Nature::Pseudo(Pseudo::Path) => std::mem::replace(&mut seen.path, true),
            Nature::OddPath => {
                self.is_odd = true;
                std::mem::replace(&mut seen.path, true)
            }
            Nature::BadPath => {
                self.refuse(HeadRefusal::Malformed("invalid URL escape"));
                std::mem::replace(&mut self.seen.path, true)
            }
            Nature::LongPath => {
                self.refuse(HeadRefusal::TargetTooLong);
                std::mem::replace(&mut self.seen.path, true)
            }
            Nature::Pseudo(Pseudo::Protocol) => std::mem::replace(&mut seen.protocol, true),
        };
        self.is_malformed |= is_again || self.seen.regular;
    }

    fn refuse(&mut self, why: HeadRefusal) {
        if self.refusal != Some(HeadRefusal::TooLarge) {
            self.refusal = Some(why);
        }
    }

    /// Notes that the block is complete, and how many octets held its fields.
    pub(super) fn ends(&mut self, octets: usize) {
        if self.size > EXPANSION_CHECKED_ABOVE_BYTES
            && self.size > octets.saturating_mul(MAX_EXPANSION)
        {
            self.refuse(HeadRefusal::TooLarge);
        }
    }

    /// Judges the block of a request, or a block of trailers.
    pub(super) fn verdict(&self, is_request: bool) -> Verdict {
        let seen = &self.seen;
        let has_pseudo = seen.method || seen.scheme || seen.authority || seen.path || seen.protocol;
        if self.is_malformed || (!is_request && has_pseudo) {
            return Verdict::Malformed;
        }
        match self.refusal {
            Some(why) if is_request => return Verdict::Refused(why),
            Some(_) => return Verdict::Malformed,
            None => {}
        }
        match self.is_odd || (is_request && self.lacks_host()) {
            true => Verdict::Odd,
            false => Verdict::Plain,
        }
    }

    /// Go's server takes HTTP/2 requests that name no host.
    fn lacks_host(&self) -> bool {
        !self.seen.authority && !self.seen.host && !self.seen.connect
    }

    /// Gives the names and values in the form that h2 takes.
    pub(super) fn written(&self, mut field: impl FnMut(&[u8], &[u8])) {
        for found in &self.fields {
            let found = found.field();
            if found.nature != Nature::Pseudo(Pseudo::NoAuthority) {
                field(&found.name, &found.written());
            }
        }
        if self.seen.method && self.lacks_host() {
            field(b"host", b"");
        }
    }

    /// Returns the value of `:method`, if it is a valid one.
    pub(super) fn method(&self) -> Option<&[u8]> {
        let field = self.fields.iter().map(Found::field).find(|field| {
            let is_method = |pseudo| matches!(pseudo, Pseudo::Method | Pseudo::Connect);
            matches!(field.nature, Nature::Pseudo(pseudo) if is_method(pseudo))
        });
        field.map(|field| &*field.value)
    }

    /// Returns the value of `:path`, if h2 takes it.
    pub(super) fn target(&self) -> Option<&[u8]> {
        let mut fields = self.fields.iter().map(Found::field);
        let field = fields.find(|field| field.nature == Nature::Pseudo(Pseudo::Path));
        field.map(|field| &*field.value)
    }

    /// Returns the size of a request as [`apifront_upstream::head_size`] counts it.
    pub(super) fn head_size(&self) -> usize {
        let sizes = self
            .fields
            .iter()
            .map(Found::field)
            .map(|field| match field.nature {
                Nature::Pseudo(Pseudo::Path) => field.value.len(),
                Nature::OddPath => field.written().len(),
                Nature::Regular | Nature::Host => field.size(),
                _ => 0,
            });
        sizes.fold(0, usize::saturating_add)
    }
}
