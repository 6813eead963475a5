//! An API server that answers by a script.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use apifront_source::{ReadKind, ResponseBody, Source, SourceError};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{Stream, StreamExt, stream};
use http::Response;
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::sync::mpsc;

type Chunk = Result<Frame<Bytes>, std::io::Error>;

pub(super) enum Reply {
    /// 200 and a complete body.
    Body(String),
    Code(u16, &'static str),
    /// 200, these bytes, and the end of the body.
    Ends(String),
    /// 200, these bytes, and then the connection breaks.
    Breaks(String),
    /// 200, these bytes, and then nothing.
    Stays(String),
    /// 200, and the bytes that the test sends.
    Live(mpsc::Receiver<String>),
    After(Duration, Box<Reply>),
}

/// The reflector's requests that the script answers. Discovery and probes are
/// always answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    List,
    Watch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lists {
    Pages,
    /// The server refuses initial events even to a probe.
    PagesOnly,
    InitialEvents,
}

pub(super) struct Fake(pub Arc<Script>);

/// The server, as the reflector sees it.
pub(super) struct Script {
    lists: Lists,
    replies: Mutex<Replies>,
    requests: Mutex<Vec<(Asked, String)>>,
    /// This many questions about the version get a 503 first.
    busy: AtomicUsize,
}

type Replies = Box<dyn FnMut(Asked, usize) -> Reply + Send>;

impl Fake {
    /// Makes a server. `script` gets each request, and the number of requests
    /// of the same kind before it.
    pub(super) fn start(script: impl FnMut(Asked, usize) -> Reply + Send + 'static) -> Self {
        Self::with(Lists::Pages, script)
    }

    /// Does the same as [`Fake::start`] for a server that streams initial
    /// events. The list that shows how lists are written is always answered.
    pub(super) fn streaming(script: impl FnMut(Asked, usize) -> Reply + Send + 'static) -> Self {
        Self::with(Lists::InitialEvents, script)
    }

    /// Does the same as [`Fake::start`] for a server without initial events,
    /// which sends a bookmark only before a watch ends.
    pub(super) fn old(script: impl FnMut(Asked, usize) -> Reply + Send + 'static) -> Self {
        Self::with(Lists::PagesOnly, script)
    }

    fn with(lists: Lists, script: impl FnMut(Asked, usize) -> Reply + Send + 'static) -> Self {
        Self(Arc::new(Script {
            lists,
            replies: Mutex::new(Box::new(script)),
            requests: Mutex::default(),
            busy: AtomicUsize::new(0),
        }))
    }

    /// Lets the server answer this many questions about its version with a 503.
    pub(super) fn busy(self, questions: usize) -> Self {
        self.0.busy.store(questions, Ordering::Relaxed);
        self
    }

    pub(super) fn asked(&self, what: Asked) -> Vec<String> {
        let requests = self.0.requests.lock().unwrap();
        let found = requests.iter().filter(|(asked, _)| *asked == what);
        found.map(|(_, path)| path.clone()).collect()
    }

    pub(super) fn count(&self) -> usize {
        self.0.requests.lock().unwrap().len()
    }
}

impl Source for Script {
    fn get<'a>(
        &'a self,
        _: ReadKind,
        path_and_query: &'a str,
        accept: &'a str,
    ) -> BoxFuture<'a, Result<Response<ResponseBody>, SourceError>> {
        let reply = if accept.contains("as=Table") {
            Reply::Code(406, "no tables here")
        } else {
            self.reply(path_and_query)
        };
        Box::pin(async { Ok(respond(reply).await.map(ResponseBody::new)) })
    }
}

