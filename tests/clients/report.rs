//! What both runs showed, as a table, and what is wrong with it.

use std::collections::BTreeSet;
use std::fmt;

use super::hits::Reads;
use super::library::Library;
use super::managers;
use super::scenario::Outcome;

/// The outcomes are in the order of the libraries.
pub struct Report {
    pub libraries: Vec<Library>,
    pub direct: Vec<Outcome>,
    pub through: Vec<Outcome>,
    /// Through an apifront that answers reads without managedFields.
    pub shaped: Vec<Outcome>,
}

/// The outcomes of one library.
#[derive(Clone, Copy)]
struct Row<'a> {
    library: &'a Library,
    direct: &'a Outcome,
    through: &'a Outcome,
    shaped: &'a Outcome,
}

impl Report {
    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let through = self.through.iter().zip(&self.shaped);
        let outcomes = self.direct.iter().zip(through);
        let rows = self.libraries.iter().zip(outcomes);
        rows.map(|(library, (direct, (through, shaped)))| Row {
            library,
            direct,
            through,
            shaped,
        })
    }

    /// Returns a line for each failed check, each check that was not made or is
    /// not expected, each object with other managers, and each library with too few
    /// hits.
    pub fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for row in self.rows() {
            let (library, through) = (row.library, row.through);
            let name = library.name;
            let expected: BTreeSet<String> = library.expected_checks().into_iter().collect();
            for (way, outcome) in [
                ("directly", row.direct),
                ("through apifront", through),
                ("without managedFields", row.shaped),
            ] {
                let managers = managers::differences(&row.direct.managers, &outcome.managers);
                wrong.extend(managers.iter().map(|of| format!("{name}, {way}: {of}")));
                for (check, failure) in &outcome.checks {
                    if let Some(failure) = failure {
                        wrong.push(format!("{name}, {way}: {check} failed: {failure}"));
                    }
                }
                if outcome.checks.values().any(Option::is_some) {
                    wrong.push(format!("{name}, {way}, logged last:\n{}", outcome.logs));
                }
                let made: BTreeSet<String> = outcome.checks.keys().cloned().collect();
                for check in expected.symmetric_difference(&made) {
                    let what = match made.contains(check) {
                        true => "is not in library.rs",
                        false => "was not made",
                    };
                    wrong.push(format!("{name}, {way}: {check} {what}"));
                }
            }
            let Reads { hits, late, first } = through.reads;
            if through.reads.known() < library.hits {
                let what = format!("{hits} hits, {late} late, {first} first");
                let least = library.hits;
                wrong.push(format!(
                    "{name}: {what}, and {least} is the least of all\n{}",
                    through.logs
                ));
            }
        }
        wrong.extend(self.too_many_are_late());
        wrong
    }

    /// A busy moment can make most reads of one library late, but not half of all
    /// libraries' reads.
    fn too_many_are_late(&self) -> Option<String> {
        let hits: usize = self.through.iter().map(|through| through.reads.hits).sum();
        let late: usize = self.through.iter().map(|through| through.reads.late).sum();
        (late > hits).then(|| format!("all libraries: {hits} hits and {late} late"))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(
            f,
            "| library | version | checks | direct | through apifront | hits | late | first | without managedFields | objects with the same managers |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|---|---|")?;
        for row in self.rows() {
            let (library, through) = (row.library, row.through);
            let passed =
                |outcome: &Outcome| outcome.checks.values().filter(|c| c.is_none()).count();
            writeln!(
                f,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                library.name,
                through.version,
                library.expected_checks().len(),
                passed(row.direct),
                passed(through),
                through.reads.hits,
                through.reads.late,
                through.reads.first,
                passed(row.shaped),
                row.shaped.managers.len(),
            )?;
        }
        Ok(())
    }
}
