//! The recorder's side of an HTTP/2 connection.

use std::collections::{HashMap, VecDeque};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::exchange::{AnswerFraming, Arrived, Ending, Planned};
use super::fields::{self, Field, Fields};
use super::hpack::{self, Decoder};
use super::http1_message::Content;
use super::http2_frames::{
    self, ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, FIRST_WINDOW, Frame, HEADERS,
    INTERNAL_ERROR, LARGEST, PING, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame,
};
use super::recorder::Shared;

struct Connection<'a> {
    shared: &'a Shared,
    decoder: Decoder,
    /// Requests that have not ended yet.
    open: HashMap<u32, Open>,
    /// The incomplete header block: its stream, whether it ends the stream, and its
    /// octets.
    block: Option<(u32, bool, Vec<u8>)>,
    /// Frames of answers that wait for the connection's window.
    waiting: VecDeque<Vec<u8>>,
    window: i64,
}

struct Open {
    request: Arrived,
    is_answered: bool,
}

/// Serves requests until the connection ends.
pub async fn serve<S>(mut stream: S, shared: &Shared)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut preface = vec![0; PREFACE.len()];
    let begun = tokio::io::AsyncReadExt::read_exact(&mut stream, &mut preface).await;
    if begun.is_err() || preface != PREFACE {
        return;
    }
    let mut connection = Connection {
        shared,
        decoder: Decoder::default(),
        open: HashMap::new(),
        block: None,
        waiting: VecDeque::from([http2_frames::settings()]),
        window: FIRST_WINDOW,
    };
    loop {
        let bytes = connection.writable();
        if stream.write_all(&bytes).await.is_err() || stream.flush().await.is_err() {
            break;
        }
        match http2_frames::read(&mut stream).await {
            Some(frame) => connection.frame(&frame),
            None => break,
        }
    }
    for (_, open) in connection.open.drain() {
        let number = super::ledger::number(&open.request.fields);
        shared.record(number, open.request);
    }
}

