//! Prints what storms did, as a table of medians.

use std::collections::BTreeMap;
use std::time::Duration;

use super::bystander::Seen;
use super::{ALONE, Lost, tally};
use crate::support::report::{self, Goal, median, percentile};

/// The waits of the bystander that are printed.
const SLOWEST: usize = 6;
const OF_KUBE_APISERVER: f64 = 1.0 / 3.0;
const BYSTANDER_MS: f64 = 50.0;
const HEADS: [&str; 15] = [
    "",
    "ready",
    "half back",
    "99 % back",
    "half current",
    "99 %",
    "all",
    "failed",
    "refused",
    "lists",
    "CPU ms a client",
    "of kube-apiserver",
    "peak MB",
    "bystander back",
    "its p99 ms",
];

/// Requests to upstream by kind.
pub type Asked = BTreeMap<&'static str, f64>;

pub struct Storm {
    pub name: String,
    pub lost: Lost,
    /// Seconds since the server was gone.
    pub ready: f64,
    pub back: Vec<f64>,
    pub current: Vec<f64>,
    pub counts: tally::Counts,
    pub cpu: Duration,
    pub upstream_cpu: Option<Duration>,
    pub peak_megabytes: f64,
    pub asked: Asked,
    pub bystander: Seen,
}

#[derive(Default)]
pub struct Storms(Vec<Storm>);

impl Storms {
    /// Adds a storm that is over, and tells of it.
    pub fn add(&mut self, storm: Storm) {
        println!(
            "{}: all current after {:.2} s",
            storm.name,
            storm.all_current()
        );
        self.0.push(storm);
    }

    pub fn report(&self, clients: usize) {
        report(clients, &in_rounds(&self.0));
    }
}

impl Storm {
    fn is_alone(&self) -> bool {
        self.name.starts_with(ALONE)
    }

    fn all_current(&self) -> f64 {
        percentile(&self.current, 100.0)
    }

    /// Returns the table's columns with the digits that each has, without the name.
    fn figures(&self, clients: usize) -> [(f64, usize); HEADS.len() - 1] {
        let each = |cpu: Duration| cpu.as_secs_f64() * 1e3 / clients as f64;
        let counts = self.counts;
        [
            (self.ready, 2),
            (percentile(&self.back, 50.0), 2),
            (percentile(&self.back, 99.0), 2),
            (percentile(&self.current, 50.0), 2),
            (percentile(&self.current, 99.0), 2),
            (self.all_current(), 2),
            (counts.failed as f64, 0),
            (counts.refused as f64, 0),
            (counts.lists as f64, 0),
            (each(self.cpu), 2),
            (self.upstream_cpu.map_or(f64::NAN, each), 2),
            (self.peak_megabytes, 0),
            (self.bystander.back, 2),
            (self.bystander.p99(), 0),
        ]
    }
}

fn report(clients: usize, rounds: &[Vec<&Storm>]) {
    println!("\n{clients} clients with three watches each; seconds since the server was gone");
    let rows = rounds.iter().map(|rounds| row(clients, rounds));
    report::table(&HEADS, &rows.collect::<Vec<_>>());
    for rounds in rounds {
        println!("{}", rounds[0].name);
        let all = texts(rounds, |storm| format!("{:.2}", storm.all_current()));
        println!("  all current: {all}");
        let cpu = texts(rounds, |storm| format!("{:.2}", storm.cpu.as_secs_f64()));
        println!("  CPU s: {cpu}");
        let p99 = texts(rounds, |storm| format!("{:.0}", storm.bystander.p99()));
        println!("  bystander's p99: {p99}");
        let slowest = rounds[0].bystander.connected.iter().take(SLOWEST);
        let slowest: Vec<String> = slowest
            .map(|(at, took)| format!("{took:.0} ms at {at:.2} s"))
            .collect();
        println!("  bystander's slowest: {}", slowest.join(", "));
        let asked = rounds[0].asked.iter().filter(|(_, number)| **number > 0.0);
        let asked: Vec<_> = asked.map(|(kind, n)| format!("{kind} {n:.0}")).collect();
        if !asked.is_empty() {
            println!("  asked upstream: {}", asked.join(", "));
        }
    }
    for front in rounds.iter().filter(|rounds| !rounds[0].is_alone()) {
        let name = &front[0].name;
        let mut alone = rounds.iter().filter(|rounds| rounds[0].is_alone());
        let Some(alone) = alone.find(|alone| alone[0].lost == front[0].lost) else {
            continue;
        };
        let of = |rounds: &[&Storm], figure: fn(&Storm) -> f64| {
            median(rounds.iter().map(|storm| figure(storm)))
        };
        let compare = |what: &str, value, unit, most| {
            report::compare(&format!("{name}: {what}"), value, unit, Goal::AtMost(most));
        };
        let of_alone = |figure| of(front, figure) / of(alone, figure);
        compare(
            "all current",
            of_alone(Storm::all_current),
            "x",
            OF_KUBE_APISERVER,
        );
        let cpu = |storm: &Storm| storm.cpu.as_secs_f64();
        compare("CPU", of_alone(cpu), "x", OF_KUBE_APISERVER);
        let p99 = |storm: &Storm| storm.bystander.p99();
        compare("bystander p99", of(front, p99), " ms", BYSTANDER_MS);
    }
}

/// Returns the rounds of each storm, in the order in which the first ones were.
fn in_rounds(storms: &[Storm]) -> Vec<Vec<&Storm>> {
    let mut all: Vec<Vec<&Storm>> = Vec::new();
    for storm in storms {
        match all.iter_mut().find(|rounds| rounds[0].name == storm.name) {
            Some(rounds) => rounds.push(storm),
            None => all.push(vec![storm]),
        }
    }
    all
}

/// Returns the medians of each column.
fn row(clients: usize, rounds: &[&Storm]) -> Vec<String> {
    let figures: Vec<_> = rounds.iter().map(|storm| storm.figures(clients)).collect();
    let cells = (0..HEADS.len() - 1).map(|column| {
        let middle = median(figures.iter().map(|figures| figures[column].0));
        match middle.is_nan() {
            true => "-".to_owned(),
            false => format!("{middle:.0$}", figures[0][column].1),
        }
    });
    [rounds[0].name.clone()].into_iter().chain(cells).collect()
}

fn texts(rounds: &[&Storm], text: impl Fn(&Storm) -> String) -> String {
    let texts: Vec<String> = rounds.iter().map(|storm| text(storm)).collect();
    texts.join(", ")
}
