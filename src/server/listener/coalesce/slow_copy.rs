//! Page offsets from which bytes are copied slowly into TLS records.

/// The offset in its page at which a buffer begins, so that rustls copies it fast.
/// See [`copies_slowly`].
pub(super) const BUFFER_OFFSET_BYTES: usize = 64;

pub(super) const PAGE_BYTES: usize = 4096;
/// The size of a record's header. rustls copies each record behind its header into a
/// new allocation, which is so large that it begins at the start of a page.
const RECORD_HEADER: usize = 5;

/// Tells whether memcpy of these bytes into a record takes fifteen times as long as
/// it should. glibc before 2.39 copies with `rep movsb`. On Zen 3 and 4, this is
/// slow if the target is up to 15 bytes further into its page than the source.
pub(super) fn copies_slowly(bytes: &[u8]) -> bool {
    let from = bytes.as_ptr().addr() % PAGE_BYTES;
    (1..16).contains(&((RECORD_HEADER + PAGE_BYTES).saturating_sub(from) % PAGE_BYTES))
}
