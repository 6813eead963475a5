//! A user whose requests are timed while others misbehave.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::harness::client::Client;

/// Where those who misbehave are.
pub const ELSEWHERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));

/// Between two requests, so that the victim alone keeps no core busy.
const PAUSE: Duration = Duration::from_millis(5);
/// What a request may take whatever it took in quiet: two cores are shared by the
/// servers, all tests, and whatever else the machine does.
const FLOOR: Duration = Duration::from_millis(1500);
const TIMES_QUIET: u32 = 20;

pub struct Times {
    pub p50: Duration,
    pub p99: Duration,
    pub requests: usize,
    pub errors: usize,
}

/// Asks one thing after the other for `time`.
pub async fn timed(client: &Client, path: &str, time: Duration) -> Times {
    let (mut took, mut errors) = (Vec::new(), 0);
    let end = Instant::now() + time;
    while Instant::now() < end {
        let began = Instant::now();
        let answer = client.try_send(http::Method::GET, path, &[], "").await;
        if !answer.is_ok_and(|a| a.status == 200) {
            errors += 1;
        }
        took.push(began.elapsed());
        tokio::time::sleep(PAUSE).await;
    }
    took.sort();
    let at = |percent: usize| took[(took.len() - 1) * percent / 100];
    Times {
        p50: at(50),
        p99: at(99),
        requests: took.len(),
        errors,
    }
}

/// Prints both, and fails if the second shows what others did.
pub fn unharmed(what: &str, quiet: &Times, attacked: &Times) {
    for (when, times) in [("quiet", quiet), ("attacked", attacked)] {
        let Times {
            p50,
            p99,
            requests,
            errors,
        } = times;
        println!("{what}, {when}: p50 {p50:?}, p99 {p99:?}, {errors} errors of {requests}");
    }
    let bound = (quiet.p99 * TIMES_QUIET).max(FLOOR);
    assert_eq!(attacked.errors, 0, "{what}");
    assert!(attacked.requests > 2, "{what}: hardly anything was asked");
    assert!(attacked.p99 <= bound, "{what}: p99 above {bound:?}");
}
