//! Faults for which a request must be refused, each with the answer. Go's server
//! also refuses them, except where the list says otherwise.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::exchange::{Request, Wire};
use super::fields::Field;
use super::targets::BAD_ESCAPES;

pub struct Fault {
    pub name: &'static str,
    /// The possible statuses of the answer. In HTTP/2 the stream may be reset
    /// instead.
    pub statuses: &'static [u16],
    /// Whether Go's server accepts the request.
    pub is_stricter: bool,
    inject: fn(&mut StdRng, &mut Request),
}

const HTTP1: [Fault; 19] = [
    Fault {
        name: "escape that is none, in the path",
        statuses: &[400],
        is_stricter: false,
        inject: bad_escape,
    },
    Fault {
        name: "space in the target",
        statuses: &[400],
        is_stricter: false,
        inject: |rng, request| in_target(rng, request, b" "),
    },
    Fault {
        name: "control character in the target",
        statuses: &[400],
        is_stricter: false,
        inject: |rng, request| {
            let octet = *b"\x01\x0b\x1f\x7f\t".choose(rng).expect("octets");
            in_target(rng, request, &[octet]);
        },
    },
    Fault {
        name: "target without a slash",
        statuses: &[400],
        is_stricter: false,
        inject: |_, request| request.target = b"api/v1".to_vec(),
    },
    Fault {
        name: "control character in a value",
        statuses: &[400],
        is_stricter: false,
        inject: control_in_value,
    },
    Fault {
        name: "name that is no token",
        statuses: &[400],
        is_stricter: false,
        inject: |rng, request| {
            let names = ["X A", "X(A)", "", "X\u{e4}", "X[1]", "\"X\"", "X/A"];
            add(request, names.choose(rng).expect("names"), " 1");
        },
    },
    Fault {
        name: "space before the colon",
        statuses: &[400],
        is_stricter: false,
        inject: |_, request| add(request, "X-A ", " 1"),
    },
    Fault {
        name: "two hosts",
        statuses: &[400],
        is_stricter: false,
        inject: |_, request| add(request, "Host", " localhost"),
    },
    Fault {
        name: "host that is none",
        statuses: &[400],
        is_stricter: false,
        inject: |rng, request| {
            request.fields.retain(|field| !field.is("host"));
            let hosts = [" a b", " a/b", " a\"b", " <a>", " a\\b"];
            add(request, "Host", hosts.choose(rng).expect("hosts"));
        },
    },
    Fault {
        name: "no host",
        statuses: &[400],
        is_stricter: false,
        inject: |_, request| {
            request.wire = Wire::Http11;
            request.fields.retain(|field| !field.is("host"));
        },
    },
    Fault {
        name: "two lengths",
        statuses: &[400],
        is_stricter: false,
        inject: |_, request| {
            add(request, "Content-Length", " 0");
            add(request, "Content-Length", " 4");
        },
    },
    Fault {
        name: "length that is none",
        statuses: &[400],
        is_stricter: false,
        inject: |rng, request| {
            let lengths = [" -1", " +1", " 1,2", " 1x", " 0x1", " 99999999999999999999"];
            let length = lengths.choose(rng).expect("lengths");
            add(request, "Content-Length", length);
        },
    },
    // Go's server uses the chunks and ignores the length. A proxy must refuse: RFC
    // 9112, 6.3.
    Fault {
        name: "length and chunks",
        statuses: &[400],
        is_stricter: true,
        inject: |_, request| {
            request.wire = Wire::Http11;
            add(request, "Content-Length", " 5");
            add(request, "Transfer-Encoding", " chunked");
        },
    },
    Fault {
        name: "coding that nobody knows",
        statuses: &[400, 501],
        is_stricter: false,
        inject: |rng, request| {
            request.wire = Wire::Http11;
            let codings = [
                " gzip",
                " gzip, chunked",
                " chunked, identity",
                " xchunked",
                " chunked;a=b",
            ];
            add(
                request,
                "Transfer-Encoding",
                codings.choose(rng).expect("codings"),
            );
        },
    },
    Fault {
        name: "expectation that nobody knows",
        statuses: &[417],
        is_stricter: false,
        inject: |rng, request| {
            let expectations = [" something", " 200-ok", " 100-continued"];
            // Only the first field counts.
            request.fields.retain(|field| !field.is("expect"));
            add(request, "Expect", expectations.choose(rng).expect("values"));
        },
    },
    Fault {
        name: "method that is no token",
        statuses: &[400],
        is_stricter: false,
        inject: |rng, request| {
            let methods = ["G(T", "GE\u{e4}T", "G@T", "", "GET/"];
            request.method = methods.choose(rng).expect("methods").as_bytes().to_vec();
        },
    },
    // For some paths kube-apiserver answers 404.
    Fault {
        name: "CONNECT",
        statuses: &[400, 405],
        is_stricter: true,
        inject: |_, request| request.method = b"CONNECT".to_vec(),
    },
    Fault {
        name: "line without a colon",
        statuses: &[400],
        is_stricter: false,
        inject: |_, request| add(request, "X-A", " 1\r\nno colon"),
    },
    Fault {
        name: "fold before the first field",
        statuses: &[400],
        is_stricter: false,
        inject: |_, request| {
            let first = Field::new(" X-A", " 1");
            request.fields.insert(0, first);
        },
    },
];

