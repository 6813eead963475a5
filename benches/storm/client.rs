//! A client as kubelets and DaemonSets are: a connection and a certificate of its own,
//! and three watches. It comes back whenever it loses them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use futures::future::try_join_all;
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::tally::{MARK, Tally};
use crate::support::pods;
use harness::client::Client;

/// The pauses between attempts double up to this, as client-go's do, with a random part.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);
/// A watch that begins with an error ends within this time.
const STAYS_OPEN: Duration = Duration::from_millis(100);

/// More than a mark has.
const TAIL: usize = 40;

const VERSION: &str = r#""resourceVersion":""#;
/// In an ERROR event, or in a Status.
const GONE: &str = r#""code":410"#;

pub struct StormClient {
    /// With the first certificate, and with the renewed one.
    servers: [Client; 2],
    tally: Arc<Tally>,
    watched: [Watched; 3],
}

/// A list that the client keeps up to date.
struct Watched {
    path: String,
    /// The version up to which the client knows the list. `None`: it must list.
    version: Option<String>,
    /// Marks are looked for in what comes of services.
    marks: Option<Marks>,
}

#[derive(Default)]
struct Marks {
    /// The end of what came last: a mark may come in two parts.
    tail: String,
    last: usize,
}

/// The client's watches that are open, on one connection.
struct Open<'a> {
    tally: &'a Tally,
    number: AtomicUsize,
}

enum Attempt {
    /// The server was not there, or was lost.
    Failed,
    /// The answer was 429 or an error.
    Refused(Option<Duration>),
}

struct Lost;

impl StormClient {
    /// The `n`th client has the pods of its node.
    pub fn new(servers: [Client; 2], tally: Arc<Tally>, n: usize) -> Self {
        let watched = |path: String, marks| Watched {
            path,
            version: None,
            marks,
        };
        let node = pods::node(n);
        Self {
            servers,
            tally,
            watched: [
                watched(
                    format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}"),
                    None,
                ),
                watched("/api/v1/services?".to_owned(), Some(Marks::default())),
                watched("/apis/discovery.k8s.io/v1/endpointslices?".to_owned(), None),
            ],
        }
    }

    pub async fn live(mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let [first, renewed] = &self.servers;
            let client = match self.tally.has_renewed_certificates() {
                false => first.separate(),
                true => renewed.separate(),
            };
            let open = Open {
                tally: &self.tally,
                number: AtomicUsize::new(0),
            };
            let all = self.watched.iter_mut();
            let follow = all.map(|watched| watched.follow(&client, &open));
            let _: Result<Vec<()>, Lost> = try_join_all(follow).await;
            if open.number.load(Relaxed) > 0 {
                pause = FIRST_PAUSE;
                continue;
            }
            self.tally.failed();
            tokio::time::sleep(pause.mul_f64(0.5 + rand::random::<f64>())).await;
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        }
    }
}

impl Open<'_> {
    fn begins(&self) {
        if self.number.fetch_add(1, Relaxed) == 2 {
            self.tally.has_watches();
        }
    }

    fn ends(&self) {
        if self.number.fetch_sub(1, Relaxed) == 3 {
            self.tally.lost_watches();
        }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if self.number.load(Relaxed) == 3 {
            self.tally.lost_watches();
        }
    }
}

impl Watched {
    /// Lists and watches until the connection is lost.
    async fn follow(&mut self, client: &Client, open: &Open<'_>) -> Result<(), Lost> {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.watch(client, open).await {
                Ok(()) => pause = FIRST_PAUSE,
                Err(Attempt::Failed) => return Err(Lost),
                Err(Attempt::Refused(after)) => {
                    open.tally.refused();
                    tokio::time::sleep(after.unwrap_or(pause)).await;
                    pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// Watches, after a list if the version is not known, until the version is gone.
    async fn watch(&mut self, client: &Client, open: &Open<'_>) -> Result<(), Attempt> {
        let version = match &self.version {
            Some(version) => version.clone(),
            None => self.list(client, open.tally).await?,
        };
        let path = format!(
            "{}&watch=1&allowWatchBookmarks=true&timeoutSeconds=3600&resourceVersion={version}",
            self.path
        );
        let mut stream = match ask(client, &path).await {
            Err(Attempt::Refused(None)) => {
                self.version = None;
                return Err(Attempt::Refused(None));
            }
            answer => answer?,
        };
        let first = tokio::time::timeout(STAYS_OPEN, piece(&mut stream)).await;
        if let Ok(text) = first
            && self.take(&text?, open.tally) == Took::Gone
        {
            return Ok(());
        }
        open.begins();
        loop {
            // If the connection is lost, all watches are, and `open` knows.
            let text = piece(&mut stream).await?;
            if self.take(&text, open.tally) == Took::Gone {
                open.ends();
                return Ok(());
            }
        }
    }

    async fn list(&mut self, client: &Client, tally: &Tally) -> Result<String, Attempt> {
        let list = ask(client, &format!("{}&resourceVersion=0", self.path)).await?;
        let list = list.collect().await.map_err(|_| Attempt::Failed)?;
        let text = String::from_utf8_lossy(&list.to_bytes()).into_owned();
        tally.listed();
        self.look(&text, tally);
        let version = first_version(&text).ok_or(Attempt::Failed)?;
        self.version = Some(version.clone());
        Ok(version)
    }

    /// Takes what came of the watch.
    fn take(&mut self, text: &str, tally: &Tally) -> Took {
        if text.contains(GONE) {
            self.version = None;
            return Took::Gone;
        }
        if let Some(version) = last_version(text) {
            self.version = Some(version);
        }
        self.look(text, tally);
        Took::Events
    }

    /// Looks for the mark in what came of a list or a watch.
    fn look(&mut self, text: &str, tally: &Tally) {
        let Some(marks) = &mut self.marks else {
            return;
        };
        marks.tail.push_str(text);
        let wanted = tally.wanted_mark();
        if marks.last != wanted && mark_in(&marks.tail) == Some(wanted) {
            marks.last = wanted;
            tally.is_current();
        }
        let from = marks.tail.len().saturating_sub(TAIL);
        marks.tail = marks.tail.get(from..).unwrap_or_default().to_owned();
    }
}

#[derive(PartialEq, Eq)]
enum Took {
    Events,
    /// The version is too old, so the client must list.
    Gone,
}

/// Returns what comes next of a watch.
async fn piece(stream: &mut Incoming) -> Result<String, Attempt> {
    let frame = stream.frame().await;
    let data = frame.and_then(|frame| frame.ok()?.into_data().ok());
    let data = data.ok_or(Attempt::Failed)?;
    Ok(String::from_utf8_lossy(&data).into_owned())
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
