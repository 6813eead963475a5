//! The headers of W3C Trace Context, level 1, and whose are followed. They are parsed
//! like kube-apiserver's library (go.opentelemetry.io/otel
//! `propagation/trace_context.go`).

use std::str::FromStr;

use http::{HeaderMap, HeaderName, HeaderValue};
use kubernetes_wire::api::UserInfo;
use kubernetes_wire::api::user::{MASTERS, MONITORING};
use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

pub(super) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
pub(super) const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The flags with a meaning: sampled, and random trace ID.
const KNOWN_FLAGS: u8 = 0x03;

/// The highest valid version.
const MAX_VERSION: u8 = 254;

/// The most members of a state, and the most bytes that they may have.
const MAX_MEMBERS: usize = 32;
const MAX_STATE_BYTES: usize = MAX_MEMBERS * (256 + 1 + 256 + 1);

/// Tells whether the trace of the caller goes on here, as in kube-apiserver (k8s.io/apiserver
/// `endpoints/filters/traces.go`). `user` is the authenticated user, not the
/// impersonated one.
pub fn continues_trace(user: &UserInfo) -> bool {
    user.groups.iter().any(|g| g == MASTERS || g == MONITORING)
}

/// Returns the span that a caller names as the parent. `None` if the header is
/// missing or malformed.
pub(super) fn parent(headers: &HeaderMap) -> Option<SpanContext> {
    let text = headers.get(TRACEPARENT)?.to_str().ok()?;
    let mut rest = text;
    let version = u8::from_str_radix(part(&mut rest, 2)?, 16).ok()?;
    let trace_id = TraceId::from_hex(part(&mut rest, 32)?).ok()?;
    let span_id = SpanId::from_hex(part(&mut rest, 16)?).ok()?;
    let flags = u8::from_str_radix(part(&mut rest, 2)?, 16).ok()?;
    let unknown = !rest.is_empty() || flags > KNOWN_FLAGS;
    if version > MAX_VERSION || (version == 0 && unknown) {
        return None;
    }
    // A malformed state does not make its parent malformed (3.3.1.1 of the
    // recommendation).
    let state = headers.get(TRACESTATE).and_then(state);
    let flags = TraceFlags::new(flags & KNOWN_FLAGS);
    let context = SpanContext::new(trace_id, span_id, flags, true, state.unwrap_or_default());
    context.is_valid().then_some(context)
}

fn state(value: &HeaderValue) -> Option<TraceState> {
    let text = value.to_str().ok()?;
    let fits = text.len() <= MAX_STATE_BYTES && text.split(',').count() <= MAX_MEMBERS;
    fits.then(|| TraceState::from_str(text).ok())?
}

/// Returns a span for a link, without the trace's state, which may be long.
pub(super) fn without_state(span: &SpanContext) -> SpanContext {
    let (trace, id, flags) = (span.trace_id(), span.span_id(), span.trace_flags());
    SpanContext::new(trace, id, flags, span.is_remote(), TraceState::default())
}

/// Cuts off the first field, which must have this many lower-case digits.
fn part<'t>(rest: &mut &'t str, digits: usize) -> Option<&'t str> {
    let (part, after) = rest.split_once('-').unwrap_or((rest, ""));
    *rest = after;
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (part.len() == digits && part.bytes().all(is_digit)).then_some(part)
}

pub(super) fn traceparent(span: &SpanContext) -> Option<HeaderValue> {
    let flags = span.trace_flags().to_u8() & KNOWN_FLAGS;
    let text = format!("00-{}-{}-{flags:02x}", span.trace_id(), span.span_id());
    HeaderValue::try_from(text).ok()
}

pub(super) fn tracestate(span: &SpanContext) -> Option<HeaderValue> {
    let text = span.trace_state().header();
    (!text.is_empty()).then(|| HeaderValue::try_from(text).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    fn read(text: &str) -> Option<SpanContext> {
        let mut headers = HeaderMap::new();
        headers.insert(TRACEPARENT, HeaderValue::try_from(text).unwrap());
        parent(&headers)
    }

    #[test]
    fn well_formed_parents() {
        for (text, written) in [
            (format!("00-{TRACE}-{SPAN}-01"), "01"),
            (format!("00-{TRACE}-{SPAN}-00"), "00"),
            (format!("00-{TRACE}-{SPAN}-03"), "03"),
            // The library accepts an empty fifth field.
            (format!("00-{TRACE}-{SPAN}-01-"), "01"),
            // The first fields of later versions are read.
            (format!("cc-{TRACE}-{SPAN}-09"), "01"),
            (format!("cc-{TRACE}-{SPAN}-01-what-the-future-is"), "01"),
        ] {
            let parent = read(&text).unwrap_or_else(|| panic!("{text}"));
            assert!(parent.is_remote());
            let written = format!("00-{TRACE}-{SPAN}-{written}");
            assert_eq!(traceparent(&parent).unwrap(), written.as_str(), "{text}");
        }
    }

    #[test]
    fn malformed_parents_are_none() {
        let upper = TRACE.to_ascii_uppercase();
        let zeros = "0".repeat(32);
        for text in [
            String::new(),
            "00".to_owned(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-"),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00-{TRACE}-{SPAN}-04"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("00-{upper}-{SPAN}-01"),
            format!("00-{zeros}-{SPAN}-01"),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("00-{TRACE}0-{SPAN}-01"),
            format!("00-42-{SPAN}-01"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("+0-{TRACE}-{SPAN}-01"),
            format!(" 00-{TRACE}-{SPAN}-01"),
        ] {
            assert!(read(&text).is_none(), "{text}");
        }
        assert!(parent(&HeaderMap::new()).is_none());
    }

    #[test]
    fn the_state_follows_its_parent() {
        let members = |number| vec!["a=1"; number].join(",");
        let (most, more) = (members(32), members(33));
        let long = format!("a={}", "1".repeat(MAX_STATE_BYTES));
        for (state, written) in [
            ("a=1,b=2", Some("a=1,b=2")),
            (&most, Some(&*most)),
            (&more, None),
            (&long, None),
            ("", None),
            ("no state", None),
        ] {
            let mut headers = HeaderMap::new();
            let text = format!("00-{TRACE}-{SPAN}-01");
            headers.insert(TRACEPARENT, HeaderValue::try_from(text).unwrap());
            headers.insert(TRACESTATE, HeaderValue::try_from(state).unwrap());
            let found = tracestate(&parent(&headers).unwrap());
            assert_eq!(found.as_ref().map(|v| v.to_str().unwrap()), written);
        }
    }
}
