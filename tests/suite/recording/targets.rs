//! Makes random request targets.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::exchange::Wire;
use super::recorder::GROUP;

const PLAIN: &[u8] = b"abcxyzABZ0189-._~";
/// Other characters that a URI may contain (RFC 3986, 3.3 and 3.4).
const DELIMITERS: &[u8] = b"!$&'()*+,;=:@";
/// Characters that no URI may contain, but that HTTP can carry.
const FORBIDDEN: &[u8] = b"\"#<>\\^`{|}[]";
/// Texts beyond ASCII: valid UTF-8, and octets that are not.
const BEYOND: [&[u8]; 8] = [
    "ü".as_bytes(),
    "日本".as_bytes(),
    "🙂".as_bytes(),
    b"\xff",
    b"\xc3",
    b"\x80\x80",
    b"\xed\xa0\x80",
    b"\xf0\x9f",
];
const ESCAPES: [&str; 14] = [
    "%20", "%2F", "%2f", "%00", "%ff", "%23", "%3F", "%3c", "%22", "%25", "%e4", "%C3%BC",
    "%0d%0a", "%7f",
];
/// Invalid escapes. Go's server refuses them in a path.
pub const BAD_ESCAPES: [&str; 5] = ["%", "%z", "%zz", "%2", "%%41"];
const KEYS: [&str; 6] = ["a", "b", "q", "fieldManager", "x-y", ""];

/// The beginnings of paths that apifront forwards with every method. It answers
/// discovery, health and cached objects itself.
const FORWARDED: [&str; 5] = [
    "/recording/",
    "/api/v1/namespaces/ns/services/s:80/proxy/",
    "/api/v1/nodes/n/proxy/",
    "/api/v1/namespaces/ns/pods/p/portforward/",
    "/swagger/",
];
/// The beginnings of paths of objects. Only requests that change something use them.
const OBJECTS: [&str; 3] = [
    "/api/v1/namespaces/ns/configmaps/",
    "/apis/apps/v1/namespaces/ns/deployments/",
    "/apis/group.example/v1/things/",
];
const STREAMS: [&str; 3] = [
    "/api/v1/namespaces/ns/pods/p/log",
    "/api/v1/namespaces/ns/pods/p/exec",
    "/api/v1/namespaces/ns/pods/p/attach",
];

pub struct Kind<'a> {
    pub wire: Wire,
    pub method: &'a [u8],
    pub to_backend: bool,
    /// An authority for the absolute form. The server takes it for its own.
    pub authority: &'a str,
}

/// Returns a target that a server must accept.
pub fn target(rng: &mut StdRng, kind: &Kind<'_>) -> Vec<u8> {
    let writes = matches!(kind.method, b"POST" | b"PUT" | b"PATCH" | b"DELETE");
    let mut target = Vec::new();
    if kind.to_backend {
        target.extend(format!("/apis/{GROUP}/v1/things/").as_bytes());
        tail(rng, &mut target);
    } else {
        match rng.random_range(0..10) {
            0..3 if writes => {
                target.extend(OBJECTS.choose(rng).expect("paths").as_bytes());
                tail(rng, &mut target);
            }
            3..5 if matches!(kind.method, b"GET" | b"POST") => {
                target.extend(STREAMS.choose(rng).expect("paths").as_bytes());
            }
            _ => {
                target.extend(FORWARDED.choose(rng).expect("paths").as_bytes());
                tail(rng, &mut target);
            }
        }
    }
    if rng.random_bool(0.6) {
        query(rng, &mut target);
    }
    if kind.wire != Wire::Http2 && rng.random_bool(0.05) {
        let scheme = ["http", "https"].choose(rng).expect("schemes");
        let before = format!("{scheme}://{}", kind.authority);
        target.splice(0..0, before.bytes());
    }
    target
}

fn tail(rng: &mut StdRng, target: &mut Vec<u8>) {
    for n in 0..rng.random_range(1..4) {
        if n > 0 {
            target.push(b'/');
        }
        match rng.random_range(0..12) {
            0 => {}
            1 => target.push(b'.'),
            2 if n > 0 => target.extend(b".."),
            _ => text(rng, target, b""),
        }
    }
}

fn query(rng: &mut StdRng, target: &mut Vec<u8>) {
    target.push(b'?');
    for n in 0..*[0, 1, 1, 2, 4].choose(rng).expect("counts") {
        if n > 0 {
            target.push(*b"&&&&&;?".choose(rng).expect("separators"));
        }
        target.extend(KEYS.choose(rng).expect("keys").as_bytes());
        if rng.random_bool(0.8) {
            target.push(b'=');
            text(rng, target, b"?/");
        }
        if rng.random_bool(0.1) {
            target.extend(BAD_ESCAPES.choose(rng).expect("texts").as_bytes());
        }
    }
}

fn text(rng: &mut StdRng, target: &mut Vec<u8>, more: &[u8]) {
    let longest = *[1, 3, 8, 8, 60].choose(rng).expect("lengths");
    for _ in 0..rng.random_range(1..=longest) {
        match rng.random_range(0..20) {
            0..9 => target.push(*PLAIN.choose(rng).expect("octets")),
            9..12 => target.push(*DELIMITERS.choose(rng).expect("octets")),
            12..15 => target.push(*FORBIDDEN.choose(rng).expect("octets")),
            15 => target.extend(*BEYOND.choose(rng).expect("texts")),
            16 if !more.is_empty() => target.push(*more.choose(rng).expect("octets")),
            _ => target.extend(ESCAPES.choose(rng).expect("escapes").as_bytes()),
        }
    }
}
