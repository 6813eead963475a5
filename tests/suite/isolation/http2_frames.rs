//! HTTP/2 connections that begin correctly and continue incorrectly.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;

const PATHS: [&str; 8] = [
    "/api/v1/namespaces/default/configmaps?resourceVersion=0",
    "/api/v1/configmaps?watch=1&resourceVersion=0&timeoutSeconds=1",
    "/api/v1/nodes",
    "/apis",
    "/api/v1/namespaces/default/configmaps?dryRun=All",
    "/readyz",
    "*",
    "",
];

/// Returns the bytes for one connection.
pub fn stream(rng: &mut StdRng, authorization: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    if rng.random_bool(0.97) {
        bytes.extend_from_slice(PREFACE);
        bytes.extend(frame(SETTINGS, 0, 0, &settings(rng)));
    }
    let mut streams = Streams { next: 1 };
    let count = *[1, 3, 10, 40, 200].choose(rng).expect("counts");
    for _ in 0..count {
        bytes.extend(streams.frames(rng, authorization));
    }
    if rng.random_bool(0.2) {
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(0..bytes.len());
            bytes[at] = rng.random();
        }
    }
    if rng.random_bool(0.2) {
        bytes.truncate(rng.random_range(0..bytes.len()));
    }
    bytes
}

struct Streams {
    next: u32,
}

impl Streams {
    fn open(&mut self) -> u32 {
        let id = self.next;
        self.next += 2;
        id
    }

    /// Returns the number of a stream that is open, was open, will be open or
    /// cannot exist.
    fn some(&self, rng: &mut StdRng) -> u32 {
        match rng.random_range(0..10) {
            0 => 0,
            1 => self.next + 2 * rng.random_range(0..100),
            2 => 2,
            3 => 0x7fff_ffff,
            _ => 1 + 2 * rng.random_range(0..self.next.max(2) / 2),
        }
    }

