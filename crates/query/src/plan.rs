//! The plan of a query: its fields, checked and ready to be evaluated. What they may be,
//! such as the limit and the updates in a second, is decided here.

use std::fmt::Display;
use std::io;
use std::ops::Range;
use std::thread;
use std::time::Duration;

use kubernetes_wire::representation::Projection;
use serde_json::json;

use crate::expression::{Expression, InvalidExpression};
use crate::first_rows;
use crate::spec::{Column, OrderBy, QuerySpec};

/// The number of rows of a page if the query does not name one, and the most.
const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: i64 = 1000;

/// How often a live answer changes at most, if the query does not say, and the most.
const DEFAULT_UPDATES_PER_SECOND: u32 = 1;
const MAX_UPDATES_PER_SECOND: u32 = 10;

/// The most columns, keys of the order, and expressions to count by.
const MAX_COLUMNS: usize = 32;
const MAX_KEYS: usize = 8;

/// The longest name of a column, in bytes.
const MAX_NAME: usize = 63;

/// About the memory of an expression for each byte of its text, as the parser has it.
const BYTES_PER_CHARACTER: usize = 128;

/// The memory of a row that a reader of a live answer has seen.
const SEEN_ROW_BYTES: usize = 64;

/// About the memory of a value: a text of some bytes, and its place.
const VALUE_BYTES: usize = 96;

/// The stack for parsing. The parser takes some kilobytes for each operator of an
/// expression.
const PARSER_STACK: usize = 32 << 20;

/// A field whose value is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The path of the field: `spec.columns[0].expression`.
    pub field: String,
    pub value: String,
    pub why: String,
    /// Whether the field must be set, and is not.
    pub is_missing: bool,
}

pub struct Plan {
    pub(crate) condition: Option<Expression>,
    pub(crate) columns: Vec<(Column, Expression)>,
    pub(crate) order: Vec<Key>,
    pub(crate) count_by: Vec<Expression>,
    pub(crate) limit: usize,
    pub(crate) offset: usize,
    update_interval: Duration,
    /// The parts of each object that decide whether, where and in which number it
    /// counts.
    pub(crate) selecting: Projection,
    /// The parts of an object that its row shows.
    pub(crate) showing: Projection,
    /// The text of all that selects, orders and counts objects. Queries that do so in the
    /// same way have the same.
    identity: String,
}

pub(crate) struct Key {
    pub(crate) expression: Expression,
    pub(crate) descending: bool,
    source: String,
}

impl Plan {
    /// Checks a query. Returns all that is wrong with it. A page that continues another
    /// begins at `offset` instead of the query's own.
    pub fn new(spec: &QuerySpec, offset: Option<u64>) -> io::Result<Result<Self, Vec<Invalid>>> {
        // The parser calls itself for each operator.
        thread::scope(|scope| {
            let parser = thread::Builder::new()
                .name("query-parser".to_owned())
                .stack_size(PARSER_STACK)
                .spawn_scoped(scope, || Reader::default().read(spec, offset))?;
            parser
                .join()
                .map_err(|_| io::Error::other("the parser of expressions failed"))
        })
    }

    /// Tells whether the objects themselves need not be read to select and order them.
    pub(crate) fn selects_all(&self) -> bool {
        self.condition.is_none() && self.order.is_empty() && self.count_by.is_empty()
    }

    pub fn columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().map(|(column, _)| column)
    }

    /// Tells whether the query names columns.
    pub fn has_columns(&self) -> bool {
        !self.columns.is_empty()
    }

    /// Returns the number of rows before the page.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the shortest time between two changes of a live answer.
    pub fn update_interval(&self) -> Duration {
        self.update_interval
    }

    /// Returns the places of the page's rows in the order of all.
    pub(crate) fn page(&self) -> Range<usize> {
        self.offset..self.offset.saturating_add(self.limit)
    }

    /// Returns a text that is equal for queries that select, order and count in the same
    /// way.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Returns about how much memory the plan takes.
    pub fn memory(&self) -> usize {
        let columns = self
            .columns
            .iter()
            .map(|(column, _)| column.expression.len());
        let length = columns.fold(self.identity.len(), usize::saturating_add);
        length.saturating_mul(BYTES_PER_CHARACTER)
    }

    /// Returns about how much memory a live answer takes.
    pub fn window_bytes(&self) -> usize {
        let seen = self.limit.saturating_mul(SEEN_ROW_BYTES);
        self.memory().saturating_add(seen)
    }

    /// Returns about how much memory an evaluation of this number of objects takes.
    pub fn held_bytes(&self, objects: usize) -> usize {
        let values = self.order.len().saturating_add(self.count_by.len());
        let ordered = objects.saturating_mul(values).saturating_mul(VALUE_BYTES);
        let cells = self.limit.min(objects).saturating_mul(self.columns.len());
        let shown = cells.saturating_mul(VALUE_BYTES);
        ordered.min(first_rows::MAX_BYTES).saturating_add(shown)
    }
}

#[derive(Default)]
struct Reader {
    wrong: Vec<Invalid>,
}