const HTTP2: [Fault; 11] = [
    Fault {
        name: "escape that is none, in the path",
        statuses: &[400],
        is_stricter: false,
        inject: bad_escape,
    },
    Fault {
        name: "control character in the path",
        statuses: &[400],
        is_stricter: false,
        inject: |rng, request| {
            let octet = *b"\x01\x0b\x1f\x7f\0\r\n".choose(rng).expect("octets");
            in_target(rng, request, &[octet]);
        },
    },
    Fault {
        name: "path without a slash",
        statuses: &[400],
        is_stricter: false,
        inject: |_, request| request.target = b"api/v1".to_vec(),
    },
    Fault {
        name: "empty path",
        statuses: &[400],
        is_stricter: false,
        inject: |_, request| request.target.clear(),
    },
    Fault {
        name: "control character in a value",
        statuses: &[400],
        is_stricter: false,
        inject: control_in_value,
    },
    Fault {
        name: "name with capitals",
        statuses: &[400],
        is_stricter: false,
        inject: |_, request| add(request, "X-Capital", "1"),
    },
    Fault {
        name: "name that is no token",
        statuses: &[400],
        is_stricter: false,
        inject: |rng, request| {
            let names = ["x a", "x(a)", "", "x\u{e4}", "x\r\ny"];
            add(request, names.choose(rng).expect("names"), "1");
        },
    },
    Fault {
        name: "field of a connection",
        statuses: &[400],
        is_stricter: false,
        inject: |rng, request| {
            let fields = [
                ("connection", "keep-alive"),
                ("upgrade", "h2c"),
                ("transfer-encoding", "chunked"),
                ("te", "gzip"),
                ("keep-alive", "5"),
                ("proxy-connection", "close"),
            ];
            let (name, value) = *fields.choose(rng).expect("fields");
            request.fields.retain(|field| !field.is(name));
            add(request, name, value);
        },
    },
    Fault {
        name: "method that is no token",
        statuses: &[400],
        is_stricter: true,
        inject: |rng, request| {
            let methods = ["G(T", "GE\u{e4}T", "G@T", "", "GET/", "G\0T"];
            request.method = methods.choose(rng).expect("methods").as_bytes().to_vec();
        },
    },
    Fault {
        name: "head that is too large",
        statuses: &[431],
        is_stricter: false,
        inject: |_, request| {
            for _ in 0..70 {
                add(request, "x-large", &"x".repeat(16_000));
            }
        },
    },
    Fault {
        name: "length of a body that does not come",
        statuses: &[400],
        is_stricter: false,
        inject: |_, request| add(request, "content-length", "5"),
    },
];

pub fn inject(rng: &mut StdRng, request: &mut Request) -> &'static Fault {
    let faults: &'static [Fault] = match request.wire {
        Wire::Http2 => &HTTP2,
        _ => &HTTP1,
    };
    let fault = faults.choose(rng).expect("faults");
    (fault.inject)(rng, request);
    fault
}

fn add(request: &mut Request, name: &str, raw: &str) {
    request.fields.push(Field::new(name, raw));
}

/// Inserts octets into the target, after its first segment.
fn in_target(rng: &mut StdRng, request: &mut Request, octets: &[u8]) {
    let at = rng.random_range(request.target.len() / 2..=request.target.len());
    request.target.splice(at..at, octets.iter().copied());
}

fn bad_escape(rng: &mut StdRng, request: &mut Request) {
    let escape = BAD_ESCAPES.choose(rng).expect("escapes");
    let path = request.target.split(|b| *b == b'?').next();
    let mut target = path.unwrap_or_default().to_vec();
    // The octets after it must not complete the escape.
    target.extend(escape.as_bytes());
    target.extend(b"/x");
    request.target = target;
}

fn control_in_value(rng: &mut StdRng, request: &mut Request) {
    let octet = *b"\0\x01\x08\x1f\x7f".choose(rng).expect("octets");
    let value = [b" a", &[octet][..], b"b"].concat();
    let name = match request.wire {
        Wire::Http2 => "x-control",
        _ => "X-Control",
    };
    let value = match request.wire {
        Wire::Http2 => value.trim_ascii_start().to_vec(),
        _ => value,
    };
    request.fields.push(Field::new(name, value));
}