    fn frames(&mut self, rng: &mut StdRng, authorization: &str) -> Vec<u8> {
        match rng.random_range(0..22) {
            0..6 => {
                let id = self.open();
                let flags = *[END_HEADERS | END_STREAM, END_HEADERS]
                    .choose(rng)
                    .expect("flags");
                frame(HEADERS, flags, id, &request(rng, authorization))
            }
            // The header block comes in parts. The last one may be missing.
            6 | 7 => {
                let id = self.open();
                let block = request(rng, authorization);
                let middle = rng.random_range(0..=block.len());
                let mut bytes = frame(HEADERS, END_STREAM, id, &block[..middle]);
                for _ in 0..*[0, 1, 50].choose(rng).expect("counts") {
                    bytes.extend(frame(CONTINUATION, 0, id, &[]));
                }
                let end = if rng.random_bool(0.8) { END_HEADERS } else { 0 };
                bytes.extend(frame(CONTINUATION, end, id, &block[middle..]));
                bytes
            }
            8 => frame(HEADERS, rng.random(), self.some(rng), &junk(rng, 200)),
            9 => {
                let length = *[0, 1, 1_000, 16_384].choose(rng).expect("lengths");
                frame(
                    DATA,
                    rng.random_range(0..16),
                    self.some(rng),
                    &vec![b'x'; length],
                )
            }
            10 => frame(
                RST_STREAM,
                0,
                self.some(rng),
                &rng.random::<u32>().to_be_bytes(),
            ),
            // These streams are opened and reset at once.
            11 => {
                let mut bytes = Vec::new();
                for _ in 0..rng.random_range(1..30) {
                    let id = self.open();
                    let block = request(rng, authorization);
                    bytes.extend(frame(HEADERS, END_HEADERS | END_STREAM, id, &block));
                    bytes.extend(frame(RST_STREAM, 0, id, &8_u32.to_be_bytes()));
                }
                bytes
            }
            12 => frame(SETTINGS, rng.random_range(0..2), 0, &settings(rng)),
            13 => frame(SETTINGS, 0, self.some(rng), &junk(rng, 20)),
            14 => frame(PING, rng.random_range(0..2), 0, &[7; 8]),
            15 => frame(PING, 0, self.some(rng), &junk(rng, 12)),
            16 => {
                let steps = [0, 1, 0x7fff_ffff, 0xffff_ffff];
                let step: u32 = *steps.choose(rng).expect("steps");
                frame(WINDOW_UPDATE, 0, self.some(rng), &step.to_be_bytes())
            }
            17 => frame(PRIORITY, 0, self.some(rng), &junk(rng, 6)),
            18 => frame(PUSH_PROMISE, END_HEADERS, self.some(rng), &junk(rng, 40)),
            19 => frame(GOAWAY, 0, 0, &junk(rng, 20)),
            20 => frame(
                rng.random_range(10..=255),
                rng.random(),
                self.some(rng),
                &junk(rng, 50),
            ),
            // The frame announces more than its payload, or more than is allowed.
            _ => {
                let mut bytes = frame(rng.random_range(0..10), rng.random(), self.some(rng), &[]);
                bytes[..3].copy_from_slice(&[rng.random(), rng.random(), rng.random()]);
                bytes
            }
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame's length");
    let mut bytes = length.to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn settings(rng: &mut StdRng) -> Vec<u8> {
    let mut payload = Vec::new();
    for _ in 0..rng.random_range(0..6) {
        let id: u16 = rng.random_range(0..10);
        let values = [
            0,
            1,
            100,
            16_384,
            65_535,
            0x7fff_ffff,
            0x8000_0000,
            u32::MAX,
        ];
        let value: u32 = *values.choose(rng).expect("values");
        payload.extend(id.to_be_bytes());
        payload.extend(value.to_be_bytes());
    }
    payload
}

fn junk(rng: &mut StdRng, most: usize) -> Vec<u8> {
    (0..rng.random_range(0..=most))
        .map(|_| rng.random())
        .collect()
}

/// Returns the header block of a request in HPACK without tables, sometimes with an
/// error.
fn request(rng: &mut StdRng, authorization: &str) -> Vec<u8> {
    let path = *PATHS.choose(rng).expect("paths");
    let method = *["GET", "GET", "GET", "POST", "HEAD", "CONNECT", "OPTIONS"]
        .choose(rng)
        .expect("methods");
    let mut fields = vec![
        (":method".to_owned(), method.to_owned()),
        (":scheme".to_owned(), "https".to_owned()),
        (":path".to_owned(), path.to_owned()),
        (":authority".to_owned(), "localhost".to_owned()),
        ("authorization".to_owned(), authorization.to_owned()),
    ];
    let mut field = |name: &str, value: String| fields.push((name.to_owned(), value));
    match rng.random_range(0..16) {
        0 => field(":path", "/twice".to_owned()),
        1 => field("connection", "keep-alive".to_owned()),
        2 => field("content-length", "18446744073709551616".to_owned()),
        3 => field(
            "x-long",
            "x".repeat(*[1_000, 14_000].choose(rng).expect("lengths")),
        ),
        4 => field("X-Upper", "1".to_owned()),
        5 => field(":unknown", "1".to_owned()),
        6 => field("te", "gzip".to_owned()),
        7 => field("host", "other".to_owned()),
        8 => field("x-nul", "a\0b\r\nc: d".to_owned()),
        9 => (0..300).for_each(|n| field(&format!("x-{n}"), "y".to_owned())),
        10 => field(":protocol", "websocket".to_owned()),
        11 => field("", String::new()),
        12 => {
            let at = rng.random_range(0..fields.len());
            fields.remove(at);
        }
        _ => {}
    }
    let mut block: Vec<u8> = fields.iter().flat_map(|(n, v)| literal(n, v)).collect();
    match rng.random_range(0..12) {
        // The first three are an index outside all tables, a table of absurd
        // size, and a Huffman code of end symbols only.
        0 => block.extend([0xff, 0xff, 0xff, 0xff, 0x7f]),
        1 => block
            .splice(0..0, [0x3f, 0xff, 0xff, 0xff, 0x7f])
            .for_each(drop),
        2 => block.extend([0x00, 0x84, 0xff, 0xff, 0xff, 0xff, 0x01, b'x']),
        3 => block.extend([0x80]),
        4 => block.extend(junk(rng, 30)),
        _ => {}
    }
    block.truncate(16_000);
    block
}

/// Encodes a field without indexing and without Huffman codes (RFC 7541 section
/// 6.2.2).
fn literal(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name, value] {
        bytes.extend(integer(text.len()));
        bytes.extend(text.as_bytes());
    }
    bytes
}

/// Encodes a number with a prefix of seven bits (RFC 7541 section 5.1).
fn integer(n: usize) -> Vec<u8> {
    const MOST: usize = 127;
    if n < MOST {
        return vec![n as u8];
    }
    let (mut bytes, mut rest) = (vec![MOST as u8], n - MOST);
    while rest >= 128 {
        bytes.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    bytes.push(rest as u8);
    bytes
}
