//! HPACK's Huffman code (RFC 7541, 5.2 and appendix B).

use std::sync::LazyLock;

/// The length in bits of each octet's code. The code is canonical: shorter codes
/// come first, and codes of the same length follow each other in the order of the
/// octets.
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

/// The longest code of an octet. The end-of-string code has as many bits, all ones.
const MAX_CODE_BITS: u8 = 30;

struct Length {
    bits: u32,
    /// The first code, at the upper end of 32 bits.
    first: u32,
    /// All codes of this length, and of shorter lengths, are below this value.
    end: u64,
    /// The octets in the order of their codes.
    octets: Vec<u8>,
}

static BY_LENGTH: LazyLock<Vec<Length>> = LazyLock::new(|| {
    let mut found = Vec::new();
    let mut end = 0_u64;
    for length in 1..=MAX_CODE_BITS {
        let octets: Vec<u8> = (0..=u8::MAX)
            .zip(LENGTHS)
            .filter_map(|(octet, bits)| (bits == length).then_some(octet))
            .collect();
        if octets.is_empty() {
            continue;
        }
        let bits = u32::from(length);
        let step = 1_u64 << 32_u32.saturating_sub(bits);
        let first = u32::try_from(end).unwrap_or(u32::MAX);
        end = end.saturating_add(step.saturating_mul(octets.len() as u64));
        found.push(Length {
            bits,
            first,
            end,
            octets,
        });
    }
    found
});

/// Appends the decoded octets. Returns `None` if the text holds the end-of-string
/// code, or if its last bits are not the beginning of that code.
pub(super) fn decode(coded: &[u8], text: &mut Vec<u8>) -> Option<()> {
    let lengths = BY_LENGTH.as_slice();
    // The bits that are read but not decoded yet, at the upper end.
    let (mut bits, mut have) = (0_u64, 0_u32);
    let mut coded = coded.iter();
    loop {
        while have <= 56
            && let Some(octet) = coded.next()
        {
            bits |= u64::from(*octet) << 56_u32.saturating_sub(have);
            have = have.saturating_add(8);
        }
        let next = u32::try_from(bits >> 32).unwrap_or(u32::MAX);
        let code = lengths.iter().find(|of| u64::from(next) < of.end);
        match code {
            Some(code) if code.bits <= have => {
                let at = next.saturating_sub(code.first) >> 32_u32.saturating_sub(code.bits);
                text.push(*code.octets.get(usize::try_from(at).ok()?)?);
                bits <<= code.bits;
                have = have.saturating_sub(code.bits);
            }
            _ => {
                // Fewer than eight bits are left, all ones.
                let padding = u64::MAX << 64_u32.saturating_sub(have.max(1));
                let is_padding = have == 0 || (have < 8 && bits == padding);
                return is_padding.then_some(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(coded: &[u8]) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        decode(coded, &mut text).map(|()| text)
    }

    fn encode(text: &[u8]) -> Vec<u8> {
        let mut bits = Vec::new();
        for octet in text {
            let of = BY_LENGTH.iter().find(|of| of.octets.contains(octet));
            let of = of.expect("a code");
            let at = of.octets.iter().position(|o| o == octet).unwrap() as u32;
            let code = (of.first >> (32 - of.bits)) + at;
            bits.extend((0..of.bits).rev().map(|bit| code >> bit & 1 == 1));
        }
        while bits.len() % 8 > 0 {
            bits.push(true);
        }
        let octet = |bits: &[bool]| bits.iter().fold(0, |o, bit| o << 1 | u8::from(*bit));
        bits.chunks(8).map(octet).collect()
    }

    #[test]
    fn the_examples_of_the_rfc_are_read() {
        for (coded, text) in [
            (
                &b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"[..],
                "www.example.com",
            ),
            (b"\xa8\xeb\x10\x64\x9c\xbf", "no-cache"),
            (b"\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf", "custom-value"),
            (b"", ""),
        ] {
            assert_eq!(decoded(coded).as_deref(), Some(text.as_bytes()));
            assert_eq!(encode(text.as_bytes()), coded);
        }
    }

    #[test]
    fn every_octet_is_read_at_every_offset() {
        for octet in 0..=u8::MAX {
            for before in 0..9 {
                let mut text = vec![b'0'; before];
                text.extend([octet, b'z', octet]);
                assert_eq!(decoded(&encode(&text)), Some(text));
            }
        }
    }

    #[test]
    fn wrong_ends_are_errors() {
        // Zeros, a whole octet of padding, the end-of-string code, and half a code.
        for coded in [
            &b"\x00"[..],
            b"\x1f\xff\xff",
            b"\xff\xff\xff\xfc",
            b"\xff\xff\xff\xff",
            b"\xff\xff\xff",
        ] {
            assert_eq!(decoded(coded), None, "{coded:x?}");
        }
    }
}
