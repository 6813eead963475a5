//! An HTTP/2 client that can send any octets in fields. It sends one request after
//! the other.

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::exchange::{Answered, BodyFraming, Request, Waits};
use super::fields::{self, Field, Fields};
use super::hpack::{self, Decoder};
use super::http1_client::ReadWrite;
use super::http2_frames::{
    self, ACK, CANCEL, CONTINUATION, DATA, END_HEADERS, END_STREAM, FIRST_WINDOW, Frame, GOAWAY,
    HEADERS, LARGEST, PING, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame,
};
use super::outcome::Outcome;

pub struct Http2Client {
    stream: Box<dyn ReadWrite>,
    decoder: Decoder,
    next: u32,
    window: i64,
    /// The initial window of each stream.
    initial: i64,
    scheme: &'static str,
    pub is_open: bool,
}

struct Exchange {
    stream: u32,
    /// DATA frames to send. The last one may end the stream.
    waiting: Vec<Vec<u8>>,
    /// The frames of the trailers, which follow the DATA.
    trailers: Vec<u8>,
    window: i64,
    block: Vec<u8>,
    /// Whether the header block ends the stream.
    block_is_end: bool,
    informational: Vec<(u16, Fields)>,
    answered: Option<Answered>,
    reset: Option<u32>,
    is_over: bool,
}

impl Http2Client {
    pub async fn new(mut stream: Box<dyn ReadWrite>, scheme: &'static str) -> Self {
        let beginning = [PREFACE, &http2_frames::settings()].concat();
        let is_open = write(&mut stream, &beginning).await;
        Self {
            stream,
            decoder: Decoder::default(),
            next: 1,
            window: FIRST_WINDOW,
            initial: FIRST_WINDOW,
            scheme,
            is_open,
        }
    }

    pub async fn exchange(&mut self, request: &Request) -> Outcome {
        let stream = self.next;
        self.next += 2;
        let block = hpack::encode(&all_fields(request, self.scheme));
        let body = &request.body;
        let is_end = body.framing == BodyFraming::Absent;
        let head = http2_frames::headers(stream, &block, is_end);
        self.is_open &= write(&mut self.stream, &head).await;
        let mut exchange = Exchange::new(stream, request, self.initial);
        if let Some(cut) = body.cut {
            exchange.cut_after(cut);
        }
        let half = exchange.waiting.len() / 2;
        while self.is_open && !exchange.is_over {
            let has_begun = exchange.answered.is_some();
            let held = match body.waits {
                Waits::Answer if !has_begun => half,
                _ => 0,
            };
            self.send(&mut exchange, held).await;
            if body.cut.is_some() && exchange.waiting.is_empty() {
                let reset = frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes());
                self.is_open &= write(&mut self.stream, &reset).await;
                return Outcome::GivenUp;
            }
            match http2_frames::read(&mut self.stream).await {
                Some(frame) => self.frame(&frame, &mut exchange).await,
                None => self.is_open = false,
            }
        }
        if self.is_open && !exchange.waiting.is_empty() {
            let reset = frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes());
            self.is_open = write(&mut self.stream, &reset).await;
        }
        match (exchange.answered, exchange.reset) {
            (Some(answered), _) => Outcome::Answer(answered),
            (None, Some(code)) => Outcome::Reset(code),
            (None, None) => Outcome::Closed,
        }
    }

    /// Sends DATA as far as the windows allow, and holds back the last `held`
    /// frames.
    async fn send(&mut self, exchange: &mut Exchange, held: usize) {
        while exchange.waiting.len() > held {
            let length = exchange.waiting[0].len() as i64 - 9;
            if length > self.window.min(exchange.window) {
                return;
            }
            self.window -= length;
            exchange.window -= length;
            let next = exchange.waiting.remove(0);
            self.is_open &= write(&mut self.stream, &next).await;
        }
        if exchange.waiting.is_empty() && !exchange.trailers.is_empty() {
            let trailers = std::mem::take(&mut exchange.trailers);
            self.is_open &= write(&mut self.stream, &trailers).await;
        }
    }

    async fn frame(&mut self, frame: &Frame, exchange: &mut Exchange) {
        let is_own = frame.stream == exchange.stream;
        match frame.kind {
            SETTINGS if !frame.has(ACK) => {
                if let Some(initial) = http2_frames::initial_window(frame) {
                    exchange.window += initial - self.initial;
                    self.initial = initial;
                }
                let ack = http2_frames::frame(SETTINGS, ACK, 0, &[]);
                self.is_open &= write(&mut self.stream, &ack).await;
            }
            PING if !frame.has(ACK) => {
                let pong = http2_frames::frame(PING, ACK, 0, &frame.payload);
                self.is_open &= write(&mut self.stream, &pong).await;
            }
            WINDOW_UPDATE if frame.stream == 0 => self.window += i64::from(frame.number()),
            WINDOW_UPDATE if is_own => exchange.window += i64::from(frame.number()),
            GOAWAY => self.is_open = false,
            HEADERS | CONTINUATION => {
                let part = match frame.kind {
                    HEADERS => frame.content(),
                    _ => &frame.payload,
                };
                exchange.block.extend(part);
                if frame.kind == HEADERS {
                    exchange.block_is_end = frame.has(END_STREAM);
                }
                if frame.has(END_HEADERS) {
                    // Blocks of earlier streams also change the table.
                    let block = std::mem::take(&mut exchange.block);
                    let fields = self.decoder.decode(&block).unwrap_or_default();
                    if is_own {
                        exchange.fields(fields);
                        exchange.is_over |= exchange.block_is_end;
                    }
                }
            }
            DATA => {
                let length = frame.payload.len() as u32;
                if length > 0 {
                    let more = http2_frames::frame(WINDOW_UPDATE, 0, 0, &length.to_be_bytes());
                    self.is_open &= write(&mut self.stream, &more).await;
                }
                if let Some(answered) = exchange.answered.as_mut().filter(|_| is_own) {
                    answered.content.body.extend(frame.content());
                    exchange.is_over |= frame.has(END_STREAM);
                }
            }
            RST_STREAM if is_own => {
                exchange.reset = Some(frame.number());
                exchange.is_over = true;
                return;
            }
            _ => {}
        }
        if exchange.is_over
            && let Some(answered) = &mut exchange.answered
        {
            answered.content.is_whole = true;
        }
    }
}

