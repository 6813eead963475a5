//! The configuration of a set of queues.

use crate::objects::{CATCH_ALL, EXEMPT, PriorityLevelConfiguration};
use crate::shuffle_sharding::Dealer;

/// The most queues of one level. kube-apiserver allows ten million, and has them
/// all in memory from the beginning.
const MOST_QUEUES: usize = 65_536;

/// Decides whether requests that find no free seats wait or are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queuing {
    /// They execute anyway.
    Exempt,
    Reject,
    /// They wait in one of the queues that were dealt to their flow.
    Queues {
        queues: usize,
        hand_size: usize,
        length_limit: usize,
        dealer: Dealer,
    },
}

impl Queuing {
    /// Reads the configuration of an object. An object that kube-apiserver would
    /// call broken is an error.
    pub(crate) fn from_object(object: &PriorityLevelConfiguration) -> Result<Self, &'static str> {
        let (name, spec) = (&object.metadata.name, &object.spec);
        let is_exempt = spec.kind == "Exempt";
        if (spec.kind == "Limited") != spec.limited.is_some() || is_exempt != spec.exempt.is_some()
        {
            return Err("spec.type does not tell which of spec.limited and spec.exempt is set");
        }
        if is_exempt != (name == EXEMPT) {
            return Err("the level named exempt, and no other one, is exempt");
        }
        let Some(limited) = &spec.limited else {
            return match is_exempt {
                true => Ok(Self::Exempt),
                false => Err("spec.type is neither Limited nor Exempt"),
            };
        };
        let response = &limited.limit_response;
        if (response.kind == "Reject") != response.queuing.is_none() {
            return Err("limitResponse.type does not tell whether limitResponse.queuing is set");
        }
        let Some(queuing) = response.queuing else {
            return Ok(Self::Reject);
        };
        let number = |n: i32| usize::try_from(n).unwrap_or(0);
        let (queues, hand_size) = (number(queuing.queues), number(queuing.hand_size));
        if queues == 0 {
            return Ok(Self::Reject);
        }
        Dealer::new(queues, hand_size)?;
        let queues = queues.min(MOST_QUEUES);
        Ok(Self::Queues {
            queues,
            hand_size,
            length_limit: number(queuing.queue_length_limit),
            dealer: Dealer::new(queues, hand_size)?,
        })
    }

    /// Tells whether flows matter. With a single queue they do not: all flows share
    /// it.
    pub(crate) fn has_flows(self) -> bool {
        matches!(self, Self::Queues { queues, .. } if queues > 1)
    }
}

/// The number of seats that a set may give out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dispatching {
    pub limit: usize,
    /// The seats that count as full utilization. Never 0.
    pub denominator: usize,
}

/// Tells whether kube-apiserver has the level even if no object describes it.
pub(crate) fn is_mandatory(name: &str) -> bool {
    [EXEMPT, CATCH_ALL].contains(&name)
}
