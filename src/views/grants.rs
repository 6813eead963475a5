//! The state of a view's places: which are granted, and when to ask again. The time
//! is an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use apifront_watch_cache::store::Visible;
use tokio::time::Instant;

use super::ViewsSettings;
use crate::authz::rbac::CandidatePlaces;

/// RBAC in memory may be ahead of the RBAC by which upstream decides. So a place
/// that RBAC allows and upstream denies is asked about again after these times, and
/// then every `review_ttl`.
const DENIED_RETRY_DELAYS: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_millis(1_600),
    Duration::from_millis(6_400),
];

/// The pause before a failed question is repeated.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// A whole namespace, or one object in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) namespace: String,
    /// Empty for the whole namespace.
    pub(super) name: String,
}

#[derive(Debug)]
struct Grant {
    /// The moment since which RBAC allows the place. Answers to earlier questions do
    /// not count.
    since: Instant,
    /// The last answer, and when it was asked for.
    answer: Option<(bool, Instant)>,
    /// The number of denials in a row.
    denials: usize,
    /// Whether the last question failed.
    failed: bool,
    /// The first question must wait, because its namespace had many questions.
    postponed: bool,
    /// The next question is not asked before this moment. Questions that only the
    /// passing of time makes necessary are asked only if somebody watches.
    next: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Grants {
    places: BTreeMap<Place, Grant>,
}

impl Grants {
    /// Takes the places that RBAC allows now. Places that it no longer allows are
    /// lost, and only new ones are asked about. Returns whether the places changed.
    pub(super) fn follow(&mut self, places: &CandidatePlaces, now: Instant) -> bool {
        let whole = places.namespaces.iter().map(|namespace| Place {
            namespace: namespace.to_string(),
            name: String::new(),
        });
        let single = places.names.iter().flat_map(|(namespace, names)| {
            names.iter().map(|name| Place {
                namespace: namespace.to_string(),
                name: name.to_string(),
            })
        });
        let mut before = std::mem::take(&mut self.places);
        let mut gains = false;
        self.places = whole
            .chain(single)
            .map(|place| {
                let grant = before.remove(&place).unwrap_or_else(|| {
                    gains = true;
                    Grant {
                        since: now,
                        answer: None,
                        denials: 0,
                        failed: false,
                        postponed: false,
                        next: now,
                    }
                });
                (place, grant)
            })
            .collect();
        gains || !before.is_empty()
    }

    /// Returns the places to ask about now. Names come only when no namespace is
    /// left.
    pub(super) fn due(&self, now: Instant) -> Vec<Place> {
        let due = self.places.iter().filter(|(_, grant)| grant.next <= now);
        let (whole, names): (Vec<_>, Vec<_>) = due
            .map(|(place, _)| place.clone())
            .partition(|place| place.name.is_empty());
        match whole.is_empty() {
            true => names,
            false => whole,
        }
    }

    /// Tells whether the place has no answer yet.
    pub(super) fn is_new(&self, place: &Place) -> bool {
        self.places
            .get(place)
            .is_some_and(|grant| grant.answer.is_none())
    }

    /// Leaves the place out until its first question may be asked.
    pub(super) fn postpone(&mut self, place: &Place, until: Instant) {
        if let Some(grant) = self.places.get_mut(place) {
            grant.postponed = true;
            grant.next = until;
        }
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.places.values().map(|grant| grant.next).min()
    }

    /// Takes an answer. The place may be gone meanwhile.
    pub(super) fn answered(
        &mut self,
        place: &Place,
        allowed: bool,
        asked: Instant,
        now: Instant,
        settings: &ViewsSettings,
    ) {
        let grant = self.places.get_mut(place);
        let Some(grant) = grant.filter(|grant| asked >= grant.since) else {
            return;
        };
        grant.answer = Some((allowed, asked));
        grant.failed = false;
        grant.postponed = false;
        if allowed {
            grant.denials = 0;
            // The new answer comes before the old one is too old.
            grant.next = after(asked, settings.review_ttl.mul_f64(0.9));
            return;
        }
        let wait = DENIED_RETRY_DELAYS.get(grant.denials).copied();
        grant.denials = grant.denials.saturating_add(1);
        grant.next = after(now, wait.unwrap_or(settings.review_ttl));
    }

    pub(super) fn failed(&mut self, place: &Place, now: Instant) {
        if let Some(grant) = self.places.get_mut(place) {
            grant.failed = true;
            grant.postponed = false;
            grant.next = after(now, AFTER_FAILURE);
        }
    }

    /// Tells whether every place has an answer or is postponed.
    pub(super) fn are_known(&self) -> bool {
        let mut grants = self.places.values();
        grants.all(|grant| grant.answer.is_some() || grant.postponed)
    }

    /// Tells whether a place without an answer must be asked about now.
    pub(super) fn lack_new(&self, now: Instant) -> bool {
        let mut grants = self.places.values();
        grants.any(|grant| grant.answer.is_none() && grant.next <= now)
    }

    /// Tells whether a namespace without an answer is neither postponed nor failed.
    pub(super) fn lack_a_namespace(&self) -> bool {
        self.places.iter().any(|(place, grant)| {
            let is_delayed = grant.postponed || grant.failed;
            place.name.is_empty() && grant.answer.is_none() && !is_delayed
        })
    }

    /// Tells whether some places have no answer yet.
    pub(super) fn are_incomplete(&self) -> bool {
        self.places.values().any(|grant| grant.answer.is_none())
    }

    /// Returns the moment until which all grants hold: the end of the first one. A
    /// grant whose question failed holds for longer.
    pub(super) fn hold_until(&self, settings: &ViewsSettings) -> Option<Instant> {
        let ends = self.places.values().filter_map(|grant| {
            let (allowed, asked) = grant.answer?;
            let longer = match grant.failed {
                true => settings.outage,
                false => Duration::ZERO,
            };
            allowed.then(|| after(asked, settings.review_ttl.saturating_add(longer)))
        });
        ends.min()
    }