impl Reader {
    fn read(mut self, spec: &QuerySpec, offset: Option<u64>) -> Result<Plan, Vec<Invalid>> {
        let condition = match spec.condition.as_str() {
            "" => None,
            source => self.expression("spec.where", source),
        };
        let columns = self.columns(&spec.columns);
        let order = self.order(&spec.order_by, &spec.columns);
        let count_by = self.count_by(&spec.count_by);
        let limit = self.limit(spec.limit);
        let own_offset = self.offset(spec.offset);
        let update_interval = self.update_interval(spec.max_updates_per_second);
        if !self.wrong.is_empty() {
            return Err(self.wrong);
        }
        let mut selecting = Projection::nothing();
        let keys = order.iter().map(|key| &key.expression);
        for expression in condition.iter().chain(keys).chain(&count_by) {
            selecting.merge(expression.projection());
        }
        let mut showing = Projection::nothing();
        for (_, expression) in &columns {
            showing.merge(expression.projection());
        }
        let offset = match offset {
            Some(offset) => usize::try_from(offset).unwrap_or(usize::MAX),
            None => own_offset,
        };
        let keys = order.iter();
        let keys: Vec<_> = keys.map(|key| (&key.source, key.descending)).collect();
        let identity = json!([spec.condition, keys, spec.count_by]).to_string();
        Ok(Plan {
            identity,
            condition,
            columns,
            order,
            count_by,
            limit,
            offset,
            update_interval,
            selecting,
            showing,
        })
    }

    fn refuse(&mut self, field: &str, value: impl Display, why: impl Display) {
        self.wrong.push(Invalid {
            field: field.to_owned(),
            value: value.to_string(),
            why: why.to_string(),
            is_missing: false,
        });
    }

    fn require(&mut self, field: &str) {
        self.wrong.push(Invalid {
            field: field.to_owned(),
            value: String::new(),
            why: String::new(),
            is_missing: true,
        });
    }

    fn expression(&mut self, field: &str, source: &str) -> Option<Expression> {
        match Expression::parse(source) {
            Ok(expression) => Some(expression),
            Err(InvalidExpression::Empty) => {
                self.require(field);
                None
            }
            Err(error) => {
                self.refuse(field, source, error);
                None
            }
        }
    }

    fn columns(&mut self, columns: &[Column]) -> Vec<(Column, Expression)> {
        if columns.len() > MAX_COLUMNS {
            let why = format!("must have at most {MAX_COLUMNS} items");
            self.refuse("spec.columns", columns.len(), why);
            return Vec::new();
        }
        let mut read = Vec::new();
        for (at, column) in columns.iter().enumerate() {
            let name = &column.name;
            let field = format!("spec.columns[{at}]");
            if name.is_empty() {
                self.require(&format!("{field}.name"));
            } else if name.len() > MAX_NAME {
                let why = format!("must have at most {MAX_NAME} bytes");
                self.refuse(&format!("{field}.name"), name, why);
            } else if columns.iter().take(at).any(|before| before.name == *name) {
                self.refuse(&format!("{field}.name"), name, "is the name of two columns");
            }
            let expression = self.expression(&format!("{field}.expression"), &column.expression);
            read.extend(expression.map(|expression| (column.clone(), expression)));
        }
        read
    }

    fn order(&mut self, keys: &[OrderBy], columns: &[Column]) -> Vec<Key> {
        if keys.len() > MAX_KEYS {
            let why = format!("must have at most {MAX_KEYS} items");
            self.refuse("spec.orderBy", keys.len(), why);
            return Vec::new();
        }
        let mut read = Vec::new();
        for (at, key) in keys.iter().enumerate() {
            let field = format!("spec.orderBy[{at}]");
            let source = match (key.column.as_str(), key.expression.as_str()) {
                ("", "") => {
                    self.require(&format!("{field}.expression"));
                    continue;
                }
                ("", source) => source,
                (name, "") => match columns.iter().find(|column| column.name == name) {
                    Some(column) => column.expression.as_str(),
                    None => {
                        let why = "is no name of an item of spec.columns: order by an expression";
                        self.refuse(&format!("{field}.column"), name, why);
                        continue;
                    }
                },
                (name, _) => {
                    let why = "must not be set together with `expression`";
                    self.refuse(&format!("{field}.column"), name, why);
                    continue;
                }
            };
            // What is wrong with a column was said already.
            let expression = match key.column.is_empty() {
                true => self.expression(&format!("{field}.expression"), source),
                false => Expression::parse(source).ok(),
            };
            let descending = key.descending;
            read.extend(expression.map(|expression| Key {
                expression,
                descending,
                source: source.to_owned(),
            }));
        }
        read
    }

    fn count_by(&mut self, sources: &[String]) -> Vec<Expression> {
        if sources.len() > MAX_KEYS {
            let why = format!("must have at most {MAX_KEYS} items");
            self.refuse("spec.countBy", sources.len(), why);
            return Vec::new();
        }
        let sources = sources.iter().enumerate();
        sources
            .filter_map(|(at, source)| self.expression(&format!("spec.countBy[{at}]"), source))
            .collect()
    }

    fn limit(&mut self, limit: i64) -> usize {
        if !(0..=MAX_LIMIT).contains(&limit) {
            let why = format!("must be from 0 to {MAX_LIMIT}");
            self.refuse("spec.limit", limit, why);
        }
        match usize::try_from(limit) {
            Ok(0) | Err(_) => DEFAULT_LIMIT,
            Ok(limit) => limit,
        }
    }

    fn offset(&mut self, offset: i64) -> usize {
        usize::try_from(offset).unwrap_or_else(|_| {
            self.refuse("spec.offset", offset, "must not be negative");
            0
        })
    }

    fn update_interval(&mut self, per_second: i64) -> Duration {
        let most = i64::from(MAX_UPDATES_PER_SECOND);
        if !(0..=most).contains(&per_second) {
            let why = format!("must be from 0 to {most}");
            self.refuse("spec.maxUpdatesPerSecond", per_second, why);
        }
        let per_second = match u32::try_from(per_second) {
            Ok(0) | Err(_) => DEFAULT_UPDATES_PER_SECOND,
            Ok(per_second) => per_second,
        };
        Duration::from_secs(1)
            .checked_div(per_second)
            .unwrap_or_default()
    }
}
