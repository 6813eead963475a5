//! The complete list of apifront's changes to a request. Everything else arrives as
//! it was sent.

use super::exchange::{Arrived, Request, Waits, Wire, has_word};
use super::fields::{self, Field};
use super::generate::{is_for_backend, origin_form};
use super::go_url;
use super::worlds::{Mode, Traits};

/// Header fields of a request that do not arrive.
struct Removed {
    what: &'static str,
    why: &'static str,
    is: fn(&Field, &Request) -> bool,
}

/// Header fields of a request that arrive with apifront's own values.
struct Added {
    what: &'static str,
    why: &'static str,
    /// Tells whether the entry concerns the field with this name in lower case.
    is: fn(&str) -> bool,
    /// Returns the difference from the right values, if any.
    check: fn(&str, &Case<'_>) -> Option<String>,
}

pub struct Case<'a> {
    pub request: &'a Request,
    pub arrived: &'a Arrived,
    pub traits: &'a Traits,
}

const OF_THE_CONNECTION: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

const REMOVED: [Removed; 7] = [
    Removed {
        what: "Connection, Keep-Alive, Proxy-*, Te, Trailer, Transfer-Encoding, Upgrade",
        why: "they concern one connection (RFC 9110, 7.6.1)",
        is: |field, _| OF_THE_CONNECTION.iter().any(|name| field.is(name)),
    },
    Removed {
        what: "fields that Connection names",
        why: "they concern one connection, too, but those that tell destination and length",
        is: |field, request| {
            let named = fields::tokens(&request.fields, "connection");
            let name = lower(field);
            named.contains(&name) && name != "host" && name != "content-length"
        },
    },
    Removed {
        what: "HTTP2-Settings",
        why: "it belongs to an upgrade to HTTP/2, which apifront does not offer (RFC 7540, 3.2.1)",
        is: |field, _| field.is("http2-settings"),
    },
    Removed {
        what: "Authorization, Impersonate-*, X-Remote-*, also with underscores",
        why: "apifront tells upstream who asks, and the caller may not",
        is: |field, _| is_identity(&lower(field)),
    },
    Removed {
        what: "Host",
        why: "upstream is asked by its own name",
        is: |field, _| field.is("host"),
    },
    Removed {
        what: "Content-Length",
        why: "each connection tells the length of a body in its own way",
        is: |field, _| field.is("content-length"),
    },
    Removed {
        what: "Expect: 100-continue",
        why: "apifront sends the 100 itself",
        is: |field, _| field.is("expect"),
    },
];

const ADDED: [Added; 8] = [
    Added {
        what: "Host",
        why: "upstream is asked by its own name",
        is: |name| name == "host",
        check: |_, _| None,
    },
    Added {
        what: "Content-Length, Transfer-Encoding",
        why: "they tell the length of the body, which is compared itself",
        is: |name| matches!(name, "content-length" | "transfer-encoding"),
        check: |_, _| None,
    },
    Added {
        what: "Connection and Upgrade of an upgrade",
        why: "the upgrade is asked of upstream",
        is: |name| matches!(name, "connection" | "upgrade"),
        check: upgrade,
    },
    Added {
        what: "X-Remote-*, Impersonate-* or Authorization",
        why: "upstream must know who asks",
        is: is_identity,
        check: identity,
    },
    Added {
        what: "X-Forwarded-For",
        why: "upstream's audit log tells the client's address",
        is: |name| name == "x-forwarded-for",
        check: |name, case| {
            let mut way = fields::values(&case.request.fields, name);
            way.resize(way.len() + case.traits.hops, b"127.0.0.1".to_vec());
            is(name, case, &[way.join(&b", "[..])])
        },
    },
    Added {
        what: "Audit-Id",
        why: "one id names the request in all audit logs",
        is: |name| name == "audit-id",
        check: |name, case| {
            let own = fields::first(&case.request.fields, name).filter(|id| !id.is_empty());
            match own {
                Some(id) => is(name, case, &[id]),
                None => {
                    let values = fields::values(&case.arrived.fields, name);
                    let is_one = matches!(values.as_slice(), [id] if id.len() == 36);
                    (!is_one).then(|| format!("audit-id is {values:?}"))
                }
            }
        },
    },
    Added {
        what: "Cdn-Loop",
        why: "a request that comes back is recognized (RFC 8586)",
        is: |name| name == "cdn-loop",
        check: |name, case| {
            let sent = fields::values(&case.request.fields, name);
            let mut found = fields::values(&case.arrived.fields, name);
            let own = found.split_off(sent.len().min(found.len()));
            let is_own = |value: &Vec<u8>| value.starts_with(b"apifront-");
            let is_right = found == sent && own.len() == case.traits.hops && own.iter().all(is_own);
            (!is_right).then(|| format!("cdn-loop is {found:?} and {own:?}"))
        },
    },
    Added {
        what: "X-Forwarded-Uri, X-Forwarded-Host, X-Forwarded-Proto of a backend's request",
        why: "kube-apiserver's aggregator tells a backend by them how the request came",
        is: |name| {
            matches!(
                name,
                "x-forwarded-uri" | "x-forwarded-host" | "x-forwarded-proto"
            )
        },
        check: forwarded,
    },
];

