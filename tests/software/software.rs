//! The programs.

use std::path::PathBuf;

use super::chosen::chosen;
use crate::harness::binaries;

/// The environment variable with the names of the programs to run, separated by
/// spaces. Without it all run.
const CHOSEN: &str = "APIFRONT_TEST_SOFTWARE";
/// The environment variable with the number of rounds, in place of each program's
/// own.
const TIMES: &str = "APIFRONT_TEST_TIMES";

/// A program in a folder of its own.
#[derive(Clone, Copy, Debug)]
pub struct Software {
    pub name: &'static str,
    /// How often it does what it does.
    pub rounds: usize,
}

const SOFTWARE: &[Software] = &[
    program("helm", 10),
    program("kubectl", 10),
    program("cli-utils", 100),
    program("kr8s", 5),
    program("lightkube", 10),
    program("kopf", 1),
    program("kube-state-metrics", 1),
    program("metrics-server", 1),
    program("stern", 5),
    program("k9s", 1),
];

const fn program(name: &'static str, rounds: usize) -> Software {
    Software { name, rounds }
}

impl Software {
    /// Returns the programs that [`CHOSEN`] names, with as many rounds as
    /// [`TIMES`] says.
    pub fn chosen() -> Vec<Self> {
        let rounds = std::env::var(TIMES).ok().filter(|text| !text.is_empty());
        let rounds: Option<usize> = rounds.map(|text| text.parse().expect(TIMES));
        let mut chosen = chosen(CHOSEN, SOFTWARE, |software| software.name);
        for software in &mut chosen {
            software.rounds = rounds.unwrap_or(software.rounds);
        }
        chosen
    }

    /// Builds or installs the program, and returns the file to start.
    pub fn build(&self) -> PathBuf {
        binaries::client(self.name, "software")
    }
}
