//! HTTP/1 messages (RFC 9112), read octet by octet.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

use super::fields::{self, Field, Fields};

/// The most octets of a head or a body.
const MOST: usize = 8 << 20;

pub struct Head {
    pub start: Vec<u8>,
    pub fields: Fields,
}

/// How the end of a body is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Length(usize),
    Chunked,
    UntilClose,
}

/// The received part of a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    pub body: Vec<u8>,
    pub trailers: Fields,
    /// Whether the end of the body was reached.
    pub is_whole: bool,
}

/// Reads a head. Returns `None` if the connection ends before one.
pub async fn head(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Head>> {
    let mut start = line(stream).await?;
    // Servers skip empty lines before a request.
    while start.as_deref() == Some(&[]) {
        start = line(stream).await?;
    }
    let Some(start) = start else {
        return Ok(None);
    };
    let fields = field_lines(stream).await?;
    Ok(Some(Head { start, fields }))
}

async fn field_lines(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Fields> {
    let mut fields = Vec::new();
    loop {
        let Some(line) = line(stream).await? else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        if line.is_empty() {
            return Ok(fields);
        }
        // A line without a colon becomes a name, which fails the test later.
        let colon = line.iter().position(|b| *b == b':').unwrap_or(line.len());
        let (name, raw) = line.split_at(colon);
        fields.push(Field::new(name, raw.get(1..).unwrap_or_default()));
    }
}

/// Reads a line, and returns it without its end.
async fn line(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let mut bounded = stream.take(MOST as u64);
    if bounded.read_until(b'\n', &mut line).await? == 0 {
        return Ok(None);
    }
    if line.pop() != Some(b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(Some(line))
}

/// Returns the framing by the fields, or `otherwise` if they name none.
pub fn framing(fields: &[Field], otherwise: Framing) -> Framing {
    if fields::tokens(fields, "transfer-encoding").contains(&"chunked".to_owned()) {
        return Framing::Chunked;
    }
    let length = fields::first(fields, "content-length");
    let length = length.and_then(|text| String::from_utf8(text).ok()?.parse().ok());
    length.map_or(otherwise, Framing::Length)
}

pub async fn content(stream: &mut (impl AsyncBufRead + Unpin), framing: Framing) -> Content {
    let mut content = Content::default();
    let read = match framing {
        Framing::Length(length) => exactly(stream, length.min(MOST), &mut content.body).await,
        Framing::Chunked => chunks(stream, &mut content).await,
        Framing::UntilClose => {
            let mut bounded = stream.take(MOST as u64);
            bounded.read_to_end(&mut content.body).await.map(drop)
        }
    };
    content.is_whole = read.is_ok();
    content
}

/// Reads this many octets, or as many as come before the stream ends.
async fn exactly(
    stream: &mut (impl AsyncBufRead + Unpin),
    length: usize,
    body: &mut Vec<u8>,
) -> io::Result<()> {
    let wanted = body.len() + length;
    stream.take(length as u64).read_to_end(body).await?;
    match body.len() == wanted {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

async fn chunks(stream: &mut (impl AsyncBufRead + Unpin), content: &mut Content) -> io::Result<()> {
    loop {
        let size = line(stream).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let digits = size.split(|b| *b == b';').next().unwrap_or_default();
        let digits = String::from_utf8_lossy(digits).trim().to_owned();
        let size = usize::from_str_radix(&digits, 16).map_err(|_| io::ErrorKind::InvalidData)?;
        if size == 0 {
            content.trailers = field_lines(stream).await?;
            return Ok(());
        }
        exactly(stream, size.min(MOST), &mut content.body).await?;
        line(stream).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
    }
}
