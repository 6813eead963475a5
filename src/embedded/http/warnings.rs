//! Warnings gathered while a request is answered, for its `Warning` headers.

use parking_lot::Mutex;

/// All warnings of an answer have so many characters together; later ones are
/// left out (apiserver `endpoints/filters/warning.go`).
const LIMIT: usize = 4 * 1024;

#[derive(Default)]
pub struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    /// Each text is said once.
    pub fn add(&self, text: String) {
        let mut texts = self.0.lock();
        let length: usize = texts.iter().map(String::len).sum();
        if !texts.contains(&text) && length.saturating_add(text.len()) <= LIMIT {
            texts.push(text);
        }
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}
