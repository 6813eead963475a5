//! The kubectl plugin: asks an apifront a Query, as a client of it, and prints the answer.
//!
//! ```text
//! arguments ─▶ kubeconfig ─▶ client ─▶ discovery ─▶ resource ─▶ Query ─▶ printer
//! ```
//!
//! It stands apart: it uses nothing of the server, and the server nothing of it.

mod arguments;
mod client;
mod discovery;
mod failure;
mod kubeconfig;
mod printer;
mod resource;
mod sorting;
mod table;
#[cfg(test)]
mod tests;
mod text;
mod window;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use apifront_query::Query;
use clap::{CommandFactory, FromArgMatches};
use serde_json::Value;

pub use self::arguments::Arguments;
use self::arguments::Output;
use self::client::Client;
use self::failure::Failure;
use self::printer::Printer;
use self::window::Window;

const QUERY_GROUP: &str = "query.apifront.dev";
const QUERY_VERSION: &str = "query.apifront.dev/v1alpha1";
const QUERIES: &str = "/apis/query.apifront.dev/v1alpha1/queries";
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
    let mut printer = Printer::new(&mut out, &mut notes);
    let Err(failure) = ask(&arguments, &mut printer).await else {
        return ExitCode::SUCCESS;
    };
    if failure.is_closed_pipe() {
        return ExitCode::SUCCESS;
    }
    // If nobody reads errors, the exit status still tells.
    let _unread = writeln!(std::io::stderr(), "kubectl query: {failure}");
    ExitCode::FAILURE
}

async fn ask(arguments: &Arguments, printer: &mut Printer<'_>) -> Result<(), Failure> {
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
