//! Makes random header fields of requests.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};

use super::exchange::Wire;
use super::fields::{Field, Fields};

/// Names with a meaning to a proxy or a server, with typical values.
const KNOWN: [(&str, &[&str]); 32] = [
    ("Accept", &["*/*", "application/json;q=0.9, */*;q=0.1", ""]),
    ("Accept-Encoding", &["gzip", "identity;q=1, *;q=0", ""]),
    ("Accept-Language", &["de-AT, de;q=0.9"]),
    ("Audit-Id", &["0f0f", "an id with spaces"]),
    ("Authorization-Info", &["x"]),
    ("Cache-Control", &["no-cache", "max-age=0, no-store"]),
    ("Cdn-Loop", &["cdn.example; a=b", "one, two"]),
    ("Content-Encoding", &["gzip"]),
    ("Content-Language", &["en"]),
    (
        "Content-Type",
        &["application/json", "text/plain; charset=\"x\"", ""],
    ),
    ("Date", &["Tue, 15 Nov 1994 08:12:31 GMT"]),
    ("Forwarded", &["for=192.0.2.43, for=\"[2001:db8::1]\""]),
    ("From", &["a@b.example"]),
    ("If-Match", &["\"abc\"", "*"]),
    ("If-None-Match", &["W/\"abc\", \"d\""]),
    ("If-Modified-Since", &["Sat, 29 Oct 1994 19:43:31 GMT"]),
    ("Max-Forwards", &["0", "10"]),
    ("Pragma", &["no-cache"]),
    ("Range", &["bytes=0-1,4-"]),
    (
        "Traceparent",
        &["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"],
    ),
    ("Tracestate", &["a=b", "congo=t61rcWkgMzE"]),
    ("User-Agent", &["kubectl/v1.37.1 (linux/amd64)", ""]),
    ("Via", &["1.0 fred, 1.1 p.example"]),
    ("Warning", &["199 - \"x\""]),
    ("X-Forwarded-For", &["192.0.2.1", "192.0.2.1, 198.51.100.2"]),
    ("X-Forwarded-Host", &["elsewhere.example"]),
    ("X-Forwarded-Proto", &["http"]),
    ("X-Forwarded-Uri", &["/elsewhere"]),
    ("X-Http-Method-Override", &["DELETE"]),
    ("X-Original-Url", &["/elsewhere"]),
    ("X-Real-Ip", &["192.0.2.7"]),
    (
        "X-Stream-Protocol-Version",
        &["v4.channel.k8s.io", "v5.channel.k8s.io"],
    ),
];

/// Names without a meaning.
const FREE: [&str; 8] = [
    "X-A",
    "x-odd-Case",
    "X-REPEATED",
    "x_under_score",
    "X-",
    "!#$%&'*+-.^_`|~",
    "0",
    "X-Very-Long-Name-That-Somebody-Thought-Was-A-Good-Idea-At-The-Time",
];

/// Fields of one connection (RFC 9110, 7.6.1), which HTTP/2 does not have.
const OF_THE_CONNECTION: [(&str, &[&str]); 7] = [
    ("Keep-Alive", &["timeout=5, max=1000", "115"]),
    ("Proxy-Authorization", &["Basic YTpi"]),
    ("Proxy-Authenticate", &["Basic"]),
    ("Proxy-Connection", &["keep-alive", "close"]),
    ("Te", &["trailers", "gzip;q=0.5", ""]),
    ("Trailer", &["X-Sum", "X-Sum, X-Other"]),
    (
        "Connection",
        &["keep-alive", "x-a", "X-A, x-odd-case", ", x-a ,", "te", ""],
    ),
];

/// Claims of an identity, which no caller may make.
const CLAIMS: [(&str, &str); 6] = [
    ("X-Remote-User", "admin"),
    ("X-Remote-Group", "system:masters"),
    ("X-Remote-Uid", "0"),
    ("X-Remote-Extra-Scopes", "all"),
    ("X_Remote_User", "admin"),
    ("x-remote_group", "system:masters"),
];

const VALUES: [&[u8]; 12] = [
    b"1",
    b"a, b,, c",
    b"\"quoted, \\\" text\"",
    b"a\tb  c",
    b"a:b;c=d",
    b"\xe4\xf6\xfc",
    "grün".as_bytes(),
    b"\xff",
    b"<script>#",
    b"(comment (nested))",
    b"%00%0d%0a",
    b"=?utf-8?q?x?=",
];

/// Returns fields in a random order, without those that every request has.
pub fn fields(rng: &mut StdRng, wire: Wire) -> Fields {
    let mut fields = Vec::new();
    for _ in 0..*[0, 1, 2, 4, 8].choose(rng).expect("counts") {
        match rng.random_range(0..10) {
            0..4 => {
                let (name, values) = *KNOWN.choose(rng).expect("names");
                fields.push(known(rng, name, values));
            }
            4..8 => free(rng, wire, &mut fields),
            8 if wire != Wire::Http2 => {
                let (name, values) = *OF_THE_CONNECTION.choose(rng).expect("names");
                fields.push(known(rng, name, values));
            }
            // Go's server accepts it only once.
            8 if !fields.iter().any(|field: &Field| field.is("te")) => {
                fields.push(Field::new("te", "trailers"));
            }
            8 => {}
            _ => {
                let (name, value) = *CLAIMS.choose(rng).expect("claims");
                fields.push(Field::new(name, value));
            }
        }
    }
    fields.shuffle(rng);
    for field in &mut fields {
        written(rng, wire, field);
    }
    fields
}

fn known(rng: &mut StdRng, name: &str, values: &[&str]) -> Field {
    Field::new(name, values.choose(rng).expect("values"))
}

/// Adds one or more fields with a meaningless name.
fn free(rng: &mut StdRng, wire: Wire, fields: &mut Fields) {
    let name = *FREE.choose(rng).expect("names");
    for _ in 0..*[1, 1, 1, 2, 5].choose(rng).expect("counts") {
        let mut value = match rng.random_range(0..10) {
            0 => Vec::new(),
            1 => vec![b'v'; *[200, 5_000].choose(rng).expect("lengths")],
            _ => VALUES.choose(rng).expect("values").to_vec(),
        };
        if wire != Wire::Http2 && rng.random_bool(0.04) {
            let fold = ["\r\n ", "\r\n\t", " \r\n  "].choose(rng).expect("folds");
            value.extend(fold.as_bytes());
            value.extend(b"folded");
        }
        fields.push(Field::new(name, value));
    }
}

/// Writes a field in a form of its protocol: in HTTP/1, names may have any case and
/// values may have spaces around them.
fn written(rng: &mut StdRng, wire: Wire, field: &mut Field) {
    if wire == Wire::Http2 {
        field.name.make_ascii_lowercase();
        return;
    }
    match rng.random_range(0..6) {
        0 => field.name.make_ascii_lowercase(),
        1 => field.name.make_ascii_uppercase(),
        _ => {}
    }
    let (before, after) = *[(" ", ""), ("", ""), ("\t ", "  "), ("  ", "\t")]
        .choose(rng)
        .expect("spaces");
    field.raw = [before.as_bytes(), &field.raw, after.as_bytes()].concat();
}
