//! Watchers that count their events.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::BodyExt;
use tokio::task::JoinHandle;

use crate::support::watches;
use harness::client::Client;
use harness::elsewhere;

pub struct Watchers {
    tasks: Vec<JoinHandle<()>>,
    events: Arc<AtomicUsize>,
}

impl Watchers {
    pub async fn start(client: &Client, lists: Vec<String>, version: &str) -> Self {
        let events = Arc::<AtomicUsize>::default();
        let from = format!("watch=1&allowWatchBookmarks=true&resourceVersion={version}");
        let client = client.separate();
        let paths = lists.into_iter().map(move |list| format!("{list}{from}"));
        let open = elsewhere::spawn(async move { watches::open(&client, paths).await });
        let open = open.await.expect("watches");
        let tasks = open.into_iter().map(|mut watch| {
            let events = events.clone();
            elsewhere::spawn(async move {
                while let Some(Ok(frame)) = watch.frame().await {
                    if let Ok(data) = frame.into_data() {
                        let lines = data.iter().filter(|byte| **byte == b'\n').count();
                        events.fetch_add(lines, Ordering::Relaxed);
                    }
                }
            })
        });
        Self {
            tasks: tasks.collect(),
            events,
        }
    }

    pub fn events(&self) -> usize {
        self.events.load(Ordering::Relaxed)
    }

    pub fn ended(&self) -> usize {
        self.tasks.iter().filter(|task| task.is_finished()).count()
    }

    pub fn end(self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
