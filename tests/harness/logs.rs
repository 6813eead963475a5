//! The log files of the running servers, by address.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};

/// The number of log lines per server in a failed comparison.
const SHOWN_LINES: usize = 15;

static LOGS: Mutex<BTreeMap<SocketAddr, PathBuf>> = Mutex::new(BTreeMap::new());

/// Remembers the log file of a server. From the first call on, a failed test says
/// how to run it again.
pub fn remember(server: SocketAddr, log: &Path) {
    let mut logs = LOGS.lock().unwrap_or_else(PoisonError::into_inner);
    logs.insert(server, log.to_owned());
    say_how_to_repeat();
}

/// Tells whether the server is a kube-apiserver that the tests started.
pub fn is_of_kube_apiserver(server: SocketAddr) -> bool {
    let logs = LOGS.lock().unwrap_or_else(PoisonError::into_inner);
    let log = logs.get(&server);
    log.is_some_and(|log| log.ends_with("kube-apiserver.log"))
}

pub fn last_lines_of(server: SocketAddr) -> String {
    let logs = LOGS.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(log) = logs.get(&server) else {
        return String::new();
    };
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n");
    format!("--- last lines of {}\n{last}\n", log.display())
}

/// Adds the command that repeats the test to each panic's message. Seeds are printed
/// where they are made.
fn say_how_to_repeat() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            before(panic);
            let thread = std::thread::current();
            if let Some(test) = thread.name().filter(|name| name.contains("::")) {
                eprintln!("again: make test TEST_ARGS=\"--include-ignored --exact {test}\"");
            }
        }));
    });
}
