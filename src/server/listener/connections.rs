//! Limits the connections that clients may have open: all connections together,
//! and those of one address, so that no client keeps the others out by holding
//! connections.
//!
//! A connection has its [`Seat`] from the moment it is accepted, before TLS,
//! until its socket is closed, whichever task holds the socket then.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::metrics::ListenerMetrics;

/// Limits of connections; 0 is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) struct Limits {
    pub(in crate::server) total: usize,
    pub(in crate::server) per_client: usize,
}

impl Limits {
    /// Lowers the total to half of the files that the process may have open.
    /// The other half is for what connections need (upstream, watches, files).
    /// Without a free file, apifront can accept, forward and read nothing.
    pub(in crate::server) fn within_open_files(self, open_files: Option<usize>) -> Self {
        let total = match (self.total, open_files.map(|files| files / 2)) {
            (total, None) => total,
            (0, Some(most)) => most,
            (total, Some(most)) => total.min(most),
        };
        Self { total, ..self }
    }
}

/// Returns the number of files that this process may have open, if the system
/// tells.
pub(in crate::server) fn open_files_limit() -> Option<usize> {
    parse_open_files(&std::fs::read_to_string("/proc/self/limits").ok()?)
}

/// Parses the limit out of its line of proc(5), which has a name, a soft limit,
/// a hard limit and a unit.
fn parse_open_files(limits: &str) -> Option<usize> {
    let line = limits
        .lines()
        .find_map(|l| l.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    Total,
    Client,
}

impl Refusal {
    fn as_str(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Client => "client",
        }
    }
}

/// The open connections. Several listeners may share them.
#[derive(Debug)]
pub(in crate::server) struct Connections {
    limits: Limits,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    total: usize,
    clients: HashMap<IpAddr, usize>,
}

/// An open connection. It is counted until this is dropped.
#[derive(Debug)]
pub(in crate::server) struct Seat {
    connections: Arc<Connections>,
    client: IpAddr,
    metrics: ListenerMetrics,
}

impl Connections {
    pub(in crate::server) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            open: Mutex::default(),
        })
    }

    /// Returns a seat for a connection from `address`, unless a limit is
    /// reached.
    pub(in crate::server) fn open(
        self: &Arc<Self>,
        address: IpAddr,
        metrics: &ListenerMetrics,
    ) -> Option<Seat> {
        let client = client(address);
        if let Err(refusal) = self.open.lock().enter(client, self.limits) {
            metrics.refused(refusal.as_str());
            return None;
        }
        metrics.open.inc();
        Some(Seat {
            connections: self.clone(),
            client,
            metrics: metrics.clone(),
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.connections.open.lock().leave(self.client);
        self.metrics.open.dec();
    }
}

impl Open {
    fn enter(&mut self, client: IpAddr, limits: Limits) -> Result<(), Refusal> {
        if limits.total != 0 && self.total >= limits.total {
            return Err(Refusal::Total);
        }
        let of_client = self.clients.entry(client).or_default();
        // A client without connections is below every limit, so a refusal
        // leaves no empty entry behind.
        if limits.per_client != 0 && *of_client >= limits.per_client {
            return Err(Refusal::Client);
        }
        *of_client = of_client.saturating_add(1);
        self.total = self.total.saturating_add(1);
        Ok(())
    }

    fn leave(&mut self, client: IpAddr) {
        self.total = self.total.saturating_sub(1);
        if let Entry::Occupied(mut of_client) = self.clients.entry(client) {
            match of_client.get().saturating_sub(1) {
                0 => drop(of_client.remove()),
                left => *of_client.get_mut() = left,
            }
        }
    }
}

/// Returns the client that an address belongs to. One host usually has a whole
/// /64 of IPv6 addresses. An IPv4 client is the same client on a dual-stack
/// socket and on an IPv4 socket.
fn client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_for_all_and_for_each() {
        let a: IpAddr = "192.0.2.1".parse().unwrap();
        let b: IpAddr = "192.0.2.2".parse().unwrap();
        let limits = Limits {
            total: 3,
            per_client: 2,
        };
        let mut open = Open::default();
        assert_eq!(open.enter(a, limits), Ok(()));
        assert_eq!(open.enter(a, limits), Ok(()));
        assert_eq!(open.enter(a, limits), Err(Refusal::Client));
        assert_eq!(open.enter(b, limits), Ok(()));
        assert_eq!(open.enter(b, limits), Err(Refusal::Total));
        open.leave(a);
        assert_eq!(open.enter(b, limits), Ok(()));
        for client in [a, b, b] {
            open.leave(client);
        }
        assert_eq!((open.total, open.clients.len()), (0, 0));
    }

    #[test]
    fn half_of_the_files_is_left_for_other_things() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max open files            1024                 524288               files     \n";
        assert_eq!(parse_open_files(limits), Some(1024));
        assert_eq!(
            parse_open_files("Max open files   unlimited  unlimited files"),
            None
        );
        for (total, files, expected) in [
            (20_000, Some(1024), 512),
            (100, Some(1024), 100),
            (0, Some(1024), 512),
            (20_000, None, 20_000),
        ] {
            let limits = Limits {
                total,
                per_client: 7,
            };
            let limits = limits.within_open_files(files);
            assert_eq!((limits.total, limits.per_client), (expected, 7));
        }
    }

    #[test]
    fn zero_is_no_limit() {
        let mut open = Open::default();
        let limits = Limits {
            total: 0,
            per_client: 0,
        };
        for _ in 0..10_000 {
            assert_eq!(open.enter(IpAddr::from([127, 0, 0, 1]), limits), Ok(()));
        }
    }

    #[test]
    fn a_client_is_an_ipv4_address_or_a_network_of_ipv6_addresses() {
        for (one, other, same) in [
            ("192.0.2.1", "192.0.2.2", false),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", true),
            ("2001:db8:0:1::1", "2001:db8:0:2::1", false),
        ] {
            let client = |text: &str| client(text.parse().unwrap());
            assert_eq!(client(one) == client(other), same, "{one} {other}");
        }
    }
}
