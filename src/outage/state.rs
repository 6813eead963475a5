//! Decides when an outage begins and when it ends.
//!
//! ```text
//! Fine ──nobody reached──▶ Losing ──for `after`──▶ Lost
//!  ▲                         │                       │
//!  └──somebody reached───────┘                       │
//!  └──a server is ready, or one is reached for `after`┘
//! ```
//!
//! Both transitions take time, so that the mode does not switch with a server that
//! comes and goes. A returning server is ready some seconds after its first answer.
//! Until then it refuses requests that it will allow later.

use std::time::{Duration, Instant};

/// The API servers, according to the last attempts to reach them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Servers {
    /// None could be reached.
    Lost,
    /// Some answer, but none is ready.
    Answering,
    Ready,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Fine,
    /// No server could be reached since this moment.
    Losing { since: Instant },
    Lost {
        since: Instant,
        /// The moment since which some server answers, though none is ready.
        answering: Option<Instant>,
    },
}

impl State {
    #[must_use]
    pub(super) fn next(self, servers: Servers, after: Duration, now: Instant) -> Self {
        let over = |since: Instant| now.saturating_duration_since(since) >= after;
        match (self, servers) {
            (Self::Fine, Servers::Lost) => Self::Losing { since: now },
            (Self::Losing { since }, Servers::Lost) if over(since) => Self::Lost {
                since,
                answering: None,
            },
            (Self::Losing { since }, Servers::Lost) => Self::Losing { since },
            (Self::Fine | Self::Losing { .. }, _) | (Self::Lost { .. }, Servers::Ready) => {
                Self::Fine
            }
            (Self::Lost { since, .. }, Servers::Lost) => Self::Lost {
                since,
                answering: None,
            },
            (Self::Lost { since, answering }, Servers::Answering) => {
                let from = answering.unwrap_or(now);
                match over(from) {
                    true => Self::Fine,
                    false => Self::Lost {
                        since,
                        answering: Some(from),
                    },
                }
            }
        }
    }

    /// Returns the moment since which no server could be reached.
    pub(super) fn since(self) -> Option<Instant> {
        match self {
            Self::Fine => None,
            Self::Losing { since } | Self::Lost { since, .. } => Some(since),
        }
    }

    pub(super) fn is_lost(self) -> bool {
        matches!(self, Self::Lost { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::Servers::{Answering, Lost, Ready};
    use super::*;

    #[test]
    fn an_outage_begins_and_ends_with_patience() {
        let began = Instant::now();
        let after = Duration::from_secs(5);
        for (what, seen, expected) in [
            (
                "it begins after some seconds",
                vec![(0, Lost), (4, Lost), (5, Lost)],
                true,
            ),
            ("not before", vec![(0, Lost), (4, Lost)], false),
            (
                "a server that comes and goes is not lost",
                vec![(0, Lost), (4, Ready), (5, Lost), (9, Lost)],
                false,
            ),
            (
                "a server with errors can be reached",
                vec![(0, Lost), (4, Answering), (5, Lost), (9, Lost)],
                false,
            ),
            (
                "errors alone are no outage",
                vec![(0, Answering), (60, Answering)],
                false,
            ),
            (
                "it ends as soon as a server is ready",
                vec![(0, Lost), (5, Lost), (6, Ready)],
                false,
            ),
            (
                "not when one answers that is not ready",
                vec![(0, Lost), (5, Lost), (6, Answering), (10, Answering)],
                true,
            ),
            (
                "but when one answers for long",
                vec![(0, Lost), (5, Lost), (6, Answering), (11, Answering)],
                false,
            ),
            (
                "a server that comes and goes does not end it",
                vec![
                    (0, Lost),
                    (5, Lost),
                    (6, Answering),
                    (8, Lost),
                    (12, Answering),
                ],
                true,
            ),
        ] {
            let state = seen.iter().fold(State::Fine, |state, (at, servers)| {
                state.next(*servers, after, began + Duration::from_secs(*at))
            });
            assert_eq!(state.is_lost(), expected, "{what}: {state:?}");
            if expected {
                assert_eq!(state.since(), Some(began), "{what}");
            }
        }
    }
}
