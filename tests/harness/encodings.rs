//! The program of real Kubernetes types (`tests/encodings`): objects of every
//! kind in both encodings, and what Go makes of bytes.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use super::binaries;

/// The bytes that protobuf begins with on the wire.
const PREFIX: &[u8] = b"k8s\0";

/// The program, built when it is not there.
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

/// What the transcoder may do with an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// kube-apiserver can write it: the answer must be Go's.
    Produced,
    /// Others can: the answer must be Go's, if there is one.
    Foreign,
    /// It has what the type has not, and Go drops: there must be no answer.
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
    /// With its envelope; empty where [`Record::to_json`] is not asked.
    pub protobuf: Vec<u8>,
    /// Without kind and apiVersion.
    pub to_json: Said,
    /// With kind and apiVersion or without.
    pub json: Vec<u8>,
    /// With its envelope.
    pub to_protobuf: Said,
}

pub struct Records {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

/// Objects of every kind, the same for the same `seed`; `rounds` of each
/// random variant.
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

/// An encoding that bytes are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Protobuf,
    Json,
}

pub struct Question<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
    /// Of `bytes`; the answer is in the other.
    pub encoding: Encoding,
    pub bytes: &'a [u8],
}

pub struct Answer {
    pub said: Said,
    /// The bytes have what the type has not.
    pub more: bool,
}

/// Asks Go about bytes.
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

/// A length of four bytes, the highest first, and as many bytes; none at the
/// stream's end.
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

/// runtime.Unknown, as far as it is of interest here.
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

/// The message in its envelope.
pub fn unwrap(data: &[u8]) -> Vec<u8> {
    let envelope = data.strip_prefix(PREFIX).expect("protobuf's prefix");
    let unknown: Unknown = prost::Message::decode(envelope).expect("an envelope");
    unknown.raw.unwrap_or_default()
}

/// A message in the envelope that the API server puts around it.
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
