//! Writes rows of comma-separated words in columns, aligned as Go's
//! `text/tabwriter` aligns the tables of kube-apiserver's dumps.

use std::fmt::Write;

/// The least width of a column. A column is also a space wider than its widest
/// word.
const LEAST_WIDTH: usize = 8;

/// Writes the rows. Each row has as many words as the first.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|word| shown(word)).collect())
        .collect();
    let columns = rows.first().map_or(0, Vec::len);
    // The width with a comma and a space.
    let width = |word: &String| word.chars().count().saturating_add(2);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let words = rows.iter().filter_map(|row| row.get(column));
            words.map(width).max().unwrap_or(0).max(LEAST_WIDTH)
        })
        .collect();
    let mut text = String::new();
    for row in &rows {
        let last = row.len().saturating_sub(1);
        for (at, (word, width)) in row.iter().zip(&widths).enumerate() {
            // Writing to a string does not fail.
            let _ = match at == last {
                true => writeln!(text, "{word}"),
                false => write!(text, "{:<width$}", format!("{word},"), width = *width),
            };
        }
    }
    text
}

/// Escapes control characters, which could begin a new line or column: callers
/// choose paths and names.
fn shown(word: &str) -> String {
    match word.contains(char::is_control) {
        true => word.escape_debug().to_string(),
        false => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected text is the output of `text/tabwriter`.
    #[test]
    fn columns_are_as_wide_as_their_widest_word() {
        let row = |words: [&str; 3]| words.map(str::to_owned).to_vec();
        let rows = [
            row(["Name", "Index", "Last"]),
            row(["longer-name", "-1", "y\nz"]),
        ];
        assert_eq!(
            table(&rows),
            "Name,        Index,  Last\nlonger-name, -1,     y\\nz\n"
        );
    }
}
