//! Limits the open connections: all together, and those of one address, so that no
//! client keeps others out by holding connections.
//!
//! A connection has its [`OpenConnection`] from the moment it is accepted, before TLS,
//! until its socket is closed, whichever task holds the socket then.

use std::net::{IpAddr, Ipv6Addr};

use apifront_shares::{Exceeded, Share, Shares};

use crate::metrics::ListenerMetrics;

/// Limits of connections. 0 means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) struct Limits {
    pub(in crate::server) total: usize,
    pub(in crate::server) per_client: usize,
}

impl Limits {
    /// Lowers the total to half of the files that the process may have open. The
    /// other half is for what connections need (upstream, watches, files). Without a
    /// free file, apifront cannot accept, forward or read anything.
    pub(in crate::server) fn within_open_files(self, open_files: Option<usize>) -> Self {
        let total = match (self.total, open_files.map(|files| files / 2)) {
            (total, None) => total,
            (0, Some(most)) => most,
            (total, Some(most)) => total.min(most),
        };
        Self { total, ..self }
    }
}

/// Returns how many files this process may have open, if the system tells.
pub(in crate::server) fn open_files_limit() -> Option<usize> {
    parse_open_files(&std::fs::read_to_string("/proc/self/limits").ok()?)
}

/// Parses the limit out of its line in proc(5). The line has a name, a soft limit, a
/// hard limit and a unit.
fn parse_open_files(limits: &str) -> Option<usize> {
    let line = limits
        .lines()
        .find_map(|l| l.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The open connections. Several listeners may share them.
#[derive(Clone, Debug)]
pub(in crate::server) struct Connections(Shares<IpAddr>);

/// An open connection. It counts as open until this is dropped.
#[derive(Debug)]
pub(in crate::server) struct OpenConnection {
    _share: Share<IpAddr>,
    metrics: ListenerMetrics,
}

impl Connections {
    pub(in crate::server) fn new(limits: Limits) -> Self {
        let limits = apifront_shares::Limits::fixed(limits.total, limits.per_client);
        Self(Shares::new(limits))
    }

    pub(in crate::server) fn open(
        &self,
        address: IpAddr,
        metrics: &ListenerMetrics,
    ) -> Option<OpenConnection> {
        match self.0.take(client(address), 1) {
            Ok(share) => {
                metrics.open.inc();
                Some(OpenConnection {
                    _share: share,
                    metrics: metrics.clone(),
                })
            }
            Err(exceeded) => {
                metrics.refused(match exceeded {
                    Exceeded::OfOne => "client",
                    Exceeded::Total => "total",
                });
                None
            }
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.metrics.open.dec();
    }
}

/// Returns the client that an address belongs to. One host usually has a whole /64
/// of IPv6 addresses. An IPv4 client is the same client on a dual-stack socket and
/// on an IPv4 socket.
pub(super) fn client(address: IpAddr) -> IpAddr {
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
    use prometheus::Registry;

    use super::*;
    use crate::metrics::ConnectionMetrics;

    fn connections(total: usize, per_client: usize) -> (Connections, ListenerMetrics) {
        let metrics = ConnectionMetrics::register(&Registry::new()).unwrap();
        let connections = Connections::new(Limits { total, per_client });
        (connections, metrics.listener("test"))
    }

    #[test]
    fn limits_hold_for_all_and_for_each() {
        let a: IpAddr = "192.0.2.1".parse().unwrap();
        let b: IpAddr = "192.0.2.2".parse().unwrap();
        let (connections, metrics) = connections(3, 2);
        let refused = |client, of: &str| {
            let before = metrics.refused_by(of);
            assert!(connections.open(client, &metrics).is_none());
            assert_eq!(metrics.refused_by(of), before + 1, "{of}");
        };
        let first = connections.open(a, &metrics).unwrap();
        let second = connections.open(a, &metrics).unwrap();
        refused(a, "client");
        let third = connections.open(b, &metrics).unwrap();
        refused(b, "total");
        // A client that has reached its own limit is refused for that, whatever
        // others have.
        refused(a, "client");
        drop(first);
        let fourth = connections.open(b, &metrics).unwrap();
        assert_eq!(metrics.open.get(), 3);
        drop((second, third, fourth));
        assert_eq!((connections.0.held(), connections.0.callers()), (0, 0));
        assert_eq!(metrics.open.get(), 0);
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
        let (connections, metrics) = connections(0, 0);
        let client = IpAddr::from([127, 0, 0, 1]);
        let open = (0..10_000).map(|_| connections.open(client, &metrics));
        assert!(open.collect::<Vec<_>>().iter().all(Option::is_some));
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
