//! The complete list of apifront's changes to an answer. Everything else reaches the
//! client as the upstream sent it.

use super::changes::{listed, lower};
use super::exchange::{AnswerFraming, Answered, Ending, Planned, Request, Wire};
use super::fields::{self, Field};
use super::generate::is_for_backend;
use super::worlds::{Mode, Traits};

/// A header field of an answer that may differ.
struct Changed {
    what: &'static str,
    why: &'static str,
    is: fn(&str, &Case<'_>) -> bool,
}

/// A planned answer, and the answer that the client got.
pub struct Case<'a> {
    pub request: &'a Request,
    pub planned: &'a Planned,
    pub answered: &'a Answered,
    pub traits: &'a Traits,
}

const CHANGED: [Changed; 4] = [
    Changed {
        what: "Connection, Keep-Alive, Transfer-Encoding, Content-Length",
        why: "they concern one connection, or tell the length of the body, which is compared itself",
        is: |name, _| {
            matches!(
                name,
                "connection" | "keep-alive" | "transfer-encoding" | "content-length"
            )
        },
    },
    Changed {
        what: "Date",
        why: "every server on the way writes the time at which it answers",
        is: |name, _| name == "date",
    },
    Changed {
        what: "Content-Security-Policy and X-Content-Type-Options of the personal mode",
        why: "no answer may be a page of the loopback origin",
        is: |name, case| {
            case.traits.mode == Mode::Personal
                && matches!(name, "content-security-policy" | "x-content-type-options")
        },
    },
    Changed {
        what: "Audit-Id, Cache-Control and the headers of Priority and Fairness of a backend's answer",
        why: "kube-apiserver's aggregator adds its own",
        is: |name, case| {
            is_for_backend(case.request)
                && (matches!(name, "audit-id" | "cache-control")
                    || name.starts_with("x-kubernetes-pf-"))
        },
    },
];

/// Returns the list as text for people.
pub fn listing() -> String {
    let entries = CHANGED.iter();
    let lines = entries.map(|entry| format!("~ {}: {}\n", entry.what, entry.why));
    lines.collect()
}

pub fn differences(case: &Case<'_>) -> Vec<String> {
    let Case {
        request,
        planned,
        answered,
        ..
    } = case;
    let mut wrong = Vec::new();
    if planned.ending == Ending::NoAnswer {
        return no_answer(case);
    }
    // The head may be lost together with the bytes after it.
    let is_lost = matches!(answered.status, 502 | 503);
    if planned.ending == Ending::Half && is_lost && answered.status != planned.status {
        return no_answer(case);
    }
    if answered.status != planned.status {
        wrong.push(format!(
            "the status is {}, not {}",
            answered.status, planned.status
        ));
    }
    let content = &answered.content;
    let has_body = planned.has_body(&request.method);
    let right = match (planned.status, has_body, planned.ending) {
        (101, ..) => super::http1_server::GREETING,
        (_, false, _) => &[],
        (_, true, Ending::Half) => &planned.body[..planned.body.len() / 2],
        _ => &planned.body,
    };
    if planned.ending == Ending::Half {
        // A client may have read less than the upstream sent.
        let ends_openly = request.wire == Wire::Http10;
        if !planned.body.starts_with(&content.body) || content.is_whole && !ends_openly {
            wrong.push("an answer that ended early is whole".to_owned());
        }
    } else {
        if content.body != right {
            let (found, right) = (content.body.len(), right.len());
            wrong.push(format!(
                "the answer has {found} octets for {right}, or others"
            ));
        }
        if !content.is_whole {
            wrong.push("the answer has no end".to_owned());
        }
    }
    wrong.extend(lists(case));
    wrong.extend(informational(case));
    wrong
}

/// If the upstream gives no answer, apifront answers with its own error.
fn no_answer(case: &Case<'_>) -> Vec<String> {
    let answered = case.answered;
    match super::refusal::is_own_answer(answered, &case.request.method) {
        true if matches!(answered.status, 502 | 503) => Vec::new(),
        _ => vec![format!(
            "{} for an answer that did not come",
            answered.status
        )],
    }
}

fn lists(case: &Case<'_>) -> Vec<String> {
    let mut wrong = compare(&case.planned.fields, &case.answered.fields, case);
    let trailers = match case.planned.framing {
        AnswerFraming::Chunked if case.planned.has_body(&case.request.method) => {
            case.planned.trailers.as_slice()
        }
        _ => &[],
    };
    // HTTP/1.0 has no trailers.
    if case.request.wire != Wire::Http10 {
        wrong.extend(compare(trailers, &case.answered.content.trailers, case));
    }
    wrong
}

fn compare(planned: &[Field], answered: &[Field], case: &Case<'_>) -> Vec<String> {
    let mut names: Vec<String> = planned.iter().chain(answered).map(lower).collect();
    names.sort();
    names.dedup();
    let is_changed = |name: &str| CHANGED.iter().any(|changed| (changed.is)(name, case));
    let mut wrong = Vec::new();
    for name in names.iter().filter(|name| !is_changed(name)) {
        let mut right = fields::values(planned, name);
        if name == "upgrade" && case.planned.status != 101 {
            right.clear();
        }
        let found = fields::values(answered, name);
        if found != right {
            let (found, right) = (listed(&found), listed(&right));
            wrong.push(format!("the answer's {name}: {found} for {right}"));
        }
    }
    wrong
}

/// Compares informational answers. HTTP/1.0 has none.
fn informational(case: &Case<'_>) -> Vec<String> {
    let codes = |list: &[(u16, fields::Fields)]| -> Vec<u16> {
        let codes = list.iter().map(|(code, _)| *code);
        codes.filter(|code| *code != 100).collect()
    };
    let right = match case.request.wire {
        Wire::Http10 => Vec::new(),
        _ => codes(&case.planned.informational),
    };
    let found = codes(&case.answered.informational);
    match found == right {
        true => Vec::new(),
        false => vec![format!(
            "informational answers are {found:?}, not {right:?}"
        )],
    }
}
