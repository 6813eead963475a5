//! Random requests, each with the answer that it gets.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};

use super::answers;
use super::exchange::{Body, BodyFraming, Ending, NUMBER, Planned, Request, Waits, Wire};
use super::faults::{self, Fault};
use super::fields::Field;
use super::recorder::{GROUP, TOKEN};
use super::worlds::{Mode, Traits};
use super::{left_out, request_fields, targets, upgrades};

const METHODS: [&str; 28] = [
    "GET",
    "GET",
    "GET",
    "GET",
    "GET",
    "GET",
    "GET",
    "POST",
    "POST",
    "POST",
    "POST",
    "PUT",
    "PUT",
    "PATCH",
    "PATCH",
    "DELETE",
    "DELETE",
    "DELETE",
    "HEAD",
    "OPTIONS",
    "TRACE",
    "PROPFIND",
    "PURGE",
    "QUERY",
    "get",
    "M-SEARCH",
    "!#$%&'*+-.^_`|~",
    "X",
];

/// One exchange to try.
pub struct Trial {
    pub request: Request,
    pub planned: Planned,
    /// The fault for which the request must be refused, if it has one.
    pub fault: Option<&'static Fault>,
}

/// Returns a request that was not left out.
pub fn trial(rng: &mut StdRng, number: u64, traits: &Traits) -> Trial {
    loop {
        let trial = any(rng, number, traits);
        if !left_out::is_left_out(&trial) {
            return trial;
        }
    }
}

fn any(rng: &mut StdRng, number: u64, traits: &Traits) -> Trial {
    let wire = *[
        Wire::Http10,
        Wire::Http11,
        Wire::Http11,
        Wire::Http11,
        Wire::Http11,
        Wire::Http2,
        Wire::Http2,
        Wire::Http2,
    ]
    .choose(rng)
    .expect("wires");
    let method = METHODS.choose(rng).expect("methods").as_bytes();
    let kind = targets::Kind {
        wire,
        method,
        to_backend: traits.has_backend && rng.random_bool(0.3),
        authority: "localhost",
    };
    let target = targets::target(rng, &kind);
    let mut fields = request_fields::fields(rng, wire);
    if wire != Wire::Http2 && rng.random_bool(0.25) {
        fields.extend(upgrades::fields(rng));
        fields.shuffle(rng);
    }
    let mut request = Request {
        number,
        wire,
        method: method.to_vec(),
        target,
        authority: (wire == Wire::Http2).then(|| b"localhost".to_vec()),
        fields,
        body: Body::default(),
    };
    own_fields(rng, &mut request, traits);
    body(rng, &mut request);
    let mut fault = None;
    if rng.random_bool(0.08) {
        request.body = Body::default();
        fault = Some(faults::inject(rng, &mut request));
    }
    let mut planned = answers::planned(rng, &request);
    let has_halves = request.body.pieces.len() > 1 && request.body.cut.is_none();
    if has_halves
        && request.body.waits == Waits::Nothing
        && planned.ending == Ending::Whole
        && planned.status != 101
        && rng.random_bool(0.1)
    {
        planned.is_early = true;
        request.body.waits = Waits::Answer;
    }
    Trial {
        request,
        planned,
        fault,
    }
}

fn own_fields(rng: &mut StdRng, request: &mut Request, traits: &Traits) {
    let lower = request.wire == Wire::Http2;
    let mut add = |name: &str, raw: &str| {
        let at = rng.random_range(0..=request.fields.len());
        let name = match lower {
            true => name.to_ascii_lowercase(),
            false => name.to_owned(),
        };
        request.fields.insert(at, Field::new(name, raw));
    };
    let padding = if lower { "" } else { " " };
    add(NUMBER, &format!("{padding}{}", request.number));
    if !lower {
        add("Host", &format!("{padding}localhost"));
    }
    if traits.mode == Mode::PassThrough {
        add("Authorization", &format!("{padding}Bearer {TOKEN}"));
    }
}

fn body(rng: &mut StdRng, request: &mut Request) {
    let writes = matches!(
        request.method.as_slice(),
        b"POST" | b"PUT" | b"PATCH" | b"DELETE"
    );
    let likely = if writes { 0.8 } else { 0.15 };
    if request.method == b"TRACE" || !rng.random_bool(likely) {
        return;
    }
    let count = *[0, 1, 1, 1, 2, 3, 9].choose(rng).expect("counts");
    let longest = *[1, 10, 10, 500, 3_000, 40_000]
        .choose(rng)
        .expect("lengths");
    let pieces = (0..count).map(|_| {
        let length = rng.random_range(1..=longest);
        (0..length).map(|_| rng.random()).collect()
    });
    request.body.pieces = pieces.collect();
    request.body.framing = match request.wire {
        Wire::Http10 => BodyFraming::Length,
        _ => *[
            BodyFraming::Length,
            BodyFraming::Open,
            BodyFraming::Extended,
        ]
        .choose(rng)
        .expect("framings"),
    };
    let is_open = request.body.framing != BodyFraming::Length;
    if is_open && rng.random_bool(0.1) {
        let trailer = Field::new("x-sum", "17");
        request.body.trailers = vec![trailer];
    }
    let length = request.body.octets().len();
    if length > 0 && rng.random_bool(0.04) {
        request.body.cut = Some(rng.random_range(0..length));
        return;
    }
    if request.wire == Wire::Http11 && rng.random_bool(0.08) {
        let value = ["100-continue", "100-Continue"]
            .choose(rng)
            .expect("values");
        request.fields.push(Field::new("Expect", value));
        request.body.waits = Waits::Continue;
    }
}

pub fn is_for_backend(request: &Request) -> bool {
    let path = origin_form(&request.target);
    path.starts_with(format!("/apis/{GROUP}/").as_bytes())
}

/// Returns a target without the scheme and the authority of the absolute form.
pub fn origin_form(target: &[u8]) -> &[u8] {
    for scheme in [&b"http://"[..], b"https://"] {
        if let Some(rest) = target.strip_prefix(scheme) {
            let path = rest.iter().position(|b| *b == b'/');
            return path.map_or(&b"/"[..], |at| &rest[at..]);
        }
    }
    target
}
