//! Sends one request to two servers and compares the answers.

use std::fmt::Write;
use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;

use super::apifront::oracle;
use super::client::{Answer, Client};
use super::cluster::Cluster;
use super::eventually;
use super::expect::{DEBUG, Expect, is_late};
use super::{flow_names, forwarded, logs, masked};

/// The headers that matter to a client. The others identify the request or the
/// moment.
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
/// The number of tries before a difference counts. An age in a Table may tick or a
/// lease be renewed between the two requests.
const TRIES: usize = 4;
const BETWEEN_TRIES: Duration = Duration::from_millis(250);
/// The time in which the cache must have listed a resource after its first request, and
/// reached a version. Until then the question is repeated and does not count as a try.
const READY_WITHIN: Duration = Duration::from_secs(30);
const SHOWN: usize = 20;

/// Compares two ways to the same data. `direct` is right. `front` must answer from
/// its cache, unless a question says otherwise.
pub struct Differential {
    pub direct: Client,
    pub front: Client,
    expected: Expect,
    differences: Vec<String>,
    asked: usize,
    hits: AtomicUsize,
}

pub struct Outcome {
    /// Empty if the answers mean the same.
    pub difference: String,
    /// The answer of `front`, if there was one.
    pub front: Option<Answer>,
}

/// A question with its own expectation.
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

    /// Sets the expectation of all questions without their own.
    pub fn expecting(self, expected: Expect) -> Self {
        Self { expected, ..self }
    }

    /// Sets the expectation for the next question.
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

    /// Asks both servers, with the general expectation, and keeps the difference.
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

    /// Does the same as [`Question::ask`] with `&self`, for concurrent questions.
    /// Returns the difference, which may be empty; pass it to [`Differential::add`].
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

    /// Does the same as [`Differential::difference`] without an expectation, for
    /// questions that the cache may or may not answer. The caller counts the hits.
    pub async fn unforeseen(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Outcome {
        self.outcome(method, path, headers, "", |_| String::new())
            .await
    }

    /// Asks until nothing differs and `judge` has no objection, or until the tries
    /// are used up.
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
        let ready_by = Instant::now() + READY_WITHIN;
        let mut tries = 0;
        loop {
            // Both servers are asked at the same time, so that no age ticks between
            // the answers.
            let (direct, front) = tokio::join!(
                self.direct.send(method.clone(), path, headers, body),
                self.front.try_send(method.clone(), path, &debug, body),
            );
            let (difference, front) = match front {
                Ok(front) => (compare(&direct, &front) + &judge(&front), Some(front)),
                Err(error) => (format!("  no answer: {error}\n"), None),
            };
            let late = front.as_ref().is_some_and(is_late) && Instant::now() < ready_by;
            tries += usize::from(!late);
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

    /// Returns the request as a curl command.
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
        eventually("a cache hit", READY_WITHIN, || async {
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
            logs::last_lines_of(self.direct.address()),
            logs::last_lines_of(self.front.address()),
        );
    }
}

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

fn comparable_body(answer: &Answer) -> Bytes {
    let body = unpacked(answer);
    let content_type = answer.header("content-type");
    if content_type.contains("protobuf") {
        masked::protobuf(&body)
    } else if content_type.contains("cbor") {
        // kube-apiserver writes the keys of each map in another order each time.
        let mut bytes = body.to_vec();
        bytes.sort_unstable();
        bytes.into()
    } else {
        masked::text(&body)
    }
}

/// Decompresses the body.
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
