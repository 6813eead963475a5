//! Finds free ports on loopback.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Mutex;

use rand::Rng;

/// The range of ports. It lies below the range from which Linux takes local
/// ports of outgoing connections, so that a killed server finds its port still
/// free when it returns.
const RANGE: std::ops::Range<u16> = 12_000..32_000;

static GIVEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);

/// Returns a port that was free a moment ago. Each port is returned once per
/// process.
pub fn free() -> u16 {
    let mut given = GIVEN.lock().unwrap_or_else(|e| e.into_inner());
    let given = given.get_or_insert_with(HashSet::new);
    for _ in 0..1000 {
        let port = rand::rng().random_range(RANGE);
        if !given.contains(&port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            given.insert(port);
            return port;
        }
    }
    panic!("no free port in {RANGE:?}");
}

pub fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}
