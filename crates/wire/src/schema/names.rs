//! Finds members by their JSON names. Each transcoded key is looked up here.

/// Positions by name, in a hash table with open addressing that is at most half
/// full.
#[derive(Debug, Default)]
pub(crate) struct Names {
    names: Box<[Box<[u8]>]>,
    /// Positions plus one; 0 marks a free place. The length is a power of two.
    table: Box<[u16]>,
}

impl Names {
    /// Makes the table. The result is `None` if two names are equal, or if
    /// there are too many.
    pub(crate) fn new(names: Vec<Box<[u8]>>) -> Option<Self> {
        let twice = names.len().checked_mul(2)?;
        let size = twice.checked_next_power_of_two()?.max(2);
        let mask = size.checked_sub(1)?;
        let mut table = vec![0u16; size].into_boxed_slice();
        for (position, name) in names.iter().enumerate() {
            let mut at = hash(name) & mask;
            while let Some(taken) = usize::from(*table.get(at)?).checked_sub(1) {
                if names.get(taken) == Some(name) {
                    return None;
                }
                at = at.wrapping_add(1) & mask;
            }
            *table.get_mut(at)? = u16::try_from(position.checked_add(1)?).ok()?;
        }
        Some(Self {
            names: names.into(),
            table,
        })
    }

    /// Returns the position of a name. `hint` is tried first.
    pub(crate) fn find(&self, name: &[u8], hint: usize) -> Option<usize> {
        if self.names.get(hint).is_some_and(|known| **known == *name) {
            return Some(hint);
        }
        let mask = self.table.len().checked_sub(1)?;
        let mut at = hash(name) & mask;
        // Half of the table is free, so the loop ends.
        loop {
            let position = usize::from(*self.table.get(at)?).checked_sub(1)?;
            if **self.names.get(position)? == *name {
                return Some(position);
            }
            at = at.wrapping_add(1) & mask;
        }
    }
}

/// Hashes the length and the first, middle and last byte of a name: the names
/// of one message differ there.
fn hash(name: &[u8]) -> usize {
    let byte = |at: usize| name.get(at).copied().map_or(0, u32::from);
    let middle = byte(name.len() / 2);
    let last = byte(name.len().saturating_sub(1));
    let word = byte(0) | byte(1) << 8 | middle << 16 | last << 24;
    let mixed = (word ^ (name.len() as u32) << 10).wrapping_mul(0x9e37_79b1);
    (mixed >> 16) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_with_any_hint() {
        let names = ["metadata", "spec", "status", "sbec", ""];
        let boxed = |n: &str| Box::from(n.as_bytes());
        let table = Names::new(names.iter().map(|n| boxed(n)).collect()).unwrap();
        for (position, name) in names.iter().enumerate() {
            for hint in 0..7 {
                assert_eq!(table.find(name.as_bytes(), hint), Some(position));
            }
        }
        assert_eq!(table.find(b"Spec", 0), None);
        assert_eq!(table.find(b"specs", 0), None);
        assert_eq!(Names::default().find(b"a", 0), None);
        assert!(Names::new(vec![boxed("a"), boxed("a")]).is_none());
    }
}
