//! Finds free ports on loopback. No two processes of the tests get the same port.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::sync::Mutex;

use rand::seq::SliceRandom;

/// Ports are claimed in blocks of this size.
const BLOCK: u16 = 250;
/// Ports that Linux, by default, does not use as the local ports of outgoing
/// connections. A killed server thus finds its port still free when it returns.
const USUAL: Range<u16> = 12_000..32_000;
/// The file with Linux's actual range of local ports.
const LOCAL_RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// A block of ports. The process that listens on the first port may hand out the
/// others until it ends.
struct Block {
    _claim: TcpListener,
    left: Range<u16>,
}

static CLAIMED: Mutex<Vec<Block>> = Mutex::new(Vec::new());

/// Returns a port that no other program uses. Each port is handed out once, so a
/// server that gets it by a flag has it alone.
pub fn free() -> u16 {
    listen().local_addr().expect("an address").port()
}

/// Returns a listener on a port that nobody else gets, even after this listener is
/// dropped.
pub fn listen() -> TcpListener {
    let mut claimed = CLAIMED.lock().unwrap_or_else(|e| e.into_inner());
    loop {
        if let Some(block) = claimed.last_mut() {
            for port in block.left.by_ref() {
                if let Ok(listener) = bind(port) {
                    return listener;
                }
            }
        }
        claimed.push(claim());
    }
}

pub fn listen_async() -> tokio::net::TcpListener {
    let listener = listen();
    listener.set_nonblocking(true).expect("non-blocking");
    tokio::net::TcpListener::from_std(listener).expect("a runtime")
}

fn claim() -> Block {
    let local = std::fs::read_to_string(LOCAL_RANGE).unwrap_or_default();
    let range = outside(&local);
    let mut firsts: Vec<u16> = range.clone().step_by(usize::from(BLOCK)).collect();
    firsts.retain(|first| range.end - first >= BLOCK);
    firsts.shuffle(&mut rand::rng());
    let mut free = firsts.into_iter().filter_map(|first| {
        let claim = bind(first).ok()?;
        Some(Block {
            _claim: claim,
            left: first + 1..first + BLOCK,
        })
    });
    free.next()
        .unwrap_or_else(|| panic!("no free block of {BLOCK} ports in {range:?}"))
}

/// Returns the range of ports to use if Linux takes local ports from `local`, which
/// has the format of [`LOCAL_RANGE`]. If too few ports are outside, this is the
/// usual range.
fn outside(local: &str) -> Range<u16> {
    let mut numbers = local.split_whitespace().filter_map(|n| n.parse().ok());
    let (Some(low), Some(high)) = (numbers.next(), numbers.next()) else {
        return USUAL;
    };
    let enough = |range: &Range<u16>| range.len() >= 5_000;
    let below = USUAL.start..USUAL.end.min(low);
    let above = high..u16::MAX;
    [below, above].into_iter().find(enough).unwrap_or(USUAL)
}

fn bind(port: u16) -> std::io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
}

pub fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

#[test]
fn ports_lie_outside_the_local_range() {
    for (local, expected) in [
        ("32768\t60999\n", USUAL),
        ("20000 60999", 12_000..20_000),
        ("13000 50000", 50_000..u16::MAX),
        ("1024 65535", USUAL),
        ("", USUAL),
    ] {
        assert_eq!(outside(local), expected, "{local}");
    }
}

#[test]
fn no_port_is_given_twice() {
    let mut given: Vec<u16> = (0..600).map(|_| free()).collect();
    given.sort_unstable();
    given.dedup();
    assert_eq!(given.len(), 600);
}