impl Connection<'_> {
    fn frame(&mut self, frame: &Frame) {
        match frame.kind {
            SETTINGS if !frame.has(ACK) => {
                self.waiting
                    .push_back(http2_frames::frame(SETTINGS, ACK, 0, &[]));
            }
            PING if !frame.has(ACK) => {
                let pong = http2_frames::frame(PING, ACK, 0, &frame.payload);
                self.waiting.push_back(pong);
            }
            WINDOW_UPDATE if frame.stream == 0 => self.window += i64::from(frame.number()),
            HEADERS => {
                let block = frame.content().to_vec();
                self.block = Some((frame.stream, frame.has(END_STREAM), block));
                self.block_ends(frame);
            }
            CONTINUATION => {
                if let Some((_, _, block)) = &mut self.block {
                    block.extend(&frame.payload);
                }
                self.block_ends(frame);
            }
            DATA => {
                if let Some(open) = self.open.get_mut(&frame.stream) {
                    open.request.content.body.extend(frame.content());
                }
                if frame.has(END_STREAM) {
                    self.ends(frame.stream);
                }
            }
            RST_STREAM => {
                if let Some(open) = self.open.remove(&frame.stream) {
                    let number = super::ledger::number(&open.request.fields);
                    self.shared.record(number, open.request);
                }
            }
            _ => {}
        }
    }

    fn block_ends(&mut self, frame: &Frame) {
        if !frame.has(END_HEADERS) {
            return;
        }
        let Some((stream, is_end, block)) = self.block.take() else {
            return;
        };
        let fields = self.decoder.decode(&block).unwrap_or_default();
        match self.open.get_mut(&stream) {
            Some(open) => open.request.content.trailers = fields,
            None => {
                let request = request(self.shared.name, fields);
                let answer = self.shared.answer_to(&request);
                let is_early = answer.number.is_some() && answer.planned.is_early;
                if is_early {
                    self.answer(stream, &request, &answer.planned);
                }
                let is_answered = is_early;
                self.open.insert(
                    stream,
                    Open {
                        request,
                        is_answered,
                    },
                );
            }
        }
        if is_end {
            self.ends(stream);
        }
    }

    /// Records and answers a request that has ended.
    fn ends(&mut self, stream: u32) {
        let Some(mut open) = self.open.remove(&stream) else {
            return;
        };
        open.request.content.is_whole = true;
        let answer = self.shared.answer_to(&open.request);
        self.shared.record(answer.number, open.request.clone());
        if !open.is_answered {
            self.answer(stream, &open.request, &answer.planned);
        }
    }

    fn answer(&mut self, stream: u32, request: &Arrived, planned: &Planned) {
        let reset = frame(RST_STREAM, 0, stream, &INTERNAL_ERROR.to_be_bytes());
        if planned.ending == Ending::NoAnswer {
            self.waiting.push_back(reset);
            return;
        }
        for (status, fields) in &planned.informational {
            let block = head(*status, fields);
            self.waiting
                .push_back(http2_frames::headers(stream, &block, false));
        }
        let has_body = planned.has_body(&request.method);
        let mut fields = planned.fields.clone();
        if planned.framing == AnswerFraming::Length && planned.status != 204 {
            let length = planned.body.len().to_string();
            fields.push(Field::new("content-length", length));
        }
        let block = head(planned.status, &fields);
        let bodiless = !has_body || (planned.body.is_empty() && planned.trailers.is_empty());
        let is_end = bodiless && planned.ending == Ending::Whole;
        self.waiting
            .push_back(http2_frames::headers(stream, &block, is_end));
        if !has_body || is_end {
            return;
        }
        let whole = planned.ending == Ending::Whole;
        let sent = match whole {
            true => planned.body.as_slice(),
            false => &planned.body[..planned.body.len() / 2],
        };
        let mut pieces = sent.chunks(LARGEST).peekable();
        while let Some(piece) = pieces.next() {
            let is_last = pieces.peek().is_none() && whole && planned.trailers.is_empty();
            let flags = if is_last { END_STREAM } else { 0 };
            self.waiting.push_back(frame(DATA, flags, stream, piece));
        }
        if !whole {
            self.waiting.push_back(reset);
        } else if !planned.trailers.is_empty() {
            let block = hpack::encode(&lower(&planned.trailers));
            self.waiting
                .push_back(http2_frames::headers(stream, &block, true));
        }
    }

    /// Returns the frames that fit into the connection's window. No answer is larger
    /// than a stream's window.
    fn writable(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Some(next) = self.waiting.front() {
            // The length precedes the kind.
            let payload = match next.get(3) {
                Some(&DATA) => next.len() as i64 - 9,
                _ => 0,
            };
            if payload > self.window {
                break;
            }
            self.window -= payload;
            bytes.extend(self.waiting.pop_front().unwrap_or_default());
        }
        bytes
    }
}

fn head(status: u16, fields: &Fields) -> Vec<u8> {
    let mut all = vec![Field::new(":status", status.to_string())];
    all.extend(lower(fields));
    hpack::encode(&all)
}

/// Returns fields in HTTP/2's form: names in lower case, and values without
/// surrounding spaces.
pub fn lower(fields: &Fields) -> Fields {
    let lower = fields
        .iter()
        .map(|field| Field::new(field.name.to_ascii_lowercase(), field.value()));
    lower.collect()
}

fn request(at: &'static str, all: Fields) -> Arrived {
    let pseudo = |name: &str| fields::first(&all, name);
    Arrived {
        at,
        method: pseudo(":method").unwrap_or_default(),
        target: pseudo(":path").unwrap_or_default(),
        fields: all
            .iter()
            .filter(|field| !field.name.starts_with(b":"))
            .cloned()
            .collect(),
        content: Content::default(),
    }
}
