//! A herd: many clients that ask the same question at once.

use super::report::{self, Goal};
use super::servers::{Cost, Reads, Servers};

pub struct Herd {
    pub cost: Cost,
    pub reads: Reads,
    /// Seconds until half of the clients had their answer, if the clients' times
    /// differ.
    pub median: Option<f64>,
    pub bytes: usize,
}

/// Prints the herd at kube-apiserver beside the herd at apifront.
pub fn report(servers: &Servers, direct: &Herd, front: &Herd, most_reads: f64) {
    let row = |name: &str, herd: &Herd, megabytes: f64| {
        let mut cells = vec![
            name.to_owned(),
            format!("{:.2}", herd.cost.wall.as_secs_f64()),
        ];
        cells.extend(herd.median.map(|median| format!("{median:.2}")));
        cells.extend([
            format!("{:.2}", herd.cost.apiserver.as_secs_f64()),
            format!("{:.2}", herd.cost.apifront.as_secs_f64()),
            herd.reads.lists.to_string(),
            herd.reads.watches.to_string(),
            format!("{megabytes:.0}"),
        ]);
        cells
    };
    let median = direct.median.map(|_| "half of them s");
    let heads: Vec<&str> = ["asked", "wall s"]
        .into_iter()
        .chain(median)
        .chain([
            "CPU s kube-apiserver",
            "CPU s apifront",
            "upstream lists",
            "upstream watches",
            "resident MB",
        ])
        .collect();
    let rows = [
        row(
            "kube-apiserver",
            direct,
            servers.direct().resident_megabytes(),
        ),
        row("apifront", front, servers.front().resident_megabytes()),
    ];
    report::table(&heads, &rows);
    report::compare(
        "upstream reads",
        front.reads.all(),
        "",
        Goal::AtMost(most_reads),
    );
    let both = |cost: &Cost| (cost.apifront + cost.apiserver).as_secs_f64();
    println!(
        "kube-apiserver ÷ apifront: wall {:.1}x, CPU {:.1}x (both servers together)",
        direct.cost.wall.as_secs_f64() / front.cost.wall.as_secs_f64(),
        both(&direct.cost) / both(&front.cost),
    );
}
