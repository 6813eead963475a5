use std::time::Instant;

use http::HeaderValue;

use super::*;
use crate::server::listener::large_heads::LargeHeads;

const LIMIT: usize = 100 << 10;
const PLAIN: [(&str, &[u8]); 4] = [
    (":method", b"GET"),
    (":scheme", b"https"),
    (":authority", b"example"),
    (":path", b"/api"),
];

struct Client {
    heads: Http2Heads,
    state: Arc<Http2State>,
    decoder: Decoder,
}

type Fields = Vec<(String, Vec<u8>)>;

fn client() -> Client {
    let state = Http2State::new(Instant::now());
    let limits = HeadLimits {
        max_bytes: LIMIT,
        large: LargeHeads::default(),
    };
    let mut heads = Http2Heads::new(state.clone(), limits, IpAddr::from([192, 0, 2, 1]));
    assert_eq!(heads.received(PREFACE), PREFACE.len());
    Client {
        heads,
        state,
        decoder: Decoder::default(),
    }
}

impl Client {
    /// Sends bytes in pieces. Returns what h2 gets.
    fn send(&mut self, bytes: &[u8], piece: usize) -> Vec<u8> {
        let mut got = Vec::new();
        for piece in bytes.chunks(piece) {
            let as_they_came = self.heads.received(piece);
            got.extend_from_slice(&piece[..as_they_came]);
            let mut room = [0; 7];
            let mut room = ReadBuf::new(&mut room);
            while self.heads.give(&mut room) {
                got.extend_from_slice(room.filled());
                room.clear();
            }
        }
        got
    }

    /// Returns the fields of blocks as h2 reads them.
    fn read(&mut self, mut frames: &[u8]) -> Vec<(u32, Fields)> {
        let mut blocks = Vec::new();
        while !frames.is_empty() {
            let mut arrival = Arrival::default();
            assert!(matches!(arrival.follow(frames), Arrived::Whole));
            let (whole, rest) = frames.split_at(arrival.whole);
            let mut fragment = Vec::new();
            frames::block(whole, &mut fragment).unwrap();
            let mut fields = Vec::new();
            let field = |found: table::Found| {
                let field = found.field();
                let name = String::from_utf8(field.name.to_vec()).unwrap();
                fields.push((name, field.value.to_vec()));
            };
            self.decoder.decode(&fragment, field).unwrap();
            blocks.push((Frame::read(frames).unwrap().stream, fields));
            frames = rest;
        }
        blocks
    }

    /// Sends a block on a stream. Returns the fields that h2 gets.
    fn fields(&mut self, stream: u32, block: &[u8]) -> Fields {
        let sent = headers(stream, block);
        let got = self.send(&sent, sent.len());
        let mut blocks = self.read(&got);
        assert_eq!(blocks.len(), 1);
        blocks.remove(0).1
    }
}

fn block(fields: &[(&str, &[u8])]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        hpack::write(name.as_bytes(), value, &mut block);
    }
    block
}

fn with(field: (&'static str, &'static [u8])) -> Vec<u8> {
    let mut fields = PLAIN.to_vec();
    match PLAIN.iter().position(|(name, _)| *name == field.0) {
        Some(at) => fields[at] = field,
        None => fields.push(field),
    }
    block(&fields)
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [.., a, b, c] = payload.len().to_be_bytes();
    let head = [&[a, b, c, kind, flags][..], &stream.to_be_bytes()].concat();
    [&head, payload].concat()
}

/// A request without a body.
fn headers(stream: u32, block: &[u8]) -> Vec<u8> {
    let pieces: Vec<_> = block.chunks(10_000).collect();
    let last = pieces.len() - 1;
    let frames = pieces.iter().enumerate().map(|(at, piece)| {
        let (kind, stop) = (if at == 0 { 1 } else { 9 }, u8::from(at == 0));
        let flags = stop | if at == last { 4 } else { 0 };
        frame(kind, flags, stream, piece)
    });
    frames.collect::<Vec<_>>().concat()
}

fn has(fields: &Fields, name: &str, value: &[u8]) -> bool {
    fields.iter().any(|(n, v)| n == name && v == value)
}

#[test]
fn proper_frames_pass_as_they_came() {
    // A field that enters the table, the same field from the table, padding and
    // priority.
    let indexed = b"\x82\x87\x84\x41\x01e\x40\x01a\x01b";
    let again = b"\x82\x87\x84\xbf\xbe";
    let padded = [&[3, 0, 0, 0, 0, 9][..], again, &[0; 3]].concat();
    let all = [
        frame(4, 0, 0, &[0; 6]),
        headers(1, indexed),
        frame(0, 0, 1, &[1; 300]),
        frame(1, 0x2c, 3, &padded),
        frame(0x77, 0xff, 0, b"unknown"),
        headers(5, &block(&PLAIN)),
        frame(8, 0, 0, &[0, 0, 0, 9]),
    ]
    .concat();
    for piece in 1..all.len() {
        let mut client = client();
        assert_eq!(client.send(&all, piece), all, "{piece}");
        assert!(!client.heads.is_rewriting);
    }
    // Bytes that come together are not copied.
    assert_eq!(client().heads.received(&all), all.len());
}

