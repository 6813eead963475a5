//! Limits the open connections: all together, and those of one address, so that no
//! client keeps others out by holding connections.
//!
//! A connection has its [`OpenConnection`] from the moment it is accepted, before TLS,
//! until its socket is closed, whichever task holds the socket then.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use apifront_shares::{Exceeded, Share, Shares};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::metrics::ListenerMetrics;

/// Each limit is logged at most this often, so that a flood of connections fills no
/// disk.
const LOGGED_EVERY: Duration = Duration::from_secs(10);

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

/// The open connections. Several listeners may share them.
#[derive(Clone, Debug)]
pub(in crate::server) struct Connections {
    shares: Shares<IpAddr>,
    logged: Arc<Logged>,
}

/// The times at which the limits were logged last.
#[derive(Debug, Default)]
struct Logged {
    total: Mutex<Option<Instant>>,
    client: Mutex<Option<Instant>>,
}

/// An open connection. It counts as open until this is dropped.
#[derive(Debug)]
pub(in crate::server) struct OpenConnection {
    _share: Share<IpAddr>,
    metrics: ListenerMetrics,
}

impl Connections {
    pub(in crate::server) fn new(limits: Limits) -> Self {
        let limits = apifront_shares::Limits::fixed(limits.total, limits.per_client);
        Self {
            shares: Shares::new(limits),
            logged: Arc::default(),
        }
    }

    pub(in crate::server) fn open(
        &self,
        address: IpAddr,
        metrics: &ListenerMetrics,
    ) -> Option<OpenConnection> {
        match self.shares.take(client(address), 1) {
            Ok(share) => {
                metrics.open.inc();
                Some(OpenConnection {
                    _share: share,
                    metrics: metrics.clone(),
                })
            }
            Err(exceeded) => {
                let (limit, logged) = match exceeded {
                    Exceeded::OfOne => ("client", &self.logged.client),
                    Exceeded::Total => ("total", &self.logged.total),
                };
                metrics.refused(limit);
                if is_logged_now(logged) {
                    let listener = metrics.listener();
                    tracing::warn!(client = %address, listener, limit, "refused a connection: too many are open");
                }
                None
            }
        }
    }
}

/// Tells whether a limit is to be logged, and notes that it is.
fn is_logged_now(last: &Mutex<Option<Instant>>) -> bool {
    let (mut last, now) = (last.lock(), Instant::now());
    let is_due = last.is_none_or(|last| now.duration_since(last) >= LOGGED_EVERY);
    if is_due {
        *last = Some(now);
    }
    is_due
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
        assert_eq!(
            (connections.shares.held(), connections.shares.callers()),
            (0, 0)
        );
        assert_eq!(metrics.open.get(), 0);
    }

    #[test]
    fn half_of_the_files_is_left_for_other_things() {
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

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_logged_now_and_then() {
        let last = Mutex::default();
        let logged = || (0..100).filter(|_| is_logged_now(&last)).count();
        assert_eq!((logged(), logged()), (1, 0));
        tokio::time::advance(LOGGED_EVERY).await;
        assert_eq!((logged(), logged()), (1, 0));
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
