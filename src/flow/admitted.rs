//! The resources that an admitted request holds: seats, a slot among the forwarded
//! requests, or the bytes of its answer.

use apifront_fairness::Seats;

use super::ForwardSlot;
use super::response_bytes::HeldBytes;
use super::watermark::Counted;

/// The resources of an admitted request. Dropping it gives everything back. Requests
/// without limits hold nothing.
#[derive(Debug, Default)]
pub struct Admitted {
    seats: Option<Seats>,
    #[expect(dead_code, reason = "held until dropped")]
    counted: Option<Counted>,
    slot: Option<ForwardSlot>,
    /// The bytes that replace the seats once the answer has begun.
    #[expect(dead_code, reason = "held until dropped")]
    answer: HeldBytes,
}

impl Admitted {
    pub(super) fn seated(seats: Seats, counted: Counted) -> Self {
        Self {
            seats: Some(seats),
            ..Self::counted(counted)
        }
    }

    pub(super) fn counted(counted: Counted) -> Self {
        Self {
            counted: Some(counted),
            ..Self::default()
        }
    }

    /// Makes the value for a request whose answer waits for its reader.
    pub(super) fn waiting(answer: HeldBytes) -> Self {
        Self {
            answer,
            ..Self::default()
        }
    }

    pub fn with_slot(self, slot: ForwardSlot) -> Self {
        Self {
            slot: Some(slot),
            ..self
        }
    }

    /// Gives the seats back when another server queues and counts the request.
    /// Without priority and fairness, the request counts until its answer begins.
    pub fn handed_over(self) -> Self {
        match self.seats {
            Some(_) => Self::default(),
            None => self,
        }
    }

    /// Gives everything back except the slot, which is returned.
    pub fn into_slot(self) -> Option<ForwardSlot> {
        self.slot
    }
}
