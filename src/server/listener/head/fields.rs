//! The fields of an HTTP/1 head, read as Go's server reads them
//! (net/textproto `ReadMIMEHeader`, net/http `readRequest` and
//! `readTransfer`).

use std::borrow::Cow;

use http::header::{CONTENT_LENGTH, EXPECT, HOST, TRANSFER_ENCODING};

use super::refusal::HeadRefusal;
use super::request_line::{cut, is_token};
use crate::server::listener::framing::is_host_byte;

const MALFORMED: HeadRefusal = HeadRefusal::Malformed("malformed MIME header line");

/// The longest name that the type of a field's name holds.
pub(in crate::server::listener) const LONGEST_NAME: usize = u16::MAX as usize;

/// A field as it was received. Its value is one line: folded lines are joined by
/// single spaces (RFC 9112, 5.2).
pub(super) struct Field<'a> {
    pub(super) name: &'a [u8],
    pub(super) value: Cow<'a, [u8]>,
}

impl Field<'_> {
    pub(super) fn is(&self, name: &http::HeaderName) -> bool {
        self.name.eq_ignore_ascii_case(name.as_str().as_bytes())
    }
}

/// The lines of a head after its request line, as fields.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// `rest` begins after the request line and ends after the empty line.
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    fn line(&mut self) -> Option<&'a [u8]> {
        let (line, rest) = take_line(self.rest)?;
        self.rest = rest;
        Some(line).filter(|line| !line.is_empty())
    }

    fn goes_on(&self) -> bool {
        matches!(self.rest, [b' ' | b'\t', ..])
    }
}

/// Returns the first line, without its end, and what follows it.
pub(super) fn take_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(b'\n', bytes)?;
    let (line, rest) = bytes.split_at_checked(end)?;
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    Some((line, rest.get(1..)?))
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, HeadRefusal>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.line()?;
        let Some((name, value)) = cut(line, b':') else {
            return Some(Err(MALFORMED));
        };
        let mut value = Cow::Borrowed(value.trim_ascii());
        while self.goes_on() {
            let more = self.line()?.trim_ascii();
            let value = value.to_mut();
            value.push(b' ');
            value.extend_from_slice(more);
        }
        if name.is_empty() || !name.iter().all(|octet| is_token(*octet)) {
            return Some(Err(MALFORMED));
        }
        if name.len() > LONGEST_NAME {
            return Some(Err(HeadRefusal::TooLarge));
        }
        if has_control(&value) {
            return Some(Err(HeadRefusal::Malformed("invalid header value")));
        }
        Some(Ok(Field { name, value }))
    }
}

fn has_control(value: &[u8]) -> bool {
    // Without an early exit, the compiler makes code that checks many octets at
    // once.
    value.iter().fold(false, |found, octet| {
        found | ((*octet < b' ') & (*octet != b'\t')) | (*octet == 0x7f)
    })
}

/// Facts from the fields about the end of the request and about its host.
#[derive(Debug, Default)]
pub(super) struct Framing {
    pub(super) lines: usize,
    pub(super) folded: bool,
    hosts: usize,
    has_expectation: bool,
    length: Option<u64>,
    chunked: bool,
}

impl Framing {
    pub(super) fn read(rest: &[u8], version: &[u8]) -> Result<Self, HeadRefusal> {
        let is_http_11 = version == b"HTTP/1.1";
        let mut framing = Self::default();
        for field in Fields::new(rest) {
            framing.add(&field?)?;
        }
        if framing.hosts == 0 && is_http_11 {
            return Err(HeadRefusal::Malformed("missing required Host header"));
        }
        if framing.chunked && !is_http_11 {
            return Err(HeadRefusal::Malformed("Transfer-Encoding in HTTP/1.0"));
        }
        // RFC 9112, 6.1: both fields together are an attempt at request smuggling.
        if framing.chunked && framing.length.is_some() {
            return Err(HeadRefusal::Malformed(
                "both Content-Length and Transfer-Encoding",
            ));
        }
        Ok(framing)
    }

    /// Returns the length of the body, or `None` if only the body's chunks tell it.
    pub(super) fn body(&self) -> Option<u64> {
        match self.chunked {
            true => None,
            false => Some(self.length.unwrap_or_default()),
        }
    }

    fn add(&mut self, field: &Field<'_>) -> Result<(), HeadRefusal> {
        self.lines = self.lines.saturating_add(1);
        self.folded |= matches!(field.value, Cow::Owned(_));
        // The length of the name rules out most other fields.
        match field.name.len() {
            4 if field.is(&HOST) => self.host(&field.value),
            6 if field.is(&EXPECT) => self.expectation(&field.value),
            14 if field.is(&CONTENT_LENGTH) => self.length(&field.value),
            17 if field.is(&TRANSFER_ENCODING) => self.coding(&field.value),
            _ => Ok(()),
        }
    }

