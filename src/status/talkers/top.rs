//! The largest names of two consecutive rankings together.

use std::cmp::Reverse;

use super::ranking::{MAX_ENTRIES, Ranking};

/// A listed name. Its true sum is at most `count`, and at least `count` minus
/// `error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    pub name: &'a str,
    pub count: u64,
    pub error: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Top<'a> {
    pub total: u64,
    /// An upper bound for the sums of names that are not among the entries.
    pub most_unlisted: u64,
    /// The entries, sorted by their certain sum, the largest first.
    pub entries: Vec<Entry<'a>>,
}

impl<'a> Top<'a> {
    pub(super) fn from_rankings(recent: &'a Ranking, before: &'a Ranking) -> Self {
        let only_before = before.names().filter(|(hash, _)| !recent.lists(*hash));
        let mut entries: Vec<Entry<'a>> = (recent.names().chain(only_before))
            .map(|(hash, name)| {
                let (recently, earlier) = (recent.bounds(hash), before.bounds(hash));
                let least = recently.0.saturating_add(earlier.0);
                let most = recently.1.saturating_add(earlier.1);
                Entry {
                    name,
                    count: most,
                    error: most.saturating_sub(least),
                }
            })
            .collect();
        entries.sort_by_key(|e| Reverse((e.count.saturating_sub(e.error), e.count)));
        let left_out = entries
            .iter()
            .skip(MAX_ENTRIES)
            .map(|entry| entry.count)
            .max();
        entries.truncate(MAX_ENTRIES);
        let nowhere = recent
            .most_unlisted()
            .saturating_add(before.most_unlisted());
        Self {
            total: recent.total().saturating_add(before.total()),
            most_unlisted: nowhere.max(left_out.unwrap_or_default()),
            entries,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::hash::{BuildHasher, RandomState};

    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::super::ranking::Addition;
    use super::*;

    #[test]
    fn sums_of_both_are_within_their_bounds() {
        for seed in 0..10 {
            let mut random = StdRng::seed_from_u64(seed);
            let hasher = RandomState::new();
            let mut truth: HashMap<String, u64> = HashMap::new();
            let mut both = [Ranking::default(), Ranking::default()];
            for ranking in &mut both {
                for _ in 0..3_000 {
                    let name = random.random_range(0..600) * random.random_range(0..600) / 600;
                    let (name, amount) = (name.to_string(), random.random_range(1..50));
                    ranking.add(Addition {
                        hash: hasher.hash_one(&name),
                        owner: random.random_range(0..5),
                        name: &name,
                        amount,
                    });
                    *truth.entry(name).or_default() += amount;
                }
            }
            let top = Top::from_rankings(&both[1], &both[0]);
            assert_eq!(top.total, truth.values().sum::<u64>());
            assert_eq!(top.entries.len(), MAX_ENTRIES);
            for entry in &top.entries {
                let range = entry.count - entry.error..=entry.count;
                assert!(range.contains(&truth.remove(entry.name).unwrap()));
            }
            assert!(truth.values().all(|sum| *sum <= top.most_unlisted));
        }
    }
}
