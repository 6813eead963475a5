//! A document, and the answers to requests for it. Conditions are evaluated as
//! in Go's `http.ServeContent`, and the headers are those of kube-openapi's
//! handlers (k8s.io/kube-openapi `pkg/handler`, `pkg/handler3`).

use bytes::Bytes;
use chrono::{DateTime, Datelike, NaiveDateTime, Utc};
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, HeaderValue, IF_MATCH,
    IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE, LAST_MODIFIED,
};
use http::{HeaderMap, StatusCode};
use kubernetes_wire::representation::deflate;
use sha2::{Digest, Sha512};
use tokio::sync::OnceCell;

/// The date formats of RFC 9110 §5.6.7. Dates are written in the first one.
const DATES: [&str; 3] = [
    "%a, %d %b %Y %H:%M:%S GMT",
    "%A, %d-%b-%y %H:%M:%S GMT",
    "%a %b %e %H:%M:%S %Y",
];

/// One encoding of a document at one time.
#[derive(Debug)]
pub(super) struct Document {
    pub bytes: Bytes,
    pub content_type: HeaderValue,
    /// The ETag with its quotes. It is the same in every encoding.
    pub etag: Option<HeaderValue>,
    pub last_modified: Option<HeaderValue>,
    gzip: OnceCell<Option<Bytes>>,
}

/// An answer without the headers that every answer gets.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Document {
    pub(super) fn new(bytes: Bytes, content_type: HeaderValue) -> Self {
        Self {
            bytes,
            content_type,
            etag: None,
            last_modified: None,
            gzip: OnceCell::new(),
        }
    }

    pub(super) fn received(headers: &HeaderMap, bytes: Bytes) -> Self {
        let content_type = headers.get(CONTENT_TYPE).cloned();
        Self {
            etag: headers.get(ETAG).cloned(),
            last_modified: headers.get(LAST_MODIFIED).cloned(),
            ..Self::new(
                bytes,
                content_type.unwrap_or(HeaderValue::from_static("application/json")),
            )
        }
    }

    /// Makes a document that was computed here from other servers' documents.
    pub(super) fn made(bytes: Vec<u8>, content_type: &'static str) -> Self {
        let hash = Sha512::digest(&bytes);
        let hash: String = hash.iter().map(|byte| format!("{byte:02X}")).collect();
        Self {
            etag: HeaderValue::from_str(&format!("\"{hash}\"")).ok(),
            last_modified: http_date(Utc::now()),
            ..Self::new(bytes.into(), HeaderValue::from_static(content_type))
        }
    }

    /// Returns the ETag without its quotes. It is the `hash` in URLs.
    pub(super) fn hash(&self) -> Option<&str> {
        let etag = self.etag.as_ref()?.to_str().ok()?;
        etag.strip_prefix('"')?.strip_suffix('"')
    }

    /// Returns the body as gzip, or `None` if it cannot be compressed. It is
    /// compressed only once.
    pub(super) async fn gzip(&self) -> Option<Bytes> {
        let compress = || {
            let bytes = self.bytes.clone();
            let made = tokio::task::spawn_blocking(move || deflate::gzip(&[bytes]));
            async move { made.await.ok().flatten().map(Bytes::from) }
        };
        self.gzip.get_or_init(compress).await.clone()
    }

    /// Answers a GET or HEAD with these headers.
    pub(super) fn reply(&self, request: &HeaderMap) -> Reply {
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(CONTENT_TYPE, self.content_type.clone());
        let conditional = [(ETAG, &self.etag), (LAST_MODIFIED, &self.last_modified)];
        for (name, value) in conditional {
            if let Some(value) = value {
                headers.insert(name, value.clone());
            }
        }
        let mut reply = Reply {
            status: condition(request, self.etag.as_ref(), self.last_modified.as_ref()),
            headers,
            body: Bytes::new(),
        };
        match reply.status {
            StatusCode::OK => {
                let bytes = HeaderValue::from_static("bytes");
                reply.headers.insert(ACCEPT_RANGES, bytes);
                reply.body = self.bytes.clone();
            }
            StatusCode::NOT_MODIFIED => {
                reply.headers.remove(CONTENT_TYPE);
                if self.etag.is_some() {
                    reply.headers.remove(LAST_MODIFIED);
                }
            }
            _ => {}
        }
        reply
    }
}

impl Reply {
    pub fn empty(status: StatusCode) -> Self {
        Self {
            status,
            headers: HeaderMap::new(),
            body: Bytes::new(),
        }
    }

    /// Lets caches keep the answer for ever. A document that was requested by its
    /// hash never changes.
    pub fn set_immutable(&mut self, now: DateTime<Utc>) {
        let forever = HeaderValue::from_static("public, immutable");
        self.headers.insert(CACHE_CONTROL, forever);
        let expires = in_a_year(now).format("%a, %d %b %Y %H:%M:%S UTC");
        if let Ok(value) = HeaderValue::from_str(&expires.to_string()) {
            self.headers.insert(EXPIRES, value);
        }
    }
}

/// Adds a year as Go's `AddDate(1, 0, 0)` does: a year after February 29 is March 1.
fn in_a_year(now: DateTime<Utc>) -> DateTime<Utc> {
    let year = now.year().saturating_add(1);
    let next = now.with_year(year);
    next.or_else(|| now.with_month(3)?.with_day(1)?.with_year(year))
        .unwrap_or(now)
}

