//! Asks one request of two servers and compares the answers.

use std::fmt::Write;
use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::Method;

use super::apifront::oracle;
use super::client::{Answer, Client};
use super::cluster::Cluster;
use super::eventually;
use super::expect::{DEBUG, Expect, is_filling};
use super::{flow_names, forwarded, logs};

/// The headers that mean something to a client. The rest name the request or
/// the moment.
const COMPARED_HEADERS: [&str; 10] = [
    "content-type",
    "warning",
    "cache-control",
    "retry-after",
    "x-content-type-options",
    "vary",
    "content-encoding",
    "location",
    "x-kubernetes-pf-flowschema-uid",
    "x-kubernetes-pf-prioritylevel-uid",
];

/// The number of bytes shown around the first difference.
const CONTEXT: usize = 160;
/// The number of times that both servers are asked before a difference counts.
/// An age in a Table may tick or a lease be renewed between the two requests.
const TRIES: usize = 4;
const BETWEEN_TRIES: Duration = Duration::from_millis(250);
/// The time in which the cache must have listed a resource after the first
/// request for it. Until then the question is repeated, and does not count as a
/// try.
const FILLED_WITHIN: Duration = Duration::from_secs(30);
/// The number of differences that a failure shows.
const SHOWN: usize = 20;

/// Compares two ways to the same data. `direct` is right. The answer of `front`
/// must come from its cache, unless a question says otherwise.
pub struct Differential {
    pub direct: Client,
    pub front: Client,
    expected: Expect,
    differences: Vec<String>,
    asked: usize,
    hits: AtomicUsize,
}

/// The result of one question.
pub struct Outcome {
    /// Empty if the answers mean the same.
    pub difference: String,
    /// The answer of `front`, if there was one.
    pub front: Option<Answer>,
}

/// The next question of a [`Differential`], with its own expectation.
pub struct Question<'a> {
    both: &'a mut Differential,
    expected: Expect,
}

impl Question<'_> {
    pub async fn get(self, path: &str) {
        self.ask(Method::GET, path, &[], "").await;
    }

    pub async fn get_as(self, path: &str, accept: &str) {
        self.ask(Method::GET, path, &[("accept", accept)], "").await;
    }

    /// Asks both servers and keeps the difference.
    pub async fn ask(
        self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &'static str,
    ) {
        let found = self
            .both
            .difference(self.expected, method, path, headers, body)
            .await;
        self.both.add([found]);
    }
}

impl Differential {
    pub fn new(direct: Client, front: Client) -> Self {
        Self {
            direct,
            front,
            expected: Expect::Hit,
            differences: Vec::new(),
            asked: 0,
            hits: AtomicUsize::new(0),
        }
    }

    /// Expects this of all questions that do not say otherwise.
    pub fn expecting(self, expected: Expect) -> Self {
        Self { expected, ..self }
    }