    /// Go's server can meet one expectation, and ignores an empty one. It reads the
    /// first field alone.
    fn expectation(&mut self, value: &[u8]) -> Result<(), HeadRefusal> {
        let known = |token: &[u8]| token.trim_ascii().eq_ignore_ascii_case(b"100-continue");
        let is_met = self.has_expectation
            || value.is_empty()
            || value.split(|octet| *octet == b',').any(known);
        self.has_expectation = true;
        match is_met {
            true => Ok(()),
            false => Err(HeadRefusal::Expectation),
        }
    }

    fn host(&mut self, value: &[u8]) -> Result<(), HeadRefusal> {
        self.hosts = self.hosts.saturating_add(1);
        if self.hosts > 1 {
            return Err(HeadRefusal::Malformed("too many Host headers"));
        }
        match value.iter().all(is_host_byte) {
            true => Ok(()),
            false => Err(HeadRefusal::Malformed("malformed Host header")),
        }
    }

    fn length(&mut self, value: &[u8]) -> Result<(), HeadRefusal> {
        let digits = value.iter().all(u8::is_ascii_digit);
        let length = std::str::from_utf8(value)
            .ok()
            .and_then(|text| text.parse::<i64>().ok())
            .and_then(|length| u64::try_from(length).ok())
            .filter(|_| digits);
        match (self.length, length) {
            (None, Some(_)) => self.length = length,
            (Some(before), Some(length)) if before == length => {}
            _ => return Err(HeadRefusal::Malformed("bad Content-Length")),
        }
        Ok(())
    }

    fn coding(&mut self, value: &[u8]) -> Result<(), HeadRefusal> {
        if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
            return Err(HeadRefusal::TransferCoding);
        }
        self.chunked = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framing(fields: &str) -> Result<Framing, HeadRefusal> {
        let head = format!("{}\r\n\r\n", fields.replace('\n', "\r\n"));
        Framing::read(head.as_bytes(), b"HTTP/1.1")
    }

    #[test]
    fn folded_values_are_one_line() {
        let head = b"A: 1\r\n  2 \r\n\t3\r\nb:  x \n\r\n";
        let read: Vec<_> = Fields::new(head)
            .map(|field| field.unwrap_or_else(|_| panic!()))
            .collect();
        let pairs: Vec<_> = read.iter().map(|f| (f.name, &*f.value)).collect();
        assert_eq!(pairs, [(&b"A"[..], &b"1 2 3"[..]), (b"b", b"x")]);
    }

    #[test]
    fn the_body_ends_where_the_fields_say() {
        for (fields, body) in [
            ("Host: x", Some(0)),
            ("Host: x\ncontent-length: 12", Some(12)),
            ("Host: x\nContent-Length: 12\nContent-Length: 12", Some(12)),
            ("Host: x\nTransfer-Encoding: Chunked", None),
        ] {
            assert_eq!(framing(fields).unwrap().body(), body, "{fields}");
        }
    }

    #[test]
    fn fields_that_two_parsers_may_read_differently_are_refused() {
        for fields in [
            "A: 1",
            "Host: x\nHost: y",
            "Host: a b",
            "Host: x\n : 1",
            "Host: x\nA : 1",
            "Host: x\nA",
            " folded: first",
            "Host: x\nA: a\0b",
            "Host: x\nA: a\rb",
            "Host: x\nContent-Length: -1",
            "Host: x\nContent-Length: +1",
            "Host: x\nContent-Length: 1, 1",
            "Host: x\nContent-Length: ",
            "Host: x\nContent-Length: 1\nContent-Length: 2",
            "Host: x\nContent-Length: 99999999999999999999",
            "Host: x\nContent-Length: 1\nTransfer-Encoding: chunked",
            "Host: x\nTransfer-Encoding: chunked\nTransfer-Encoding: chunked",
            "Host: x\nTransfer-Encoding: chunked, identity",
            "Host: x\nTransfer-Encoding: \x0bchunked",
            "Host: x\nExpect: something",
        ] {
            assert!(framing(fields).is_err(), "{fields:?}");
        }
        assert!(framing("Host: x\nExpect: ").is_ok());
        assert!(framing("Host: x\nExpect: 100-Continue").is_ok());
        let http_10 = |head: &str| Framing::read(head.as_bytes(), b"HTTP/1.0");
        assert!(http_10("\r\n").is_ok());
        assert!(http_10("Transfer-Encoding: chunked\r\n\r\n").is_err());
    }
}
