//! A value that is computed from some inputs and kept until they change.

use std::sync::Arc;

use parking_lot::Mutex;

/// The last computed value and its inputs. While a value is being computed, other
/// callers wait for it.
pub(super) struct Memo<K, V>(Mutex<Option<(K, Arc<V>)>>);

impl<K, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<K: PartialEq, V> Memo<K, V> {
    pub(super) fn get(&self, key: K, make: impl FnOnce() -> V) -> Arc<V> {
        let mut last = self.0.lock();
        if let Some((known, value)) = &*last
            && *known == key
        {
            return value.clone();
        }
        let value = Arc::new(make());
        *last = Some((key, value.clone()));
        value
    }
}