    /// Expects this of the next question.
    pub fn expect(&mut self, expected: Expect) -> Question<'_> {
        Question {
            both: self,
            expected,
        }
    }

    pub async fn get(&mut self, path: &str) {
        self.expect(self.expected).get(path).await;
    }

    pub async fn get_as(&mut self, path: &str, accept: &str) {
        self.expect(self.expected).get_as(path, accept).await;
    }

    /// Asks both servers, with the expectation of all questions, and keeps the
    /// difference.
    pub async fn ask(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &'static str,
    ) {
        let question = self.expect(self.expected);
        question.ask(method, path, headers, body).await;
    }

    /// Does the same as [`Question::ask`] with `&self`, for questions asked
    /// concurrently. Returns the difference, or an empty text; pass it to
    /// [`Differential::add`].
    pub async fn difference(
        &self,
        expected: Expect,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &'static str,
    ) -> String {
        let accept = headers.iter().find(|(name, _)| *name == "accept");
        let accept = accept.map_or("", |(_, value)| *value);
        let judge = |front: &Answer| match self.has_a_cache() {
            true => forwarded::unmet(expected, path, accept, front),
            false => String::new(),
        };
        let outcome = self
            .outcome(method.clone(), path, headers, body, judge)
            .await;
        if outcome.front.is_some_and(|answer| answer.is_hit()) {
            self.hits.fetch_add(1, Ordering::Relaxed);
        }
        outcome.difference
    }

    /// Does the same as [`Differential::difference`] without an expectation,
    /// for questions of which nobody knows beforehand who answers them. The
    /// caller counts the hits.
    pub async fn unforeseen(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Outcome {
        self.outcome(method, path, headers, "", |_| String::new())
            .await
    }

    /// Asks until nothing differs and `judge` returns an empty text, or until
    /// the tries are used up.
    async fn outcome(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &'static str,
        judge: impl Fn(&Answer) -> String,
    ) -> Outcome {
        Cluster::refuse_whole_list(self.direct.address(), &method, path);
        let debug = [headers, &[DEBUG]].concat();
        let filled_by = Instant::now() + FILLED_WITHIN;
        let mut tries = 0;
        loop {
            // Both servers are asked at the same time, so that nothing ticks
            // between the answers.
            let (direct, front) = tokio::join!(
                self.direct.send(method.clone(), path, headers, body),
                self.front.try_send(method.clone(), path, &debug, body),
            );
            let (difference, front) = match front {
                Ok(front) => (compare(&direct, &front) + &judge(&front), Some(front)),
                Err(error) => (format!("  no answer: {error}\n"), None),
            };
            let filling = front.as_ref().is_some_and(is_filling) && Instant::now() < filled_by;
            tries += usize::from(!filling);
            if difference.is_empty() {
                return Outcome { difference, front };
            }
            if tries >= TRIES {
                let asked = self.told(&method, path, headers, body);
                let heads = front.as_ref().map(|front| heads(&direct, front));
                let heads = heads.unwrap_or_default();
                let difference = format!("{method} {path}\n{asked}{heads}{difference}");
                return Outcome { difference, front };
            }
            crate::pace::of_tries(BETWEEN_TRIES).await;
        }
    }

    /// Returns the request to both, as curl would send it.
    fn told(&self, method: &Method, path: &str, headers: &[(&str, &str)], body: &str) -> String {
        let mut options = format!("curl -k -X {method}");
        for (name, value) in headers {
            let _ = write!(options, " -H '{name}: {value}'");
        }
        if !body.is_empty() {
            let _ = write!(options, " -d '{}'", body.replace('\'', "'\\''"));
        }
        let (direct, front) = (self.direct.address(), self.front.address());
        format!("  - {options} 'https://{direct}{path}'\n  + {options} 'https://{front}{path}'\n")
    }

    /// Asks `front` until its cache answers `path`.
    pub async fn warm(&self, path: &str) {
        if !self.has_a_cache() {
            return;
        }
        eventually("a cache hit", FILLED_WITHIN, || async {
            let answer = self.front.send(Method::GET, path, &[DEBUG], "").await;
            answer.is_hit()
        })
        .await;
    }

    /// Tells whether `front` is apifront. Suites also compare kube-apiserver
    /// with itself, to prove that they compare nothing that changes on its own.
    fn has_a_cache(&self) -> bool {
        !oracle() && self.front.address() != self.direct.address()
    }

    pub fn add(&mut self, found: impl IntoIterator<Item = String>) {
        for difference in found {
            self.asked += 1;
            if !difference.is_empty() {
                self.differences.push(difference);
            }
        }
    }

    /// Fails with the first differences, if there are any.
    #[track_caller]
    pub fn finish(self) {
        let asked = self.asked;
        // kube-apiserver compared with itself says nothing about the cache.
        if self.has_a_cache() {
            let hits = self.hits.load(Ordering::Relaxed);
            println!("compared: {asked} answers, {hits} of them from the cache");
        }
        let shown: Vec<&String> = self.differences.iter().take(SHOWN).collect();
        let text: String = shown.iter().map(|d| format!("{d}\n")).collect();
        assert!(
            self.differences.is_empty(),
            "{} of {asked} answers differ (- direct, + front):\n\n{text}{}{}",
            self.differences.len(),
            logs::of(self.direct.address()),
            logs::of(self.front.address()),
        );
    }
}

/// Returns an empty text if the answers mean the same to a client.
pub fn compare(direct: &Answer, front: &Answer) -> String {
    let bodies = (comparable_body(direct), comparable_body(front));
    compare_with(direct, front, bodies)
}

