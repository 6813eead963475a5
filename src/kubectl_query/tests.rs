//! The plugin before a server that plays a script.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Parser;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::printer::Printer;
use super::{Arguments, Failure, ask};

/// The answers to posted queries, in their order. The last one is given again and again.
struct Script {
    groups: Value,
    answers: Vec<(u16, String)>,
    asked: Vec<(String, Value)>,
}

/// Serves a script, and returns the server's address.
async fn serve(script: Arc<Mutex<Script>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, script.clone()));
        }
    });
    format!("http://{address}")
}

/// Answers one request, and closes the connection.
async fn answer(stream: TcpStream, script: Arc<Mutex<Script>>) {
    let mut stream = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    stream.read_line(&mut first).await.unwrap();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        let line = line.trim().to_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    let path = first.split(' ').nth(1).unwrap_or_default();
    let (code, text) = {
        let mut script = script.lock().unwrap();
        match path {
            "/api" => (200, json!({ "items": [core()] }).to_string()),
            "/apis" => (200, json!({ "items": script.groups }).to_string()),
            path => {
                let body = serde_json::from_slice(&body).unwrap();
                script.asked.push((path.to_owned(), body));
                match script.answers.len() {
                    1 => script.answers[0].clone(),
                    _ => script.answers.remove(0),
                }
            }
        }
    };
    let head = format!(
        "HTTP/1.1 {code} Status\r\ncontent-length: {}\r\nconnection: close\r\n\
         warning: 299 - \"pods are \\\"old\\\"\"\r\n\r\n",
        text.len()
    );
    let answer = [head, text].concat();
    stream.write_all(answer.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
}

fn core() -> Value {
    json!({ "versions": [{ "version": "v1", "resources": [{
        "resource": "pods",
        "responseKind": { "group": "", "version": "v1", "kind": "Pod" },
        "singularResource": "pod",
        "shortNames": ["po"],
        "verbs": ["list"],
    }] }] })
}

fn groups() -> Value {
    json!([{ "metadata": { "name": "query.apifront.dev" }, "versions": [] }])
}

fn row(name: &str, cell: Value) -> Value {
    json!({ "namespace": "a", "name": name, "uid": name, "cells": [cell] })
}

fn query(version: &str, rows: &[Value]) -> Value {
    json!({
        "apiVersion": "query.apifront.dev/v1alpha1",
        "kind": "Query",
        "metadata": {},
        "spec": { "resource": { "version": "v1", "resource": "pods" } },
        "status": {
            "resourceVersion": version,
            "total": 7,
            "columns": [{ "name": "node", "expression": "object.spec.nodeName" }],
            "rows": rows,
            "counts": [{ "values": ["Running"], "count": 7 }],
            "warnings": ["spec.where: no such key\u{7}"],
        },
    })
}

fn event(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({ "type": kind, "object": object }))
}

/// What the plugin printed, and the script after it.
struct Played {
    ended: Result<(), Failure>,
    printed: String,
    notes: String,
    asked: Vec<(String, Value)>,
}

impl Played {
    #[track_caller]
    fn failure(&self) -> String {
        self.ended.as_ref().unwrap_err().to_string()
    }
}

async fn play(options: &[&str], groups: Value, answers: Vec<(u16, String)>) -> Played {
    let script = Arc::new(Mutex::new(Script {
        groups,
        answers,
        asked: Vec::new(),
    }));
    let server = serve(script.clone()).await;
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, "{}").unwrap();
    let kubeconfig = kubeconfig.display().to_string();
    let access = ["kubectl-query", "--kubeconfig", &kubeconfig, "-s", &server];
    let arguments = Arguments::try_parse_from([&access, options].concat()).unwrap();
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    let mut printer = Printer::new(&mut out, &mut notes);
    let ended = ask(&arguments, false, Duration::ZERO, &mut printer).await;
    let asked = std::mem::take(&mut script.lock().unwrap().asked);
    Played {
        ended,
        printed: String::from_utf8(out).unwrap(),
        notes: String::from_utf8(notes).unwrap(),
        asked,
    }
}

#[tokio::test]
async fn an_answer_is_a_table() {
    let rows = [row("web", json!("n1")), row("b", json!(null))];
    let answer = query("5", &rows).to_string();
    let options = [
        "po",
        "--column",
        "node=object.spec.nodeName",
        "--request-timeout=5",
    ];
    let played = play(&options, groups(), vec![(201, answer)]).await;
    played.ended.unwrap();
    let expected = "NAME   node\na/web  n1\na/b    <none>\n\n7  Running\n";
    assert_eq!(played.printed, expected);
    let expected = "warning: pods are \"old\"\n2 of 7, version 5\n\
                    warning: spec.where: no such key\\u{7}\n";
    assert_eq!(played.notes, expected);
    let (path, asked) = &played.asked[0];
    assert_eq!(
        path,
        "/apis/query.apifront.dev/v1alpha1/queries?timeout=5000ms"
    );
    let resource = json!({ "version": "v1", "resource": "pods" });
    assert_eq!(asked["spec"]["resource"], resource);
    assert_eq!(asked["kind"], "Query");
}

