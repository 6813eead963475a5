//! A request as a client sends it, and the answer that the recorder gives.

use super::fields::{Field, Fields};

/// The header field with a request's number, by which the recorder finds the answer.
pub const NUMBER: &str = "x-recording";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    Http10,
    Http11,
    Http2,
}

/// A request as the octets of its parts.
#[derive(Clone, Debug)]
pub struct Request {
    pub number: u64,
    pub wire: Wire,
    pub method: Vec<u8>,
    pub target: Vec<u8>,
    /// The authority of HTTP/2. In HTTP/1, `Host` is among the fields.
    pub authority: Option<Vec<u8>>,
    /// All header fields except those for the body's length.
    pub fields: Fields,
    pub body: Body,
}

#[derive(Clone, Debug, Default)]
pub struct Body {
    /// The pieces are chunks in HTTP/1 and DATA frames in HTTP/2.
    pub pieces: Vec<Vec<u8>>,
    pub framing: BodyFraming,
    pub trailers: Fields,
    /// The number of octets after which the client gives up, if it does.
    pub cut: Option<usize>,
    /// The client waits for this before it sends the body.
    pub waits: Waits,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyFraming {
    /// There is no body and no indication of a length.
    #[default]
    Absent,
    Length,
    /// `chunked` in HTTP/1, and no Content-Length in HTTP/2.
    Open,
    /// Like `Open`, with chunk extensions.
    Extended,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waits {
    #[default]
    Nothing,
    /// The client waits for a 100 or a final answer.
    Continue,
    /// The client waits, after half of the body, for the beginning of the answer.
    Answer,
}

impl Body {
    pub fn octets(&self) -> Vec<u8> {
        self.pieces.concat()
    }
}

impl Request {
    /// Tells whether the request asks for an upgrade, by kube-apiserver's reading:
    /// the word appears anywhere in Connection. HTTP/2 has no upgrades.
    pub fn is_upgrade(&self) -> bool {
        let lines = super::fields::values(&self.fields, "connection");
        self.wire != Wire::Http2
            && lines.iter().any(|line| has_word(line))
            && self.fields.iter().any(|field| field.is("upgrade"))
    }

    /// Returns the request line and the fields as text for people.
    pub fn shown(&self) -> String {
        let mut text = format!(
            "{:?} {} {}",
            self.wire,
            super::fields::shown(&self.method),
            super::fields::shown(&self.target)
        );
        if let Some(authority) = &self.authority {
            text += &format!("\n  :authority: {}", super::fields::shown(authority));
        }
        for field in &self.fields {
            text += &format!(
                "\n  {}:{}",
                super::fields::shown(&field.name),
                super::fields::shown(&field.raw)
            );
        }
        let body = &self.body;
        let lengths: Vec<usize> = body.pieces.iter().map(Vec::len).collect();
        text += &format!(
            "\n  body: {:?}, pieces of {lengths:?}, cut {:?}, waits for {:?}, trailers {}",
            body.framing,
            body.cut,
            body.waits,
            body.trailers.len()
        );
        text
    }
}

/// Tells whether a Connection line contains the word of an upgrade.
pub fn has_word(line: &[u8]) -> bool {
    line.to_ascii_lowercase()
        .windows(7)
        .any(|word| word == b"upgrade")
}

#[derive(Clone, Debug)]
pub struct Planned {
    /// Informational answers before the final one.
    pub informational: Vec<(u16, Fields)>,
    pub ending: Ending,
    pub status: u16,
    pub fields: Fields,
    pub body: Vec<u8>,
    pub framing: AnswerFraming,
    pub trailers: Fields,
    /// Whether the answer begins before the body of the request is read.
    pub is_early: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Whole,
    /// The recorder reads the request and gives no answer.
    NoAnswer,
    /// The recorder ends the answer after half of its body.
    Half,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerFraming {
    Length,
    Chunked,
    UntilClose,
}

impl Planned {
    /// Tells whether an answer to this method can have a body.
    pub fn has_body(&self, method: &[u8]) -> bool {
        method != b"HEAD" && !matches!(self.status, 101 | 204 | 304)
    }
}

#[derive(Clone, Debug)]
pub struct Arrived {
    /// The recorder's name.
    pub at: &'static str,
    pub method: Vec<u8>,
    pub target: Vec<u8>,
    pub fields: Fields,
    pub content: super::http1_message::Content,
}

#[derive(Clone, Debug, Default)]
pub struct Answered {
    pub informational: Vec<(u16, Fields)>,
    pub status: u16,
    pub fields: Fields,
    pub content: super::http1_message::Content,
}

impl Answered {
    pub fn header(&self, name: &str) -> String {
        let value = super::fields::first(&self.fields, name).unwrap_or_default();
        String::from_utf8_lossy(&value).into_owned()
    }
}

pub fn fields_of(pairs: &[(&str, &str)]) -> Fields {
    let fields = pairs.iter().map(|(n, v)| Field::new(n, v));
    fields.collect()
}
