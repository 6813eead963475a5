//! A reader who applies the changes has the rows of a new answer.

use proptest::prelude::*;

use super::*;

fn apply(rows: &mut Vec<Row>, changes: Vec<RowChange>) {
    for change in changes {
        match change {
            RowChange::Removed { index } => drop(rows.remove(index)),
            RowChange::Added { index, row } => rows.insert(index, row),
            RowChange::Moved { from, index } => {
                let row = rows.remove(from);
                rows.insert(index, row);
            }
            RowChange::Changed { index, row } => rows[index] = row,
        }
    }
}

/// Returns the numbers of a page as its rows show them, and the changes from one to the
/// other. The cell of a number is what `cells` has for it.
fn moved(before: &[u8], after: &[u8]) -> Vec<RowChange> {
    changes(&shown(before), &shown(after), HashMap::new())
}

#[derive(Clone)]
struct Number(String);

impl Candidate for Number {
    fn namespace(&self) -> &str {
        ""
    }

    fn name(&self) -> &str {
        &self.0
    }

    fn uid(&self) -> &str {
        ""
    }

    fn project(
        &self,
        _: &kubernetes_wire::representation::Projection,
        _: &mut Vec<u8>,
    ) -> Result<(), crate::candidate::Unreadable> {
        Ok(())
    }
}

fn shown(numbers: &[u8]) -> Vec<Shown<Number>> {
    let numbers = numbers.iter();
    let shown = numbers.map(|n| Shown {
        object: Number(n.to_string()),
        row: 0,
    });
    shown.collect()
}

#[test]
fn one_row_that_moves_is_one_change() {
    let down = RowChange::Moved { from: 0, index: 4 };
    assert_eq!(moved(&[1, 2, 3, 4, 5], &[2, 3, 4, 5, 1]), [down]);
    let up = RowChange::Moved { from: 4, index: 0 };
    assert_eq!(moved(&[1, 2, 3, 4, 5], &[5, 1, 2, 3, 4]), [up]);
    let swapped = moved(&[1, 2, 3], &[3, 2, 1]);
    assert_eq!(swapped.len(), 2, "{swapped:?}");
    assert_eq!(moved(&[1, 2], &[1, 2]), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn changes_lead_from_one_page_to_the_other(
        before in Just((0u8..12).collect::<Vec<_>>()).prop_shuffle(),
        after in Just((0u8..12).collect::<Vec<_>>()).prop_shuffle(),
        cut in (0usize..12, 0usize..12),
    ) {
        let (before, after) = (&before[..cut.0], &after[..cut.1]);
        let row = |n: &u8| Row { name: n.to_string(), ..Row::default() };
        let added: HashMap<usize, Row> = (after.iter().enumerate())
            .filter(|(_, n)| !before.contains(n))
            .map(|(at, n)| (at, row(n)))
            .collect();
        let mut rows: Vec<Row> = before.iter().map(row).collect();
        apply(&mut rows, changes(&shown(before), &shown(after), added));
        let expected: Vec<Row> = after.iter().map(row).collect();
        prop_assert_eq!(rows, expected);
    }
}
