//! The head of an HTTP/1 request: its request line and its fields.
//!
//! pingora cuts a target at `#`, refuses octets and folded lines that Go's server
//! takes, takes no more than 256 lines, and gives no reason when it refuses a head.
//! So heads are read here first. Then pingora is given a head with the same meaning,
//! which is nearly always the one that came.

mod fields;
mod refusal;
mod request_line;

use std::net::IpAddr;

use bytes::{Buf, Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderName, HeaderValue};
use pingora_http::RequestHeader;
use tokio::io::AsyncReadExt;

pub(super) use self::fields::LONGEST_NAME;
use self::fields::{Field, Fields, Framing};
pub(in crate::server) use self::refusal::HeadRefusal;
use self::request_line::RequestLine;
pub(super) use self::request_line::{LONGEST_TARGET, is_token, is_unescapable};
use super::coalesce::Coalesced;
use super::large_heads::{LargeHead, LargeHeads, SMALL_HEAD};

/// How many bytes a head may have above the limit. Go's server has the same margin,
/// for what its buffer reads beyond the head.
const HEAD_MARGIN_BYTES: usize = 4 << 10;

/// The room for the first read. Most requests fit.
const FIRST_READ_BYTES: usize = 4 << 10;
/// The most bytes of one read.
const MAX_READ_BYTES: usize = 64 << 10;

/// How many octets of empty lines after a POST are skipped.
const EMPTY_LINES: usize = 4;

/// The most lines that are given to pingora: somewhat less than it takes.
const PINGORAS_LINES: usize = 250;
/// The most lines of a head. The type that holds the fields has room for few more.
pub(super) const MAX_HEAD_LINES: usize = 16 << 10;

/// The fields that pingora needs to read the rest of a request.
const PINGORAS: [HeaderName; 6] = [
    HOST,
    CONTENT_LENGTH,
    TRANSFER_ENCODING,
    CONNECTION,
    UPGRADE,
    EXPECT,
];

/// The limits of heads.
#[derive(Clone, Debug)]
pub(in crate::server) struct HeadLimits {
    /// The value of `serving.maxRequestHeaderBytes`.
    pub(in crate::server) max_bytes: usize,
    pub(in crate::server) large: LargeHeads,
}

/// A head, and the bytes that were read with it.
#[derive(Debug)]
pub(super) struct Head {
    /// The head for pingora, and the part of the body that has been read.
    pub(super) for_pingora: BytesMut,
    /// The bytes of the body that are still to come, or `None` if only its chunks
    /// tell.
    pub(super) body: Option<u64>,
    /// Bytes after the request.
    pub(super) next: BytesMut,
    pub(super) is_post: bool,
    pub(super) rest: Rest,
}

/// The part of a head that does not go through pingora.
#[derive(Debug, Default)]
pub(in crate::server) struct Rest {
    /// All fields, if pingora was given only those that it needs.
    fields: Option<Vec<(Bytes, HeaderValue)>>,
    large: Option<LargeHead>,
}

impl Rest {
    /// Replaces the fields that pingora has read by all fields. Returns the head's
    /// share of the budget, which the request then holds.
    pub(in crate::server) fn complete(self, request: &mut RequestHeader) -> Option<LargeHead> {
        let fields = self.fields?;
        for name in &PINGORAS {
            request.remove_header(name);
        }
        for (name, value) in fields {
            // Names and values were checked when they were read. There are fewer of
            // them than the type has room for.
            let appended = request.append_header(name, value);
            debug_assert!(appended.is_ok(), "{appended:?}");
        }
        self.large
    }
}

/// Reads a head. `read` holds the bytes of it that were read already. Returns `None`
/// if the client closes the connection. Some clients send an empty line after the
/// body of a POST. Like Go's server, apifront skips it, but no other empty line.
pub(super) async fn read(
    stream: &mut Coalesced,
    mut read: BytesMut,
    after_post: bool,
    limits: &HeadLimits,
    client: Option<IpAddr>,
) -> Result<Option<Head>, HeadRefusal> {
    let most = limits.max_bytes.saturating_add(HEAD_MARGIN_BYTES);
    let mut large = None;
    let mut seen = 0;
    let mut skipped = if after_post { EMPTY_LINES } else { 0 };
    let end = loop {
        while skipped > 0 && matches!(read.first(), Some(b'\r' | b'\n')) {
            read.advance(1);
            skipped = skipped.saturating_sub(1);
        }
        if let Some(end) = end_of_head(&read, seen) {
            break end;
        }
        seen = read.len();
        if seen > most {
            return Err(HeadRefusal::TooLarge);
        }
        if seen >= SMALL_HEAD {
            hold(&mut large, limits, client)?;
        }
        read.reserve(seen.clamp(FIRST_READ_BYTES, MAX_READ_BYTES));
        match stream.read_buf(&mut read).await {
            Ok(0) | Err(_) => return Ok(None),
            Ok(_) => {}
        }
    };
    if end > most {
        return Err(HeadRefusal::TooLarge);
    }
    let behind = split_off(&mut read, end);
    judge(read, behind, large).map(Some)
}

