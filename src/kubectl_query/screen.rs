//! The window of a watch on a terminal. It is drawn from the upper left corner, and cut
//! where the terminal ends, since lines that scroll away could not be drawn again.

use super::printer::{counts, rows, status};
use super::table::Table;
use super::text::printable;
use super::window::Window;

/// ECMA-48: the cursor goes to the upper left corner; the rest of a line, or of the
/// screen, is erased.
const HOME: &str = "\u{1b}[H";
const ERASE_LINE: &str = "\u{1b}[K";
const ERASE_BELOW: &str = "\u{1b}[J";

/// The most warnings that take the place of rows.
const WARNINGS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

impl Size {
    /// The size of a terminal that does not tell it.
    const USUAL: Self = Self {
        columns: 80,
        rows: 24,
    };

    pub(super) fn of_terminal() -> Self {
        let told = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
        let told = told.filter(|size| size.ws_col > 0 && size.ws_row > 0);
        told.map_or(Self::USUAL, |size| Self {
            columns: size.ws_col.into(),
            rows: size.ws_row.into(),
        })
    }
}

/// Returns what draws the window in the place of what was there.
pub(super) fn drawn(window: &Window, size: Size) -> String {
    let mut screen = HOME.to_owned();
    for (index, line) in lines(window, size.rows).iter().enumerate() {
        if index > 0 {
            screen.push('\n');
        }
        screen.extend(line.chars().take(size.columns));
        screen.push_str(ERASE_LINE);
    }
    screen.push_str(ERASE_BELOW);
    screen
}

fn lines(window: &Window, height: usize) -> Vec<String> {
    let mut end = vec![status(window)];
    let warnings = window.warnings.iter().take(WARNINGS);
    end.extend(warnings.map(|warning| format!("warning: {}", printable(warning))));
    let mut counted = counts(window);
    if !counted.is_empty() {
        shorten(&mut counted, (height / 3).max(1));
        counted.insert(0, String::new());
    }
    counted.push(String::new());
    counted.extend(end);
    let mut lines = rows(window, &mut Table::default());
    shorten(&mut lines, height.saturating_sub(counted.len()).max(2));
    lines.extend(counted);
    lines.truncate(height);
    lines
}

/// Cuts lines to a number of them, and says how many are missing.
fn shorten(lines: &mut Vec<String>, to: usize) {
    if lines.len() <= to {
        return;
    }
    let shown = to.saturating_sub(1);
    let missing = lines.len().saturating_sub(shown);
    lines.truncate(shown);
    lines.push(format!("… {missing} more"));
}

#[cfg(test)]
mod tests {
    use apifront_query::{Count, Row};

    use super::*;

    fn window(rows: usize, counts: usize) -> Window {
        let row = |n| Row {
            name: format!("row-{n}"),
            ..Row::default()
        };
        let count = |n| Count {
            values: Vec::new(),
            count: n,
        };
        Window {
            resource_version: "7".to_owned(),
            total: 100,
            rows: (0..rows).map(row).collect(),
            counts: (0..counts as u64).map(count).collect(),
            ..Window::default()
        }
    }

    #[test]
    fn a_window_is_cut_to_the_terminal() {
        let whole = lines(&window(2, 1), 24);
        let expected = ["NAME", "row-0", "row-1", "", "0", "", "2 of 100, version 7"];
        assert_eq!(whole, expected);
        let cut = lines(&window(50, 0), 6);
        let expected = [
            "NAME",
            "row-0",
            "row-1",
            "… 48 more",
            "",
            "50 of 100, version 7",
        ];
        assert_eq!(cut, expected);
        for height in 0..30 {
            let lines = lines(&window(50, 50), height);
            assert!(lines.len() <= height, "{height}: {lines:?}");
        }
        let narrow = Size {
            columns: 3,
            rows: 4,
        };
        let expected = "\u{1b}[HNAM\u{1b}[K\nrow\u{1b}[K\n\u{1b}[K\n1 o\u{1b}[K\u{1b}[J";
        assert_eq!(drawn(&window(1, 0), narrow), expected);
    }
}
