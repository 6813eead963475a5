//! Prints answers: tables for people, documents for programs.

use std::io::{Result, Write};

use serde_json::Value;

use super::arguments::Output;
use super::table::{self, Table};
use super::text::printable;
use super::window::{Changes, Mark, Window};

/// Where to print.
pub(super) struct Printer<'w> {
    out: &'w mut dyn Write,
    /// What people read beside the rows.
    notes: &'w mut dyn Write,
    /// The columns of the rows that were printed.
    table: Table,
}

impl<'w> Printer<'w> {
    pub(super) fn new(out: &'w mut dyn Write, notes: &'w mut dyn Write) -> Self {
        Self {
            out,
            notes,
            table: Table::default(),
        }
    }

    /// Writes the rows and, after an empty line, the counts.
    pub(super) fn window(&mut self, window: &Window) -> Result<()> {
        for line in rows(window, &mut self.table) {
            writeln!(self.out, "{line}")?;
        }
        if !window.counts.is_empty() {
            writeln!(self.out)?;
        }
        for line in counts(window) {
            writeln!(self.out, "{line}")?;
        }
        self.out.flush()?;
        writeln!(self.notes, "{}", status(window))?;
        self.warnings(&window.warnings)
    }

    pub(super) fn warnings(&mut self, warnings: &[String]) -> Result<()> {
        for warning in warnings {
            writeln!(self.notes, "warning: {}", printable(warning))?;
        }
        Ok(())
    }

    /// Writes a line for each change. The columns go on, and may become wider.
    pub(super) fn changes(&mut self, changes: &Changes) -> Result<()> {
        for changed in &changes.rows {
            let mark = match changed.mark {
                Mark::Added => '+',
                Mark::Removed => '-',
                Mark::Changed => '~',
                Mark::Moved => '>',
            };
            let cells = table::of_row(&changed.row);
            self.table.fit(&cells);
            writeln!(self.out, "{mark} {}", self.table.line(&cells))?;
        }
        let cells: Vec<_> = changes.counts.iter().map(table::of_count).collect();
        for line in Table::default().lines(&cells) {
            writeln!(self.out, "= {line}")?;
        }
        self.out.flush()
    }

    /// Writes a document. In YAML, `---` divides those of a watch.
    pub(super) fn document(&mut self, document: &Value, output: Output) -> Result<()> {
        let text = match output {
            Output::Yaml => {
                let yaml = serde_saphyr::to_string(document);
                yaml.map_err(std::io::Error::other)?
            }
            Output::Json | Output::Table => format!("{document:#}\n"),
        };
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    pub(super) fn divide(&mut self, output: Output) -> Result<()> {
        match output {
            Output::Yaml => writeln!(self.out, "---"),
            Output::Json | Output::Table => Ok(()),
        }
    }

    /// Writes what draws a screen.
    pub(super) fn screen(&mut self, screen: &str) -> Result<()> {
        self.out.write_all(screen.as_bytes())?;
        self.out.flush()
    }
}

/// Returns the header and the rows.
pub(super) fn rows(window: &Window, table: &mut Table) -> Vec<String> {
    let header = table::header(&window.columns);
    let rows = window.rows.iter().map(table::of_row);
    let all: Vec<_> = std::iter::once(header).chain(rows).collect();
    table.lines(&all)
}

pub(super) fn counts(window: &Window) -> Vec<String> {
    let counts: Vec<_> = window.counts.iter().map(table::of_count).collect();
    Table::default().lines(&counts)
}

pub(super) fn status(window: &Window) -> String {
    let version = printable(&window.resource_version);
    format!(
        "{} of {}, version {version}",
        window.rows.len(),
        window.total
    )
}
