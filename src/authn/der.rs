//! Parses the little DER that signature checks need: encoded algorithm identifiers,
//! which `rustls` compares and `x509-parser` does not keep.

const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;

/// A certificate's outer parts (RFC 5280 4.1).
pub struct SignedCertificate<'a> {
    pub to_be_signed: &'a [u8],
    /// Content of the AlgorithmIdentifier.
    pub algorithm: &'a [u8],
    pub signature: &'a [u8],
}

/// A SubjectPublicKeyInfo.
pub struct PublicKey<'a> {
    /// The whole encoding.
    pub whole: &'a [u8],
    /// Content of the AlgorithmIdentifier.
    pub algorithm: &'a [u8],
    pub bits: &'a [u8],
}

impl<'a> SignedCertificate<'a> {
    pub fn parse(certificate: &'a [u8]) -> Option<Self> {
        let (certificate, _) = read(certificate, SEQUENCE)?;
        let (to_be_signed, rest) = read(certificate.content, SEQUENCE)?;
        let (algorithm, rest) = read(rest, SEQUENCE)?;
        let (signature, _) = read(rest, BIT_STRING)?;
        Some(Self {
            to_be_signed: to_be_signed.whole,
            algorithm: algorithm.content,
            signature: octets(signature.content)?,
        })
    }
}

impl<'a> PublicKey<'a> {
    pub fn parse(info: &'a [u8]) -> Option<Self> {
        let (info, _) = read(info, SEQUENCE)?;
        let (algorithm, rest) = read(info.content, SEQUENCE)?;
        let (bits, _) = read(rest, BIT_STRING)?;
        Some(Self {
            whole: info.whole,
            algorithm: algorithm.content,
            bits: octets(bits.content)?,
        })
    }
}

/// Returns the octets of a bit string. Its first octet is the number of unused bits,
/// which must be 0.
fn octets(bits: &[u8]) -> Option<&[u8]> {
    match bits.split_first()? {
        (0, octets) => Some(octets),
        _ => None,
    }
}

struct Element<'a> {
    whole: &'a [u8],
    content: &'a [u8],
}

/// Reads the element at the start of `input`. Also returns the rest.
fn read(input: &[u8], tag: u8) -> Option<(Element<'_>, &[u8])> {
    let (&[first, short], mut rest) = input.split_first_chunk::<2>()?;
    if first != tag {
        return None;
    }
    let mut length = usize::from(short);
    if short >= 0x80 {
        let octets = usize::from(short & 0x7f);
        if !(1..=4).contains(&octets) {
            return None;
        }
        let (bytes, after) = rest.split_at_checked(octets)?;
        length = bytes.iter().fold(0, |n, b| n << 8 | usize::from(*b));
        rest = after;
    }
    let (content, after) = rest.split_at_checked(length)?;
    let whole = input.get(..input.len().checked_sub(after.len())?)?;
    Some((Element { whole, content }, after))
}
