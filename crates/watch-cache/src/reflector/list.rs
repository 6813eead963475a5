//! Reads a complete list of a resource, page by page. A server may never end a
//! list, so its bytes count as memory, and each continue token must differ from
//! the one before.

use std::time::{Duration, Instant};

use apifront_source::{BodyLimit, JSON, ReadKind, ResponseBody, Source};
use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue, RETRY_AFTER, WARNING};
use http::{Response, StatusCode};
use http_body_util::BodyExt;
use kubernetes_wire::api::GroupVersionResource;
use kubernetes_wire::representation::{Encoding, Envelope};
use serde::Deserialize;

use super::list_error::ListError;
use super::list_page::{ITEM_BYTES, ListPage};
use super::list_progress::ListProgress;
use super::memory_pool::MemoryReservation;
use super::pieces::Pieces;
use super::source_encoding;
use crate::store::{FieldTable, Gatherer};

/// Objects per page. client-go's pager asks for the same number.
const PAGE_SIZE: u32 = 500;

const PAGE_TIMEOUT: Duration = Duration::from_secs(120);

/// The most bytes of a page. It is enough for objects of the largest size that
/// etcd accepts.
const MAX_PAGE_BYTES: usize = 1 << 30;

/// The limits of an error's body. It is a Status with a message and its causes.
const STATUS: BodyLimit = BodyLimit::new(1 << 20, Duration::from_secs(10));

/// The most bytes of a continue token, which is a version and a key in base64.
/// The token goes into a URL, and no server accepts longer URLs.
const MAX_TOKEN_BYTES: usize = 32 << 10;

/// The most consecutive pages without objects. A server that filters objects
/// after it has read them may send a few.
const MAX_EMPTY_PAGES: usize = 100;

/// The time limit of a list. A million objects take some minutes.
const LIST_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// A complete list, and the facts about the resource that it shows.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) envelope: Envelope,
    pub(super) resource_version: u64,
    pub(super) objects: Gatherer,
    pub(super) warnings: Vec<HeaderValue>,
}

/// Lists all objects at one version, the most recent at the time of the
/// request. If that version expires before the last page, everything is
/// requested in one answer, as client-go does. In pages, a large list would
/// expire again and again.
pub(super) async fn list(
    upstream: &dyn Source,
    gvr: &GroupVersionResource,
    accept: &str,
    fields: &FieldTable,
    reading: &mut MemoryReservation,
) -> Result<Listed, ListError> {
    let listed = pages(upstream, gvr, accept, fields, reading);
    tokio::time::timeout(LIST_TIMEOUT, listed)
        .await
        .unwrap_or(Err(ListError::Endless("its time is over")))
}

async fn pages(
    upstream: &dyn Source,
    gvr: &GroupVersionResource,
    accept: &str,
    fields: &FieldTable,
    reading: &mut MemoryReservation,
) -> Result<Listed, ListError> {
    let mut empty: usize = 0;
    // Only the first expiry leads to a restart. If a server expires every
    // version, the list would never end.
    let mut restarted = false;
    let mut listed: Option<Listed> = None;
    let mut asked = Asked::Page(String::new());
    let mut progress = ListProgress::new(gvr, Instant::now());
    loop {
        // Counts the bytes of the page until its objects are decoded.
        let mut body = reading.part();
        let (warnings, page) = match page(upstream, gvr, accept, &asked, &mut body).await {
            Err(ListError::Failed { status, .. })
                if status == StatusCode::GONE
                    && !restarted
                    && matches!(&asked, Asked::Page(t) if !t.is_empty()) =>
            {
                listed = None;
                restarted = true;
                reading.set(0).await?;
                asked = Asked::Everything;
                continue;
            }
            page => page?,
        };
        let into = listed.get_or_insert_with(|| Listed {
            envelope: page.envelope.clone(),
            resource_version: page.resource_version,
            objects: Gatherer::default(),
            warnings,
        });
        page.decode(fields, reading, &mut into.objects).await?;
        progress.objects(into.objects.objects().len(), Instant::now());
        if page.continue_token.is_empty() {
            break;
        }
        empty = match page.items.is_empty() {
            true => empty.saturating_add(1),
            false => 0,
        };
        if empty > MAX_EMPTY_PAGES {
            return Err(ListError::Endless("its pages are empty"));
        }
        asked = further(&asked, page.continue_token)?;
    }
    listed.ok_or(ListError::Form)
}

fn further(asked: &Asked, token: String) -> Result<Asked, ListError> {
    if token.len() > MAX_TOKEN_BYTES {
        return Err(ListError::Endless("its continue token is too long"));
    }
    match asked {
        Asked::Page(before) if *before == token => {
            Err(ListError::Endless("its continue token repeats"))
        }
        Asked::Page(_) | Asked::Everything => Ok(Asked::Page(token)),
    }
}

enum Asked {
    /// The page of this continue token. An empty token asks for the first page.
    Page(String),
    Everything,
}

/// Learns from a list of one object how upstream writes lists of the resource,
/// and which labels it accepts in field selectors. An older server, or a server
/// other than kube-apiserver, may accept fewer labels.
pub(super) async fn describe(
    upstream: &dyn Source,
    gvr: &GroupVersionResource,
    fields: &FieldTable,
    reading: &MemoryReservation,
) -> Result<(Envelope, FieldTable), ListError> {
    let labels: Vec<&str> = fields.labels().collect();
    if let Some(envelope) = first_of(upstream, gvr, &labels, reading).await? {
        return Ok((envelope, fields.clone()));
    }
    let mut known = Vec::new();
    for label in labels {
        if first_of(upstream, gvr, &[label], reading).await?.is_some() {
            known.push(label);
        }
    }
    let envelope = first_of(upstream, gvr, &known, reading).await?;
    let known = fields.retain(|label| known.contains(&label));
    Ok((envelope.ok_or(ListError::Form)?, known))
}

