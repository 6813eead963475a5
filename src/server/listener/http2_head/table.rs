//! HPACK's table of fields (RFC 7541, 2.3, 4 and appendix A).

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

use super::field::Field;

/// The table's size, as long as the server's SETTINGS set no other size.
const MAX_TABLE_OCTETS: usize = 4096;

const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

static FIRST: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let field = |(name, value): (&str, &str)| Field::new(name.as_bytes(), value.as_bytes());
    STATIC.map(field).into()
});

#[derive(Clone, Debug)]
pub(super) enum Found {
    /// A field of the table's fixed part.
    Static(&'static Field),
    Other(Arc<Field>),
}

impl Found {
    pub(super) fn field(&self) -> &Field {
        match self {
            Self::Static(field) => field,
            Self::Other(field) => field,
        }
    }
}

/// The table for one direction of a connection.
#[derive(Debug)]
pub(super) struct Table {
    entries: VecDeque<Arc<Field>>,
    size: usize,
    most: usize,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            size: 0,
            most: MAX_TABLE_OCTETS,
        }
    }
}

impl Table {
    /// Returns the field at an index, which begins at 1.
    pub(super) fn get(&self, index: usize) -> Option<Found> {
        let index = index.checked_sub(1)?;
        if let Some(field) = FIRST.get(index) {
            return Some(Found::Static(field));
        }
        let index = index.checked_sub(STATIC.len())?;
        self.entries.get(index).cloned().map(Found::Other)
    }

    pub(super) fn insert(&mut self, field: Arc<Field>) {
        self.size = self.size.saturating_add(field.size());
        self.entries.push_front(field);
        self.evict();
    }

    /// Changes the size. Returns `None` if SETTINGS do not allow it.
    pub(super) fn resize(&mut self, most: usize) -> Option<()> {
        self.most = (most <= MAX_TABLE_OCTETS).then_some(most)?;
        self.evict();
        Some(())
    }

    fn evict(&mut self) {
        while self.size > self.most
            && let Some(last) = self.entries.pop_back()
        {
            self.size = self.size.saturating_sub(last.size());
        }
    }
}