#[tokio::test]
async fn an_answer_is_a_document() {
    let answer = query("5", &[row("web", json!(1))]);
    for output in ["json", "yaml"] {
        let answers = vec![(201, answer.to_string())];
        let played = play(&["pods", "-o", output], groups(), answers).await;
        played.ended.unwrap();
        // JSON is YAML.
        let read: Value = serde_saphyr::from_str(&played.printed).unwrap();
        assert_eq!(read, answer, "{output}: {}", played.printed);
    }
}

#[tokio::test]
async fn failures_say_who_erred() {
    let played = play(&["pods"], json!([]), vec![(201, String::new())]).await;
    let failure = played.failure();
    let expected = "is no apifront with `queries.enabled: true`: it has no API group \
                    query.apifront.dev";
    assert!(failure.ends_with(expected), "{failure}");
    assert!(played.asked.is_empty());
    let played = play(&["nothings"], groups(), vec![(201, String::new())]).await;
    let failure = played.failure();
    assert!(failure.contains("no resource nothings"), "{failure}");
    let status = json!({ "kind": "Status", "message": "no", "code": 403 });
    for options in [&["pods"][..], &["pods", "--watch"]] {
        let answers = vec![(403, status.to_string())];
        let played = play(options, groups(), answers).await;
        assert_eq!(played.failure(), "no");
        let played = play(options, groups(), vec![(201, "nonsense".into())]).await;
        let failure = played.failure();
        let expected = ["cannot be read", "too old to watch"];
        assert!(
            expected.iter().any(|text| failure.contains(text)),
            "{failure}"
        );
    }
}

#[tokio::test]
async fn a_watch_prints_a_line_for_each_change() {
    let opened = query("5", &[row("a", json!(1)), row("b", json!(2))]);
    let changed = json!({ "kind": "Query", "status": {
        "resourceVersion": "6",
        "total": 7,
        "counts": [{ "values": ["Running"], "count": 6 }],
        "changes": [
            { "type": "Added", "index": 2, "row": row("longer", json!(3)) },
            { "type": "Removed", "index": 0 },
            { "type": "Changed", "index": 0, "row": row("b", json!(5)) },
            { "type": "Moved", "from": 0, "index": 1 },
        ],
    } });
    let marked = json!({ "status": { "resourceVersion": "7", "total": 7 } });
    let first =
        event("ADDED", &opened) + &event("MODIFIED", &changed) + &event("BOOKMARK", &marked);
    // The next stream has another window, and ends because its state is forgotten.
    let mut other = query("9", &[row("b", json!(5)), row("longer", json!(3))]);
    other["status"]["counts"][0]["count"] = json!(6);
    let gone = json!({ "kind": "Status", "code": 410, "message": "too old" });
    let second = event("ADDED", &other) + &event("ERROR", &gone);
    let refused = json!({ "kind": "Status", "code": 403, "message": "no longer" });
    let third = event("ADDED", &other) + &event("ERROR", &refused);
    let answers = vec![
        (200, first),
        (503, String::new()),
        (200, second),
        (200, third),
    ];
    let played = play(&["pods", "--watch"], groups(), answers).await;
    assert_eq!(played.failure(), "no longer");
    let expected = "NAME  node\n\
                    a/a   1\n\
                    a/b   2\n\
                    \n\
                    7  Running\n\
                    + a/longer  3\n\
                    - a/a       1\n\
                    ~ a/b       5\n\
                    > a/b       5\n\
                    = 6  Running\n\
                    > a/b       5\n";
    assert_eq!(played.printed, expected);
    assert_eq!(played.asked.len(), 4);
    for (path, question) in &played.asked {
        assert!(path.ends_with("/queries?watch=true"), "{path}");
        assert_eq!(question, &played.asked[0].1);
    }
}

#[tokio::test]
async fn a_wrong_change_ends_a_watch() {
    let opened = query("5", &[]);
    for changes in [
        json!([{ "type": "Removed", "index": 0 }]),
        json!([{}]),
        json!(1),
    ] {
        let changed = json!({ "status": { "total": 1, "changes": changes } });
        let stream = event("ADDED", &opened) + &event("MODIFIED", &changed);
        let played = play(&["pods", "-w"], groups(), vec![(200, stream)]).await;
        let failure = played.failure();
        assert!(failure.contains("cannot be read"), "{failure}");
    }
    let stream = event("MODIFIED", &opened);
    let played = play(&["pods", "-w"], groups(), vec![(200, stream)]).await;
    assert!(played.failure().contains("unexpected event"));
}

#[tokio::test]
async fn documents_of_a_watch_are_the_objects_of_its_events() {
    let opened = query("5", &[]);
    let changed = json!({ "status": { "resourceVersion": "6" } });
    let error = json!({ "code": 403, "message": "no" });
    let stream = [
        event("ADDED", &opened),
        event("BOOKMARK", &changed),
        event("MODIFIED", &changed),
        event("ERROR", &error),
    ];
    let answers = vec![(200, stream.concat())];
    let played = play(&["pods", "-w", "-o", "json"], groups(), answers).await;
    let documents = serde_json::Deserializer::from_str(&played.printed).into_iter();
    let documents: Vec<Value> = documents.map(Result::unwrap).collect();
    assert_eq!(documents, [opened, changed]);
}
