//! The results of shadow mode: counts, and the first differences.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, SystemTime};

use apifront_watch_cache::fingerprint::FingerprintKey;
use kubernetes_wire::api::GroupVersionResource;

use super::difference::{Difference, ToldDifference};
use super::representation::Label;

/// The limits of the report. Further differences of a resource are only counted.
const MAX_RESOURCES: usize = 1_000;
const MAX_DIFFERENCES_OF_RESOURCE: usize = 20;
const MAX_DIFFERENCES: usize = 400;

#[derive(Clone, Debug)]
pub struct Subject {
    pub gvr: GroupVersionResource,
    /// `get`, `list` or `watch`.
    pub verb: &'static str,
    pub representation: Label,
    /// The version of upstream's answer, or 0 if it has none.
    pub version: u64,
}

#[derive(Clone, Debug)]
pub enum Verdict {
    Match,
    Difference(Difference),
    /// The two cannot be brought to one version, for this reason.
    NotComparable(&'static str),
}

#[derive(Clone, Debug, Default)]
pub struct Report {
    pub resources: HashMap<GroupVersionResource, OfResource>,
    pub differences: Vec<Found>,
    pub dropped_differences: u64,
}

#[derive(Clone, Debug, Default)]
pub struct OfResource {
    /// The reads that the cache would have answered.
    pub hits: u64,
    /// The reads that it would have forwarded, by reason.
    pub bypasses: BTreeMap<&'static str, u64>,
    pub tallies: BTreeMap<(&'static str, Label), Tally>,
    pub cost: Cost,
    differences: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub matches: u64,
    pub differences: u64,
    pub not_comparable: BTreeMap<&'static str, u64>,
}

/// The bytes and the time of the compared answers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    pub answers: u64,
    pub bytes: u64,
    pub upstream: Duration,
    pub apifront: Duration,
}

#[derive(Clone, Debug)]
pub struct Found {
    pub at: SystemTime,
    pub subject: Subject,
    pub difference: ToldDifference,
}

impl Report {
    pub(super) fn would(&mut self, gvr: &GroupVersionResource, bypass: Option<&'static str>) {
        let Some(resource) = self.resource(gvr) else {
            return;
        };
        match bypass {
            None => count(&mut resource.hits),
            Some(reason) => count(resource.bypasses.entry(reason).or_default()),
        }
    }

    /// Adds the result of a comparison. `key` makes the fingerprints of differing
    /// contents.
    pub(super) fn judged(&mut self, subject: &Subject, verdict: &Verdict, key: &FingerprintKey) {
        let Some(resource) = self.resource(&subject.gvr) else {
            return;
        };
        let kind = (subject.verb, subject.representation);
        let tally = resource.tallies.entry(kind).or_default();
        let difference = match verdict {
            Verdict::Match => return count(&mut tally.matches),
            Verdict::NotComparable(why) => {
                return count(tally.not_comparable.entry(*why).or_default());
            }
            Verdict::Difference(difference) => difference,
        };
        count(&mut tally.differences);
        let room = resource.differences < MAX_DIFFERENCES_OF_RESOURCE;
        resource.differences = resource.differences.saturating_add(1);
        if !room || self.differences.len() >= MAX_DIFFERENCES {
            return count(&mut self.dropped_differences);
        }
        self.differences.push(Found {
            at: SystemTime::now(),
            subject: subject.clone(),
            difference: difference.told(key),
        });
    }

    pub(super) fn cost(
        &mut self,
        gvr: &GroupVersionResource,
        upstream: Duration,
        here: Duration,
        bytes: u64,
    ) {
        if let Some(resource) = self.resource(gvr) {
            let cost = &mut resource.cost;
            count(&mut cost.answers);
            cost.bytes = cost.bytes.saturating_add(bytes);
            cost.upstream = cost.upstream.saturating_add(upstream);
            cost.apifront = cost.apifront.saturating_add(here);
        }
    }

    fn resource(&mut self, gvr: &GroupVersionResource) -> Option<&mut OfResource> {
        if !self.resources.contains_key(gvr) && self.resources.len() >= MAX_RESOURCES {
            return None;
        }
        Some(self.resources.entry(gvr.clone()).or_default())
    }
}

fn count(counter: &mut u64) {
    *counter = counter.saturating_add(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_counted_and_the_first_differences_are_kept() {
        let mut report = Report::default();
        let subject = |n: usize| Subject {
            gvr: GroupVersionResource::new("", "v1", format!("r{n}").as_str()),
            verb: "list",
            representation: Label::Json,
            version: 7,
        };
        let difference = Verdict::Difference(Difference::of_texts("status", "200", "404"));
        let key = FingerprintKey::random().unwrap();
        for _ in 0..30 {
            report.judged(&subject(0), &difference, &key);
        }
        report.judged(&subject(0), &Verdict::Match, &key);
        report.judged(&subject(0), &Verdict::NotComparable("evicted"), &key);
        assert_eq!(report.differences.len(), MAX_DIFFERENCES_OF_RESOURCE);
        assert_eq!(report.dropped_differences, 10);
        let tally = &report.resources[&subject(0).gvr].tallies[&("list", Label::Json)];
        assert_eq!((tally.matches, tally.differences), (1, 30));
        assert_eq!(tally.not_comparable["evicted"], 1);
        for n in 0..2 * MAX_RESOURCES {
            report.would(&subject(n).gvr, Some("filling"));
            report.judged(&subject(n), &difference, &key);
        }
        assert_eq!(report.resources.len(), MAX_RESOURCES);
        assert_eq!(report.differences.len(), MAX_DIFFERENCES);
    }
}
