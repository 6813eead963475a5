//! The kubectl plugin: asks an apifront a Query, as a client of it, and prints the answer.
//! The program is this plugin if it is called by its name, `kubectl-query`.
//!
//! ```text
//! arguments ─▶ kubeconfig ─▶ client ─▶ discovery ─▶ resource ─▶ Query ─▶ printer
//!                                                                 └────▶ watch ─▶ window
//! ```
//!
//! It stands apart: it uses nothing of the server, and the server nothing of it.

mod arguments;
mod client;
mod discovery;
mod events;
mod failure;
mod kubeconfig;
mod printer;
mod resource;
mod screen;
mod sorting;
mod table;
#[cfg(test)]
mod tests;
mod text;
mod watch;
mod window;

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use apifront_query::Query;
use clap::{CommandFactory, FromArgMatches};
use serde_json::Value;

pub use self::arguments::Arguments;
use self::arguments::Output;
use self::client::Client;
use self::failure::Failure;
use self::printer::Printer;
use self::watch::{PAUSE, Shown, Watch};
use self::window::Window;

const QUERY_GROUP: &str = "query.apifront.dev";
const QUERY_VERSION: &str = "query.apifront.dev/v1alpha1";
const QUERIES: &str = "/apis/query.apifront.dev/v1alpha1/queries";
const WATCHED: &str = "/apis/query.apifront.dev/v1alpha1/queries?watch=true";

/// The name by which kubectl calls its plugin `query`.
const NAME: &str = "kubectl-query";

/// Reads the command line if the program is called by the plugin's name. Wrong usage ends
/// the process.
pub fn called_by_name() -> Option<Arguments> {
    let called = std::env::args_os().next()?;
    if Path::new(&called).file_stem()? != NAME {
        return None;
    }
    let command = Arguments::command().bin_name("kubectl query");
    let read = Arguments::from_arg_matches(&command.get_matches());
    Some(read.unwrap_or_else(|error| error.exit()))
}

/// Asks, prints, and returns the exit status.
pub async fn run(arguments: Arguments) -> ExitCode {
    let (mut out, mut notes) = (std::io::stdout(), std::io::stderr());
    let is_terminal = out.is_terminal();
    let mut printer = Printer::new(&mut out, &mut notes);
    let asked = ask(&arguments, is_terminal, PAUSE, &mut printer).await;
    let Err(failure) = asked else {
        return ExitCode::SUCCESS;
    };
    if failure.is_closed_pipe() {
        return ExitCode::SUCCESS;
    }
    // If nobody reads errors, the exit status still tells.
    let _unread = writeln!(std::io::stderr(), "kubectl query: {failure}");
    ExitCode::FAILURE
}

async fn ask(
    arguments: &Arguments,
    is_terminal: bool,
    pause: Duration,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    let config = kubeconfig::config(&arguments.access).await?;
    let client = Client::new(config, arguments.access.request_timeout)?;
    let groups = discovery::groups(&client).await?;
    let wanted = &arguments.resource;
    let resource = resource::find(&groups, wanted);
    let resource = resource.ok_or_else(|| Failure::NoResource(wanted.clone()))?;
    let query = Query {
        api_version: QUERY_VERSION.to_owned(),
        kind: "Query".to_owned(),
        spec: arguments.spec(resource),
        ..Query::default()
    };
    let question = serde_json::to_vec(&query).map_err(Failure::unreadable)?;
    if arguments.watch {
        let shown = match arguments.output {
            Output::Table if is_terminal => Shown::Screen,
            Output::Table => Shown::Lines,
            output => Shown::Documents(output),
        };
        tokio::spawn(end_at_interrupt(shown));
        return Watch::new(&client, WATCHED, question, shown, printer)
            .run(pause)
            .await;
    }
    let (body, warnings) = client.post(QUERIES, question).await?;
    printer.warnings(&warnings)?;
    match arguments.output {
        Output::Table => {
            let query: Query = serde_json::from_slice(&body).map_err(Failure::unreadable)?;
            printer.window(&Window::from(query.status.unwrap_or_default()))?;
        }
        output => {
            let document: Value = serde_json::from_slice(&body).map_err(Failure::unreadable)?;
            printer.document(&document, output)?;
        }
    }
    Ok(())
}

/// Ends the process at Ctrl-C, also while it cannot write because nobody reads.
async fn end_at_interrupt(shown: Shown) {
    if tokio::signal::ctrl_c().await.is_err() {
        return;
    }
    if shown == Shown::Screen {
        // The shell goes on below the window.
        let _unread = writeln!(std::io::stderr());
    }
    std::process::exit(0);
}
