//! Deals each flow a few of a level's queues, so that two flows rarely share all
//! of theirs (k8s.io/apiserver `util/shufflesharding`).

/// The most bits of a hash that a hand may use up, so that the last card is
/// nearly as random as the first.
const MOST_BITS: f64 = 60.0;
/// No hand that keeps to `MOST_BITS` has more cards.
pub(crate) const MOST_CARDS: usize = 15;
const MOST_QUEUES: usize = 1 << 26;

/// Deals `hand` cards out of a deck. The cards of a deck are the numbers of
/// queues.
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

    /// Returns the cards that the hash stands for, and their number.
    pub(crate) fn deal(&self, mut hash: u64) -> ([usize; MOST_CARDS], usize) {
        let mut cards = [0_usize; MOST_CARDS];
        let mut left = self.deck as u64;
        // Card by card: a number among those that are left in the deck.
        for card in cards.iter_mut().take(self.hand) {
            let rest = hash.checked_div(left).unwrap_or(0);
            *card = hash.wrapping_sub(rest.wrapping_mul(left)) as usize;
            hash = rest;
            left = left.saturating_sub(1);
        }
        // That number counts only the cards that are left: those dealt before
        // and not above it push it up.
        let drawn = cards;
        for (at, card) in cards.iter_mut().enumerate().take(self.hand) {
            for before in drawn.iter().take(at).rev() {
                if *card >= *before {
                    *card = card.saturating_add(1);
                }
            }
        }
        (cards, self.hand)
    }
}