/// Does the same as [`compare`], but the versions of lists must agree too.
pub fn compare_exactly(direct: &Answer, front: &Answer) -> String {
    compare_with(direct, front, (unpacked(direct), unpacked(front)))
}

fn compare_with(direct: &Answer, front: &Answer, (d, f): (Bytes, Bytes)) -> String {
    let mut out = String::new();
    if direct.status != front.status {
        let (d, f) = (direct.status, front.status);
        let _ = writeln!(out, "  status: - {d}\n          + {f}");
    }
    for name in COMPARED_HEADERS {
        let values = |answer: &Answer| -> Vec<String> {
            let values = answer.headers.get_all(name).iter();
            let values = values.map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned());
            match flow_names::HEADERS.contains(&name) {
                true => values.map(|uid| flow_names::name(&uid)).collect(),
                false => values.collect(),
            }
        };
        let (d, f) = (values(direct), values(front));
        if d != f {
            let _ = writeln!(out, "  {name}: - {d:?}\n  {name}: + {f:?}");
        }
    }
    if d != f {
        out += &compare_bytes(&d, &f);
    }
    out
}

/// Returns the body, unpacked, with the version of a list masked, in its
/// continue token too. Two caches that hold the same objects may name different
/// versions, since each has its own progress.
fn comparable_body(answer: &Answer) -> Bytes {
    let body = mask_token_version(unpacked(answer));
    let content_type = answer.header("content-type");
    if content_type.contains("protobuf") {
        mask_protobuf_version(&body)
    } else if content_type.contains("cbor") {
        // kube-apiserver writes the keys of each map in another order each time.
        let mut bytes = body.to_vec();
        bytes.sort_unstable();
        bytes.into()
    } else {
        mask_text_version(&body)
    }
}

/// Returns the body as it was before compression.
pub fn unpacked(answer: &Answer) -> Bytes {
    match answer.header("content-encoding") {
        "gzip" => unpack(&answer.body),
        _ => answer.body.clone(),
    }
}

fn unpack(body: &[u8]) -> Bytes {
    let mut plain = Vec::new();
    match flate2::read::MultiGzDecoder::new(body).read_to_end(&mut plain) {
        Ok(_) => plain.into(),
        Err(error) => format!("not gzip: {error}").into(),
    }
}

/// Masks the version in a continue token, if the list that has the token names
/// the same one. A token is the base64 of
/// `{"v":"meta.k8s.io/v1","rv":504,"start":"…"}`.
fn mask_token_version(body: Bytes) -> Bytes {
    const PLAIN: &[u8] = br#"{"v":"meta.k8s.io/v1","rv":"#;
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    let start = URL_SAFE_NO_PAD.encode(PLAIN);
    let position = |of: &[u8]| body.windows(of.len()).position(|found| found == of);
    let Some(at) = position(start.as_bytes()) else {
        return body;
    };
    let length = body[at..].iter().take_while(|b| is_base64(b)).count();
    let Ok(mut token) = URL_SAFE_NO_PAD.decode(&body[at..at + length]) else {
        return body;
    };
    let digits = token[PLAIN.len()..].iter();
    let digits = digits.take_while(|b| b.is_ascii_digit()).count();
    let version = PLAIN.len()..PLAIN.len() + digits;
    let in_text = [b"\"", &token[version.clone()], b"\""].concat();
    let in_protobuf = [&[0x12, digits as u8], &token[version.clone()]].concat();
    if position(&in_text).is_none() && position(&in_protobuf).is_none() {
        return body;
    }
    token[version].fill(b'N');
    let mut out = body.to_vec();
    out[at..at + length].copy_from_slice(URL_SAFE_NO_PAD.encode(token).as_bytes());
    out.into()
}

