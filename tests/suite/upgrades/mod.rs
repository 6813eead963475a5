//! Incomplete, repeated and misspelt upgrades. pingora must not make a tunnel of a
//! request with `Upgrade` but no `Connection`, which apifront takes for an ordinary
//! one. No upgrade may go upstream because two parts read `Connection` differently.

mod answers;
mod cached;
mod declined;
mod scripted;
mod stop;

use std::time::Duration;

use crate::harness::raw::RawConnection;

const SOON: Duration = Duration::from_secs(20);
/// A pause that is longer than any prompt answer on loopback takes.
const QUIET: Duration = Duration::from_millis(500);

/// A form of an upgrade: lines of `Connection` and `Upgrade`.
#[derive(Clone, Copy, Debug)]
struct Asked {
    lines: &'static [&'static str],
    /// Whether kube-apiserver takes this form for an upgrade.
    is_upgrade: bool,
}

const fn asked(lines: &'static [&'static str], is_upgrade: bool) -> Asked {
    Asked { lines, is_upgrade }
}

const ASKED: [Asked; 22] = [
    asked(&[], false),
    // Half an upgrade does not count as one.
    asked(&["Upgrade: websocket"], false),
    asked(&["Upgrade: SPDY/3.1"], false),
    asked(&["Connection: keep-alive", "Upgrade: websocket"], false),
    asked(&["Connection: close", "Upgrade: SPDY/3.1"], false),
    asked(
        &["Connection: keep-alive, up, grade", "Upgrade: SPDY/3.1"],
        false,
    ),
    asked(&["Connection: Upgrade", "Upgrade: websocket"], true),
    asked(&["Connection: Upgrade", "Upgrade: SPDY/3.1"], true),
    asked(
        &["Connection: keep-alive, Upgrade", "Upgrade: websocket"],
        true,
    ),
    asked(
        &["Connection: keep-alive, Upgrade", "Upgrade: SPDY/3.1"],
        true,
    ),
    asked(&["Connection: close, upgrade", "Upgrade: SPDY/3.1"], true),
    // Some servers read only the first line.
    asked(
        &[
            "Connection: keep-alive",
            "Connection: Upgrade",
            "Upgrade: websocket",
        ],
        true,
    ),
    asked(
        &[
            "Connection: keep-alive",
            "Connection: Upgrade",
            "Upgrade: SPDY/3.1",
        ],
        true,
    ),
    asked(&["Connection: Upgrade", "Upgrade: h2c, websocket"], true),
    asked(
        &["Connection: Upgrade", "Upgrade: h2c", "Upgrade: SPDY/3.1"],
        true,
    ),
    asked(
        &[
            "Connection: Upgrade",
            "Upgrade: SPDY/3.1",
            "Upgrade: SPDY/3.1",
        ],
        true,
    ),
    asked(
        &["Connection: Upgrade", "Upgrade: websocket", "Upgrade: h2c"],
        true,
    ),
    // kube-apiserver looks for the word anywhere.
    asked(&["Connection: xupgradex", "Upgrade: websocket"], true),
    asked(&["Connection: xupgradex", "Upgrade: SPDY/3.1"], true),
    asked(&["Connection: Upgrade", "Upgrade: h2c"], true),
    asked(&["Connection: Upgrade", "Upgrade:"], true),
    asked(&["Connection: Upgrade"], true),
];

/// The header fields of a handshake in both protocols, except those that name the
/// subprotocol.
const HANDSHAKE: &str = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
     Sec-WebSocket-Version: 13\r\n";

/// Returns the fields that name the subprotocols of WebSocket and SPDY, and the
/// origin of a browser's page, which kube-apiserver's own WebSockets require.
fn spoken(path: &str) -> &'static str {
    if path.contains("/portforward") {
        "Sec-WebSocket-Protocol: SPDY/3.1+portforward.k8s.io\r\n\
         X-Stream-Protocol-Version: portforward.k8s.io\r\n"
    } else if path.contains("/exec") {
        "Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n\
         X-Stream-Protocol-Version: v4.channel.k8s.io\r\n"
    } else if path.contains("watch=1") {
        "Origin: http://localhost\r\n"
    } else {
        ""
    }
}

fn request(method: &str, path: &str, version: &str, asked: Asked) -> String {
    let spoken = spoken(path);
    let mut text = format!(
        "{method} {path} {version}\r\nHost: localhost\r\nAudit-ID: same\r\n{HANDSHAKE}{spoken}"
    );
    for line in asked.lines {
        text += &format!("{line}\r\n");
    }
    if method == "POST" {
        text += "Content-Length: 0\r\n";
    }
    text + "\r\n"
}

/// Returns the next answer of a connection, with its body.
async fn answer(connection: &mut RawConnection) -> String {
    let answer = tokio::time::timeout(SOON, connection.read_answer()).await;
    String::from_utf8_lossy(&answer.expect("an answer in time")).into_owned()
}

fn code(answer: &str) -> u16 {
    let code = answer.get(9..12).and_then(|code| code.parse().ok());
    code.unwrap_or_else(|| panic!("no status: {answer:?}"))
}

/// Returns the meaning of an answer, whichever server passed it on: the status, the
/// media type, the new protocol of the connection, and the body.
fn told(answer: &str) -> (u16, Vec<String>, String) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let head = head.to_ascii_lowercase();
    let is_told = |line: &&str| {
        ["content-type: ", "upgrade: ", "sec-websocket-", "x-stream-"]
            .iter()
            .any(|start| line.starts_with(start))
    };
    let mut fields: Vec<_> = head.lines().filter(is_told).map(str::to_owned).collect();
    fields.sort();
    let is_chunked = head.contains("transfer-encoding: chunked");
    let is_content = |line: &&str| !(is_chunked && is_size(line));
    let body: String = body.lines().filter(is_content).collect();
    // kwok repeats the header fields that it received, and a proxy adds some.
    let own = body.split("in request: ").next().unwrap_or_default();
    (code(answer), fields, own.to_owned())
}

fn is_size(line: &str) -> bool {
    !line.is_empty() && line.len() < 5 && line.bytes().all(|b| b.is_ascii_hexdigit())
}
