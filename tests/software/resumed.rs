//! The watches of a program after apifront was killed.

use std::fmt;
use std::time::{Duration, Instant};

use crate::harness::apifront::Apifront;
use crate::harness::cluster::sum_metric;

/// The time that the program's watches have to come back, and to be told from memory.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(100);

/// The watches that are open at one moment.
#[derive(Clone, Copy, Debug)]
struct Watches {
    all: f64,
    /// Those that upstream tells.
    forwarded: f64,
}

/// The watches of a program: how many were open before apifront was killed, and which are
/// open some time after its new start.
#[derive(Clone, Copy, Debug)]
pub struct Resumed {
    before: f64,
    now: Watches,
    took: Duration,
}

impl Watches {
    async fn open(front: &Apifront) -> Self {
        let text = front.metrics().await;
        let verb = [("verb", "WATCH")];
        Self {
            all: sum_metric(&text, "apiserver_longrunning_requests", &verb),
            forwarded: sum_metric(&text, "apifront_forwarded_long_running_requests", &[]),
        }
    }
}

impl Resumed {
    /// Kills apifront, starts it again, and waits until as many watches as before are
    /// told from memory, or [`PATIENCE`] is over.
    pub async fn after_kill(front: &mut Apifront) -> Self {
        let before = Watches::open(front).await.all;
        front.restart().await;
        let ready = Instant::now();
        loop {
            let now = Watches::open(front).await;
            let took = ready.elapsed();
            let resumed = Self { before, now, took };
            if resumed.is_whole() || took > PATIENCE {
                return resumed;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Whether all watches are back, and told from memory.
    pub fn is_whole(&self) -> bool {
        self.now.all >= self.before && self.now.forwarded == 0.0
    }
}

impl fmt::Display for Resumed {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self { before, now, took } = self;
        let memory = now.all - now.forwarded;
        let seconds = took.as_secs_f64();
        write!(
            f,
            "{before:.0} watches before apifront was killed; {memory:.0} from memory and {:.0} \
             forwarded {seconds:.1} s after its new start",
            now.forwarded
        )
    }
}