/// Takes the budget for one more read of a large head.
fn hold(
    large: &mut Option<LargeHead>,
    limits: &HeadLimits,
    client: Option<IpAddr>,
) -> Result<(), HeadRefusal> {
    // Every client that connects over a network has an address.
    let client = client.unwrap_or(IpAddr::from([0; 4]));
    let taken = match large {
        Some(large) => large.grow(MAX_READ_BYTES).is_ok(),
        None => {
            *large = limits
                .large
                .take(client, SMALL_HEAD.saturating_add(MAX_READ_BYTES));
            large.is_some()
        }
    };
    match taken {
        true => Ok(()),
        false => Err(HeadRefusal::TooManyLarge),
    }
}

/// Returns the length of the head with its empty line, once that has come. The first
/// `seen` bytes were searched before.
fn end_of_head(read: &[u8], seen: usize) -> Option<usize> {
    let from = seen.saturating_sub(2);
    memchr::memchr_iter(b'\n', read.get(from..)?).find_map(|line_end| {
        let next = from.saturating_add(line_end).saturating_add(1);
        match read.get(next..)? {
            [b'\n', ..] => Some(next.saturating_add(1)),
            [b'\r', b'\n', ..] => Some(next.saturating_add(2)),
            _ if next == 1 || (next == 2 && read.first() == Some(&b'\r')) => Some(next),
            _ => None,
        }
    })
}

/// Splits off what follows, which is mostly nothing. After a split, both parts share
/// their memory, which makes later work on them slower, so an empty rest is not
/// split.
fn split_off(bytes: &mut BytesMut, at: usize) -> BytesMut {
    match at < bytes.len() {
        true => bytes.split_off(at),
        false => BytesMut::new(),
    }
}

fn judge(
    head: BytesMut,
    mut behind: BytesMut,
    large: Option<LargeHead>,
) -> Result<Head, HeadRefusal> {
    let malformed = HeadRefusal::Malformed("malformed HTTP request");
    let (line, rest) = fields::take_line(&head).ok_or(malformed)?;
    let line = RequestLine::parse(line)?;
    let framing = Framing::read(rest, line.version)?;
    if framing.lines > MAX_HEAD_LINES {
        return Err(HeadRefusal::TooLarge);
    }
    let is_post = line.method == b"POST";
    let body = framing.body();
    let is_long = framing.lines > PINGORAS_LINES || head.len() > SMALL_HEAD;
    let (mut for_pingora, fields) = if line.is_plain() && !framing.folded && !is_long {
        (head, None)
    } else {
        rewrite(&line, rest, is_long)?
    };
    let mut rest = Rest { fields, large };
    if rest.fields.is_none() {
        rest.large = None;
    }
    // The bytes of the body go to pingora; the rest belongs to the next request.
    let own = body.map_or(behind.len(), |body| {
        usize::try_from(body).map_or(behind.len(), |body| body.min(behind.len()))
    });
    let next = split_off(&mut behind, own);
    if !behind.is_empty() {
        for_pingora.unsplit(behind);
    }
    Ok(Head {
        for_pingora,
        body: body.map(|body| body.saturating_sub(own as u64)),
        next,
        is_post,
        rest,
    })
}

/// The fields that do not go through pingora.
type Kept = Option<Vec<(Bytes, HeaderValue)>>;

/// Writes a head with the same meaning, which pingora reads. If the head is long,
/// all its fields are returned, too, and only those that pingora needs are written.
fn rewrite(
    line: &RequestLine<'_>,
    rest: &[u8],
    is_long: bool,
) -> Result<(BytesMut, Kept), HeadRefusal> {
    let mut head = BytesMut::with_capacity(FIRST_READ_BYTES);
    for piece in [line.method, b" ", &line.target, b" ", line.version, b"\r\n"] {
        head.extend_from_slice(piece);
    }
    let mut kept = is_long.then(Vec::new);
    for field in Fields::new(rest) {
        let mut field = field?;
        if let (Some(authority), true) = (line.authority, field.is(&HOST)) {
            field.value = authority.into();
        }
        if let Some(kept) = &mut kept {
            let value = HeaderValue::from_bytes(&field.value)
                .map_err(|_| HeadRefusal::Malformed("invalid header value"))?;
            kept.push((Bytes::copy_from_slice(field.name), value));
        }
        if !is_long || PINGORAS.iter().any(|name| field.is(name)) {
            write(&mut head, &field);
        }
    }
    head.extend_from_slice(b"\r\n");
    Ok((head, kept))
}

fn write(head: &mut BytesMut, field: &Field<'_>) {
    for piece in [field.name, b": ", &field.value, b"\r\n"] {
        head.extend_from_slice(piece);
    }
}

#[cfg(test)]
mod tests;
