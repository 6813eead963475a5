//! An ordered set that knows the number of items before each place.

use std::ops::Range;

/// The items of a piece when many are laid out at once, and the most. The fewest are a
/// quarter of that, unless the piece is alone.
const LAID_OUT: usize = 192;
const MAX: usize = 256;
const MIN: usize = 64;

/// Items in order, in pieces that are short enough to be moved at little cost.
pub(crate) struct Ranked<T> {
    /// No piece is empty.
    pieces: Vec<Vec<T>>,
    len: usize,
}

impl<T: Ord> Ranked<T> {
    /// Takes items in their order, without equal ones.
    pub(crate) fn from_sorted(items: Vec<T>) -> Self {
        let len = items.len();
        let count = len.div_ceil(LAID_OUT);
        let mut items = items.into_iter();
        let pieces = (0..count).rev().map(|after| {
            // All pieces are about equally long.
            let length = items.len().div_ceil(after.saturating_add(1));
            let mut piece = Vec::with_capacity(length);
            piece.extend(items.by_ref().take(length));
            piece
        });
        let pieces = pieces.collect();
        Self { pieces, len }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds an item. Does nothing if there is an equal one.
    pub(crate) fn insert(&mut self, item: T) {
        let at = self.piece_of(&item);
        let Some(piece) = self.pieces.get_mut(at) else {
            self.pieces.push(vec![item]);
            self.len = 1;
            return;
        };
        let Err(place) = piece.binary_search(&item) else {
            return;
        };
        piece.insert(place, item);
        self.len = self.len.saturating_add(1);
        if piece.len() > MAX {
            let rest = piece.split_off(piece.len() / 2);
            self.pieces.insert(at.saturating_add(1), rest);
        }
    }

    /// Removes an item. Returns `false` if there is none that is equal.
    pub(crate) fn remove(&mut self, item: &T) -> bool {
        let at = self.piece_of(item);
        let Some(piece) = self.pieces.get_mut(at) else {
            return false;
        };
        let Ok(place) = piece.binary_search(item) else {
            return false;
        };
        piece.remove(place);
        self.len = self.len.saturating_sub(1);
        if piece.len() < MIN {
            self.merge(at);
        }
        true
    }

    /// Puts a short piece to its neighbour.
    fn merge(&mut self, at: usize) {
        let before = at.saturating_sub(1);
        let (left, right) = if at > 0 { (before, at) } else { (at, 1) };
        if right >= self.pieces.len() {
            self.pieces.retain(|piece| !piece.is_empty());
            return;
        }
        let mut items = self.pieces.remove(right);
        if let Some(left) = self.pieces.get_mut(left) {
            left.append(&mut items);
            if left.len() > MAX {
                let rest = left.split_off(left.len() / 2);
                self.pieces.insert(right, rest);
            }
        }
    }

    /// Returns the items at these places.
    pub(crate) fn range(&self, places: Range<usize>) -> impl Iterator<Item = &T> {
        let mut before = places.start;
        let mut pieces = self.pieces.iter();
        let mut first: &[T] = &[];
        for piece in pieces.by_ref() {
            match before.checked_sub(piece.len()) {
                Some(rest) => before = rest,
                None => {
                    first = piece.get(before..).unwrap_or_default();
                    break;
                }
            }
        }
        first.iter().chain(pieces.flatten()).take(places.len())
    }

    /// Returns the piece that has the item or should have it. It is the last one for
    /// items beyond all.
    fn piece_of(&self, item: &T) -> usize {
        let ends_before = |piece: &Vec<T>| piece.last().is_some_and(|last| last < item);
        let at = self.pieces.partition_point(ends_before);
        at.min(self.pieces.len().saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u16, u16),
        Remove(u16, u16),
    }

    fn step() -> impl Strategy<Value = Step> {
        // Many neighbours at once, so that pieces are split and merged.
        let range = (0u16..2000, 1u16..300);
        prop_oneof![
            range.clone().prop_map(|(from, n)| Step::Insert(from, n)),
            range.prop_map(|(from, n)| Step::Remove(from, n)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn it_is_an_ordered_set(
            first in proptest::collection::btree_set(0u16..2000, 0..1500),
            steps in proptest::collection::vec(step(), 1..40),
            places in (0usize..2500, 0usize..400),
        ) {
            let mut model: BTreeSet<u16> = first;
            let mut ranked = Ranked::from_sorted(model.iter().copied().collect());
            for step in steps {
                match step {
                    Step::Insert(from, n) => for item in from..from + n {
                        ranked.insert(item);
                        model.insert(item);
                    },
                    Step::Remove(from, n) => for item in from..from + n {
                        prop_assert_eq!(ranked.remove(&item), model.remove(&item));
                    },
                }
                prop_assert_eq!(ranked.len(), model.len());
                let all: Vec<u16> = ranked.range(0..usize::MAX).copied().collect();
                prop_assert_eq!(&all, &model.iter().copied().collect::<Vec<_>>());
                let lengths = ranked.pieces.iter().map(Vec::len);
                let is_alone = ranked.pieces.len() == 1;
                prop_assert!(lengths.into_iter().all(|n| n <= MAX && (n >= MIN || is_alone)));
                let (from, n) = places;
                let page: Vec<u16> = ranked.range(from..from + n).copied().collect();
                prop_assert_eq!(page, all.into_iter().skip(from).take(n).collect::<Vec<_>>());
            }
        }
    }
}
