//! Makes requests for an upgrade, in every form.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::exchange::fields_of;
use super::fields::{Field, Fields};

/// Protocols, each with its header fields.
const PROTOCOLS: [(&str, &[(&str, &str)]); 7] = [
    ("h2c", &[("HTTP2-Settings", "AAMAAABkAARAAAAAAAIAAAAA")]),
    (
        "websocket",
        &[
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Protocol", "v5.channel.k8s.io"),
        ],
    ),
    ("websocket", &[]),
    (
        "SPDY/3.1",
        &[("X-Stream-Protocol-Version", "v4.channel.k8s.io")],
    ),
    ("TLS/1.2", &[]),
    ("h2c, websocket", &[]),
    ("foo/2, bar", &[]),
];

/// Returns the fields of an upgrade. Some lack `Connection`, and so do not ask for
/// an upgrade.
pub fn fields(rng: &mut StdRng) -> Fields {
    let (protocol, more) = *PROTOCOLS.choose(rng).expect("protocols");
    let mut fields = fields_of(&[("Upgrade", protocol)]);
    fields.extend(fields_of(more));
    if rng.random_bool(0.15) {
        fields.push(Field::new("Upgrade", "other/1"));
    }
    let names: &[&str] = match protocol {
        "h2c" => &["Upgrade, HTTP2-Settings", "HTTP2-Settings, upgrade"],
        _ => &[
            "Upgrade",
            "upgrade",
            "keep-alive, Upgrade",
            "UPGRADE ,x-a",
            "xupgradex",
        ],
    };
    if rng.random_bool(0.8) {
        fields.push(Field::new("Connection", names.choose(rng).expect("names")));
    }
    fields
}