impl Script {
    fn reply(&self, path: &str) -> Reply {
        if path.contains("fieldSelector") || path.ends_with("?limit=1") {
            let fewer = |busy: usize| busy.checked_sub(1);
            let was = self
                .busy
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
            if was.is_ok() {
                return Reply::Code(503, "busy");
            }
        }
        if let Some(reply) = always(path, self.lists) {
            return reply;
        }
        let asked = if path.contains("watch=true") && !is_initial_events(path) {
            Asked::Watch
        } else {
            Asked::List
        };
        let mut seen = self.requests.lock().unwrap();
        let before = seen.iter().filter(|(a, _)| *a == asked).count();
        seen.push((asked, path.to_owned()));
        drop(seen);
        (self.replies.lock().unwrap())(asked, before)
    }
}

/// Tells whether a path asks for initial events. A probe for a bookmark
/// differs: it selects no object.
fn is_initial_events(path: &str) -> bool {
    path.contains("sendInitialEvents") && !path.contains("fieldSelector")
}

fn always(path: &str, lists: Lists) -> Option<Reply> {
    let resources = |name: &str| {
        Reply::Body(format!(
            r#"{{"kind":"APIResourceList","resources":[{{"name":"{name}","kind":"","namespaced":true,"verbs":["list","watch"]}}]}}"#
        ))
    };
    match path {
        "/version" => Some(Reply::Body(
            r#"{"major":"1","minor":"36","gitVersion":"v1.36.0"}"#.to_owned(),
        )),
        "/api/v1/namespaces/kube-system" => {
            Some(Reply::Body(r#"{"metadata":{"uid":"cluster"}}"#.to_owned()))
        }
        "/api/v1" => Some(resources("pods")),
        "/apis/example.com/v1" => Some(resources("widgets")),
        _ if path.starts_with("/apis/apiextensions") => Some(Reply::Code(404, "")),
        _ if is_initial_events(path) => match lists {
            Lists::Pages | Lists::PagesOnly => {
                Some(Reply::Code(422, "sendInitialEvents is forbidden for watch"))
            }
            Lists::InitialEvents => None,
        },
        "/api/v1/pods" => None,
        _ if path.starts_with("/api/v1/pods?limit=1&") => Some(match lists {
            // The server is an older one, which does not know this label.
            Lists::Pages if path.contains("hostNetwork") => Reply::Code(400, "not supported"),
            _ => super::pod_list(1, &[]),
        }),
        _ if path.contains("?limit=1&") => Some(super::widget_list(1, &[])),
        _ if path.contains("fieldSelector") => match lists {
            Lists::PagesOnly if path.contains("sendInitialEvents") => {
                Some(Reply::Code(422, "sendInitialEvents is forbidden for watch"))
            }
            _ => Some(Reply::Ends(super::bookmark(1))),
        },
        _ => None,
    }
}

async fn respond(mut reply: Reply) -> Response<StreamBody<stream::BoxStream<'static, Chunk>>> {
    while let Reply::After(pause, then) = reply {
        tokio::time::sleep(pause).await;
        reply = *then;
    }
    let mut code = 200;
    let text = |text: String| stream::once(async move { Ok(Frame::data(Bytes::from(text))) });
    let body = match reply {
        Reply::Body(body) | Reply::Ends(body) => text(body).boxed(),
        Reply::Code(status, message) => {
            code = status;
            let status = serde_json::json!({"kind": "Status", "code": status, "message": message});
            text(status.to_string()).boxed()
        }
        Reply::Breaks(body) => {
            let broken = stream::once(async { Err(std::io::Error::other("broken")) });
            text(body).chain(broken).boxed()
        }
        Reply::Stays(body) => text(body).chain(stream::pending()).boxed(),
        Reply::Live(receiver) => live(receiver).boxed(),
        Reply::After(..) => unreachable!("unpacked above"),
    };
    Response::builder()
        .status(code)
        .body(StreamBody::new(body))
        .unwrap()
}

fn live(receiver: mpsc::Receiver<String>) -> impl Stream<Item = Chunk> {
    stream::unfold(receiver, |mut receiver| async move {
        let text = receiver.recv().await?;
        Some((Ok(Frame::data(Bytes::from(text))), receiver))
    })
}