/// Masks the version in a list, a Table, a bookmark and a "too large" Status.
/// No object is changed, since an object's metadata has a name before its
/// version.
fn mask_text_version(body: &[u8]) -> Bytes {
    let text = String::from_utf8_lossy(body);
    let mut out = text.clone().into_owned();
    for marker in [
        "\"metadata\":{\"resourceVersion\":\"",
        "\"metadata\":{\"continue\":\"\",\"resourceVersion\":\"",
        "\"metadata\": {\n    \"resourceVersion\": \"",
        "\"metadata\": {\n    \"continue\": \"\",\n    \"resourceVersion\": \"",
        "\nmetadata:\n  resourceVersion: \"",
        "\nmetadata:\n  continue: \"\"\n  resourceVersion: \"",
        "{\"annotations\":{\"k8s.io/initial-events-end\":\"true\"},\"resourceVersion\":\"",
        "Too large resource version: 999999999, current: ",
        "too old resource version: ",
    ] {
        let mut masked = String::new();
        let mut rest = out.as_str();
        while let Some(at) = rest.find(marker) {
            let (head, tail) = rest.split_at(at + marker.len());
            masked += head;
            masked += "N";
            rest = tail.trim_start_matches(|c: char| c.is_ascii_digit() || "( )".contains(c));
        }
        masked += rest;
        out = masked;
    }
    out.into()
}

/// Does the same as [`mask_text_version`] for `k8s\0` + Unknown{raw =
/// List{metadata = ListMeta{2 = version}}} and for the frames of a watch, whose
/// bookmarks hold only a version.
fn mask_protobuf_version(body: &[u8]) -> Bytes {
    let mut out = body.to_vec();
    // A ListMeta as the first field of the list is 0a LEN, selfLink 0a 00,
    // version 12 LEN digits. An ObjectMeta begins with a name, which is not
    // empty.
    let mut at = 0;
    while at + 4 < out.len() {
        if out[at..].starts_with(&[0x0a, 0x00, 0x12]) {
            let length = out[at + 3] as usize;
            let digits = at + 4..(at + 4 + length).min(out.len());
            if (1..20).contains(&length) && out[digits.clone()].iter().all(u8::is_ascii_digit) {
                // The lengths of the version and of what encloses it differ
                // only if the versions are on both sides of a power of ten.
                out[digits].fill(b'N');
            }
        }
        at += 1;
    }
    mask_too_large(&mut out);
    out.into()
}

/// Masks the version that a cache has reached, in the text of a Status.
fn mask_too_large(message: &mut [u8]) {
    const BEFORE: &[u8] = b"Too large resource version: 999999999, current: ";
    let found = message.windows(BEFORE.len()).position(|w| w == BEFORE);
    let digits = found
        .into_iter()
        .flat_map(|at| at + BEFORE.len()..message.len());
    let digits: Vec<usize> = digits
        .take_while(|at| message[*at].is_ascii_digit())
        .collect();
    digits.into_iter().for_each(|at| message[at] = b'N');
}

/// Returns the status and all headers of both answers.
fn heads(direct: &Answer, front: &Answer) -> String {
    let head = |answer: &Answer| {
        let mut head = answer.status.as_str().to_owned();
        for (name, value) in &answer.headers {
            let _ = write!(
                head,
                " | {name}: {}",
                String::from_utf8_lossy(value.as_bytes())
            );
        }
        head
    };
    format!("  - {}\n  + {}\n", head(direct), head(front))
}

/// Describes the first difference and the bytes around it.
pub fn compare_bytes(direct: &[u8], front: &[u8]) -> String {
    let same = direct.iter().zip(front).take_while(|(a, b)| a == b).count();
    let from = same.saturating_sub(CONTEXT / 2);
    let excerpt = |bytes: &[u8]| {
        let to = (same + CONTEXT).min(bytes.len());
        String::from_utf8_lossy(bytes.get(from..to).unwrap_or_default())
            .escape_debug()
            .to_string()
    };
    format!(
        "  body: differs from byte {same} on ({} and {} bytes)\n  - …{}\n  + …{}\n",
        direct.len(),
        front.len(),
        excerpt(direct),
        excerpt(front)
    )
}

#[test]
fn the_version_of_a_token_is_masked_with_that_of_its_list() {
    let list = |version: u64, in_token: u64| {
        let token = format!(r#"{{"v":"meta.k8s.io/v1","rv":{in_token},"start":"a\u0000"}}"#);
        let token = URL_SAFE_NO_PAD.encode(token);
        let meta = format!(r#"{{"resourceVersion":"{version}","continue":"{token}"}}"#);
        let body = Bytes::from(format!(r#"{{"metadata":{meta},"items":[]}}"#));
        mask_text_version(&mask_token_version(body))
    };
    assert_eq!(list(504, 504), list(505, 505));
    assert_ne!(list(504, 504), list(504, 503));
    assert_ne!(list(504, 503), list(504, 502));
}
