//! The tickets with which clients resume their TLS sessions.

use std::sync::Arc;

use rustls::crypto::ring::Ticketer;
use rustls::server::ProducesTickets;

/// The most bytes of a session that a ticket holds. The client's chain is among them,
/// and a ticket of more than 64 KiB cannot be sent.
const MAX_SESSION_BYTES: usize = 16 << 10;

/// Makes tickets with keys of this process, which rustls changes every six hours.
#[derive(Debug)]
pub(super) struct Tickets(Arc<dyn ProducesTickets>);

impl Tickets {
    pub(super) fn new() -> Result<Self, rustls::Error> {
        Ticketer::new().map(Self)
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        self.0.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.0.lifetime()
    }

    fn encrypt(&self, session: &[u8]) -> Option<Vec<u8>> {
        match session.len() {
            0..=MAX_SESSION_BYTES => self.0.encrypt(session),
            _ => None,
        }
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.0.decrypt(ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_is_too_long_has_no_ticket() {
        let tickets = Tickets::new().unwrap();
        for length in [0, 1, MAX_SESSION_BYTES] {
            let session = vec![7; length];
            let ticket = tickets.encrypt(&session).unwrap();
            assert_eq!(tickets.decrypt(&ticket), Some(session));
            assert_eq!(Tickets::new().unwrap().decrypt(&ticket), None);
        }
        assert_eq!(tickets.encrypt(&[7; MAX_SESSION_BYTES + 1]), None);
    }
}
