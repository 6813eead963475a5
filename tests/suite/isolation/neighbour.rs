//! What one user notices of another: the same requests asked in quiet and under
//! attack.

use std::fmt;
use std::time::{Duration, Instant};

use http::Method;
use serde_json::json;

use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::objects;

/// A machine that is shared, and whose processors the flood keeps busy, delays
/// what it likes for as long.
const FLOOR: Duration = Duration::from_millis(1_500);

/// Answers that one user waited for.
pub struct Sample {
    times: Vec<Duration>,
    errors: usize,
}

impl Sample {
    /// Asks one after the other.
    pub async fn of(client: &Client, path: &str, headers: &[(&str, &str)], times: usize) -> Self {
        let mut sample = Self {
            times: Vec::with_capacity(times),
            errors: 0,
        };
        for _ in 0..times {
            let began = Instant::now();
            let answer = client.try_send(Method::GET, path, headers, "").await;
            sample.times.push(began.elapsed());
            sample.errors += usize::from(!answer.is_ok_and(|a| a.status == 200));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        sample.times.sort();
        sample
    }

    fn at(&self, hundredth: usize) -> Duration {
        let last = self.times.len().saturating_sub(1);
        self.times[(self.times.len() * hundredth / 100).min(last)]
    }

    /// Prints both, and fails unless the attack is not noticed.
    #[track_caller]
    pub fn assert_unnoticed(quiet: &Self, attacked: &Self, what: &str) {
        println!("{what}: quiet {quiet}; attacked {attacked}");
        assert_eq!(quiet.errors, 0, "{what}: in quiet");
        assert_eq!(attacked.errors, 0, "{what}: under attack");
        let most = (quiet.at(99) * 3).max(FLOOR);
        assert!(
            attacked.at(99) <= most,
            "{what}: {attacked}, {quiet} in quiet"
        );
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (p50, p99) = (self.at(50), self.at(99));
        write!(f, "p50 {p50:.1?} p99 {p99:.1?} errors {}", self.errors)
    }
}

/// A namespace of config maps, `count` of `size` bytes, that the group of the
/// same name may read and write.
pub async fn namespace(purpose: &str, count: usize, size: usize) -> String {
    let cluster = Cluster::shared();
    let ns = cluster.namespace(purpose).await;
    let admin = cluster.admin_client();
    let verbs = ["get", "list", "watch", "create", "update"];
    for grant in [
        objects::role("own", &[""], &["configmaps", "secrets"], &verbs),
        objects::role_binding("own", "own", "Group", &ns),
    ] {
        let kind = grant["kind"].as_str().expect("a kind").to_lowercase();
        let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/{kind}s");
        admin.post(&path, &grant).await.expect(201);
    }
    let path = format!("/api/v1/namespaces/{ns}/configmaps");
    let create = |n: usize| {
        let data = json!({ "a": "x".repeat(size) });
        let object = objects::config_map(&format!("c{n:04}"), json!({ "n": n.to_string() }), data);
        let (admin, path) = (&admin, &path);
        async move { admin.post(path, &object).await.expect(201) }
    };
    use futures::StreamExt;
    let all = futures::stream::iter((0..count).map(create)).buffer_unordered(16);
    all.collect::<Vec<_>>().await;
    ns
}
