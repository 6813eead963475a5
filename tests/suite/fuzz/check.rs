//! Sends one read to kube-apiserver and to apifront at the same time, and compares
//! the answers.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use serde::Deserialize;

use super::request::{Read, Verb};
use super::world::Memory;
use crate::harness::client::{Answer, Client};
use crate::harness::differential::{compare, compare_exactly, unpacked};

/// The number of tries before a difference counts. An age may tick between two
/// answers, and writers may change an object between them.
const TRIES: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(10);

#[derive(Default)]
pub struct Outcome {
    /// Empty if the answers mean the same.
    pub difference: String,
    /// apifront's own report about its cache.
    pub cache: String,
    /// Whether the answer was a success, as most should be.
    pub success: bool,
}

/// The fields of a list that decide whether two lists can be compared.
#[derive(Default, Deserialize)]
struct Listed {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default, rename = "resourceVersion")]
    version: String,
    #[serde(default, rename = "continue")]
    token: String,
}

/// Asks until the answers mean the same, or the tries are used up.
pub async fn check(
    direct: &Client,
    front: &Client,
    memory: &Memory,
    read: &Read,
    quiet: bool,
) -> Outcome {
    let mut outcome = Outcome::default();
    for attempt in 0..TRIES {
        if attempt > 0 {
            crate::harness::pace::of_tries(FIRST_PAUSE * 3_u32.pow(attempt - 1)).await;
        }
        outcome = once(direct, front, memory, read, quiet).await;
        if outcome.difference.is_empty() {
            break;
        }
    }
    outcome
}

async fn once(
    direct: &Client,
    front: &Client,
    memory: &Memory,
    read: &Read,
    quiet: bool,
) -> Outcome {
    let (target, headers) = (read.target(), read.headers());
    let debug = [headers.as_slice(), &[("x-apifront-debug", "cache")]].concat();
    let (right, found) = tokio::join!(
        direct.send(Method::GET, &target, &headers, ""),
        front.try_send(Method::GET, &target, &debug, ""),
    );
    let mut outcome = Outcome::default();
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            outcome.difference = format!("  no answer: {error}\n");
            return outcome;
        }
    };
    outcome.cache = found.header("x-apifront-cache").to_owned();
    outcome.success = right.status.is_success();
    if read.verb == Verb::Watch {
        outcome.difference = compare_watches(&right, &found);
        return outcome;
    }
    if read.verb == Verb::Get || !right.status.is_success() || !found.status.is_success() {
        outcome.difference = compare(&right, &found);
        return outcome;
    }
    outcome.difference = compare_lists(direct, read, &right, &found, quiet).await;
    if outcome.difference.is_empty() {
        remember(memory, read, &[&right, &found]);
    }
    outcome
}

/// Compares two lists. Lists of the same version must be equal to the byte.
/// Otherwise apifront's list must equal kube-apiserver's list at apifront's version.
async fn compare_lists(
    direct: &Client,
    read: &Read,
    right: &Answer,
    found: &Answer,
    quiet: bool,
) -> String {
    let (of_right, of_found) = (version(right), version(found));
    if of_right == of_found {
        return compare_exactly(right, found);
    }
    let Some(at) = of_found else {
        return format!("  versions: - {of_right:?}\n            + {of_found:?}\n");
    };
    // Lists with tokens are excluded, since tokens contain the version.
    if quiet && !has_token(right) {
        let difference = compare(right, found);
        if !difference.is_empty() {
            return difference;
        }
    }
    if read.is_page_of_index() {
        return String::new();
    }
    let exact = direct
        .send(Method::GET, &read.at(at).target(), &read.headers(), "")
        .await;
    let difference = compare_exactly(&exact, found);
    match difference.is_empty() {
        true => difference,
        false => format!("  at {at} exactly:\n{difference}"),
    }
}

/// Compares two watches. kube-apiserver's history may be shorter.
fn compare_watches(right: &Answer, found: &Answer) -> String {
    let expired = b"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",";
    let too_old = |answer: &Answer| {
        answer.body.starts_with(expired) && answer.text().contains("\"reason\":\"Expired\"")
    };
    if too_old(right) && !too_old(found) && found.status == 200 {
        return String::new();
    }
    compare(&without_bookmarks(right), &without_bookmarks(found))
}

/// Removes bookmarks, except the one that ends the initial events. Only that one has
/// a fixed time.
fn without_bookmarks(answer: &Answer) -> Answer {
    if answer.header("content-type").contains("protobuf") {
        return answer.clone();
    }
    let lines = answer.body.split_inclusive(|b| *b == b'\n');
    let kept = lines.filter(|line| {
        let text = String::from_utf8_lossy(line);
        !text.starts_with("{\"type\":\"BOOKMARK\"") || text.contains("initial-events-end")
    });
    Answer {
        body: kept.collect::<Vec<_>>().concat().into(),
        ..answer.clone()
    }
}

pub fn remember(memory: &Memory, read: &Read, answers: &[&Answer]) {
    for answer in answers {
        if let Some(version) = version(answer) {
            memory.add_version(read.kind, version);
        }
        let body = unpacked(answer);
        if let Ok(list) = serde_json::from_slice::<Listed>(&body)
            && !list.metadata.token.is_empty()
        {
            memory.add_token(&read.path, list.metadata.token);
        }
    }
}

fn has_token(answer: &Answer) -> bool {
    // Every token begins with `{"v":` in base64.
    let start = URL_SAFE_NO_PAD.encode("{\"v\":\"");
    answer.body.windows(7).any(|w| w == &start.as_bytes()[..7])
}

/// Returns the version of a list in any encoding.
pub fn version(answer: &Answer) -> Option<u64> {
    let body = unpacked(answer);
    let kind = answer.header("content-type");
    if kind.contains("protobuf") {
        return version_of_protobuf(&body);
    }
    if kind.contains("yaml") {
        let text = std::str::from_utf8(&body).ok()?;
        let (_, metadata) = text.split_once("\nmetadata:\n")?;
        let (_, version) = metadata.split_once("  resourceVersion: \"")?;
        return version.split_once('"')?.0.parse().ok();
    }
    let list: Listed = serde_json::from_slice(&body).ok()?;
    let is_list = list.metadata.name.is_empty();
    is_list.then(|| list.metadata.version.parse().ok())?
}

/// Returns the version in a list's ListMeta, which is the list's first field
/// and begins with an empty selfLink.
fn version_of_protobuf(body: &[u8]) -> Option<u64> {
    let at = body.windows(3).position(|w| w == [0x0a, 0x00, 0x12])?;
    let length = usize::from(*body.get(at + 3)?);
    let digits = body.get(at + 4..at + 4 + length)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}
