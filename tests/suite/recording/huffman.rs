//! Reads HPACK's Huffman code (RFC 7541, appendix B).

use std::collections::HashMap;
use std::sync::LazyLock;

/// The length in bits of each octet's code. The code is canonical: codes of one
/// length follow each other in the order of the octets, and shorter codes come
/// first.
#[rustfmt::skip]
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

const LONGEST: u8 = 30;

/// The octet for each length and code.
static CODES: LazyLock<HashMap<(u8, u32), u8>> = LazyLock::new(|| {
    let mut codes = HashMap::new();
    let mut code = 0;
    for length in 1..=LONGEST {
        code <<= 1;
        for octet in 0..=u8::MAX {
            if LENGTHS[usize::from(octet)] == length {
                codes.insert((length, code), octet);
                code += 1;
            }
        }
    }
    codes
});

/// Decodes a text. Returns `None` if it does not end in padding.
pub fn decode(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let (mut code, mut length) = (0_u32, 0_u8);
    for byte in bytes {
        for bit in (0..8).rev() {
            code = (code << 1) | u32::from(byte >> bit & 1);
            length += 1;
            if let Some(octet) = CODES.get(&(length, code)) {
                text.push(*octet);
                (code, length) = (0, 0);
            }
            if length > LONGEST {
                return None;
            }
        }
    }
    let padding = length < 8 && code == (1 << length) - 1;
    padding.then_some(text)
}

#[test]
fn the_examples_of_the_rfc_are_read() {
    for (bytes, text) in [
        (
            &b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"[..],
            "www.example.com",
        ),
        (b"\xa8\xeb\x10\x64\x9c\xbf", "no-cache"),
        (b"\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf", "custom-value"),
    ] {
        assert_eq!(decode(bytes).as_deref(), Some(text.as_bytes()));
    }
    assert_eq!(decode(b"\x00"), None);
}
