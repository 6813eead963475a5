//! Finds the ends of events in a forwarded watch, so that the watch can be ended
//! between two events.

use http::HeaderValue;

/// The framing of events in a stream of bytes, and the position in the stream.
pub(in crate::server) enum Frames {
    /// JSON: each line is an event.
    Lines { at_start: bool },
    /// Protobuf: before each event comes its length, as four bytes in big-endian
    /// order.
    Lengths { prefix: Vec<u8>, left: usize },
    /// A log, which may end after any byte.
    Bytes,
}

impl Frames {
    pub(in crate::server) fn for_content_type(content_type: Option<&HeaderValue>) -> Self {
        let is = |prefix: &str| {
            content_type.is_some_and(|value| value.as_bytes().starts_with(prefix.as_bytes()))
        };
        if is("application/json") {
            Self::Lines { at_start: true }
        } else if is("application/vnd.kubernetes.protobuf") {
            Self::Lengths {
                prefix: Vec::with_capacity(4),
                left: 0,
            }
        } else {
            Self::Bytes
        }
    }

    pub(in crate::server) fn seen(&mut self, mut data: &[u8]) {
        match self {
            Self::Bytes => {}
            Self::Lines { at_start } => {
                if let Some(last) = data.last() {
                    *at_start = *last == b'\n';
                }
            }
            Self::Lengths { prefix, left } => {
                while !data.is_empty() {
                    if *left > 0 {
                        let taken = data.len().min(*left);
                        *left = left.saturating_sub(taken);
                        data = data.get(taken..).unwrap_or_default();
                        continue;
                    }
                    let taken = data.len().min(4usize.saturating_sub(prefix.len()));
                    let (head, rest) = data.split_at(taken);
                    prefix.extend_from_slice(head);
                    data = rest;
                    if let Ok(length) = <[u8; 4]>::try_from(prefix.as_slice()) {
                        *left = u32::from_be_bytes(length) as usize;
                        prefix.clear();
                    }
                }
            }
        }
    }

    pub(in crate::server) fn at_boundary(&self) -> bool {
        match self {
            Self::Bytes => true,
            Self::Lines { at_start } => *at_start,
            Self::Lengths { prefix, left } => prefix.is_empty() && *left == 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_are_found_however_bytes_arrive() {
        let json = HeaderValue::from_static("application/json");
        let mut frames = Frames::for_content_type(Some(&json));
        assert!(frames.at_boundary());
        frames.seen(b"{\"type\":");
        assert!(!frames.at_boundary());
        frames.seen(b"1}\n");
        assert!(frames.at_boundary());

        let protobuf = HeaderValue::from_static("application/vnd.kubernetes.protobuf;stream=watch");
        let stream = [0, 0, 0, 3, 1, 2, 3, 0, 0, 0, 1, 9];
        for step in 1..=stream.len() {
            let mut frames = Frames::for_content_type(Some(&protobuf));
            let mut at = 0;
            for piece in stream.chunks(step) {
                frames.seen(piece);
                at += piece.len();
                let expected = matches!(at, 7 | 12);
                assert_eq!(frames.at_boundary(), expected, "{step} {at}");
            }
        }
    }
}
