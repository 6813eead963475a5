//! Counts the outcomes of the comparisons by kind and by variant.

use std::collections::{BTreeMap, BTreeSet};

use super::Counts;
use crate::harness::encodings::{Class, Encoding, Record};

/// The number of bytes shown before and after the first difference of two
/// answers.
const BEFORE: usize = 60;
const AFTER: usize = 100;

pub enum Outcome {
    Same,
    /// The answers differ. The text shows both around the first difference.
    Different(String),
    /// The transcoder answered where Go has an error.
    Accepted(String),
    /// The transcoder dropped fields that our schema lacks.
    Dropped(String),
    Refused(String),
}

impl Outcome {
    pub fn different(expected: &[u8], got: &[u8]) -> Self {
        let at = expected.iter().zip(got).take_while(|(a, b)| a == b).count();
        let show = |bytes: &[u8]| {
            let end = bytes.len().min(at + AFTER);
            bytes[at.saturating_sub(BEFORE)..end]
                .escape_ascii()
                .to_string()
        };
        Self::Different(format!(
            "at byte {at} of {} and {}\n    expected {}\n    came     {}",
            expected.len(),
            got.len(),
            show(expected),
            show(got),
        ))
    }

    fn column(&self) -> usize {
        match self {
            Self::Same => 0,
            Self::Refused(_) => 1,
            Self::Different(_) => 2,
            Self::Accepted(_) => 3,
            Self::Dropped(_) => 4,
        }
    }
}

pub struct Tally {
    pub encoding: Encoding,
    kinds: BTreeSet<(String, String)>,
    /// The kinds with a wrong answer, or with a refusal of something that the server
    /// writes.
    wrong: BTreeSet<(String, String)>,
    /// The counts of each variant: same, refused, different, accepted, dropped.
    variants: BTreeMap<(Class, String), [usize; 5]>,
    refusals: Counts<(Class, String)>,
    differences: Vec<String>,
}

impl Tally {
    pub fn new(encoding: Encoding) -> Self {
        Self {
            encoding,
            kinds: BTreeSet::new(),
            wrong: BTreeSet::new(),
            variants: BTreeMap::new(),
            refusals: Counts::new(),
            differences: Vec::new(),
        }
    }

    pub fn add(&mut self, record: &Record, outcome: Outcome) {
        let kind = (record.api_version.clone(), record.kind.clone());
        self.kinds.insert(kind.clone());
        let row = self
            .variants
            .entry((record.class, record.variant.clone()))
            .or_default();
        row[outcome.column()] += 1;
        let what = match outcome {
            Outcome::Same => return,
            Outcome::Refused(why) => {
                let refusals = self.refusals.entry((record.class, why.clone()));
                *refusals.or_default() += 1;
                if record.class != Class::Produced {
                    return;
                }
                format!("refused: {why}")
            }
            Outcome::Different(what) => what,
            Outcome::Accepted(what) => format!("accepted, Go: {what}"),
            Outcome::Dropped(what) => format!("dropped what the schema lacks: {what:.300}"),
        };
        self.wrong.insert(kind);
        self.differences.push(format!(
            "{:?} in, {} {} ({}), {} seed {}: {what}",
            self.encoding,
            record.api_version,
            record.kind,
            record.go_type,
            record.variant,
            record.seed,
        ));
    }

    pub fn failed(&self) -> bool {
        !self.differences.is_empty()
    }

    pub fn print(&self) {
        let way = match self.encoding {
            Encoding::Protobuf => "protobuf to JSON",
            Encoding::Json => "JSON to protobuf",
        };
        println!("\n{way}");
        for difference in &self.differences {
            println!("  {difference}");
        }
        println!("  same, refused, different, accepted, dropped:");
        for ((class, variant), row) in &self.variants {
            println!("  {class:?} {variant}: {row:?}");
        }
        for ((class, why), times) in &self.refusals {
            println!("  {class:?} refused {times} times: {why:.200}");
        }
        let (all, wrong) = (self.kinds.len(), self.wrong.len());
        println!("{way}: kinds byte-identical: {} of {all}", all - wrong);
    }
}
