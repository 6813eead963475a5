//! Makes random answers of the recorder.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};

use super::exchange::{AnswerFraming, Ending, Planned, Request, fields_of};
use super::fields::{Field, Fields};
use super::generate;

const STATUSES: [u16; 30] = [
    200, 200, 200, 200, 200, 201, 202, 203, 204, 206, 226, 299, 300, 301, 302, 304, 307, 400, 403,
    404, 409, 410, 415, 418, 422, 429, 500, 503, 504, 599,
];

const KNOWN: [(&str, &[&str]); 20] = [
    (
        "Content-Type",
        &[
            "application/json",
            "text/plain",
            "text/html; charset=utf-8",
            "",
        ],
    ),
    ("Content-Encoding", &["gzip"]),
    ("Content-Language", &["de"]),
    ("Set-Cookie", &["a=b; Path=/", "c=\"d,e\"; HttpOnly"]),
    (
        "Warning",
        &["299 - \"take care\"", "299 - \"again, and again\""],
    ),
    (
        "Location",
        &["https://elsewhere.example/a?b#c", "/relative"],
    ),
    ("Etag", &["\"x\"", "W/\"y\""]),
    ("Vary", &["Accept-Encoding", "*"]),
    ("Cache-Control", &["no-cache, private", "max-age=3"]),
    ("Date", &["Tue, 15 Nov 1994 08:12:31 GMT"]),
    ("Server", &["recorder/1", ""]),
    ("Retry-After", &["1", "120"]),
    ("Allow", &["GET, HEAD", ""]),
    ("Www-Authenticate", &["Basic realm=\"x\", Bearer"]),
    ("Content-Range", &["bytes 0-1/2"]),
    ("Last-Modified", &["Sat, 29 Oct 1994 19:43:31 GMT"]),
    ("Link", &["</a>; rel=preload", "<b>; rel=\"next\""]),
    ("Via", &["1.1 inner"]),
    ("Alt-Svc", &["h3=\":443\"; ma=3600"]),
    ("X-Kubernetes-Anything", &["x", ""]),
];

const FREE: [&str; 5] = [
    "X-A",
    "x-odd-Case",
    "X-REPEATED",
    "x_under",
    "!#$%&'*+-.^_`|~",
];
const VALUES: [&[u8]; 8] = [
    b"",
    b"1",
    b"a, b,, c",
    b"\"quoted, \\\" text\"",
    b"a\tb  c",
    b"\xe4\xf6",
    "grün".as_bytes(),
    b"<script>#",
];

pub fn planned(rng: &mut StdRng, request: &Request) -> Planned {
    let status = *STATUSES.choose(rng).expect("statuses");
    let mut planned = Planned {
        informational: Vec::new(),
        ending: Ending::Whole,
        status,
        fields: fields(rng),
        body: body(rng),
        framing: *[
            AnswerFraming::Length,
            AnswerFraming::Length,
            AnswerFraming::Chunked,
            AnswerFraming::UntilClose,
        ]
        .choose(rng)
        .expect("framings"),
        trailers: Vec::new(),
        is_early: false,
    };
    if request.is_upgrade() {
        let is_for_backend = generate::is_for_backend(request);
        if rng.random_bool(0.3) {
            return agreement(rng, request, planned);
        }
        // The aggregator takes a backend that ignores an upgrade for broken.
        if is_for_backend && planned.status < 400 {
            planned.status = 403;
        }
    }
    // Nor may a backend redirect.
    if generate::is_for_backend(request) && (300..400).contains(&planned.status) {
        planned.status = 404;
    }
    if rng.random_bool(0.06) {
        let early_hints = fields_of(&[("Link", "</style.css>; rel=preload")]);
        planned.informational.push((103, early_hints));
    }
    if !planned.has_body(&request.method) {
        if planned.framing == AnswerFraming::UntilClose {
            planned.framing = AnswerFraming::Length;
        }
        return planned;
    }
    match rng.random_range(0..40) {
        0 => planned.ending = Ending::NoAnswer,
        1 if planned.framing != AnswerFraming::UntilClose && planned.body.len() > 1 => {
            planned.ending = Ending::Half;
        }
        2 | 3 if planned.framing == AnswerFraming::Chunked => {
            planned.trailers = fields_of(&[("X-Sum", "1"), ("x-other", "")]);
        }
        _ => {}
    }
    planned
}

fn agreement(rng: &mut StdRng, request: &Request, planned: Planned) -> Planned {
    let protocol = super::fields::first(&request.fields, "upgrade").unwrap_or_default();
    let mut fields = vec![
        Field::new("Upgrade", protocol),
        Field::new("Connection", "Upgrade"),
    ];
    if rng.random_bool(0.5) {
        fields.push(Field::new("X-Stream-Protocol-Version", "v4.channel.k8s.io"));
    }
    Planned {
        status: 101,
        fields,
        body: Vec::new(),
        ..planned
    }
}

fn fields(rng: &mut StdRng) -> Fields {
    let mut fields = Vec::new();
    for _ in 0..*[0, 1, 2, 4, 8].choose(rng).expect("counts") {
        if rng.random_bool(0.6) {
            let (name, values) = *KNOWN.choose(rng).expect("names");
            let repeats = matches!(name, "Set-Cookie" | "Warning" | "Vary" | "Link");
            let count = if repeats { rng.random_range(1..4) } else { 1 };
            // A single-valued field appears once.
            fields.retain(|field: &Field| repeats || !field.is(name));
            for _ in 0..count {
                fields.push(Field::new(name, values.choose(rng).expect("values")));
            }
            continue;
        }
        let name = *FREE.choose(rng).expect("names");
        for _ in 0..*[1, 1, 3].choose(rng).expect("counts") {
            let value = match rng.random_bool(0.1) {
                true => vec![b'v'; *[300, 6_000].choose(rng).expect("lengths")],
                false => VALUES.choose(rng).expect("values").to_vec(),
            };
            fields.push(Field::new(name, value));
        }
    }
    fields.shuffle(rng);
    fields
}

fn body(rng: &mut StdRng) -> Vec<u8> {
    let length = *[0, 0, 1, 20, 20, 1_500, 40_000]
        .choose(rng)
        .expect("lengths");
    (0..length).map(|_| rng.random()).collect()
}
