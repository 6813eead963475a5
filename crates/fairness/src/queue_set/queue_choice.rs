//! The queue that a request joins: of those that its flow was dealt, the one with the
//! least waiting work.

use super::QueueSet;
use crate::shuffle_sharding::Dealer;

impl QueueSet {
    /// Chooses the queue of the flow's hand that has the least waiting work. Each
    /// request begins the search at another queue of the hand, so that flows with
    /// overlapping hands do not always meet in the same queue.
    pub(super) fn choose_queue(&mut self, dealer: &Dealer, flow: u64) -> usize {
        let hand = self.hands.hand_for(dealer, flow);
        let cards = hand.cards();
        let offset = self.dealt.checked_rem(cards.len() as u64).unwrap_or(0) as usize;
        self.dealt = self.dealt.wrapping_add(1);
        let (before, after) = cards.split_at_checked(offset).unwrap_or_default();
        if self.waiting_requests == 0 {
            // No queue has waiting work.
            return after.first().map_or(0, |card| *card as usize);
        }
        let cards = after.iter().chain(before).map(|card| *card as usize);
        let work = |queue: usize| self.queue(queue).map(|queue| queue.total_work);
        cards
            .filter_map(|queue| Some((work(queue)?, queue)))
            .reduce(|best, next| if next.0 < best.0 { next } else { best })
            .map_or(0, |(_, queue)| queue)
    }
}