/// Returns the envelope of a list of at most one object. `None` if upstream
/// does not accept all of the labels in a field selector.
async fn first_of(
    upstream: &dyn Source,
    gvr: &GroupVersionResource,
    labels: &[&str],
    reading: &MemoryReservation,
) -> Result<Option<Envelope>, ListError> {
    // No object has this value in any field.
    let selector: Vec<String> = labels.iter().map(|l| format!("{l}!=!")).collect();
    let mut path = format!("{}?limit=1", gvr.path());
    if !selector.is_empty() {
        path.push_str("&fieldSelector=");
        path.extend(encoded(&selector.join(",")));
    }
    let response = upstream.get(ReadKind::Discovery, &path, JSON).await?;
    if response.status() == StatusCode::BAD_REQUEST && !labels.is_empty() {
        return Ok(None);
    }
    // A server that does not know `limit` sends all objects.
    let mut counted = reading.part();
    let (_, body) = whole(response, &mut counted).await?;
    let most = most_items(&counted);
    ListPage::parse(Encoding::Json, &body, most).map(|page| Some(page.envelope))
}

fn encoded(text: &str) -> impl Iterator<Item = &str> {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC)
}

async fn page(
    upstream: &dyn Source,
    gvr: &GroupVersionResource,
    accept: &str,
    asked: &Asked,
    reading: &mut MemoryReservation,
) -> Result<(Vec<HeaderValue>, ListPage), ListError> {
    let mut path = gvr.path();
    if let Asked::Page(token) = asked {
        path.push_str(&format!("?limit={PAGE_SIZE}"));
        if !token.is_empty() {
            path.push_str("&continue=");
            path.extend(encoded(token));
        }
    }
    let response = upstream.get(ReadKind::List, &path, accept).await?;
    let encoding = source_encoding::encoding(response.headers());
    let (warnings, body) = whole(response, reading).await?;
    let page = ListPage::parse_aside(encoding, body, most_items(reading)).await?;
    reading
        .take(page.items.len().saturating_mul(ITEM_BYTES))
        .await?;
    Ok((warnings, page))
}

/// Returns the `Warning` headers and the body of a successful answer.
async fn whole(
    response: Response<ResponseBody>,
    reading: &mut MemoryReservation,
) -> Result<(Vec<HeaderValue>, Bytes), ListError> {
    if !response.status().is_success() {
        return Err(answer_error(response).await);
    }
    let warnings = warnings(response.headers());
    let body = counted(response.into_body(), reading);
    let body = tokio::time::timeout(PAGE_TIMEOUT, body)
        .await
        .map_err(|_| ListError::Body(format!("not complete after {PAGE_TIMEOUT:?}")))??;
    Ok((warnings, body))
}

/// Reads the bytes of a page. Each chunk is counted before it is kept.
async fn counted(body: ResponseBody, reading: &mut MemoryReservation) -> Result<Bytes, ListError> {
    let mut stream = body.into_stream();
    let mut all = Pieces::default();
    while let Some(frame) = stream.frame().await {
        let frame = frame.map_err(|e| ListError::Body(e.to_string()))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if all.len().saturating_add(data.len()) > MAX_PAGE_BYTES {
            return Err(ListError::Endless("its page is too long"));
        }
        reading.take(data.len()).await?;
        all.push(&data);
        all.go_on();
    }
    Ok(all.join().await)
}

/// Returns the number of items that there is room for, but at least the page
/// size. A page of empty items takes many times its length in memory.
fn most_items(reading: &MemoryReservation) -> usize {
    (reading.free() / ITEM_BYTES).max(PAGE_SIZE as usize)
}

/// Returns the `Warning` headers, which tell of deprecations (KEP-1693).
pub(super) fn warnings(headers: &HeaderMap) -> Vec<HeaderValue> {
    headers.get_all(WARNING).iter().cloned().collect()
}

/// Returns `Retry-After` in seconds, the form that API servers use.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

pub(super) async fn answer_error(response: Response<ResponseBody>) -> ListError {
    let status = response.status();
    let retry_after = retry_after(response.headers());
    let body = match response.into_body().collect_bytes(STATUS).await {
        Ok(body) => body,
        Err(error) => return ListError::Body(error.to_string()),
    };
    let message = message(&body);
    match status {
        StatusCode::NOT_FOUND
        | StatusCode::FORBIDDEN
        | StatusCode::UNAUTHORIZED
        | StatusCode::METHOD_NOT_ALLOWED
        | StatusCode::NOT_ACCEPTABLE => ListError::Refused { status, message },
        _ => ListError::Failed {
            status,
            message,
            retry_after,
        },
    }
}

/// Returns the `code` of a Status, or 0 if there is none.
pub(super) fn code_of(body: &[u8]) -> u16 {
    #[derive(Deserialize)]
    struct Code {
        code: u16,
    }
    serde_json::from_slice::<Code>(body).map_or(0, |s| s.code)
}

const MAX_MESSAGE_CHARS: usize = 500;

/// Returns the message of a Status, or the start of any other body. Control
/// characters are replaced, so that a server cannot write lines into the log.
pub(super) fn message(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Message {
        message: String,
    }
    let text = match serde_json::from_slice::<Message>(body) {
        Ok(status) => status.message,
        Err(_) => String::from_utf8_lossy(body).trim_end().to_owned(),
    };
    let printable = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars()
        .take(MAX_MESSAGE_CHARS)
        .map(printable)
        .collect()
}
