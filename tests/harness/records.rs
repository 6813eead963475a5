//! The resource `records` of a backend, in JSON only: GET, LIST and WATCH.

use serde_json::{Value, json};

use super::media_types::JSON;
use super::scripted::Seen;

/// The names of all records. Each is also the name of the record's owner.
pub const RECORDS: [&str; 2] = ["first", "second"];

/// Users who see all records where others see only their own.
const AUDITORS: [&str; 2] = ["apifront", "system:kube-aggregator"];

/// The namespace of records that are shown in every namespace.
const CATALOGUE: &str = "catalogue";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Showing {
    /// All callers see the same records, as kube-apiserver would show them.
    Alike,
    /// Each caller sees only their own record.
    ByCaller,
    /// The order differs from kube-apiserver's.
    Disordered,
    /// A single record has more fields than the same record in a list.
    Fuller,
    /// The list of every namespace includes the records of one namespace.
    Everywhere,
    /// Records cannot be watched.
    Unwatchable,
}

pub(super) enum Reply {
    Whole(u16, &'static str, String),
    /// The head of a watch that stays silent.
    Watch(&'static str),
}

fn status(code: u16, reason: &str) -> Reply {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "as it is", "reason": reason, "code": code,
    });
    Reply::Whole(code, JSON, status.to_string())
}

fn namespace(rest: &str) -> Option<&str> {
    rest.split_once("/namespaces/")?.1.split('/').next()
}

fn is_shown(showing: Showing, name: &str, user: Option<&str>) -> bool {
    let is_auditor = user.is_some_and(|user| AUDITORS.contains(&user));
    showing != Showing::ByCaller || is_auditor || user == Some(name)
}

fn record(showing: Showing, path: &str, name: &str) -> Option<Value> {
    let group_version = path.strip_prefix("/apis/")?;
    let mut parts = group_version.split('/');
    let group_version = format!("{}/{}", parts.next()?, parts.next()?);
    let mut record = json!({
        "kind": "Record", "apiVersion": group_version,
        "metadata": {
            "name": name, "uid": format!("uid-of-{name}"), "resourceVersion": "7",
            "creationTimestamp": "2026-01-02T03:04:05Z", "labels": { "name": name },
        },
        "spec": { "text": format!("of {name}") },
    });
    if showing == Showing::Everywhere {
        record["metadata"]["namespace"] = json!(namespace(path).unwrap_or(CATALOGUE));
    }
    Some(record)
}

pub(super) fn answer(showing: Showing, name: Option<&str>, request: &Seen) -> Option<Reply> {
    let accept = request.header("accept").unwrap_or("*/*");
    let mut ranges = accept.split(',').map(str::trim);
    if !ranges.any(|r| r.starts_with("*/*") || r.starts_with(JSON) && !r.contains("as=")) {
        let text = "only JSON here\n".to_owned();
        return Some(Reply::Whole(406, "text/plain", text));
    }
    let target = request.line.split(' ').nth(1)?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let user = request.header("x-remote-user");
    let mut shown: Vec<&str> = RECORDS
        .into_iter()
        .filter(|name| is_shown(showing, name, user))
        .collect();
    if showing == Showing::Disordered {
        shown.reverse();
    }
    let reply = match name {
        Some(name) if shown.contains(&name) => {
            let mut record = record(showing, path, name)?;
            if showing == Showing::Fuller {
                record["spec"]["more"] = json!("than in a list");
            }
            Reply::Whole(200, JSON, record.to_string())
        }
        Some(_) => status(404, "NotFound"),
        None if query.contains("watch=") && showing == Showing::Unwatchable => {
            status(405, "MethodNotAllowed")
        }
        None if query.contains("sendInitialEvents=") => status(422, "Invalid"),
        None if query.contains("watch=") => Reply::Watch(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
        ),
        None => {
            let items: Option<Vec<Value>> = shown
                .iter()
                .map(|name| record(showing, path, name))
                .collect();
            let items = items?;
            let first = record(showing, path, "any")?;
            let list = json!({
                "kind": "RecordList", "apiVersion": first["apiVersion"],
                "metadata": { "resourceVersion": "9" }, "items": items,
            });
            Reply::Whole(200, JSON, list.to_string())
        }
    };
    Some(reply)
}