#[test]
fn odd_requests_are_written_so_that_h2_takes_them() {
    let mut client = client();
    for (stream, path, expected) in [
        (1, &b"/a#b"[..], &b"/a%23b"[..]),
        (3, b"/\xff <>\"`?x=#", b"/%FF%20%3C%3E%22%60?x=%23"),
        (5, b"/plain", b"/plain"),
    ] {
        let fields = client.fields(stream, &with((":path", path)));
        assert!(has(&fields, ":path", expected), "{fields:?}");
        assert_eq!(fields.len(), PLAIN.len());
    }
    let fields = client.fields(7, &block(&[PLAIN[0], PLAIN[1], PLAIN[3]]));
    assert!(has(&fields, "host", b""));
    let fields = client.fields(9, &with((":authority", b"")));
    assert!(has(&fields, "host", b"") && fields.len() == PLAIN.len());
}

/// The client's table stays valid, even if the request that filled it is refused.
#[test]
fn tables_outlive_malformed_requests() {
    let mut client = client();
    // NUL in a value that enters the table, after a correct field.
    let bad = b"\x82\x87\x84\x41\x01e\x40\x01a\x01b\x40\x01c\x01\x00";
    let fields = client.fields(1, bad);
    assert_eq!(fields, [("connection".to_owned(), b"close".to_vec())]);
    let fields = client.fields(3, b"\x82\x87\x84\xc0\xbf");
    assert!(has(&fields, ":authority", b"e") && has(&fields, "a", b"b"));
    let fields = client.fields(5, b"\x82\x87\x84\xc0\xbe");
    assert!(has(&fields, "connection", b"close"));
    // Trailers of an open stream.
    let fields = client.fields(5, &block(&[("x-sum", b"1")]));
    assert_eq!(fields, [("x-sum".to_owned(), b"1".to_vec())]);
    let fields = client.fields(5, &block(&[("x-sum", b"\x00")]));
    assert!(has(&fields, "connection", b"close"));
    assert!(!client.heads.has_ended());
}

#[test]
fn what_makes_a_request_malformed() {
    for (name, value) in [
        ("Upper", &b""[..]),
        ("", b"x"),
        ("x y", b""),
        ("x", b"\x00"),
        ("x", b"\x7f"),
        ("x", b"\r\n"),
        ("connection", b"close"),
        ("te", b"gzip"),
        (":status", b"200"),
        (":unknown", b""),
        (":path", b"/\x01"),
        (":method", b""),
    ] {
        let fields = client().fields(1, &with((name, value)));
        assert!(has(&fields, "connection", b"close"), "{name} {value:?}");
    }
    let twice = [block(&PLAIN), block(&PLAIN[..1])].concat();
    let late = [block(&[("a", b"")]), block(&PLAIN)].concat();
    for block in [twice, late] {
        assert!(has(&client().fields(1, &block), "connection", b"close"));
    }
    for (name, value) in [("te", &b"trailers"[..]), ("x", b"\xff\t y"), ("a.b", b"")] {
        let fields = client().fields(1, &with((name, value)));
        assert!(has(&fields, name, value), "{name} {value:?}");
    }
}

#[test]
fn refusals_are_known_by_a_mark_that_no_client_can_write() {
    let large: &'static [u8] = vec![b'x'; LIMIT + 1000].leak();
    let path: &'static [u8] = vec![b'/'; 70_000].leak();
    for (name, value, why) in [
        (
            ":method",
            &b"G ET"[..],
            HeadRefusal::Malformed("invalid method"),
        ),
        (
            ":authority",
            b"a b",
            HeadRefusal::Malformed("malformed Host header"),
        ),
        ("x", large, HeadRefusal::TooLarge),
        (
            ":path",
            b"/a%zz",
            HeadRefusal::Malformed("invalid URL escape"),
        ),
        (":path", path, HeadRefusal::TargetTooLong),
    ] {
        let mut client = client();
        let fields = client.fields(1, &with((name, value)));
        let mark = fields
            .iter()
            .find(|(name, _)| name == REFUSED)
            .expect("a mark");
        let mut headers = HeaderMap::new();
        headers.append(REFUSED, HeaderValue::from_bytes(&mark.1).unwrap());
        assert_eq!(refusal(&client.state, &headers), Some(why));
        let other = Http2State::new(Instant::now());
        assert_eq!(refusal(&other, &headers), None);
    }
}

