//! The programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The environment variable with the names of the programs to run, separated by
/// spaces. Without it all run.
const CHOSEN: &str = "APIFRONT_TEST_SOFTWARE";
/// The environment variable with the number of rounds, in place of each program's
/// own.
const ROUNDS: &str = "APIFRONT_TEST_ROUNDS";

/// A program in a folder of its own.
#[derive(Clone, Copy, Debug)]
pub struct Software {
    pub name: &'static str,
    /// How often it does what it does.
    pub rounds: usize,
}

const SOFTWARE: &[Software] = &[
    of("helm", 10),
    of("kubectl", 10),
    of("cli-utils", 100),
    of("kr8s", 5),
    of("lightkube", 10),
    of("kopf", 1),
    of("kube-state-metrics", 1),
];

const fn of(name: &'static str, rounds: usize) -> Software {
    Software { name, rounds }
}

impl Software {
    /// Returns the programs that [`CHOSEN`] names, with as many rounds as
    /// [`ROUNDS`] says.
    pub fn chosen() -> Vec<Self> {
        let chosen = std::env::var(CHOSEN).unwrap_or_default();
        let names: Vec<&str> = chosen.split_whitespace().collect();
        for name in &names {
            let known = SOFTWARE.iter().any(|software| software.name == *name);
            assert!(known, "{CHOSEN} names {name}, which is not a program");
        }
        let rounds = std::env::var(ROUNDS).ok().filter(|text| !text.is_empty());
        let rounds = rounds.map(|text| text.parse().expect(ROUNDS));
        let is_chosen = |software: &&Self| names.is_empty() || names.contains(&software.name);
        SOFTWARE
            .iter()
            .filter(is_chosen)
            .map(|software| Self {
                rounds: rounds.unwrap_or(software.rounds),
                ..*software
            })
            .collect()
    }

    /// Builds or installs the program, and returns the file to start.
    pub fn build(&self) -> PathBuf {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        let output = Command::new("bash")
            .arg(tests.join("clients/build.sh"))
            .args([self.name, "software"])
            .stderr(Stdio::inherit())
            .output()
            .expect("bash");
        assert!(output.status.success(), "{} cannot be built", self.name);
        let text = String::from_utf8_lossy(&output.stdout);
        PathBuf::from(text.lines().last().expect("the script prints a path"))
    }
}
