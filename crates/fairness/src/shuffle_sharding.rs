//! Deals each flow a few of a level's queues, so that two flows rarely share all of
//! their queues (k8s.io/apiserver `util/shufflesharding`).

/// The most bits of a hash that a hand may use up. This keeps the last card nearly
/// as random as the first.
const MOST_BITS: f64 = 60.0;
/// The most cards of a hand that keeps to `MOST_BITS`.
pub(crate) const MOST_CARDS: usize = 15;
const MOST_QUEUES: usize = 1 << 26;

/// Deals `hand` cards out of a deck. Each card is the number of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dealer {
    deck: usize,
    hand: usize,
}

impl Dealer {
    pub(crate) fn new(deck: usize, hand: usize) -> Result<Self, &'static str> {
        if deck == 0 || hand == 0 {
            return Err("queues and handSize must be positive");
        }
        if hand > deck {
            return Err("handSize is greater than queues");
        }
        if deck > MOST_QUEUES {
            return Err("queues is impractically large");
        }
        if ((deck as f64).log2() * hand as f64).ceil() > MOST_BITS || hand > MOST_CARDS {
            return Err("queues and handSize use too many bits of a hash");
        }
        Ok(Self { deck, hand })
    }

    /// Returns the cards that the hash selects.
    pub(crate) fn deal(&self, mut hash: u64) -> Hand {
        let mut cards = [0; MOST_CARDS];
        let mut left = self.deck as u64;
        // Each card is first a number among the cards that are still in the deck.
        for card in cards.iter_mut().take(self.hand) {
            let rest = hash.checked_div(left).unwrap_or(0);
            *card = hash.wrapping_sub(rest.wrapping_mul(left)) as u32;
            hash = rest;
            left = left.saturating_sub(1);
        }
        // That number counts only the cards that were left. Each card dealt before
        // it that is not above it raises it by one.
        let drawn = cards;
        for (at, card) in cards.iter_mut().enumerate().take(self.hand) {
            for before in drawn.iter().take(at).rev() {
                if *card >= *before {
                    *card = card.saturating_add(1);
                }
            }
        }
        let size = self.hand;
        Hand { cards, size }
    }
}

/// A flow's cards, in the order in which they were dealt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hand {
    cards: [u32; MOST_CARDS],
    size: usize,
}

impl Hand {
    pub(crate) fn cards(&self) -> &[u32] {
        self.cards.get(..self.size).unwrap_or_default()
    }
}

/// The number of hands that a level remembers, since dealing takes a division for
/// each card.
const REMEMBERED_HANDS: usize = 64;

/// The hands that were dealt last. A flow can evict one other, whose hand is then
/// dealt anew.
#[derive(Debug, Default)]
pub(crate) struct Hands {
    dealer: Option<Dealer>,
    /// Indexed by the lowest bits of the hash.
    recent: Vec<Option<(u64, Hand)>>,
}

impl Hands {
    pub(crate) fn hand_for(&mut self, dealer: &Dealer, hash: u64) -> Hand {
        if self.dealer != Some(*dealer) {
            self.dealer = Some(*dealer);
            self.recent = vec![None; REMEMBERED_HANDS];
        }
        let slot = self.recent.get_mut(hash as usize % REMEMBERED_HANDS);
        match slot {
            Some(Some((of, hand))) if *of == hash => *hand,
            Some(slot) => slot.insert((hash, dealer.deal(hash))).1,
            None => dealer.deal(hash),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembered_hands_are_those_of_their_flows() {
        let dealers = [(128, 6), (64, 8), (1, 1)];
        let dealers = dealers.map(|(deck, hand)| Dealer::new(deck, hand).unwrap());
        let mut hands = Hands::default();
        for dealer in dealers {
            // Some of these hashes share a slot.
            let hashes =
                (0..3 * REMEMBERED_HANDS as u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            for hash in hashes.clone().chain(hashes) {
                let dealt = [hands.hand_for(&dealer, hash), hands.hand_for(&dealer, hash)];
                assert_eq!(dealt, [dealer.deal(hash); 2]);
            }
        }
    }
}
