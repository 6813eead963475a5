//! Runs the Go program of real Kubernetes types (`tests/encodings`). It makes
//! objects of every kind in both encodings, and tells how Go decodes given
//! bytes.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use super::binaries;

/// The bytes that every Kubernetes protobuf body begins with.
const PREFIX: &[u8] = b"k8s\0";

pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| binaries::program("encodings"))
}

/// Go's verdict on some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    Bytes(Vec<u8>),
    Error(String),
    NotAsked,
}

impl Said {
    fn read(field: &[u8]) -> Self {
        match field.split_first() {
            Some((b'=', bytes)) => Self::Bytes(bytes.to_vec()),
            Some((b'!', text)) => Self::Error(String::from_utf8_lossy(text).into_owned()),
            Some((b'-', [])) => Self::NotAsked,
            _ => panic!("not an answer: {}", String::from_utf8_lossy(field)),
        }
    }
}

/// The rule for the transcoder's answer to an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// kube-apiserver can write the input: the answer must be Go's.
    Produced,
    /// Only others can write the input: the answer must be Go's, if there is
    /// one.
    Foreign,
    /// The input has fields that the type does not have and that Go drops:
    /// there must be no answer.
    More,
}

/// One object in one or both encodings.
#[derive(Clone, Debug)]
pub struct Record {
    pub api_version: String,
    pub kind: String,
    pub go_type: String,
    pub variant: String,
    pub seed: String,
    pub class: Class,
    /// The object with its envelope. Empty where [`Record::to_json`] is not
    /// asked.
    pub protobuf: Vec<u8>,
    /// Go's JSON of the protobuf, without kind and apiVersion.
    pub to_json: Said,
    /// The object in JSON, with kind and apiVersion or without.
    pub json: Vec<u8>,
    /// Go's protobuf of the JSON, with its envelope.
    pub to_protobuf: Said,
}

pub struct Records {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

/// Returns objects of every kind, the same for the same `seed`. There are
/// `rounds` of each random variant.
pub fn records(seed: u64, rounds: usize) -> Records {
    let mut child = Command::new(program())
        .args(["-seed", &(seed >> 1).to_string()])
        .args(["-rounds", &rounds.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("encodings");
    let stdout = BufReader::with_capacity(1 << 20, child.stdout.take().expect("piped"));
    Records { child, stdout }
}

impl Iterator for Records {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        let Some(api_version) = read_field(&mut self.stdout).expect("a field") else {
            let status = self.child.wait().expect("encodings");
            assert!(status.success(), "encodings ended with {status}");
            return None;
        };
        let mut field = || read_field(&mut self.stdout).expect("a field");
        let mut bytes = || field().expect("a whole record");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Some(Record {
            api_version: text(api_version),
            kind: text(bytes()),
            go_type: text(bytes()),
            variant: text(bytes()),
            seed: text(bytes()),
            class: match bytes().as_slice() {
                b"produced" => Class::Produced,
                b"foreign" => Class::Foreign,
                b"more" => Class::More,
                other => panic!("class {}", String::from_utf8_lossy(other)),
            },
            protobuf: bytes(),
            to_json: Said::read(&bytes()),
            json: bytes(),
            to_protobuf: Said::read(&bytes()),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Protobuf,
    Json,
}

pub struct Question<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
    /// The answer is in the other encoding.
    pub encoding: Encoding,
    pub bytes: &'a [u8],
}

pub struct Answer {
    pub said: Said,
    /// Tells whether the bytes have fields that the type does not have.
    pub more: bool,
}

/// A process that decodes bytes with Go's types.
pub struct Oracle {
    child: Child,
    stdin: BufWriter<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Oracle {
    pub fn start() -> Self {
        let mut child = Command::new(program())
            .arg("-decode")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("encodings");
        Self {
            stdin: BufWriter::new(child.stdin.take().expect("piped")),
            stdout: BufReader::new(child.stdout.take().expect("piped")),
            child,
        }
    }

    pub fn ask(&mut self, question: &Question) -> Answer {
        let encoding: &[u8] = match question.encoding {
            Encoding::Protobuf => b"protobuf",
            Encoding::Json => b"json",
        };
        for field in [
            question.api_version.as_bytes(),
            question.kind.as_bytes(),
            encoding,
            question.bytes,
        ] {
            write_field(&mut self.stdin, field).expect("encodings reads");
        }
        self.stdin.flush().expect("encodings reads");
        let mut field = || {
            let field = read_field(&mut self.stdout).expect("a field");
            field.expect("encodings answers")
        };
        Answer {
            said: Said::read(&field()),
            more: !field().is_empty(),
        }
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads one field: a length of four bytes, big-endian, and as many bytes. Returns
/// `None` at the stream's end.
fn read_field(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match from.read(&mut length[..1])? {
        0 => return Ok(None),
        _ => from.read_exact(&mut length[1..])?,
    }
    let mut field = vec![0; u32::from_be_bytes(length) as usize];
    from.read_exact(&mut field)?;
    Ok(Some(field))
}

fn write_field(to: &mut impl Write, field: &[u8]) -> io::Result<()> {
    let length = u32::try_from(field.len()).map_err(io::Error::other)?;
    to.write_all(&length.to_be_bytes())?;
    to.write_all(field)
}

/// The fields of `runtime.Unknown` that this program needs.
#[derive(Clone, PartialEq, prost::Message)]
struct Unknown {
    #[prost(message, optional, tag = "1")]
    type_meta: Option<TypeMeta>,
    #[prost(bytes = "vec", optional, tag = "2")]
    raw: Option<Vec<u8>>,
    #[prost(string, optional, tag = "3")]
    content_encoding: Option<String>,
    #[prost(string, optional, tag = "4")]
    content_type: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TypeMeta {
    #[prost(string, optional, tag = "1")]
    api_version: Option<String>,
    #[prost(string, optional, tag = "2")]
    kind: Option<String>,
}

pub fn unwrap(data: &[u8]) -> Vec<u8> {
    let envelope = data.strip_prefix(PREFIX).expect("protobuf's prefix");
    let unknown: Unknown = prost::Message::decode(envelope).expect("an envelope");
    unknown.raw.unwrap_or_default()
}

/// Puts a message in the API server's envelope.
pub fn wrap(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let unknown = Unknown {
        type_meta: Some(TypeMeta {
            api_version: Some(api_version.to_owned()),
            kind: Some(kind.to_owned()),
        }),
        raw: Some(message.to_vec()),
        content_encoding: Some(String::new()),
        content_type: Some(String::new()),
    };
    let mut data = PREFIX.to_vec();
    prost::Message::encode(&unknown, &mut data).expect("a vector takes it");
    data
}
