//! Which thread was the last to change a cache line.

use std::collections::HashMap;

const BYTES: u64 = 64;

#[derive(Default)]
pub struct Lines(HashMap<u64, i32>);

impl Lines {
    /// Returns the lines that bytes at `address` lie in.
    pub fn of(address: u64, bytes: u64) -> impl Iterator<Item = u64> {
        let last = address.saturating_add(bytes.max(1) - 1);
        address / BYTES..=last / BYTES
    }

    /// Whether another thread was the last to change the line.
    pub fn passes(&mut self, line: u64, to: i32) -> bool {
        let before = self.0.insert(line, to);
        before.is_some_and(|before| before != to)
    }
}
