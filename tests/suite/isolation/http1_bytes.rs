//! Makes HTTP/1 requests with errors.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// Valid requests. `{auth}` is replaced by the credentials.
const VALID: [&str; 16] = [
    "GET /api/v1/namespaces/default/configmaps?resourceVersion=0 HTTP/1.1\r\nHost: localhost\r\n{auth}\r\n",
    "GET /api/v1/pods HTTP/1.1\r\nHost: localhost\r\n{auth}Accept: application/yaml\r\nAccept-Encoding: gzip\r\n\r\n",
    "GET /api/v1/nodes/none?resourceVersion=0 HTTP/1.0\r\n{auth}Connection: keep-alive\r\n\r\n",
    "HEAD /api/v1/namespaces?resourceVersion=0 HTTP/1.1\r\nHost: localhost\r\n{auth}\r\n",
    "GET /api/v1/configmaps?watch=1&resourceVersion=0&timeoutSeconds=1 HTTP/1.1\r\nHost: localhost\r\n{auth}\r\n",
    "GET /api/v1/watch/namespaces/default/configmaps?timeoutSeconds=1 HTTP/1.1\r\nHost: localhost\r\n{auth}\r\n",
    "GET /apis HTTP/1.1\r\nHost: localhost\r\n{auth}Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList\r\n\r\n",
    "GET /openapi/v3 HTTP/1.1\r\nHost: localhost\r\n{auth}If-None-Match: \"x\"\r\n\r\n",
    "GET /readyz?verbose HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "GET /metrics HTTP/1.1\r\nHost: localhost\r\n{auth}\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n{auth}\r\n",
    "POST /api/v1/namespaces/default/configmaps?dryRun=All HTTP/1.1\r\nHost: localhost\r\n{auth}\
     Content-Type: application/json\r\nContent-Length: 64\r\n\r\n\
     {\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"xyzzy\"}}",
    "POST /api/v1/namespaces/default/configmaps?dryRun=All HTTP/1.1\r\nHost: localhost\r\n{auth}\
     Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n\
     20;a=b\r\n{\"apiVersion\":\"v1\",\"kind\":\"Config\r\n20\r\nMap\",\"metadata\":{\"name\":\"xyzzy\"}}\r\n\
     0\r\nx-sum: 1\r\n\r\n",
    "PUT /api/v1/namespaces/default/configmaps/none HTTP/1.1\r\nHost: localhost\r\n{auth}\
     Expect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
    "GET /api/v1/configmaps?watch=1&resourceVersion=0&timeoutSeconds=1 HTTP/1.1\r\nHost: localhost\r\n{auth}\
     Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n\u{1}\u{5}hello",
    "POST /api/v1/namespaces/default/pods/none/exec?command=a HTTP/1.1\r\nHost: localhost\r\n{auth}\
     Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n",
];

const TOKENS: [&str; 30] = [
    "\r\n",
    "\n",
    "\r",
    "\r\n\r\n",
    "\0",
    " ",
    "\t",
    ":",
    "Content-Length: 18446744073709551616\r\n",
    "Content-Length: -1\r\n",
    "Content-Length: 5, 5\r\n",
    "Content-Length: 99999999\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
    "Transfer-Encoding : chunked\r\n",
    "fffffffffffffffff\r\n",
    "7fffffffffffffff\r\n",
    "-1\r\n",
    "0\r\n\r\n",
    "Host: other\r\n",
    "Connection: close, upgrade, x-remote-user\r\n",
    "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n",
    "X-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n",
    "Impersonate-User: admin\r\nImpersonate-Group: system:masters\r\n",
    "Authorization: Bearer ",
    "HTTP/9.9",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "%",
    "http://elsewhere:1/",
    "\u{ff}\u{fe}",
];

/// Returns the bytes for one connection, in the pieces in which they are written.
pub fn stream(rng: &mut StdRng, authorization: &str) -> Vec<Vec<u8>> {
    let requests = *[1, 1, 1, 2, 3, 20].choose(rng).expect("counts");
    let mut bytes = Vec::new();
    for _ in 0..requests {
        let valid = VALID.choose(rng).expect("requests");
        bytes.extend_from_slice(valid.replace("{auth}", authorization).as_bytes());
    }
    for _ in 0..*[0, 1, 1, 2, 3, 6].choose(rng).expect("counts") {
        mutate(rng, &mut bytes);
    }
    let mut pieces = Vec::new();
    while bytes.len() > 1 && pieces.len() < 4 && rng.random_bool(0.4) {
        let rest = bytes.split_off(rng.random_range(1..bytes.len()));
        pieces.push(std::mem::replace(&mut bytes, rest));
    }
    pieces.push(bytes);
    pieces
}

fn mutate(rng: &mut StdRng, bytes: &mut Vec<u8>) {
    let at = rng.random_range(0..=bytes.len());
    let end = (at + rng.random_range(1..64)).min(bytes.len());
    match rng.random_range(0..14) {
        0 if at < bytes.len() => bytes[at] = rng.random(),
        1 if at < bytes.len() => bytes[at] ^= 1 << rng.random_range(0..8),
        2 => {
            bytes.drain(at..end);
        }
        3 => {
            let again = bytes[at..end].to_vec();
            insert(bytes, at, &again);
        }
        4 => bytes.truncate(at),
        5..8 => insert(bytes, at, TOKENS.choose(rng).expect("tokens").as_bytes()),
        8 => {
            let token = TOKENS.choose(rng).expect("tokens");
            insert_line(rng, bytes, token.as_bytes());
        }
        9 => {
            let length = *[100, 5_000, 70_000, 300_000].choose(rng).expect("lengths");
            let line = format!("X-Long: {}\r\n", "x".repeat(length));
            insert_line(rng, bytes, line.as_bytes());
        }
        10 => {
            let count = *[50, 300, 3_000].choose(rng).expect("counts");
            let lines: String = (0..count).map(|n| format!("x-{n}: y\r\n")).collect();
            insert_line(rng, bytes, lines.as_bytes());
        }
        11 => {
            let junk: Vec<u8> = (0..rng.random_range(1..200))
                .map(|_| rng.random())
                .collect();
            insert(bytes, at, &junk);
        }
        12 => bytes.retain(|b| *b != b'\r'),
        _ => {
            let path = format!(
                "/{}",
                "a/".repeat(*[10, 1_000, 40_000].choose(rng).expect("lengths"))
            );
            replace_first(bytes, b"/api", path.as_bytes());
        }
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, more: &[u8]) {
    bytes.splice(at..at, more.iter().copied());
}

fn insert_line(rng: &mut StdRng, bytes: &mut Vec<u8>, line: &[u8]) {
    let ends = bytes.windows(2).enumerate().filter(|(_, w)| w == b"\r\n");
    let ends: Vec<usize> = ends.map(|(at, _)| at + 2).collect();
    let at = ends.choose(rng).copied().unwrap_or(bytes.len());
    insert(bytes, at, line);
}

fn replace_first(bytes: &mut Vec<u8>, what: &[u8], by: &[u8]) {
    if let Some(at) = bytes.windows(what.len()).position(|w| w == what) {
        bytes.splice(at..at + what.len(), by.iter().copied());
    }
}
