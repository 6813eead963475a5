//! Compares the estimated seats of lists with their real work: apifront's CPU and
//! the bytes of each answer, for lists of many forms and lengths from memory. TLS,
//! HTTP/2, resourceVersion=0, a user who is no administrator, and enough seats that
//! no level clips the estimate.
//!
//! `make bench ARGS='widths --pods 5000 --lists 10'`

use std::time::Duration;

use crate::support::lists::read;
use crate::support::report::{self, Goal, median};
use crate::support::servers::Servers;
use crate::support::{count, pods, require};
use harness::client::Client;
use harness::media_types::{JSON, PARTIAL_LIST, PROTOBUF, TABLE, YAML};
use harness::{eventually, objects};
use serde_json::json;

const SEATS: &str = "apiserver_flowcontrol_work_estimated_seats";
const SOON: Duration = Duration::from_secs(60);

/// The most seats of a list, one per millisecond. More work cannot be told apart.
const MOST: f64 = 100.0;

/// The least correlation of seats and CPU.
const GOAL: f64 = 0.9;

/// A form of list: its name, Accept, whether gzip is accepted, and further
/// parameters.
type Form = (&'static str, &'static str, bool, &'static str);

const FORMS: [Form; 10] = [
    ("JSON", JSON, false, ""),
    ("JSON, gzip", JSON, true, ""),
    ("protobuf", PROTOBUF, false, ""),
    ("Table", TABLE, false, ""),
    ("Table, gzip", TABLE, true, ""),
    ("metadata", PARTIAL_LIST, false, ""),
    ("YAML", YAML, false, ""),
    ("JSON, indented", JSON, false, "&pretty=true"),
    ("JSON, selected", JSON, false, "&labelSelector=app%3Dnone"),
    ("Table, selected", TABLE, false, "&labelSelector=app%3Dnone"),
];

pub fn main() {
    require(&[("taskset", "util-linux")]);
    crate::support::run(widths());
}

async fn widths() {
    let (number, lists) = (count("pods", 5_000), count("lists", 10));
    let fill = async |admin: &Client| {
        pods::create(admin, number).await;
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": { "name": "reader" },
            "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["list"] }],
        });
        admin
            .post(&format!("{rbac}/clusterroles"), &role)
            .await
            .expect(201);
        let binding = objects::cluster_role_binding("reader", "reader", "Group", "readers");
        let path = format!("{rbac}/clusterrolebindings");
        admin.post(&path, &binding).await.expect(201);
    };
    let servers = Servers::start(&[], fill).await;
    let mut config = servers.apifront.read_config();
    config["serving"]["maxRequestsInflight"] = json!(100_000);
    // Otherwise the proof of freshness would be most of the work of small pages.
    config["cache"]["consistency"] = json!("Bounded");
    servers.apifront.write_config(&config);
    let level = [("priority_level", "global-default")];
    eventually("the seats", SOON, || async {
        let name = "apiserver_flowcontrol_nominal_limit_seats";
        servers.apifront.metric(name, &level).await > 1000.0
    })
    .await;
    servers.warm("pods").await;
    let reader = servers.cluster.certificates.client("reader", &["readers"]);
    let client = servers.apifront.client(Some(&reader));
    let (mut rows, mut points) = (Vec::new(), Vec::new());
    for (name, accept, gzip, more) in FORMS {
        for limit in [10, 100, 500, number] {
            let path = format!("/api/v1/pods?resourceVersion=0&limit={limit}{more}");
            // A list of any version has no pages.
            let path = match limit == number {
                true => format!("/api/v1/pods?resourceVersion=0{more}"),
                false => path.replace("resourceVersion=0&", ""),
            };
            let mut headers = vec![("accept", accept), harness::expect::DEBUG];
            headers.extend(gzip.then_some(("accept-encoding", "gzip")));
            // Anything that is kept is made before the measurement.
            assert!(read(&client, &path, &headers).await.cached(), "{path}");
            let before = seats(&servers).await;
            let (mut bytes, mut costs) = (0, Vec::new());
            for _ in 0..lists {
                let (list, cost) = servers.measure(read(&client, &path, &headers)).await;
                bytes = list.bytes;
                costs.push(cost.apifront.as_secs_f64() * 1e3);
            }
            let after = seats(&servers).await;
            let each = (after.0 - before.0) / (after.1 - before.1);
            // CPU time is counted in ticks of 10 ms, so that only a sum is exact.
            let cost = costs.iter().sum::<f64>() / lists as f64;
            points.push((each, cost.min(MOST)));
            rows.push(vec![
                format!("{limit} pods, {name}"),
                format!("{each:.0}"),
                format!("{cost:.2}"),
                format!("{:.2}", bytes as f64 / 1e6),
                format!("{:.2}", each / cost.max(0.01)),
            ]);
        }
    }
    println!();
    let heads = ["list", "seats", "CPU ms", "MB", "seats per ms"];
    report::table(&heads, &rows);
    // Lists below one seat or above the maximum show nothing about the scale.
    let scaled: Vec<_> = points
        .iter()
        .filter(|(seats, _)| (2.0..100.0).contains(seats))
        .collect();
    let ratios = scaled.iter().map(|(seats, cost)| seats / cost);
    println!(
        "seats per ms of CPU, at the median of {}: {:.2}",
        scaled.len(),
        median(ratios)
    );
    let all = correlation(&points);
    report::compare("correlation of seats and CPU", all, "", Goal::AtLeast(GOAL));
    servers.apifront.stop().await;
}

/// Returns the sum and the number of the estimates for readers.
async fn seats(servers: &Servers) -> (f64, f64) {
    let labels = [("priority_level", "global-default")];
    let metric = |name: String| async move { servers.apifront.metric(&name, &labels).await };
    (
        metric(format!("{SEATS}_sum")).await,
        metric(format!("{SEATS}_count")).await,
    )
}

/// Returns Pearson's correlation.
fn correlation(points: &[(f64, f64)]) -> f64 {
    let number = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / number;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let sum = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
    let both = sum(&|p| (p.0 - x) * (p.1 - y));
    both / (sum(&|p| (p.0 - x).powi(2)) * sum(&|p| (p.1 - y).powi(2))).sqrt()
}
