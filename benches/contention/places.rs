//! The functions that addresses of a running program lie in.

use std::collections::HashMap;
use std::io::Write;
use std::ops::Range;
use std::process::{Command, Stdio};

/// Where code is that is not of this repository.
const OTHERS: [&str; 4] = ["/.cargo/", "/rustc/", "/library/", "/deps/"];

/// A function at an address, or one that is inlined there.
struct Frame {
    function: String,
    file: String,
}

pub struct Places {
    base: u64,
    size: u64,
    /// Where the code is.
    pub text: Range<u64>,
    program: String,
    /// Innermost first.
    frames: HashMap<u64, Vec<Frame>>,
}

impl Places {
    pub fn of(process: u32) -> Self {
        let path = std::fs::read_link(format!("/proc/{process}/exe")).expect("a program");
        let program = path.to_str().expect("a name").to_owned();
        let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("maps");
        let own = || maps.lines().filter(|line| line.ends_with(&program));
        let ranges: Vec<(u64, u64)> = own().filter_map(range).collect();
        let code = own().filter(|line| line.contains(" r-xp "));
        let (from, to) = code.filter_map(range).next().expect("code");
        let base = ranges.iter().map(|(from, _)| *from).min().expect("a map");
        let end = ranges.iter().map(|(_, to)| *to).max().expect("a map");
        Self {
            base,
            size: end - base,
            text: from..to,
            program,
            frames: HashMap::new(),
        }
    }

    /// Asks for all of these at once, which takes a while.
    pub fn find(&mut self, addresses: impl Iterator<Item = u64>) {
        let mut asked: Vec<u64> = addresses.filter_map(|at| self.offset(at)).collect();
        asked.sort_unstable();
        asked.dedup();
        let mut child = Command::new("addr2line")
            .args(["-e", &self.program, "-a", "-f", "-i", "-C"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("addr2line");
        let mut input = child.stdin.take().expect("its input");
        let questions: String = asked.iter().map(|at| format!("{at:#x}\n")).collect();
        let asks = std::thread::spawn(move || input.write_all(questions.as_bytes()));
        let output = child.wait_with_output().expect("addr2line");
        asks.join().expect("a thread").expect("addr2line reads");
        let mut at = 0;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(hex) = line.strip_prefix("0x") {
                at = u64::from_str_radix(hex, 16).expect("an address");
                continue;
            }
            let file = lines.next().unwrap_or_default().to_owned();
            let function = line.to_owned();
            let frames = self.frames.entry(at).or_default();
            frames.push(Frame { function, file });
        }
    }

    fn offset(&self, at: u64) -> Option<u64> {
        at.checked_sub(self.base).filter(|at| *at < self.size)
    }

    /// Returns what runs here, and the innermost function of this repository that
    /// called it.
    pub fn of_stack<'a>(&self, stack: impl Iterator<Item = &'a u64>) -> (String, String) {
        let known = |at: &u64| self.frames.get(&self.offset(*at)?);
        let mut frames = stack.filter_map(known).flatten();
        let Some(first) = frames.next() else {
            return ("not of the program".to_owned(), String::new());
        };
        let own = std::iter::once(first)
            .chain(frames)
            .find(|frame| frame.is_own());
        let caller = own.map_or_else(|| "-".to_owned(), Frame::place);
        (first.name(), caller)
    }
}

impl Frame {
    fn is_own(&self) -> bool {
        self.file.contains("/src/") && !OTHERS.iter().any(|part| self.file.contains(part))
    }

    /// Without types and hashes.
    fn name(&self) -> String {
        let mut depth = 0_usize;
        let mut name = String::new();
        for c in self.function.chars() {
            match c {
                '<' => depth += 1,
                '>' => depth = depth.saturating_sub(1),
                c if depth == 0 => name.push(c),
                _ => {}
            }
        }
        name.trim_start_matches("::").to_owned()
    }

    fn place(&self) -> String {
        let file = self.file.rsplit_once("/src/").map_or("", |(_, file)| file);
        let crates = self.file.rsplit_once("/crates/").map(|(_, file)| file);
        let of_crate = crates
            .and_then(|file| file.split_once('/'))
            .map(|(name, _)| name);
        let file = file.split(' ').next().unwrap_or_default();
        match of_crate {
            Some(name) => format!("{name}: {file}"),
            None => file.to_owned(),
        }
    }
}

fn range(line: &str) -> Option<(u64, u64)> {
    let (from, rest) = line.split_once('-')?;
    let (to, _) = rest.split_once(' ')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    Some((hex(from)?, hex(to)?))
}
