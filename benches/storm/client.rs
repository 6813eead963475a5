//! A client as kubelets and DaemonSets are: a connection and a certificate of its own,
//! and three watches. It comes back whenever it loses them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::tally::{MARK, Tally};
use crate::support::pods;
use harness::client::Client;

/// The pauses between attempts double up to this, as client-go's do, with a random part.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// More than a mark has.
const TAIL: usize = 40;

const VERSION: &str = r#""resourceVersion":""#;
/// In an ERROR event, or in a Status.
const GONE: &str = r#""code":410"#;

pub struct StormClient {
    server: Client,
    tally: Arc<Tally>,
    watched: [Watched; 3],
    /// The end of what came last about services: a mark may come in two parts.
    tail: String,
    mark: usize,
}

/// A list that the client keeps up to date.
#[derive(Clone)]
struct Watched {
    path: String,
    /// The version up to which the client knows the list. `None`: it must list.
    version: Option<String>,
    has_marks: bool,
}

enum Attempt {
    /// The server was not there, or was lost.
    Failed,
    /// The answer was 429 or an error.
    Refused(Option<Duration>),
}

impl StormClient {
    /// The `n`th client has the pods of its node.
    pub fn new(server: Client, tally: Arc<Tally>, n: usize) -> Self {
        let watched = |path: String, has_marks| Watched {
            path,
            version: None,
            has_marks,
        };
        let node = pods::node(n);
        Self {
            server,
            tally,
            tail: String::new(),
            mark: 0,
            watched: [
                watched(
                    format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}"),
                    false,
                ),
                watched("/api/v1/services?".to_owned(), true),
                watched(
                    "/apis/discovery.k8s.io/v1/endpointslices?".to_owned(),
                    false,
                ),
            ],
        }
    }

    pub async fn live(mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let client = self.server.separate();
            match self.open(&client).await {
                Ok(streams) => {
                    pause = FIRST_PAUSE;
                    self.tally.has_watches();
                    self.read(streams).await;
                    self.tally.lost_watches();
                }
                Err(Attempt::Failed) => {
                    self.tally.failed();
                    tokio::time::sleep(pause.mul_f64(0.5 + rand::random::<f64>())).await;
                    pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
                }
                Err(Attempt::Refused(after)) => {
                    self.tally.refused();
                    tokio::time::sleep(after.unwrap_or(pause)).await;
                }
            }
        }
    }

    /// Opens all watches, each after a list if its version is not known.
    async fn open(&mut self, client: &Client) -> Result<Vec<(usize, Incoming)>, Attempt> {
        let mut streams = Vec::new();
        for n in 0..self.watched.len() {
            let watched = &mut self.watched[n];
            if watched.version.is_none() {
                let list = ask(client, &format!("{}&resourceVersion=0", watched.path)).await?;
                let list = list
                    .collect()
                    .await
                    .map_err(|_| Attempt::Failed)?
                    .to_bytes();
                let text = String::from_utf8_lossy(&list);
                watched.version = first_version(&text);
                self.tally.listed();
                self.look(n, &text);
            }
            let watched = &mut self.watched[n];
            let version = watched.version.as_deref().unwrap_or_default();
            let path = format!(
                "{}&watch=1&allowWatchBookmarks=true&timeoutSeconds=3600&resourceVersion={version}",
                watched.path
            );
            match ask(client, &path).await {
                Ok(stream) => streams.push((n, stream)),
                Err(attempt) => {
                    if matches!(attempt, Attempt::Refused(None)) {
                        watched.version = None;
                    }
                    return Err(attempt);
                }
            }
        }
        Ok(streams)
    }

    /// Looks for the mark in what came of a list or a watch.
    fn look(&mut self, n: usize, text: &str) {
        if !self.watched[n].has_marks {
            return;
        }
        self.tail.push_str(text);
        let wanted = self.tally.wanted_mark();
        if self.mark != wanted && mark_in(&self.tail) == Some(wanted) {
            self.mark = wanted;
            self.tally.is_current();
        }
        let from = self.tail.len().saturating_sub(TAIL);
        self.tail = self.tail.get(from..).unwrap_or_default().to_owned();
    }

    /// Reads all streams until one ends.
    async fn read(&mut self, streams: Vec<(usize, Incoming)>) {
        let mut next: FuturesUnordered<_> = streams.into_iter().map(frame).collect();
        while let Some((n, stream, data)) = next.next().await {
            let Some(data) = data else {
                return;
            };
            let watched = &mut self.watched[n];
            let text = String::from_utf8_lossy(&data);
            if text.contains(GONE) {
                watched.version = None;
                return;
            }
            if let Some(version) = last_version(&text) {
                watched.version = Some(version);
            }
            self.look(n, &text);
            next.push(frame((n, stream)));
        }
    }
}

async fn frame((n, mut stream): (usize, Incoming)) -> (usize, Incoming, Option<Bytes>) {
    let frame = stream.frame().await;
    let data = frame.and_then(|frame| frame.ok()?.into_data().ok());
    (n, stream, data)
}

async fn ask(client: &Client, path: &str) -> Result<Incoming, Attempt> {
    let headers = [("accept", "application/json")];
    let answer = client.try_open(Method::GET, path, &headers, Bytes::new());
    let answer = answer.await.map_err(|_| Attempt::Failed)?;
    if answer.status() == StatusCode::OK {
        return Ok(answer.into_body());
    }
    let after = answer.headers().get(http::header::RETRY_AFTER);
    let after = after.and_then(|text| text.to_str().ok()?.parse().ok());
    Err(Attempt::Refused(after.map(Duration::from_secs)))
}

fn version_at(text: &str, at: usize) -> Option<String> {
    let rest = text.get(at + VERSION.len()..)?;
    // A version that is cut off has no quote after it.
    rest.split_once('"').map(|(version, _)| version.to_owned())
}

fn first_version(text: &str) -> Option<String> {
    version_at(text, text.find(VERSION)?)
}

fn last_version(text: &str) -> Option<String> {
    version_at(text, text.rfind(VERSION)?)
}

/// Returns the number of the last mark in the text.
fn mark_in(text: &str) -> Option<usize> {
    let at = text.rfind(MARK)?;
    let rest = text.get(at + MARK.len()..)?;
    rest.split_once('"')?.0.parse().ok()
}