/// Returns the list as text for people.
pub fn listing() -> String {
    let removed = REMOVED.iter().map(|entry| (entry.what, entry.why));
    let added = ADDED.iter().map(|entry| (entry.what, entry.why));
    let line = |sign: &str, (what, why): (&str, &str)| format!("{sign} {what}: {why}\n");
    let removed: String = removed.map(|entry| line("-", entry)).collect();
    let added: String = added.map(|entry| line("+", entry)).collect();
    removed + &added
}

pub fn differences(case: &Case<'_>) -> Vec<String> {
    let Case {
        request, arrived, ..
    } = case;
    let mut wrong = Vec::new();
    if arrived.method != request.method {
        wrong.push(format!("the method is {}", fields::shown(&arrived.method)));
    }
    let target = target(request);
    if arrived.target != target {
        let (found, right) = (fields::shown(&arrived.target), fields::shown(&target));
        wrong.push(format!("the target is {found}\n         not {right}"));
    }
    let server = if is_for_backend(request) {
        "backend"
    } else {
        "upstream"
    };
    if arrived.at != server {
        wrong.push(format!("it came to the {}", arrived.at));
    }
    wrong.extend(body(case));
    wrong.extend(field_differences(case));
    wrong
}

/// Returns the target as it must arrive.
fn target(request: &Request) -> Vec<u8> {
    let target = origin_form(&request.target);
    if is_for_backend(request) {
        return go_url::rewritten(target);
    }
    go_url::escaped(target)
}

fn body(case: &Case<'_>) -> Vec<String> {
    let (sent, content) = (&case.request.body, &case.arrived.content);
    let octets = sent.octets();
    let mut wrong = Vec::new();
    // After the answer the rest of the body need not be read, and a client may
    // disconnect at any time. The part that has arrived is then no whole body.
    let may_end_early = sent.cut.is_some() || sent.waits == Waits::Answer;
    if may_end_early && !content.is_whole {
        if !octets.starts_with(&content.body) {
            wrong.push(format!(
                "a body that ended early has other octets: {content:?}"
            ));
        }
        return wrong;
    }
    if sent.cut.is_some() {
        wrong.push(format!("a body that ended early is whole: {content:?}"));
        return wrong;
    }
    if content.body != octets {
        let (found, right) = (content.body.len(), octets.len());
        wrong.push(format!(
            "the body has {found} octets for {right}, or others"
        ));
    }
    if !content.is_whole {
        wrong.push("the body has no end".to_owned());
    }
    let trailers = |fields: &[Field]| -> Vec<_> {
        fields
            .iter()
            .map(|field| (lower(field), field.value()))
            .collect()
    };
    let (found, right) = (trailers(&content.trailers), trailers(&sent.trailers));
    if found != right {
        wrong.push(format!("the trailers are {found:?}, not {right:?}"));
    }
    wrong
}

fn field_differences(case: &Case<'_>) -> Vec<String> {
    let is_added = |name: &str| {
        ADDED
            .iter()
            .any(|added| (added.is)(name) && is_applied(added, case))
    };
    let sent = case.request.fields.iter();
    let sent: Vec<&Field> = sent
        .filter(|field| {
            !REMOVED
                .iter()
                .any(|removed| (removed.is)(field, case.request))
        })
        .collect();
    let arrived = case.arrived.fields.iter();
    let mut names: Vec<String> = arrived
        .map(lower)
        .chain(sent.iter().map(|f| lower(f)))
        .collect();
    names.extend(ADDED_ALWAYS.map(str::to_owned));
    names.sort();
    names.dedup();
    let mut wrong = Vec::new();
    for name in names {
        if is_added(&name) {
            let added = ADDED.iter().filter(|added| (added.is)(&name));
            wrong.extend(added.filter_map(|added| (added.check)(&name, case)));
            continue;
        }
        let right: Vec<_> = sent
            .iter()
            .filter(|f| f.is(&name))
            .map(|f| f.value())
            .collect();
        let found = fields::values(&case.arrived.fields, &name);
        if found != right {
            wrong.push(format!("{name}: {} for {}", listed(&found), listed(&right)));
        }
    }
    wrong
}

