//! An HTTP/1 client that can write any octets.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};

use super::exchange::{Answered, Body, BodyFraming, Request, Waits, Wire};
use super::fields::{self, Field};
use super::http1_message::{self, Content, Framing, Head};
use super::outcome::Outcome;

pub trait ReadWrite: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ReadWrite for T {}

pub struct Http1Client {
    stream: BufReader<Box<dyn ReadWrite>>,
    /// Whether another request may follow.
    pub is_open: bool,
}

impl Http1Client {
    pub fn new(stream: Box<dyn ReadWrite>) -> Self {
        Self {
            stream: BufReader::new(stream),
            is_open: true,
        }
    }

    pub async fn exchange(&mut self, request: &Request) -> Outcome {
        let body = body_octets(&request.body);
        let mut informational = Vec::new();
        let mut answer = Ok(None);
        // A server may answer and close before it has read everything. Writing then
        // fails, but the answer is still read.
        let _ = self.write(&head_octets(request)).await;
        let (before, after) = match request.body.waits {
            Waits::Nothing => (body.as_slice(), &[][..]),
            Waits::Answer => body.split_at(body.len() / 2),
            Waits::Continue => {
                answer = self.answer_head(&mut informational, true).await;
                match &answer {
                    Ok(Some(head)) if status(head) == 100 => {
                        answer = Ok(None);
                        (body.as_slice(), &[][..])
                    }
                    // The body is not sent, so nothing can follow.
                    _ => {
                        self.is_open = false;
                        (&[][..], &[][..])
                    }
                }
            }
        };
        if let Some(cut) = request.body.cut {
            let sent = before.get(..cut).unwrap_or(before);
            let _ = self.write(sent).await;
            let _ = self.stream.shutdown().await;
            self.is_open = false;
            return Outcome::GivenUp;
        }
        let _ = self.write(before).await;
        if matches!(answer, Ok(None)) {
            answer = self.answer_head(&mut informational, false).await;
        }
        let _ = self.write(after).await;
        match answer {
            Ok(Some(head)) => self.finish(request, informational, head).await,
            _ => {
                self.is_open = false;
                Outcome::Closed
            }
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !bytes.is_empty() {
            self.stream.write_all(bytes).await?;
        }
        self.stream.flush().await
    }

    /// Reads heads up to the final one, or up to a 100 if `is_awaited`.
    async fn answer_head(
        &mut self,
        informational: &mut Vec<(u16, fields::Fields)>,
        is_awaited: bool,
    ) -> io::Result<Option<Head>> {
        loop {
            let Some(head) = http1_message::head(&mut self.stream).await? else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            match status(&head) {
                100 if is_awaited => return Ok(Some(head)),
                100 => informational.push((100, head.fields)),
                101 | 200.. | 0 => return Ok(Some(head)),
                status => informational.push((status, head.fields)),
            }
        }
    }

    async fn finish(
        &mut self,
        request: &Request,
        informational: Vec<(u16, fields::Fields)>,
        head: Head,
    ) -> Outcome {
        let status = status(&head);
        let is_bodiless = request.method == b"HEAD" && status != 101;
        let bodiless = is_bodiless || matches!(status, 204 | 304);
        let framing = match bodiless {
            true => Framing::Length(0),
            false => http1_message::framing(&head.fields, Framing::UntilClose),
        };
        let content: Content = http1_message::content(&mut self.stream, framing).await;
        let closes = |fields: &[Field]| {
            let named = fields::tokens(fields, "connection");
            named.contains(&"close".to_owned())
        };
        self.is_open &= request.wire == Wire::Http11
            && framing != Framing::UntilClose
            && content.is_whole
            && !closes(&head.fields)
            && !closes(&request.fields);
        Outcome::Answer(Answered {
            informational,
            status,
            fields: head.fields,
            content,
        })
    }
}

/// Returns the status of an answer, or 0 if its line has none.
fn status(head: &Head) -> u16 {
    let text = String::from_utf8_lossy(&head.start);
    let code = text.split(' ').nth(1).and_then(|code| code.parse().ok());
    code.unwrap_or(0)
}

pub fn head_octets(request: &Request) -> Vec<u8> {
    let version: &[u8] = match request.wire {
        Wire::Http10 => b"HTTP/1.0",
        _ => b"HTTP/1.1",
    };
    let mut bytes = [&request.method, &b" "[..], &request.target, b" ", version].concat();
    bytes.extend(b"\r\n");
    extend_with_fields(&mut bytes, &request.fields);
    let length = request.body.octets().len();
    match request.body.framing {
        BodyFraming::Absent => {}
        BodyFraming::Length => bytes.extend(format!("Content-Length: {length}\r\n").as_bytes()),
        BodyFraming::Open | BodyFraming::Extended => {
            bytes.extend(b"Transfer-Encoding: chunked\r\n");
        }
    }
    bytes.extend(b"\r\n");
    bytes
}

fn extend_with_fields(bytes: &mut Vec<u8>, fields: &[Field]) {
    for field in fields {
        bytes.extend(&field.name);
        bytes.push(b':');
        bytes.extend(&field.raw);
        bytes.extend(b"\r\n");
    }
}

fn body_octets(body: &Body) -> Vec<u8> {
    let extension = match body.framing {
        BodyFraming::Absent => return Vec::new(),
        BodyFraming::Length => return body.octets(),
        BodyFraming::Open => "",
        BodyFraming::Extended => ";name=value;flag",
    };
    let mut bytes = Vec::new();
    for piece in body.pieces.iter().filter(|piece| !piece.is_empty()) {
        bytes.extend(format!("{:x}{extension}\r\n", piece.len()).as_bytes());
        bytes.extend(piece);
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"0\r\n");
    extend_with_fields(&mut bytes, &body.trailers);
    bytes.extend(b"\r\n");
    bytes
}