pub(super) fn http_date(time: DateTime<Utc>) -> Option<HeaderValue> {
    let [format, ..] = DATES;
    HeaderValue::from_str(&time.format(format).to_string()).ok()
}

fn parse_date(value: &HeaderValue) -> Option<NaiveDateTime> {
    let text = value.to_str().ok()?;
    DATES
        .iter()
        .find_map(|format| NaiveDateTime::parse_from_str(text, format).ok())
}

/// Returns the status of a GET or HEAD after its preconditions, in the order of RFC
/// 9110 §13.2.2.
fn condition(
    request: &HeaderMap,
    etag: Option<&HeaderValue>,
    last_modified: Option<&HeaderValue>,
) -> StatusCode {
    let modified = last_modified.and_then(parse_date);
    let date = |name| request.get(name).and_then(parse_date).zip(modified);
    let failed = match request.get(IF_MATCH).filter(|v| !v.is_empty()) {
        Some(tags) => !matches(tags, etag, false),
        None => date(IF_UNMODIFIED_SINCE).is_some_and(|(since, at)| at > since),
    };
    if failed {
        return StatusCode::PRECONDITION_FAILED;
    }
    let same = match request.get(IF_NONE_MATCH).filter(|v| !v.is_empty()) {
        Some(tags) => matches(tags, etag, true),
        None => date(IF_MODIFIED_SINCE).is_some_and(|(since, at)| at <= since),
    };
    if same {
        StatusCode::NOT_MODIFIED
    } else {
        StatusCode::OK
    }
}

fn matches(tags: &HeaderValue, etag: Option<&HeaderValue>, weak: bool) -> bool {
    let Ok(mut rest) = tags.to_str() else {
        return false;
    };
    let etag = etag.and_then(|e| e.to_str().ok()).unwrap_or_default();
    let plain = |tag: &str| tag.strip_prefix("W/").unwrap_or(tag).to_owned();
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r', ',']);
        if rest.starts_with('*') {
            return true;
        }
        let Some((tag, tail)) = scan_tag(rest) else {
            return false;
        };
        let same = if weak {
            plain(tag) == plain(etag)
        } else {
            tag == etag && !tag.starts_with("W/")
        };
        if same {
            return true;
        }
        rest = tail;
    }
}

/// Splits a text after its leading entity tag.
fn scan_tag(text: &str) -> Option<(&str, &str)> {
    let quoted = text.strip_prefix("W/").unwrap_or(text).strip_prefix('"')?;
    let (_, after) = quoted.split_once('"')?;
    Some((text.strip_suffix(after)?, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Document {
        Document {
            etag: Some(HeaderValue::from_static("\"AB\"")),
            last_modified: Some(HeaderValue::from_static("Sat, 21 Nov 2026 12:40:34 GMT")),
            ..Document::new(
                Bytes::from_static(b"{}"),
                HeaderValue::from_static("application/json"),
            )
        }
    }

    #[test]
    fn conditions_are_those_of_serve_content() {
        let before = "Sat, 21 Nov 2026 12:40:33 GMT";
        let same = "Sat, 21 Nov 2026 12:40:34 GMT";
        for (name, value, status) in [
            (IF_NONE_MATCH, "\"AB\"", 304),
            (IF_NONE_MATCH, "W/\"AB\"", 304),
            (IF_NONE_MATCH, "\"X\", \"AB\"", 304),
            (IF_NONE_MATCH, "*", 304),
            (IF_NONE_MATCH, "AB", 200),
            (IF_NONE_MATCH, "\"X\"", 200),
            (IF_NONE_MATCH, "", 200),
            (IF_MATCH, "\"AB\"", 200),
            (IF_MATCH, "*", 200),
            (IF_MATCH, "W/\"AB\"", 412),
            (IF_MATCH, "\"X\"", 412),
            (IF_MODIFIED_SINCE, before, 200),
            (IF_MODIFIED_SINCE, same, 304),
            (IF_MODIFIED_SINCE, "Saturday, 21-Nov-26 12:40:34 GMT", 304),
            (IF_MODIFIED_SINCE, "Sat Nov 21 12:40:34 2026", 304),
            (IF_MODIFIED_SINCE, "soon", 200),
            (IF_UNMODIFIED_SINCE, before, 412),
            (IF_UNMODIFIED_SINCE, same, 200),
        ] {
            let request = HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
            let reply = document().reply(&request);
            assert_eq!(reply.status, status, "{value}");
            assert_eq!(reply.body.is_empty(), status != 200);
            assert_eq!(
                reply.headers.contains_key(LAST_MODIFIED),
                status != 304,
                "{value}"
            );
        }
        let both = HeaderMap::from_iter([
            (IF_NONE_MATCH, HeaderValue::from_static("\"X\"")),
            (IF_MODIFIED_SINCE, HeaderValue::from_static(same)),
        ]);
        assert_eq!(document().reply(&both).status, 200);
    }

    #[test]
    fn a_year_later() {
        let date = |text: &str| -> DateTime<Utc> { text.parse().unwrap() };
        let mut reply = Reply::empty(StatusCode::OK);
        for (now, then) in [
            ("2026-11-21T12:40:33Z", "Sun, 21 Nov 2027 12:40:33 UTC"),
            ("2028-02-29T00:00:00Z", "Thu, 01 Mar 2029 00:00:00 UTC"),
        ] {
            reply.set_immutable(date(now));
            assert_eq!(reply.headers[EXPIRES], then);
        }
    }

    #[test]
    fn hashes() {
        assert_eq!(document().hash(), Some("AB"));
    }
}
