//! A request as a client sends it, and the answer that the recorder gives.

use super::fields::{Field, Fields};

/// The field that carries a request's number, by which the recorder finds the
/// answer.
pub const NUMBER: &str = "x-recording";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    Http10,
    Http11,
    Http2,
}

/// A request in the octets of its parts.
#[derive(Clone, Debug)]
pub struct Request {
    pub number: u64,
    pub wire: Wire,
    pub method: Vec<u8>,
    pub target: Vec<u8>,
    /// The authority of HTTP/2. In HTTP/1, `Host` is among the fields.
    pub authority: Option<Vec<u8>>,
    /// All fields, without those that tell the body's length.
    pub fields: Fields,
    pub body: Body,
}

/// The body of a request, and how it is sent.
#[derive(Clone, Debug, Default)]
pub struct Body {
    /// The pieces are chunks in HTTP/1 and DATA frames in HTTP/2.
    pub pieces: Vec<Vec<u8>>,
    pub framing: BodyFraming,
    pub trailers: Fields,
    /// The number of octets after which the client gives up, if it does.
    pub cut: Option<usize>,
    /// The event that the client waits for before it sends the body.
    pub waits: Waits,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyFraming {
    /// There is no body, and nothing that tells a length.
    #[default]
    Absent,
    Length,
    /// `chunked` in HTTP/1, and no Content-Length in HTTP/2.
    Open,
    /// The same with extensions of chunks.
    Extended,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waits {
    #[default]
    Nothing,
    /// A 100, or an answer.
    Continue,
    /// The beginning of the answer, after half of the body.
    Answer,
}

impl Body {
    pub fn octets(&self) -> Vec<u8> {
        self.pieces.concat()
    }
}

impl Request {
    /// Tells whether the request asks for an upgrade, as kube-apiserver reads it: the
    /// word is somewhere in Connection. HTTP/2 has no upgrades.
    pub fn is_upgrade(&self) -> bool {
        let lines = super::fields::values(&self.fields, "connection");
        self.wire != Wire::Http2
            && lines.iter().any(|line| has_word(line))
            && self.fields.iter().any(|field| field.is("upgrade"))
    }

    /// Returns the request line and the fields for people.
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

/// Tells whether a line of Connection has the word of an upgrade in it.
pub fn has_word(line: &[u8]) -> bool {
    line.to_ascii_lowercase()
        .windows(7)
        .any(|word| word == b"upgrade")
}

/// The answer that the recorder gives to one request.
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
    /// Tells whether an answer to this method has a body at all.
    pub fn has_body(&self, method: &[u8]) -> bool {
        method != b"HEAD" && !matches!(self.status, 101 | 204 | 304)
    }
}

/// A request as it arrived at a recorder.
#[derive(Clone, Debug)]
pub struct Arrived {
    /// The recorder's name.
    pub at: &'static str,
    pub method: Vec<u8>,
    pub target: Vec<u8>,
    pub fields: Fields,
    pub content: super::http1_message::Content,
}

/// The answer as a client read it.
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

/// Makes fields of names and values.
pub fn fields_of(pairs: &[(&str, &str)]) -> Fields {
    let fields = pairs.iter().map(|(n, v)| Field::new(n, v));
    fields.collect()
}
