//! Custom resources: prints the `additionalPrinterColumns` of their definition
//! as apiextensions-apiserver's `tableconvertor` does.

use serde::{Deserialize, Serialize};

use super::age::Moment;
use super::json_path::JsonPath;
use super::row::{Cell, Row};
use super::{NotPrintable, Printer, Source, columns, core};
use crate::api::go_float::{Encoded, Printed};
use crate::api::go_json;
use crate::representation::scan;

/// A column in a CustomResourceDefinition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomColumn {
    /// The header of the column.
    pub name: String,
    /// The OpenAPI type: `string`, `integer`, `number`, `boolean` or `date`.
    pub r#type: String,
    /// The OpenAPI format, empty for none.
    pub format: String,
    /// The explanation for people.
    pub description: String,
    /// kubectl shows columns with a priority above 0 only with `-o wide`.
    pub priority: i32,
    /// The JSONPath of the value in the object, such as `.spec.replicas`.
    pub json_path: String,
}

/// The most columns. Each one is searched for in every object, which may have
/// megabytes. No known definition has as many. Tables of a definition that has more
/// are left to upstream.
const MAX_COLUMNS: usize = 64;

/// `metav1.TableColumnDefinition`.
#[derive(Serialize)]
struct Definition<'a> {
    name: &'a str,
    r#type: &'a str,
    format: &'a str,
    description: &'a str,
    priority: i32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    path: JsonPath,
    kind: Kind,
}

