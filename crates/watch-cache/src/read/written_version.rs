//! Finds the version that a write made, in the bytes of the answer as they pass
//! by. Nothing of the answer is kept except the first bytes of protobuf.

use kubernetes_wire::api::ResourceVersion;
use kubernetes_wire::api::protobuf::MAGIC;
use kubernetes_wire::api::protobuf_wire::{Fields, Value};

/// The number of bytes of a protobuf answer that are searched. In an object's
/// metadata the version precedes every field that may be long.
const PREFIX_BYTES: usize = 4 << 10;

/// The number of bytes of a JSON string that are kept. A longer string is
/// neither the key nor the version.
const TOKEN_BYTES: usize = 24;

/// The search for `metadata.resourceVersion`.
#[derive(Debug)]
pub enum WrittenVersion {
    Json(Scanner),
    Protobuf(Vec<u8>),
    /// The search is over.
    Known(Option<u64>),
}

impl WrittenVersion {
    /// Begins the search in an answer of this media type. `is_encoded` is true
    /// if the answer has a Content-Encoding.
    pub fn for_content_type(content_type: &[u8], is_encoded: bool) -> Self {
        if is_encoded {
            Self::Known(None)
        } else if content_type.starts_with(b"application/json") {
            Self::Json(Scanner::default())
        } else if content_type.starts_with(b"application/vnd.kubernetes.protobuf") {
            Self::Protobuf(Vec::new())
        } else {
            Self::Known(None)
        }
    }

    /// Takes the next bytes of the answer. Returns true if no further bytes are
    /// needed.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        let found = match self {
            Self::Json(scanner) => scanner.push(bytes),
            Self::Protobuf(prefix) => {
                let room = PREFIX_BYTES.saturating_sub(prefix.len());
                prefix.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
                match version_in(prefix) {
                    None if prefix.len() < PREFIX_BYTES => None,
                    found => Some(found),
                }
            }
            Self::Known(_) => return true,
        };
        if let Some(version) = found {
            *self = Self::Known(version);
        }
        found.is_some()
    }

    /// Returns the version. `None` if it was not found.
    pub fn version(&self) -> Option<u64> {
        match self {
            Self::Known(version) => *version,
            Self::Json(_) | Self::Protobuf(_) => None,
        }
    }
}

fn number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    ResourceVersion::parse(text).ok().map(|v| v.0)
}

/// Finds the version in `k8s\0` + Unknown{2 raw: object{1 metadata:
/// ObjectMeta{6 version}}}, whose end may be missing. A Status has a ListMeta,
/// which lacks this field.
fn version_in(prefix: &[u8]) -> Option<u64> {
    let raw = field(prefix.strip_prefix(MAGIC)?, 2)?;
    let metadata = field(raw, 1)?;
    for read in Fields::new(metadata) {
        if let (6, Value::Bytes(version)) = read.ok()? {
            return number(version);
        }
    }
    None
}

fn field(message: &[u8], wanted: u64) -> Option<&[u8]> {
    for read in Fields::new(message) {
        match read.ok()? {
            (number, Value::Bytes(bytes) | Value::Cut(bytes)) if number == wanted => {
                return Some(bytes);
            }
            _ => {}
        }
    }
    None
}

/// Follows the structure of a JSON object down to `metadata` and no further.
#[derive(Debug, Default)]
pub struct Scanner {
    depth: u32,
    in_string: bool,
    escaped: bool,
    /// The current string, or the last one.
    token: Vec<u8>,
    too_long: bool,
    /// The position is between a colon and the next comma.
    at_value: bool,
    /// The current top-level key is `metadata`.
    in_metadata: bool,
    /// The current key of the metadata is `resourceVersion`.
    at_version: bool,
}

impl Scanner {
    /// Returns `Some` when the search is over.
    fn push(&mut self, bytes: &[u8]) -> Option<Option<u64>> {
        for byte in bytes {
            if self.in_string {
                self.string(*byte);
                let ended = !self.in_string;
                if ended && self.depth == 2 && self.at_version && self.at_value {
                    return Some(number(&self.token));
                }
                continue;
            }
            match byte {
                b'"' => {
                    self.in_string = true;
                    self.too_long = false;
                    self.token.clear();
                }
                b'{' | b'[' => {
                    self.depth = self.depth.saturating_add(1);
                    self.at_value = false;
                    self.at_version = false;
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 || (self.depth == 1 && self.in_metadata) {
                        // This is the end of the metadata or of the object.
                        return Some(None);
                    }
                    self.at_version = false;
                }
                b':' => {
                    self.at_value = true;
                    match self.depth {
                        1 => self.in_metadata = self.is(b"metadata"),
                        2 => self.at_version = self.in_metadata && self.is(b"resourceVersion"),
                        _ => {}
                    }
                }
                b',' => {
                    self.at_value = false;
                    self.at_version = false;
                }
                _ => {}
            }
        }
        None
    }