/// A few bytes may name a large field thousands of times.
#[test]
fn what_the_table_repeats_counts() {
    let mut client = client();
    let value = vec![b'x'; 3000];
    let mut first = b"\x82\x87\x84\x41\x01e\x40\x01a".to_vec();
    first.extend(b"\x7f\xb9\x16");
    first.extend(&value);
    assert!(has(&client.fields(1, &first), "a", &value));
    // Above the limit, and below it.
    for (repetitions, limit) in [(9000, LIMIT), (150, 1 << 20)] {
        client.heads.limits.max_bytes = limit;
        let repeated = [b"\x82\x87\x84\xbf".to_vec(), vec![0xbe; repetitions]].concat();
        let fields = client.fields(client.heads.last_stream + 2, &repeated);
        assert!(fields.iter().any(|(name, _)| name == REFUSED));
    }
    // 30 times is within the limit, and takes its share of the budget.
    let repeated = [b"\x82\x87\x84\xbf".to_vec(), vec![0xbe; 30]].concat();
    assert_eq!(client.fields(7, &repeated).len(), 34);
    let size = 1 + 30 * (1 + 3000 + 32);
    assert!(client.state.take_held(size).is_some());
    assert!(client.state.take_held(size).is_none());
}

#[test]
fn blocks_in_many_frames_come_in_few() {
    let value: &'static [u8] = vec![b'x'; 50_000].leak();
    let sent = headers(1, &with(("x", value)));
    for piece in [1, 1000, sent.len()] {
        let mut client = client();
        let got = client.send(&sent, piece);
        assert!(has(&client.read(&got)[0].1, "x", value));
        assert!(!client.heads.is_rewriting);
    }
    let small = frame(1, 1, 1, b"\x82");
    let pieces: Vec<_> = with(("a", b"b"))
        .chunks(1)
        .map(|b| frame(9, 0, 1, b))
        .collect();
    let sent = [small, pieces.concat(), frame(9, 4, 1, b"")].concat();
    // The method came twice.
    let mut client = client();
    let got = client.send(&sent, 11);
    assert!(has(&client.read(&got)[0].1, "connection", b"close"));
}

#[test]
fn what_is_no_block_ends_the_connection() {
    let whole = headers(1, &block(&PLAIN));
    for wrong in [
        // Another frame within the block, and a frame of another stream.
        [frame(1, 0, 1, b"\x82"), frame(6, 0, 0, &[0; 8])].concat(),
        [frame(1, 0, 1, b"\x82"), frame(9, 4, 3, b"\x87")].concat(),
        frame(1, 4, 1, &vec![0x82; frames::MAX_FRAME_OCTETS + 1]),
        // Padding beyond the frame, an index without a field, and half a field.
        frame(1, 12, 1, &[9, 0x82]),
        frame(1, 4, 1, b"\x80"),
        frame(1, 4, 1, b"\xff\xff\xff\xff\xff\xff\x7f"),
        frame(1, 4, 1, b"\x40\x01a\x05b"),
        frame(1, 4, 1, b"\x40\x81\xff"),
        // The table's size: after a field, and above what SETTINGS allow.
        frame(1, 4, 1, b"\x82\x20"),
        frame(1, 4, 1, b"\x3f\xe2\x1f"),
    ] {
        let mut client = client();
        let sent = [whole.clone(), wrong.clone(), whole.clone()].concat();
        client.send(&sent, sent.len());
        let all = client.send(&whole, whole.len());
        // That stream 1 begins twice does not matter: the block itself is wrong.
        assert!(client.heads.has_ended() && all.is_empty(), "{wrong:x?}");
    }
}

#[test]
fn blocks_that_do_not_end_are_bounded() {
    let mut client = client();
    client.send(&frame(1, 0, 1, b"\x82"), 100);
    let more = frame(9, 0, 1, &[0; 10_000]);
    for _ in 0..LARGEST_BLOCK * LIMIT / 10_000 {
        assert!(!client.state.has_stopped_reading());
        client.send(&more, more.len());
    }
    client.send(&more, more.len());
    assert!(client.state.has_stopped_reading());
    // Several blocks of one address share its budget.
    let mut open = Vec::new();
    let limits = HeadLimits {
        max_bytes: 1 << 20,
        large: LargeHeads::default(),
    };
    let refused = (0..40).any(|_| {
        let state = Http2State::new(Instant::now());
        let client = IpAddr::from([192, 0, 2, 1]);
        let mut heads = Http2Heads::new(state.clone(), limits.clone(), client);
        heads.received(PREFACE);
        heads.received(&frame(1, 0, 1, b"\x82"));
        for _ in 0..100 {
            heads.received(&more);
        }
        open.push(heads);
        state.has_stopped_reading()
    });
    assert!(refused && open.len() > 10, "{}", open.len());
}