impl Exchange {
    fn new(stream: u32, request: &Request, window: i64) -> Self {
        let body = &request.body;
        let mut waiting = Vec::new();
        let mut trailers = Vec::new();
        if body.framing != BodyFraming::Absent {
            for piece in &body.pieces {
                let parts = piece.chunks(LARGEST);
                waiting.extend(parts.map(|part| frame(DATA, 0, stream, part)));
            }
            if body.trailers.is_empty() {
                waiting.push(frame(DATA, END_STREAM, stream, &[]));
            } else {
                let block = hpack::encode(&super::http2_server::lower(&body.trailers));
                trailers = http2_frames::headers(stream, &block, true);
            }
        }
        Self {
            stream,
            waiting,
            trailers,
            window,
            block: Vec::new(),
            block_is_end: false,
            informational: Vec::new(),
            answered: None,
            reset: None,
            is_over: false,
        }
    }

    /// Keeps only the first `octets` of the body, and no end.
    fn cut_after(&mut self, octets: usize) {
        let mut body = Vec::new();
        for frame in &self.waiting {
            body.extend(frame.get(9..).unwrap_or_default());
        }
        body.truncate(octets);
        let parts = body.chunks(LARGEST);
        self.waiting = parts
            .map(|part| frame(DATA, 0, self.stream, part))
            .collect();
        self.trailers.clear();
    }

    /// Takes a header block: of an informational answer, of the answer, or its
    /// trailers.
    fn fields(&mut self, all: Fields) {
        let status = fields::first(&all, ":status");
        let status = status.and_then(|text| String::from_utf8(text).ok()?.parse().ok());
        let rest = all
            .into_iter()
            .filter(|field| !field.name.starts_with(b":"));
        let rest: Fields = rest.collect();
        match (status, &mut self.answered) {
            (None, Some(answered)) => answered.content.trailers = rest,
            (Some(status @ 100..200), None) => self.informational.push((status, rest)),
            (status, _) => {
                self.answered = Some(Answered {
                    informational: std::mem::take(&mut self.informational),
                    status: status.unwrap_or(0),
                    fields: rest,
                    ..Answered::default()
                });
            }
        }
    }
}

async fn write(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), bytes: &[u8]) -> bool {
    stream.write_all(bytes).await.is_ok() && stream.flush().await.is_ok()
}

/// Returns a request's pseudo-fields and fields.
fn all_fields(request: &Request, scheme: &str) -> Fields {
    let mut all = vec![
        Field::new(":method", &request.method),
        Field::new(":scheme", scheme),
        Field::new(":path", &request.target),
    ];
    if let Some(authority) = &request.authority {
        all.push(Field::new(":authority", authority));
    }
    all.extend(request.fields.iter().cloned());
    let body = &request.body;
    if body.framing == BodyFraming::Length {
        all.push(Field::new(
            "content-length",
            body.octets().len().to_string(),
        ));
    }
    all
}
