//! What the runs showed, as tables, and what is wrong with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::cost::Cost;
use super::run::{Outcome, Way};
use super::software::Software;
use crate::harness::apifront::UPSTREAM_KINDS;

#[derive(Default)]
pub struct Report {
    rows: Vec<(Software, Way, Outcome)>,
}

impl Report {
    /// Adds a run, and returns its line.
    pub fn add(&mut self, software: Software, way: Way, outcome: Outcome) -> String {
        let line = line(software, way, &outcome);
        self.rows.push((software, way, outcome));
        line
    }

    /// Returns a line for each failed check, and each check that was not made in
    /// every way.
    pub fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut made: BTreeMap<&str, BTreeMap<Way, BTreeSet<&str>>> = BTreeMap::new();
        for (software, way, outcome) in &self.rows {
            let name = software.name;
            let checks = outcome.checks.keys().map(String::as_str).collect();
            made.entry(name).or_default().insert(*way, checks);
            let failed = outcome
                .checks
                .iter()
                .filter_map(|c| Some((c.0, c.1.as_ref()?)));
            let before = wrong.len();
            wrong
                .extend(failed.map(|(check, why)| {
                    format!("{name}, {}: {check} failed: {why}", way.as_str())
                }));
            let lost = outcome.resumed.iter().filter(|resumed| !resumed.is_whole());
            wrong.extend(lost.map(|resumed| format!("{name}, {}: {resumed}", way.as_str())));
            if outcome.checks.is_empty() {
                wrong.push(format!("{name}, {}: no check was made", way.as_str()));
            }
            if wrong.len() > before {
                let log = &outcome.log;
                wrong.push(format!("{name}, {}, logged last:\n{log}", way.as_str()));
            }
        }
        for (name, ways) in made {
            let all: BTreeSet<&str> = ways.values().flatten().copied().collect();
            for (way, checks) in ways {
                let missing = all.difference(&checks);
                let line = |check| format!("{name}, {}: {check} was not made", way.as_str());
                wrong.extend(missing.map(line));
            }
        }
        wrong
    }
}

fn line(software: Software, way: Way, outcome: &Outcome) -> String {
    let passed = outcome.checks.values().filter(|c| c.is_none()).count();
    let Cost {
        took,
        apiserver,
        apifront,
        answered,
        reads,
        hits,
        ..
    } = &outcome.cost;
    format!(
        "| {} {} | {} | {passed} of {} | {:.1} | {:.2} | {:.2} | {answered:.0} | {hits:.0} of {reads:.0} |",
        software.name,
        outcome.version,
        way.as_str(),
        outcome.checks.len(),
        took.as_secs_f64(),
        apiserver.as_secs_f64(),
        apifront.as_secs_f64(),
    )
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(
            f,
            "| program | way | checks | seconds | CPU s of kube-apiserver | of apifront | \
             requests that kube-apiserver answered | hits |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|")?;
        for (software, way, outcome) in &self.rows {
            writeln!(f, "{}", line(*software, *way, outcome))?;
        }
        writeln!(f)?;
        for (software, way, outcome) in &self.rows {
            for resumed in &outcome.resumed {
                writeln!(f, "{}, {}: {resumed}", software.name, way.as_str())?;
            }
        }
        writeln!(f, "\napifront's requests to kube-apiserver, by kind:\n")?;
        writeln!(f, "| program | way | {} |", UPSTREAM_KINDS.join(" | "))?;
        writeln!(f, "|---|---|{}", "---|".repeat(UPSTREAM_KINDS.len()))?;
        for (software, way, outcome) in &self.rows {
            if *way == Way::Direct {
                continue;
            }
            let of = |kind| outcome.cost.upstream.get(kind).copied().unwrap_or_default();
            let counts: Vec<String> = UPSTREAM_KINDS
                .iter()
                .map(|kind| format!("{:.0}", of(kind)))
                .collect();
            let way = way.as_str();
            writeln!(f, "| {} | {way} | {} |", software.name, counts.join(" | "))?;
        }
        Ok(())
    }
}
