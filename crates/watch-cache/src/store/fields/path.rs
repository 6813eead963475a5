//! Values at many paths of an object, found in one pass over its bytes.

use kubernetes_wire::representation::scan;

/// The paths as a tree of keys.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Paths {
    root: Vec<Node>,
    count: usize,
}

#[derive(Debug, PartialEq, Eq)]
struct Node {
    key: String,
    /// The number of the path that ends here.
    path: Option<usize>,
    below: Vec<Node>,
}

impl Paths {
    /// Adds a path, if it is not known yet, and returns its number.
    pub(super) fn add(&mut self, keys: &[String]) -> usize {
        let mut level = &mut self.root;
        let mut keys = keys;
        while let [key, deeper @ ..] = keys {
            let at = level.iter().position(|n| n.key == *key);
            let at = at.unwrap_or_else(|| {
                let at = level.len();
                level.push(Node {
                    key: key.clone(),
                    path: None,
                    below: Vec::new(),
                });
                at
            });
            let Some(node) = level.get_mut(at) else { break };
            if deeper.is_empty() {
                let count = &mut self.count;
                return *node.path.get_or_insert_with(|| next(count));
            }
            level = &mut node.below;
            keys = deeper;
        }
        // Nothing is at the empty path.
        next(&mut self.count)
    }

    /// Reads the value at each path: strings without their escapes, booleans
    /// and numbers as they are written. Other values count as absent.
    pub(super) fn read(&self, object: &[u8]) -> Vec<Option<String>> {
        let mut found = vec![None; self.count];
        read(&self.root, object, &mut found);
        found
    }
}

/// Returns the number of a new path.
fn next(count: &mut usize) -> usize {
    let number = *count;
    *count = number.saturating_add(1);
    number
}

/// Reads the values below `nodes`. The recursion is as deep as the paths are.
fn read(nodes: &[Node], object: &[u8], found: &mut [Option<String>]) {
    let mut missing = nodes.len();
    for member in scan::members(object).map_while(Result::ok) {
        let Some(node) = nodes.iter().find(|n| n.key.as_bytes() == member.key) else {
            continue;
        };
        if let Some(slot) = node.path.and_then(|path| found.get_mut(path)) {
            *slot = scalar(member.value);
        }
        if !node.below.is_empty() {
            read(&node.below, member.value, found);
        }
        missing = missing.saturating_sub(1);
        if missing == 0 {
            return;
        }
    }
}

fn scalar(value: &[u8]) -> Option<String> {
    match value.first()? {
        b'"' => scan::text(value).map(|text| text.into_owned()),
        b't' | b'f' | b'-' | b'0'..=b'9' => std::str::from_utf8(value).ok().map(str::to_owned),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_its_value() {
        let mut paths = Paths::default();
        let mut add = |path: &str| {
            let keys: Vec<_> = path.split('.').map(str::to_owned).collect();
            paths.add(&keys)
        };
        assert_eq!(
            ["a.b", "a", "c", "a.b", "a.d.e"].map(&mut add),
            [0, 1, 2, 0, 3]
        );
        let read = |object: &str| paths.read(object.as_bytes());
        let text = |s: &str| Some(s.to_owned());
        assert_eq!(
            read(r#"{"x":{"a":{"b":1}},"a":{"d":{"e":true,"f":0},"b":"q\""},"c":-1.5}"#),
            [text("q\""), None, text("-1.5"), text("true")]
        );
        assert_eq!(read(r#"{"a":[],"c":{"a":"x"}}"#), [None, None, None, None]);
        assert_eq!(read(r#"{"a":"s""#), [None, text("s"), None, None]);
        assert_eq!(read("nonsense"), [None, None, None, None]);
    }
}
