//! One cell of the matrix: a path, a query, a representation and a user.

use std::fmt;

use http::Method;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::tenants::Tenant;
use super::vocabulary::{
    ACCEPTS, BASES, CORE, KINDS, NAMES, NAMESPACES, QUERIES, SEGMENTS, SUBRESOURCES, WATCHES,
};

/// The most segments of a path. `/apis/GROUP/v1/watch/namespaces/N/RESOURCE/NAME`
/// has eight.
const MOST_SEGMENTS: usize = 8;
/// The shares of watches, which last a second on each server. Two tenants may do
/// little else.
const WATCH_SHARE: f64 = 0.04;
const WATCHERS_SHARE: f64 = 0.25;
const HEAD_SHARE: f64 = 0.01;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    pub method: Method,
    pub path: String,
    pub query: String,
    pub accept: &'static str,
    pub tenant: Tenant,
}

impl Question {
    fn new(path: String, query: &str, accept: &'static str, tenant: Tenant) -> Self {
        let mut question = Self {
            method: Method::GET,
            path,
            query: query.to_owned(),
            accept,
            tenant,
        };
        if question.may_watch() {
            let and = if query.is_empty() { "" } else { "&" };
            question.query += &format!("{and}timeoutSeconds=1");
        }
        question
    }

    /// Tells whether a server may take the question for a watch, which lasts half an
    /// hour by default.
    fn may_watch(&self) -> bool {
        let path = percent_encoding::percent_decode_str(&self.path).decode_utf8_lossy();
        path.contains("watch") || self.query.contains("watch")
    }

    pub fn target(&self) -> String {
        match self.query.as_str() {
            "" => self.path.clone(),
            query => format!("{}?{query}", self.path),
        }
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (method, target) = (&self.method, self.target());
        write!(f, "{:?}: {method} {target}", self.tenant)?;
        match self.accept {
            "application/json" => Ok(()),
            accept => write!(f, " accept: {accept}"),
        }
    }
}

/// Returns all sequences of one and two core words after each base, for all tenants
/// and the cache's representations. Adds sequences of three words after `/api/v1`
/// for tenants with rights in a namespace and for the admin.
pub fn exhaustive() -> Vec<Question> {
    let mut questions = Vec::new();
    let mut ask = |base: &[&str], tail: &[&str], tenants: &[Tenant]| {
        let path = format!("/{}/{}", base.join("/"), tail.join("/"));
        for tenant in tenants {
            let path = path.clone();
            questions.push(Question::new(
                path,
                "resourceVersion=0",
                ACCEPTS[0],
                *tenant,
            ));
        }
    };
    for base in BASES {
        for first in CORE {
            ask(base, &[first], &Tenant::ALL);
            for second in CORE {
                ask(base, &[first, second], &Tenant::ALL);
            }
        }
    }
    for first in CORE {
        for second in CORE {
            for third in CORE {
                let tenants = [Tenant::Viewer, Tenant::Odd, Tenant::Admin];
                ask(BASES[0], &[first, second, third], &tenants);
            }
        }
    }
    questions
}

pub fn random(rng: &mut StdRng) -> Question {
    let tenant = Tenant::ALL.choose_weighted(rng, |tenant| tenant.weight());
    let tenant = *tenant.expect("weights");
    let mut segments = if rng.random_bool(0.75) {
        served(rng, tenant)
    } else {
        words(rng)
    };
    let changes = *[0, 0, 0, 0, 1, 1, 2].choose(rng).expect("counts");
    for _ in 0..changes {
        change(rng, &mut segments);
    }
    let mut path = format!("/{}", segments.join("/"));
    if rng.random_bool(0.03) {
        path.push('/');
    }
    let watches = match tenant {
        Tenant::Watcher | Tenant::Finder => WATCHERS_SHARE,
        _ => WATCH_SHARE,
    };
    let queries: &[&str] = match rng.random_bool(watches) {
        true => &WATCHES,
        false => &QUERIES,
    };
    let mut query = queries.choose(rng).expect("queries");
    // This tenant may only read objects that it selects by name.
    while tenant == Tenant::Finder && !query.contains("metadata.name") && rng.random_bool(0.8) {
        query = queries.choose(rng).expect("queries");
    }
    let accept = *ACCEPTS.choose(rng).expect("representations");
    let mut question = Question::new(path, query, accept, tenant);
    if rng.random_bool(HEAD_SHARE) {
        question.method = Method::HEAD;
    }
    question
}

/// Returns the path of a possible collection, object or subresource, mostly where
/// the tenant has rights.
fn served(rng: &mut StdRng, tenant: Tenant) -> Vec<String> {
    let (base, namespaced, plural) = *KINDS.choose(rng).expect("kinds");
    let mut segments = base.to_vec();
    if rng.random_bool(0.07) {
        segments.push("watch");
    }
    let namespaces = match rng.random_bool(0.7) {
        true => tenant.home(),
        false => &NAMESPACES,
    };
    if namespaced && rng.random_bool(0.8) {
        segments.extend(["namespaces", pick(rng, namespaces)]);
    }
    segments.push(plural);
    if rng.random_bool(0.5) {
        let is_namespaces = plural == "namespaces";
        let name = match is_namespaces && rng.random_bool(0.8) {
            true => pick(rng, namespaces),
            false => pick(rng, &NAMES),
        };
        segments.push(name);
        if rng.random_bool(0.2) {
            segments.push(pick(rng, &SUBRESOURCES));
        }
    }
    segments.into_iter().map(str::to_owned).collect()
}

fn words(rng: &mut StdRng) -> Vec<String> {
    let base: &[&str] = match rng.random_bool(0.8) {
        true => BASES.choose(rng).expect("bases"),
        false => &[],
    };
    let length = rng.random_range(base.len().max(1)..=MOST_SEGMENTS);
    let mut segments: Vec<String> = base.iter().map(|s| (*s).to_owned()).collect();
    while segments.len() < length {
        segments.push(pick(rng, &SEGMENTS).to_owned());
    }
    segments
}

/// Inserts, removes, replaces, doubles, swaps or escapes one segment.
fn change(rng: &mut StdRng, segments: &mut Vec<String>) {
    let at = rng.random_range(0..segments.len().max(1));
    match rng.random_range(0..10) {
        0..3 => segments.insert(at, pick(rng, &SEGMENTS).to_owned()),
        3..6 if at < segments.len() => segments[at] = pick(rng, &SEGMENTS).to_owned(),
        6 if segments.len() > 1 => {
            segments.remove(at);
        }
        7 if at < segments.len() => segments.insert(at, segments[at].clone()),
        8 if at + 1 < segments.len() => segments.swap(at, at + 1),
        _ if at < segments.len() => segments[at] = escaped(rng, &segments[at]),
        _ => {}
    }
    segments.truncate(MOST_SEGMENTS + 1);
}

fn escaped(rng: &mut StdRng, segment: &str) -> String {
    let plain = segment.bytes().all(|b| b.is_ascii_alphanumeric());
    if segment.is_empty() || !plain {
        return segment.to_owned();
    }
    let at = rng.random_range(0..segment.len());
    let byte = segment.as_bytes()[at];
    format!("{}%{byte:02x}{}", &segment[..at], &segment[at + 1..])
}

fn pick(rng: &mut StdRng, words: &[&'static str]) -> &'static str {
    words.choose(rng).copied().expect("words")
}