/// Fields that apifront adds even if the client sent none.
const ADDED_ALWAYS: [&str; 3] = ["x-forwarded-for", "audit-id", "cdn-loop"];

/// Tells whether an entry concerns this request.
fn is_applied(added: &Added, case: &Case<'_>) -> bool {
    !(added.is)("x-forwarded-uri") || is_for_backend(case.request) && !case.request.is_upgrade()
}

fn upgrade(name: &str, case: &Case<'_>) -> Option<String> {
    let mut right = Vec::new();
    if case.request.is_upgrade() {
        right = match name {
            "connection" => asks(case),
            _ => fields::values(&case.request.fields, name),
        };
    }
    is(name, case, &right)
}

/// Returns the Connection lines for the upstream. A server that reads only the first
/// line, or looks for the word or for the option, finds there what it would have
/// found in the original lines.
fn asks(case: &Case<'_>) -> Vec<Vec<u8>> {
    let lines = fields::values(&case.request.fields, "connection");
    let options = fields::tokens(&case.request.fields, "connection");
    let is_option = options.contains(&"upgrade".to_owned());
    let in_first = lines.first().is_some_and(|line| has_word(line));
    let asks = if is_option { "Upgrade" } else { "like-upgrade" };
    // Go's servers tell the next server that an HTTP/1.0 connection ends.
    let closes = case.request.wire == Wire::Http10 && !options.contains(&"keep-alive".to_owned());
    let told = match (in_first, closes) {
        (true, false) => vec![asks.to_owned()],
        (true, true) => vec![asks.to_owned(), "close".to_owned()],
        (false, false) => vec!["keep-alive".to_owned(), asks.to_owned()],
        (false, true) => vec!["keep-alive".to_owned(), format!("close, {asks}")],
    };
    told.into_iter().map(String::into_bytes).collect()
}

/// Checks that the identity is alice's, in the form of the mode.
fn identity(name: &str, case: &Case<'_>) -> Option<String> {
    let all = |values: &[&str]| values.iter().map(|v| v.as_bytes().to_vec()).collect();
    // The value is the hash of alice's certificate.
    if name.ends_with("-extra-authentication.kubernetes.io%2fcredential-id") {
        let found = fields::values(&case.arrived.fields, name);
        let is_own = |value: &Vec<u8>| value.starts_with(b"X509SHA256=");
        let is_right = found.len() == 1 && found.iter().all(is_own);
        return (!is_right).then(|| format!("{name}: {}", listed(&found)));
    }
    let right: Vec<Vec<u8>> = match (case.traits.mode, name) {
        (Mode::RequestHeader, "x-remote-user") => all(&["alice"]),
        (Mode::RequestHeader, "x-remote-group") => all(&["readers", "system:authenticated"]),
        (Mode::Impersonate, "impersonate-user") => all(&["alice"]),
        (Mode::Impersonate, "impersonate-group") => all(&["readers"]),
        (Mode::PassThrough, "authorization") => {
            all(&[&format!("Bearer {}", super::recorder::TOKEN)])
        }
        _ => Vec::new(),
    };
    is(name, case, &right)
}

fn forwarded(name: &str, case: &Case<'_>) -> Option<String> {
    let right = match name {
        "x-forwarded-uri" => {
            let path = target(case.request);
            let path = path.split(|b| *b == b'?').next().unwrap_or_default();
            go_url::cleaned(path)
        }
        "x-forwarded-proto" => b"https".to_vec(),
        _ => return None,
    };
    is(name, case, &[right])
}

fn is(name: &str, case: &Case<'_>, right: &[Vec<u8>]) -> Option<String> {
    let found = fields::values(&case.arrived.fields, name);
    (found != right).then(|| format!("{name}: {} for {}", listed(&found), listed(right)))
}

fn is_identity(name: &str) -> bool {
    let name = name.replace('_', "-");
    name == "authorization"
        || name.starts_with("impersonate-")
        || matches!(
            name.as_str(),
            "x-remote-user" | "x-remote-group" | "x-remote-uid"
        )
        || name.starts_with("x-remote-extra-")
}

pub fn lower(field: &Field) -> String {
    String::from_utf8_lossy(&field.name).to_lowercase()
}

pub fn listed(values: &[Vec<u8>]) -> String {
    let texts: Vec<String> = values.iter().map(|value| fields::shown(value)).collect();
    format!("{texts:?}")
}
