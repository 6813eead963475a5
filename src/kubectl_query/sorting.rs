//! `--sort` and `--sort-down`, in the order in which they were given: earlier ones come
//! first in the order of the rows.

use apifront_query::OrderBy;
use clap::error::Error;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::arguments::SHOWN;

const UP: &str = "sort";
const DOWN: &str = "sort-down";

#[derive(Clone, Debug, Default)]
pub(super) struct Sorting(pub(super) Vec<OrderBy>);

impl Args for Sorting {
    fn augment_args(command: Command) -> Command {
        let option = |name, help| {
            Arg::new(name)
                .long(name)
                .value_name("CEL")
                .help(help)
                .help_heading(SHOWN)
                .action(ArgAction::Append)
                .allow_hyphen_values(true)
        };
        command
            .arg(option(UP, "Order the rows by a value; may be repeated"))
            .arg(option(DOWN, "The same, the greatest value first"))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Sorting {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut given: Vec<(usize, OrderBy)> = Vec::new();
        for (name, descending) in [(UP, false), (DOWN, true)] {
            let places = matches.indices_of(name).into_iter().flatten();
            let expressions = matches.get_many::<String>(name).into_iter().flatten();
            given.extend(places.zip(expressions).map(|(place, expression)| {
                let order = OrderBy {
                    expression: expression.clone(),
                    descending,
                    ..OrderBy::default()
                };
                (place, order)
            }));
        }
        given.sort_by_key(|(place, _)| *place);
        Ok(Self(given.into_iter().map(|(_, order)| order).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
