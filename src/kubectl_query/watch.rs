//! Follows a Query: prints its window, and then what changes.

use std::time::Duration;

use apifront_query::Query;
use serde::Deserialize;

use super::arguments::Output;
use super::client::Client;
use super::events::{Event, Events};
use super::failure::{Failure, Refusal};
use super::printer::Printer;
use super::screen::{Size, drawn};
use super::window::{Changes, Update, Window};

/// The time before the server is asked again. It grows with each attempt that fails.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// The attempts in a row that may fail: 36 s, in which an apifront starts again.
const ATTEMPTS: u32 = 8;

/// How the window is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// Drawn again for each update.
    Screen,
    /// Printed once, and then a line for each change.
    Lines,
    /// The object of each event.
    Documents(Output),
}

pub(super) struct Watch<'a, 'w> {
    client: &'a Client,
    /// The path to post to.
    path: &'static str,
    /// The Query, as JSON.
    question: Vec<u8>,
    shown: Shown,
    printer: &'a mut Printer<'w>,
    /// What was shown last.
    window: Option<Window>,
    /// The attempts in a row that failed.
    failures: u32,
}

#[derive(Deserialize)]
struct Updated {
    status: Update,
}

impl<'a, 'w> Watch<'a, 'w> {
    pub(super) fn new(
        client: &'a Client,
        path: &'static str,
        question: Vec<u8>,
        shown: Shown,
        printer: &'a mut Printer<'w>,
    ) -> Self {
        Self {
            client,
            path,
            question,
            shown,
            printer,
            window: None,
            failures: 0,
        }
    }

    /// Follows until an error that asking again will not mend. Servers end streams after a
    /// while, and forget the states of which they told. `pause` is usually [`PAUSE`].
    pub(super) async fn run(mut self, pause: Duration) -> Result<(), Failure> {
        loop {
            if let Err(failure) = self.follow().await {
                let passes = failure.may_pass() && self.failures < ATTEMPTS;
                if self.window.is_none() || !passes {
                    return Err(failure);
                }
                self.failures = self.failures.saturating_add(1);
            }
            tokio::time::sleep(pause.saturating_mul(self.failures.max(1))).await;
        }
    }

    /// Follows one stream to its end.
    async fn follow(&mut self) -> Result<(), Failure> {
        let opened = self.client.open(self.path, self.question.clone()).await?;
        if opened.status == http::StatusCode::CREATED {
            return Err(Failure::NoWatches);
        }
        if self.window.is_none() {
            self.printer.warnings(&opened.warnings)?;
        }
        let mut events = Events::new(opened.body);
        while let Some(event) = events.next().await? {
            self.failures = 0;
            self.take(event)?;
        }
        Ok(())
    }

    fn take(&mut self, event: Event) -> Result<(), Failure> {
        let Event { kind, object } = event;
        if kind == "ERROR" {
            return Err(Failure::Refused(Box::new(Refusal::of_event(object)?)));
        }
        if let Shown::Documents(output) = self.shown {
            return self.document(&kind, object, output);
        }
        let changes = match (kind.as_str(), &mut self.window) {
            ("ADDED", window) => {
                let query: Query = serde_json::from_value(object).map_err(Failure::unreadable)?;
                let other = Window::from(query.status.unwrap_or_default());
                match window {
                    None => {
                        *window = Some(other);
                        None
                    }
                    Some(window) => Some(window.replace(other).map_err(Failure::unreadable)?),
                }
            }
            ("MODIFIED", Some(window)) => {
                let updated: Updated =
                    serde_json::from_value(object).map_err(Failure::unreadable)?;
                let changes = window.update(updated.status);
                Some(changes.map_err(Failure::unreadable)?)
            }
            ("BOOKMARK", Some(window)) => {
                let marked: Updated =
                    serde_json::from_value(object).map_err(Failure::unreadable)?;
                window.resource_version = marked.status.resource_version;
                window.total = marked.status.total;
                Some(Changes::default())
            }
            _ => return Err(Failure::unreadable(format!("an unexpected event {kind:?}"))),
        };
        self.show(changes)
    }

    fn document(
        &mut self,
        kind: &str,
        object: serde_json::Value,
        output: Output,
    ) -> Result<(), Failure> {
        if kind == "BOOKMARK" {
            return Ok(());
        }
        if self.window.replace(Window::default()).is_some() {
            self.printer.divide(output)?;
        }
        Ok(self.printer.document(&object, output)?)
    }

    /// Shows the window, or what changed in it. Without changes it is new.
    fn show(&mut self, changes: Option<Changes>) -> Result<(), Failure> {
        let Some(window) = &self.window else {
            return Ok(());
        };
        match (self.shown, changes) {
            (Shown::Screen, _) => {
                let screen = drawn(window, Size::of_terminal());
                self.printer.screen(&screen)?;
            }
            (_, None) => self.printer.window(window)?,
            (_, Some(changes)) => self.printer.changes(&changes)?,
        }
        Ok(())
    }
}
