use std::collections::HashMap;
use std::hash::BuildHasher;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::super::top::{Entry, Top};
use super::*;

struct Counted {
    ranking: Ranking,
    before: Ranking,
    truth: HashMap<String, u64>,
    hasher: std::hash::RandomState,
}

impl Counted {
    fn new() -> Self {
        Self {
            ranking: Ranking::default(),
            before: Ranking::default(),
            truth: HashMap::new(),
            hasher: std::hash::RandomState::new(),
        }
    }

    fn largest(&self) -> Vec<Entry<'_>> {
        Top::from_rankings(&self.ranking, &self.before).entries
    }

    fn add(&mut self, owner: u64, name: &str, amount: u64) {
        self.ranking.add(Addition {
            hash: self.hasher.hash_one(name),
            owner,
            name,
            amount,
        });
        *self.truth.entry(name.to_owned()).or_default() += amount;
    }

    /// Checks all bounds that are promised for every name.
    fn check(&self) {
        let ranking = &self.ranking;
        let entries = self.largest();
        assert!(entries.len() <= MAX_ENTRIES && entries.len() == ranking.places.len());
        let mut shares: HashMap<u64, usize> = HashMap::new();
        for name in &ranking.names {
            *shares.entry(name.owner).or_default() += 1;
        }
        assert_eq!(ranking.owners.total(), entries.len());
        assert_eq!(ranking.owners.callers(), shares.len());
        let most = ranking.owners.most().map(|(_, entries)| entries);
        assert_eq!(most, shares.values().max().copied());
        assert_eq!(ranking.total(), self.truth.values().sum::<u64>());
        for entry in &entries {
            let truth = self.truth[entry.name];
            let range = entry.count - entry.error..=entry.count;
            assert!(range.contains(&truth), "{truth} in {range:?}");
        }
        let unlisted = |name: &&String| entries.iter().all(|e| e.name != **name);
        for name in self.truth.keys().filter(unlisted) {
            assert!(self.truth[name] <= ranking.most_unlisted());
        }
    }

    fn lists(&self, name: &str) -> bool {
        self.largest().iter().any(|e| e.name == name)
    }
}

#[test]
fn few_names_are_counted_exactly() {
    let mut counted = Counted::new();
    for n in 0..1000u64 {
        counted.add(n % 3, &format!("agent-{}", n % 64), n);
    }
    counted.check();
    assert_eq!(counted.ranking.most_unlisted(), 0);
    let largest = counted.largest();
    assert_eq!(largest.len(), MAX_ENTRIES);
    assert!(largest.iter().all(|e| e.error == 0));
    assert!(largest.is_sorted_by(|a, b| a.count >= b.count));
}

#[test]
fn sums_are_within_their_bounds_whatever_comes() {
    for seed in 0..20 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut counted = Counted::new();
        for _ in 0..5_000 {
            let owner = random.random_range(0..if seed % 2 == 0 { 3 } else { 200 });
            // Small numbers are frequent.
            let name = random.random_range(0..2_000) * random.random_range(0..2_000) / 2_000;
            counted.add(owner, &name.to_string(), random.random_range(0..100));
        }
        counted.check();
    }
}

#[test]
fn large_names_survive_a_flood_of_names_that_occur_once() {
    let mut counted = Counted::new();
    // Each name has an owner of its own, so that no share protects it.
    for n in 0..100_000u64 {
        counted.add(n, &format!("once-{n}"), 1);
        if n % 10 == 0 {
            let large = n / 10 % 20;
            counted.add(1_000_000 + large, &format!("large-{large}"), 1);
        }
    }
    counted.check();
    for large in 0..20 {
        // This is less than a 64th of all, so the entries alone would not keep it.
        let name = format!("large-{large}");
        assert_eq!(counted.truth[&name], 500);
        assert!(counted.lists(&name), "{name}");
    }
}

/// One user invents names. All others keep theirs, however few requests they make.
#[test]
fn an_inventor_of_names_displaces_only_its_own() {
    let mut counted = Counted::new();
    let inventor = 7;
    for n in 0..1_000 {
        counted.add(inventor, &format!("first-{n}"), 1_000);
    }
    for user in 100..120 {
        counted.add(user, &format!("honest-{user}"), 1);
    }
    for n in 0..100_000 {
        counted.add(inventor, &format!("invented-{n}"), 1_000);
    }
    counted.check();
    for user in 100..120 {
        assert!(counted.lists(&format!("honest-{user}")), "{user}");
    }
    // A newcomer finds room, too.
    counted.add(500, "new", 1);
    assert!(counted.lists("new"));
    counted.check();
}

#[test]
fn two_inventors_share() {
    let mut counted = Counted::new();
    for n in 0..10_000 {
        counted.add(1, &format!("a-{n}"), 5);
        counted.add(2, &format!("b-{n}"), 1);
    }
    counted.check();
    let of = |letter| {
        let entries = counted.largest().into_iter();
        entries.filter(|e| e.name.starts_with(letter)).count()
    };
    assert_eq!((of('a'), of('b')), (MAX_ENTRIES / 2, MAX_ENTRIES / 2));
}

/// Even if every user has one entry, a user's second name replaces the first.
#[test]
fn a_second_name_does_not_displace_anothers_only_one() {
    let mut counted = Counted::new();
    for user in 0..MAX_ENTRIES as u64 {
        counted.add(user, &format!("of-{user}"), 10 + user);
    }
    counted.add(63, "second", 1_000);
    assert!(counted.lists("second") && !counted.lists("of-63"));
    assert!((0..63).all(|user| counted.lists(&format!("of-{user}"))));
    counted.check();
}
