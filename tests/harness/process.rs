//! Child processes that do not outlive the test binary.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;

/// The number of output lines of a server that a failed test shows.
const SHOWN_LINES: usize = 60;

/// Writes a line to the watchdog, a process that ends the children.
/// `PR_SET_PDEATHSIG` would end them with the *thread* that started them, and
/// Rust runs each test on its own thread.
fn tell_watchdog(line: &str) {
    // The child is kept and never waited for, because it must outlive this process.
    static WATCHDOG: OnceLock<Mutex<(Child, ChildStdin)>> = OnceLock::new();
    let pipe = WATCHDOG.get_or_init(|| {
        let mut child = Command::new("sh")
            .args(["-c", include_str!("watchdog.sh"), "watchdog"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // With its own process group it does not get ctrl-C, which goes to the
            // foreground group.
            .process_group(0)
            .spawn()
            .expect("sh for the watchdog");
        let stdin = child.stdin.take().expect("piped");
        Mutex::new((child, stdin))
    });
    let mut pipe = pipe.lock().unwrap_or_else(|e| e.into_inner());
    writeln!(pipe.1, "{line}").expect("the watchdog reads");
}

/// Records a start in the file from which `tests/suite.sh` counts started processes.
pub fn count(name: &str) {
    record(&format!("{name} {}", who()));
}

/// The test that runs on this thread, or `shared`, where several tests wait.
fn who() -> String {
    let thread = std::thread::current();
    thread.name().unwrap_or("shared").to_owned()
}

fn record(line: &str) {
    let Some(file) = std::env::var_os("APIFRONT_TEST_STARTS") else {
        return;
    };
    let file = File::options().create(true).append(true).open(file);
    let mut file = file.expect("the file for starts");
    // In one piece: others write there, too.
    let line = format!("{line}\n");
    file.write_all(line.as_bytes()).expect("a line");
}

/// Creates a folder that is removed when the test binary ends, unless
/// `APIFRONT_TEST_KEEP` is set.
pub fn temporary_folder(purpose: &str) -> PathBuf {
    let path = tempfile::Builder::new()
        .prefix(&format!("apifront-{purpose}-"))
        .tempdir()
        .expect("temporary folder")
        .keep();
    if std::env::var_os("APIFRONT_TEST_KEEP").is_none() {
        tell_watchdog(&format!("dir {}", path.display()));
    }
    path
}

pub struct Process {
    name: String,
    starter: String,
    child: Child,
    log: PathBuf,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts `command`, with stdout and stderr appended to `log`.
    pub fn spawn(name: &str, command: &mut Command, log: &Path) -> Self {
        let out = File::options()
            .create(true)
            .append(true)
            .open(log)
            .expect("log file");
        let child = command
            .stdin(Stdio::null())
            .stdout(out.try_clone().expect("log file"))
            .stderr(out)
            .spawn()
            .unwrap_or_else(|e| panic!("starting {name}: {e}"));
        tell_watchdog(&format!("pid {}", child.id()));
        count(name);
        Self {
            name: name.to_owned(),
            starter: who(),
            child,
            log: log.to_owned(),
            ended: None,
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends `TERM`, `HUP`, `STOP` or another signal. The shell's `kill` sends
    /// it, because sending signals from Rust needs unsafe code.
    pub fn signal(&self, signal: &str) {
        assert!(self.ended.is_none(), "{} is gone already", self.name);
        let sent = Command::new("sh")
            .args(["-c", &format!("kill -{signal} {}", self.pid())])
            .status()
            .expect("sh");
        assert!(sent.success(), "kill -{signal} {}", self.name);
    }

    pub fn exited(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            // The clock ends with the process.
            let used = clock_of(self.pid());
            self.ended = self.child.try_wait().expect("wait");
            if self.ended.is_some() {
                self.tell_end(used);
            }
        }
        self.ended
    }

    fn tell_end(&self, used: Option<Duration>) {
        tell_watchdog(&format!("gone {}", self.pid()));
        let used = used.unwrap_or_default().as_secs_f64();
        record(&format!("cpu {} {used:.2} {}", self.name, self.starter));
    }

    pub fn alive(&mut self) -> bool {
        self.exited().is_none()
    }

    pub async fn wait(&mut self, within: Duration) -> ExitStatus {
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.exited() {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "{} did not end within {within:?}\n{}{}",
                self.name,
                threads_of(self.pid()),
                self.log_tail()
            );
            crate::pace::of_tries(Duration::from_millis(10)).await;
        }
    }

    pub fn kill(&mut self) {
        if self.exited().is_none() {
            let used = clock_of(self.pid());
            let _ = self.child.kill();
            self.ended = self.child.wait().ok();
            self.tell_end(used);
        }
    }

    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    pub fn log_tail(&self) -> String {
        let text = self.log();
        let lines: Vec<&str> = text.lines().collect();
        let from = lines.len().saturating_sub(SHOWN_LINES);
        format!(
            "--- last lines of {} ({})\n{}\n---",
            self.name,
            self.log.display(),
            lines[from..].join("\n")
        )
    }

    pub fn resident_bytes(&self) -> u64 {
        resident_bytes(self.pid())
    }

    pub fn peak_bytes(&self) -> u64 {
        peak_bytes(self.pid())
    }
}

pub fn resident_bytes(pid: u32) -> u64 {
    status_bytes(pid, "VmRSS:")
}

/// Returns the most resident memory that the process had.
pub fn peak_bytes(pid: u32) -> u64 {
    status_bytes(pid, "VmHWM:")
}

fn status_bytes(pid: u32, field: &str) -> u64 {
    find_status_bytes(pid, field).expect("the process lives")
}

fn find_status_bytes(pid: u32, field: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// Returns the CPU time and the most resident memory of a process that may have ended.
pub fn used(pid: u32) -> Option<(Duration, u64)> {
    Some((clock_of(pid)?, find_status_bytes(pid, "VmHWM:")?))
}

/// Returns the CPU time, user and system, of all threads of a process, including
/// threads that have ended.
pub fn cpu_time(pid: u32) -> Duration {
    clock_of(pid).expect("the process lives")
}

/// Tells what each thread of a process does: its state, where it is in the kernel, and,
/// if this process may see it, how it came there.
fn threads_of(pid: u32) -> String {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let mut told = String::new();
    for task in tasks.into_iter().flatten().flatten() {
        let read = |file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let status = read("status");
        let state = status.lines().find(|line| line.starts_with("State:"));
        let (name, wchan) = (read("comm"), read("wchan"));
        let stack = read("stack").replace('\n', "; ");
        let state = state.unwrap_or("State: gone");
        told += &format!("{} {state} {wchan} {stack}\n", name.trim());
    }
    told
}

fn clock_of(pid: u32) -> Option<Duration> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?);
    Some(clock_getcpuclockid(pid).ok()?.now().ok()?.into())
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log_tail());
        }
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    #[should_panic(expected = "sleep State:\tS")]
    async fn what_does_not_end_shows_its_threads() {
        let folder = temporary_folder("process");
        let mut command = Command::new("sleep");
        let mut process = Process::spawn("sleep", command.arg("100"), &folder.join("log"));
        process.wait(Duration::from_millis(200)).await;
    }
}
