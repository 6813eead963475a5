//! Samples apifront's resources, and checks that they do not grow.

use std::fmt;
use std::time::{Duration, Instant};

use harness::apifront::Apifront;

/// In the last third of the time, memory and the number of series may grow by this
/// fraction from the first half to the second.
const FLAT: f64 = 0.05;
/// The number of descriptors and tasks that may come and go in quiet, such as probes
/// and a connection to kube-apiserver.
const SLACK: u64 = 12;
const POLL: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug)]
pub struct Sample {
    resident: u64,
    descriptors: u64,
    tasks: u64,
    threads: u64,
    series: u64,
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "resident {:.1} MB, {} descriptors, {} tasks, {} threads, {} series",
            self.resident as f64 / f64::from(1 << 20),
            self.descriptors,
            self.tasks,
            self.threads,
            self.series
        )
    }
}

pub async fn sample(front: &Apifront) -> Sample {
    let process = format!("/proc/{}", front.process.pid());
    let count = |folder: &str| {
        let entries = std::fs::read_dir(format!("{process}/{folder}"));
        entries.expect("the process lives").count() as u64
    };
    let text = front.metrics().await;
    Sample {
        resident: front.process.resident_bytes(),
        descriptors: count("fd"),
        tasks: front.metric("apifront_tasks", &[]).await as u64,
        threads: count("task"),
        series: text.lines().filter(|l| !l.starts_with('#')).count() as u64,
    }
}

/// Waits until there are as few descriptors and tasks as before.
pub async fn settle(front: &Apifront, before: &Sample, within: Duration) -> Sample {
    let deadline = Instant::now() + within;
    loop {
        let now = sample(front).await;
        let settled =
            now.descriptors <= before.descriptors + SLACK && now.tasks <= before.tasks + SLACK;
        if settled || Instant::now() >= deadline {
            return now;
        }
        tokio::time::sleep(POLL).await;
    }
}

type Field = fn(&Sample) -> u64;

#[derive(Debug, Default)]
pub struct Series(Vec<(Duration, Sample)>);

impl Series {
    pub fn push(&mut self, at: Duration, sample: Sample) {
        self.0.push((at, sample));
    }

    pub fn assert_flat(&self, before: &Sample, after: &Sample) {
        let last = &self.0[self.0.len() * 2 / 3..];
        let (first, second) = last.split_at(last.len() / 2);
        let mean = |part: &[(Duration, Sample)], of: Field| {
            part.iter().map(|(_, s)| of(s) as f64).sum::<f64>() / part.len() as f64
        };
        let grown = |of| mean(second, of) / mean(first, of) - 1.0;
        let kinds: [(&str, Field); 2] = [
            ("memory", |s| s.resident),
            ("series of metrics", |s| s.series),
        ];
        let kinds = kinds.map(|(what, of)| (what, grown(of)));
        for (what, grown) in kinds {
            println!("{what} in the last third: {:+.1} %", grown * 100.0);
        }
        for (what, grown) in kinds {
            assert!(grown <= FLAT, "{what}: {:+.1} %", grown * 100.0);
        }
        for (what, before, after) in [
            ("descriptors", before.descriptors, after.descriptors),
            ("tasks", before.tasks, after.tasks),
        ] {
            assert!(after <= before + SLACK, "{after} {what}, {before} before");
        }
    }
}