impl Column {
    pub(crate) fn reads_managed_fields(&self) -> bool {
        self.path.reads_managed_fields()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Integer,
    Number,
    Boolean,
    Date,
    /// An unknown type. No value has this type, so its cells are null.
    Unknown,
}

impl Kind {
    fn parse(text: &str) -> Self {
        match text {
            "string" => Self::Text,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            "date" => Self::Date,
            _ => Self::Unknown,
        }
    }
}

pub(crate) fn printer(given: &[CustomColumn]) -> Option<Printer> {
    let age = [CustomColumn {
        name: "Age".to_owned(),
        r#type: "date".to_owned(),
        description: columns::creation_timestamp_description(),
        json_path: ".metadata.creationTimestamp".to_owned(),
        ..CustomColumn::default()
    }];
    let given = if given.is_empty() { &age } else { given };
    if given.len() > MAX_COLUMNS {
        return None;
    }

    let mut definitions = vec![columns::name_column().to_owned()];
    let mut parsed = Vec::new();
    for column in given {
        parsed.push(Column {
            path: JsonPath::parse(&column.json_path)?,
            kind: Kind::parse(&column.r#type),
        });
        let default = format!(
            "Custom resource definition column (in JSONPath format): {}",
            column.json_path
        );
        let definition = go_json::to_vec(&Definition {
            name: &column.name,
            r#type: &column.r#type,
            format: &column.format,
            description: if column.description.is_empty() {
                &default
            } else {
                &column.description
            },
            priority: column.priority,
        });
        definitions.push(String::from_utf8(definition).ok()?);
    }
    let columns = format!("[{}]", definitions.join(","));
    Some(Printer::new(columns, Source::Custom(parsed)))
}

pub(crate) fn row(columns: &[Column], object: &[u8]) -> Result<Row, NotPrintable> {
    let mut cells = vec![core::name(object)?];
    for column in columns {
        cells.push(match column.path.first(object) {
            Ok(Some(value)) => cell(column.kind, value)?,
            Ok(None) | Err(_) => Cell::null(),
        });
    }
    Ok(Row::new(cells))
}

fn cell(kind: Kind, value: &[u8]) -> Result<Cell, NotPrintable> {
    let first = value.first().ok_or(NotPrintable)?;
    let is_number = matches!(first, b'-' | b'0'..=b'9');
    match kind {
        Kind::Text => text_cell(value),
        Kind::Integer if is_number => Ok(Cell::integer(integer(value)?)),
        Kind::Number if is_number => number_cell(value),
        Kind::Boolean if matches!(first, b't' | b'f') => json_cell(value),
        Kind::Date if *first == b'"' => Ok(date_cell(&scan::text(value).ok_or(NotPrintable)?)),
        _ => Ok(Cell::null()),
    }
}

fn json_cell(value: &[u8]) -> Result<Cell, NotPrintable> {
    let json = std::str::from_utf8(value).map_err(|_| NotPrintable)?;
    Ok(Cell::Fixed(json.into()))
}

/// Makes a cell with the text that Go's `fmt.Fprint` writes for a scalar.
/// Objects and lists are written as JSON.
fn text_cell(value: &[u8]) -> Result<Cell, NotPrintable> {
    let json = std::str::from_utf8(value).map_err(|_| NotPrintable)?;
    match value.first() {
        Some(b'"') => Ok(Cell::text(&scan::text(value).ok_or(NotPrintable)?)),
        Some(b'n') => Ok(Cell::text("<no value>")),
        Some(b't' | b'f' | b'{' | b'[') => Ok(Cell::text(json)),
        _ => match integral(value)? {
            Some(_) => Ok(Cell::text(json)),
            None => Ok(Cell::text(&Printed(float(value)?).to_string())),
        },
    }
}

fn number_cell(value: &[u8]) -> Result<Cell, NotPrintable> {
    let number = match integral(value)? {
        #[allow(clippy::cast_precision_loss)] // as on the server
        Some(integer) => integer as f64,
        None => float(value)?,
    };
    Ok(Cell::Fixed(Encoded(number).to_string().into()))
}

/// Returns an integer, if the server holds this number as one. It holds larger
/// numbers as floating-point numbers.
fn integral(value: &[u8]) -> Result<Option<i64>, NotPrintable> {
    let text = std::str::from_utf8(value).map_err(|_| NotPrintable)?;
    Ok(text.parse().ok().filter(|_| is_integer(value)))
}

fn is_integer(value: &[u8]) -> bool {
    value.iter().all(|b| b.is_ascii_digit() || *b == b'-')
}

fn float(value: &[u8]) -> Result<f64, NotPrintable> {
    let text = std::str::from_utf8(value).map_err(|_| NotPrintable)?;
    text.parse().map_err(|_| NotPrintable)
}

fn integer(value: &[u8]) -> Result<i64, NotPrintable> {
    if let Some(integer) = integral(value)? {
        return Ok(integer);
    }
    let float = float(value)?;
    // Go does not define its conversion of larger numbers.
    if float.abs() >= 9e18 {
        return Err(NotPrintable);
    }
    #[allow(clippy::cast_possible_truncation)] // the fraction is dropped
    Ok(float as i64)
}

fn date_cell(text: &str) -> Cell {
    if matches!(text, "" | "null") {
        return Cell::age(None);
    }
    match Moment::parse_go(text) {
        Some(moment) => Cell::age(moment),
        None => Cell::text("<invalid>"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(kind: Kind, value: &str) -> String {
        match cell(kind, value.as_bytes()) {
            Ok(Cell::Fixed(json)) => json.into_string(),
            Ok(Cell::Age(_)) => "age".to_owned(),
            Ok(Cell::Mixed(_)) => "mixed".to_owned(),
            Err(NotPrintable) => "?".to_owned(),
        }
    }

    #[test]
    fn values_become_cells_by_column_type() {
        for (kind, value, expected) in [
            (Kind::Text, "\"a\\u003cb\"", "\"a\\u003cb\""),
            (Kind::Text, "1.5", "\"1.5\""),
            (Kind::Text, "1e-7", "\"1e-07\""),
            (Kind::Text, "0.0001", "\"0.0001\""),
            (Kind::Text, "-1234567.5", "\"-1.2345675e+06\""),
            (Kind::Text, "123456.5", "\"123456.5\""),
            (Kind::Text, "1234567", "\"1234567\""),
            (Kind::Text, "100000000000000000000", "\"1e+20\""),
            (Kind::Text, "1e+100", "\"1e+100\""),
            (Kind::Text, "null", "\"\\u003cno value\\u003e\""),
            (Kind::Text, "{\"a\":1}", "\"{\\\"a\\\":1}\""),
            (Kind::Integer, "3.7", "3"),
            (Kind::Integer, "-3.7", "-3"),
            (Kind::Integer, "\"x\"", "null"),
            (Kind::Integer, "99999999999999999999", "?"),
            (Kind::Number, "2", "2"),
            (Kind::Number, "1.5", "1.5"),
            (Kind::Number, "9007199254740993", "9007199254740992"),
            (Kind::Number, "9223372036854775808", "9223372036854776000"),
            (Kind::Number, "1e-7", "1e-7"),
            (Kind::Number, "1e+21", "1e+21"),
            (Kind::Number, "0.000001", "0.000001"),
            (Kind::Boolean, "true", "true"),
            (Kind::Boolean, "\"yes\"", "null"),
            (Kind::Date, "\"2026-11-21T00:00:00Z\"", "age"),
            (Kind::Date, "\"\"", "\"\\u003cunknown\\u003e\""),
            (Kind::Date, "\"bad\"", "\"\\u003cinvalid\\u003e\""),
            (Kind::Date, "\"2026-11-21T0:00:00Z\"", "age"),
            (Kind::Date, "5", "null"),
            (Kind::Unknown, "5", "null"),
        ] {
            assert_eq!(show(kind, value), expected, "{kind:?} {value}");
        }
    }

    #[test]
    fn strange_paths_make_no_printer() {
        let column = |path: &str| CustomColumn {
            json_path: path.to_owned(),
            ..CustomColumn::default()
        };
        assert!(printer(&[column(".a"), column("..b")]).is_none());
        let columns = vec![column(".a"); MAX_COLUMNS + 1];
        assert!(printer(&columns).is_none());
        assert!(printer(&columns[1..]).is_some());
        assert!(
            printer(&[])
                .unwrap()
                .columns
                .contains("\"name\":\"Age\",\"type\":\"date\"")
        );
    }
}