    fn string(&mut self, byte: u8) {
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' => self.escaped = true,
            b'"' => {
                self.in_string = false;
                return;
            }
            _ => {}
        }
        if self.depth > 2 {
            return;
        }
        if self.token.len() < TOKEN_BYTES {
            self.token.push(byte);
        } else {
            self.too_long = true;
        }
    }

    fn is(&self, key: &[u8]) -> bool {
        !self.too_long && self.token == key
    }
}

#[cfg(test)]
mod tests {
    use kubernetes_wire::api::{Status, protobuf};
    use proptest::prelude::*;

    use super::*;

    fn read(content_type: &str, body: &[u8], step: usize) -> Option<u64> {
        let mut reader = WrittenVersion::for_content_type(content_type.as_bytes(), false);
        for chunk in body.chunks(step) {
            reader.push(chunk);
        }
        reader.version()
    }

    #[test]
    fn json_however_it_is_cut() {
        for (body, expected) in [
            (
                r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","uid":"u","resourceVersion":"41"},"spec":{}}"#,
                Some(41),
            ),
            // The keys are in order, as in custom resources.
            (
                r#"{"apiVersion":"e/v1","kind":"W","metadata":{"annotations":{"resourceVersion":"1","x":"{\"metadata\":{\"resourceVersion\":\"2\"}}"},"managedFields":[{"resourceVersion":"3"}],"name":"a","resourceVersion":"42"}}"#,
                Some(42),
            ),
            // The JSON is indented.
            (
                "{\n  \"metadata\": {\n    \"name\": \"a\",\n    \"resourceVersion\": \"43\"\n  }\n}",
                Some(43),
            ),
            (
                r#"{"spec":{"metadata":{"resourceVersion":"1"}},"metadata":{"resourceVersion":"44"}}"#,
                Some(44),
            ),
            (
                r#"{"spec":["metadata",{"resourceVersion":"1"}],"metadata":{"resourceVersion":"45"}}"#,
                Some(45),
            ),
            (r#"{"metadata":{"name":"resourceVersion","x":"y"}}"#, None),
            (r#"{"metadata":{"name":["resourceVersion","7"]}}"#, None),
            (
                r#"{"kind":"Status","metadata":{},"status":"Success","details":{"resourceVersion":"9"}}"#,
                None,
            ),
            (r#"{"metadata":"x","resourceVersion":"9"}"#, None),
            (r#"{"metadata":{"resourceVersion":""}}"#, None),
            (
                r#"{"metadata":{"resourceVersion":"111111111111111111111111111111"}}"#,
                None,
            ),
            ("[]", None),
            ("", None),
        ] {
            for step in [1, 3, 1000] {
                assert_eq!(
                    read("application/json", body.as_bytes(), step),
                    expected,
                    "{body}"
                );
            }
        }
    }

    /// Unknown{1: "t", 2: {1: {1: name, 6: "41"}, 2: 3 bytes}}
    fn protobuf_pod() -> Vec<u8> {
        let metadata = b"\x0a\x01a\x12\x00\x32\x0241";
        let mut pod = vec![0x0a, metadata.len() as u8];
        pod.extend_from_slice(metadata);
        pod.extend_from_slice(b"\x12\x03xyz");
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(b"\x0a\x01t\x12");
        out.push(pod.len() as u8);
        out.extend(pod);
        out
    }

    #[test]
    fn protobuf_however_it_is_cut() {
        let kind = "application/vnd.kubernetes.protobuf";
        let pod = protobuf_pod();
        for step in [1, 2, 5, 100] {
            assert_eq!(read(kind, &pod, step), Some(41), "{step}");
        }
        let status = protobuf::encode_status(&Status::unauthorized());
        assert_eq!(read(kind, &status, 10), None);
        assert_eq!(read(kind, b"k8s\0\xff\xff", 10), None);
    }

    #[test]
    fn other_answers_tell_nothing() {
        assert_eq!(read("application/yaml", b"metadata: {}", 10), None);
        let mut compressed = WrittenVersion::for_content_type(b"application/json", true);
        assert!(compressed.push(br#"{"metadata":{"resourceVersion":"4"}}"#));
        assert_eq!(compressed.version(), None);
        // The search ends after the prefix.
        let mut long =
            WrittenVersion::for_content_type(b"application/vnd.kubernetes.protobuf", false);
        assert!(long.push(&[MAGIC.to_vec(), vec![0x0a; PREFIX_BYTES]].concat()));
        assert_eq!(long.version(), None);
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(body in ".{0,80}", bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            read("application/json", body.as_bytes(), 7);
            read("application/vnd.kubernetes.protobuf", &bytes, 7);
            read("application/vnd.kubernetes.protobuf", &[&MAGIC[..], &bytes].concat(), 7);
        }
    }
}
