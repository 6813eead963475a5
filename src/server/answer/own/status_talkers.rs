//! The top talkers of the status page. Their names belong to callers or come from
//! them, so they need a grant.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::Serialize;

use crate::server::stage::Granted;
use crate::status::talkers::{MAX_ENTRIES, MAX_NAME_BYTES, Measure, Rankings, Top};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TopTalkers {
    /// How long requests were counted.
    seconds: f64,
    max_entries: usize,
    max_name_bytes: usize,
    users: RankingReports,
    user_agents: RankingReports,
}

/// The rankings by the names of their measures.
type RankingReports = BTreeMap<&'static str, RankingReport>;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RankingReport {
    total: u64,
    /// The highest count that a name can have that is not among the entries.
    max_unlisted: u64,
    entries: Vec<Talker>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Talker {
    name: String,
    /// The true count is at most this, and at least this minus `maxError`.
    count: u64,
    max_error: u64,
}

pub(super) fn top_talkers(granted: &Granted, now: Instant) -> TopTalkers {
    let talkers = &granted.generation().talkers;
    TopTalkers {
        seconds: talkers.span(now).as_secs_f64(),
        max_entries: MAX_ENTRIES,
        max_name_bytes: MAX_NAME_BYTES,
        users: talkers.users(rankings),
        user_agents: talkers.agents(rankings),
    }
}

fn rankings(rankings: &Rankings) -> RankingReports {
    let name = |measure| match measure {
        Measure::Requests => "requests",
        Measure::BytesSent => "bytesSent",
        Measure::WatchesOpened => "watchesOpened",
        Measure::AnswersFromCache => "answersFromCache",
        Measure::BytesFromCache => "bytesFromCache",
    };
    let rankings = rankings.by_measure();
    rankings.map(|(m, top)| (name(m), ranking(&top))).collect()
}

fn ranking(top: &Top<'_>) -> RankingReport {
    let entries = top.entries.iter().map(|entry| Talker {
        name: entry.name.to_owned(),
        count: entry.count,
        max_error: entry.error,
    });
    RankingReport {
        total: top.total,
        max_unlisted: top.most_unlisted,
        entries: entries.collect(),
    }
}