    /// Tells whether a grant whose question keeps failing is too old to be served.
    pub(super) fn are_over(&self, now: Instant, settings: &ViewsSettings) -> bool {
        let longest = settings.review_ttl.saturating_add(settings.outage);
        self.places.values().any(|grant| {
            let is_over = |(allowed, asked)| allowed && now >= after(asked, longest);
            grant.failed && grant.answer.is_some_and(is_over)
        })
    }

    pub(super) fn visible(&self) -> Visible {
        let mut namespaces = BTreeSet::new();
        let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (place, grant) in &self.places {
            if !grant.answer.is_some_and(|(allowed, _)| allowed) {
                continue;
            }
            let Place { namespace, name } = place.clone();
            match name.is_empty() {
                true => drop(namespaces.insert(namespace)),
                false => drop(names.entry(namespace).or_default().insert(name)),
            }
        }
        Visible::new(&namespaces, &names)
    }
}

fn after(moment: Instant, wait: Duration) -> Instant {
    moment.checked_add(wait).unwrap_or(moment)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: ViewsSettings = ViewsSettings {
        review_ttl: Duration::from_secs(100),
        outage: Duration::from_secs(30),
        max_views: 1,
        max_grants: 10,
        max_names: 10,
    };

    fn places(namespaces: &[&str], names: &[(&str, &str)]) -> CandidatePlaces {
        let mut places = CandidatePlaces {
            namespaces: namespaces.iter().map(|n| (*n).into()).collect(),
            ..CandidatePlaces::default()
        };
        for (namespace, name) in names {
            let there = places.names.entry((*namespace).into()).or_default();
            there.insert((*name).into());
        }
        places
    }

    fn place(text: &str) -> Place {
        let (namespace, name) = text.split_once('/').unwrap();
        Place {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_is_new_is_asked_for() {
        let began = Instant::now();
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        let mut grants = Grants::default();
        assert!(grants.are_known() && grants.visible().is_empty());
        assert!(grants.follow(&places(&["a", "b"], &[("c", "x")]), at(0)));
        assert!(!grants.follow(&places(&["a", "b"], &[("c", "x")]), at(0)));
        let due = |grants: &Grants, now| {
            let due = grants.due(now).into_iter();
            let due = due.map(|place| format!("{}/{}", place.namespace, place.name));
            due.collect::<Vec<_>>().join(" ")
        };
        // Names come after the namespaces.
        assert_eq!(due(&grants, at(0)), "a/ b/");
        grants.answered(&place("a/"), true, at(0), at(0), &SETTINGS);
        grants.answered(&place("b/"), true, at(0), at(0), &SETTINGS);
        assert_eq!(due(&grants, at(0)), "c/x");
        assert!(!grants.are_known());
        // A postponed place is not waited for.
        grants.postpone(&place("c/x"), at(1));
        assert_eq!(due(&grants, at(0)), "");
        assert!(grants.are_known() && grants.are_incomplete() && grants.is_new(&place("c/x")));
        grants.answered(&place("c/x"), true, at(0), at(0), &SETTINGS);
        assert!(grants.are_known());
        assert_eq!(
            (due(&grants, at(1)), grants.visible().len()),
            ("".into(), 3)
        );
        // A lost place needs no question; a gained one does.
        assert!(grants.follow(&places(&["b", "d"], &[("c", "x")]), at(1)));
        assert_eq!(
            (due(&grants, at(1)), grants.visible().len()),
            ("d/".into(), 2)
        );
        assert!(!grants.are_known());
        // An answer about a place that is gone does not count.
        grants.answered(&place("a/"), true, at(1), at(1), &SETTINGS);
        assert_eq!(grants.visible().len(), 2);
        // A granted place is asked about again before its answer is too old.
        assert_eq!(grants.next(), Some(at(1)));
        grants.answered(&place("d/"), true, at(1), at(1), &SETTINGS);
        assert_eq!(grants.next(), Some(at(90)));
        assert_eq!(due(&grants, at(90)), "b/");
        assert_eq!(grants.hold_until(&SETTINGS), Some(at(100)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_denial_is_asked_for_again_soon_and_then_seldom() {
        let mut now = Instant::now();
        let mut grants = Grants::default();
        grants.follow(&places(&["a"], &[]), now);
        let mut waits = Vec::new();
        for _ in 0..6 {
            assert_eq!(grants.due(now).len(), 1);
            grants.answered(&place("a/"), false, now, now, &SETTINGS);
            let next = grants.next().unwrap();
            waits.push((next - now).as_millis());
            now = next;
        }
        assert_eq!(waits, [100, 400, 1_600, 6_400, 100_000, 100_000]);
        assert!(grants.are_known() && grants.visible().is_empty());
        assert_eq!(grants.hold_until(&SETTINGS), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_asked_for_holds_for_a_while() {
        let began = Instant::now();
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        let mut grants = Grants::default();
        grants.follow(&places(&["a"], &[]), at(0));
        grants.answered(&place("a/"), true, at(0), at(0), &SETTINGS);
        grants.failed(&place("a/"), at(95));
        assert_eq!(grants.next(), Some(at(96)));
        assert_eq!(grants.hold_until(&SETTINGS), Some(at(130)));
        assert!(!grants.are_over(at(129), &SETTINGS));
        assert!(grants.are_over(at(130), &SETTINGS));
        // A denial ends the grant at once.
        grants.answered(&place("a/"), false, at(96), at(96), &SETTINGS);
        assert!(grants.visible().is_empty() && !grants.are_over(at(130), &SETTINGS));
    }
}
