//! Measures how well one user is served: times the same requests in quiet and while
//! others misbehave.
//!
//! `APIFRONT_TEST_SAMPLES=10` measures ten times as often: with few requests, the
//! slowest one on a busy machine is the 99th percentile. Some tests then also show
//! the effect of the same misbehaviour at another apifront.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use http::Method;

use crate::harness::client::Client;
use crate::harness::{elsewhere, volume};

/// The address of misbehaving clients.
pub const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// The measurement stops after this many errors, since each may have taken a
/// request's whole time limit.
const ERRORS_AT_MOST: usize = 2;

/// The times of consecutive requests.
#[derive(Debug)]
pub struct Times {
    sorted: Vec<Duration>,
    errors: usize,
}

/// The time that a request in a hundred may take on a machine that runs other
/// suites beside this one. A request that waits for another caller waits for a
/// deadline, which is longer.
pub const HICCUP: Duration = Duration::from_secs(6);

/// The most time for requests while others misbehave, as a multiple of the slowest
/// in quiet. The machine is shared, and a flood keeps its processors busy, so
/// `floor` is always allowed.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    pub times_quiet: u32,
    pub floor: Duration,
}

impl Times {
    /// Times `count` requests. `ask` tells whether the answer was right.
    pub async fn of_requests(count: usize, ask: impl AsyncFn(usize) -> bool) -> Self {
        let count = count * volume::samples();
        Self::until(Duration::ZERO, |asked| asked >= count, ask).await
    }

    /// Times `count` reads of `path`, with a pause between two.
    pub async fn reads(
        client: &Client,
        path: &str,
        headers: &[(&str, &str)],
        count: usize,
    ) -> Self {
        let pause = Duration::from_millis(10);
        let count = count * volume::samples();
        Self::until(
            pause,
            |asked| asked >= count,
            async |_| read(client, path, headers).await,
        )
        .await
    }

    /// Times reads of `path` for `time`, with a pause between two.
    pub async fn reads_for(client: &Client, path: &str, time: Duration) -> Self {
        let pause = Duration::from_millis(5);
        let end = Instant::now() + time * volume::samples() as u32;
        Self::until(
            pause,
            |_| Instant::now() >= end,
            async |_| read(client, path, &[]).await,
        )
        .await
    }

    /// Times reads of two paths for `time`, each on a connection of its own.
    pub async fn reads_of_both(client: &Client, paths: [&str; 2], time: Duration) -> [Self; 2] {
        let clients = [client.separate(), client.separate()];
        tokio::join!(
            Self::reads_for(&clients[0], paths[0], time),
            Self::reads_for(&clients[1], paths[1], time),
        )
        .into()
    }

    /// The pause keeps the measuring client from keeping a processor busy.
    async fn until(
        pause: Duration,
        enough: impl Fn(usize) -> bool,
        ask: impl AsyncFn(usize) -> bool,
    ) -> Self {
        if is_controlled() {
            // The caller must run entirely on the thread that leaves.
            let flavor = tokio::runtime::Handle::current().runtime_flavor();
            assert_eq!(flavor, tokio::runtime::RuntimeFlavor::CurrentThread);
            elsewhere::leave();
        }
        let (mut sorted, mut errors) = (Vec::new(), 0);
        while !enough(sorted.len()) && errors <= ERRORS_AT_MOST {
            let began = Instant::now();
            errors += usize::from(!ask(sorted.len()).await);
            sorted.push(began.elapsed());
            if !pause.is_zero() {
                crate::harness::pace::of_load(pause).await;
            }
        }
        sorted.sort();
        Self { sorted, errors }
    }

    fn percentile(&self, percent: usize) -> Duration {
        let last = self.sorted.len().saturating_sub(1);
        let at = (self.sorted.len() * percent / 100).min(last);
        self.sorted.get(at).copied().unwrap_or_default()
    }

    /// Returns the factor by which these requests took longer than the others.
    fn times(&self, others: &Self, percent: usize) -> f64 {
        let [ours, theirs] = [self, others].map(|t| t.percentile(percent).as_secs_f64());
        ours / theirs
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (p50, p99) = (self.percentile(50), self.percentile(99));
        let (requests, errors) = (self.sorted.len(), self.errors);
        write!(
            f,
            "{requests} requests, p50 {p50:.1?}, p99 {p99:.1?}, errors {errors}"
        )
    }
}

/// Tells whether to measure the same requests also while others misbehave at another
/// apifront on the same machine. This shows the effect on the machine alone.
pub fn is_controlled() -> bool {
    volume::compares_times()
}

pub fn print_control(what: &str, apart: &Times, attacked: &Times) {
    print_beside(what, "at another apifront", apart, attacked);
}

/// Prints what was measured under another load, and how the attack compares.
pub fn print_beside(what: &str, load: &str, under: &Times, attacked: &Times) {
    println!("{what}, {load}: {under}");
    let (p50, p99) = (attacked.times(under, 50), attacked.times(under, 99));
    println!("{what}: p50 {p50:.1}x, p99 {p99:.1}x of that");
}

async fn read(client: &Client, path: &str, headers: &[(&str, &str)]) -> bool {
    let answer = client.try_send(Method::GET, path, headers, "").await;
    answer.is_ok_and(|answer| answer.status == 200)
}

/// Prints both, and fails if the second shows the effect of others.
#[track_caller]
pub fn assert_unharmed(what: &str, quiet: &Times, attacked: &Times, bound: Bound) {
    println!("{what}, quiet: {quiet}");
    println!("{what}, attacked: {attacked}");
    let (p50, p99) = (attacked.times(quiet, 50), attacked.times(quiet, 99));
    println!("{what}: p50 {p50:.1}x, p99 {p99:.1}x");
    assert_eq!((quiet.errors, attacked.errors), (0, 0), "{what}");
    let asked = attacked.sorted.len();
    assert!(asked > 2, "{what}: hardly anything was asked");
    let most = (quiet.percentile(99) * bound.times_quiet).max(bound.floor);
    let p50 = attacked.percentile(50);
    assert!(p50 <= most, "{what}: p50 {p50:?}, at most {most:?}");
    let (p99, most) = (attacked.percentile(99), most.max(HICCUP));
    assert!(p99 <= most, "{what}: p99 {p99:?}, at most {most:?}");
}
