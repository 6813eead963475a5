//! Tests the path matrix: for every path, query and representation, apifront with a
//! warm cache shows exactly what kube-apiserver shows. Statuses must be equal and,
//! after a success, the sets of objects.
//!
//! All short paths are requested, and longer ones at random. `APIFRONT_TEST_SEED`
//! replays a run and `APIFRONT_TEST_COMPARISONS` lengthens it. The outcome of a
//! question does not depend on other questions.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt;
use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use tokio::sync::Semaphore;

use super::question::{self, Question};
use super::shown::Shown;
use super::tenants::{Tenant, Tenants};
use crate::harness::client::{Answer, Client};
use crate::harness::volume;

const COMPARISONS: &str = "APIFRONT_TEST_COMPARISONS";
const DEFAULT_COMPARISONS: usize = 20_000;
/// Reads and watches have separate limits: watches last a second, and would take the
/// places of requests that end at once.
const READS_AT_ONCE: usize = 64;
const WATCHES_AT_ONCE: usize = 128;
/// The questions of one tenant at a time. apifront asks for few rights of one user at a
/// time while the API server is slow, and a right that is not known in time is a 503.
const OF_ONE_TENANT: usize = 8;
/// The number of tries before a difference counts. A busy machine may end a watch
/// before its first event.
const TRIES: u32 = 5;
const BETWEEN_TRIES: Duration = Duration::from_millis(200);
const SHOWN_DIFFERENCES: usize = 40;
/// The run stops after this many differences, which suffice for an investigation.
const MOST_DIFFERENCES: usize = 2_000;

#[derive(Default)]
struct Tally {
    /// The number of answers of each status to each tenant.
    statuses: BTreeMap<(Tenant, u16), usize>,
    hits: BTreeMap<Tenant, usize>,
    again: usize,
    differences: Vec<(Question, String)>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_path_shows_every_user_what_kube_apiserver_shows() {
    skip_under_oracle!("kube-apiserver is what every answer is compared with");
    let seed = volume::seed("matrix");
    let wanted = volume::work(COMPARISONS, DEFAULT_COMPARISONS);
    let questions = questions(seed, wanted);
    let tenants = Tenants::start().await;
    let started = Instant::now();
    let (watches, reads): (Vec<_>, Vec<_>) = questions
        .into_iter()
        .partition(|q| q.query.contains("timeoutSeconds"));
    let tally = Mutex::new(Tally::default());
    let number = AtomicUsize::new(0);
    let turns = Tenant::ALL.map(|tenant| (tenant, Semaphore::new(OF_ONE_TENANT)));
    let turns = BTreeMap::from(turns);
    let ask = |question: Question| async {
        let _turn = turns[&question.tenant].acquire().await.expect("open");
        if tally.lock().differences.len() < MOST_DIFFERENCES {
            compare(
                &tenants,
                question,
                number.fetch_add(1, Ordering::Relaxed),
                &tally,
            )
            .await;
        }
    };
    let asked = watches.len() + reads.len();
    let watching = futures::stream::iter(watches).for_each_concurrent(WATCHES_AT_ONCE, ask);
    let reading = futures::stream::iter(reads).for_each_concurrent(READS_AT_ONCE, ask);
    tokio::join!(watching, reading);
    println!(
        "matrix: {} of {asked} questions in {:.1?}",
        number.load(Ordering::Relaxed),
        started.elapsed()
    );
    finish(&tally.into_inner());
    tenants.stop().await;
}

/// Tells whether a path of the vocabulary is apifront's own: its status page, and
/// the state of its own flow control.
fn is_own(question: &Question) -> bool {
    let path = percent_encoding::percent_decode_str(&question.path).decode_utf8_lossy();
    path == "/status" || path.starts_with("/debug/api_priority_and_fairness/")
}

/// Returns distinct questions, in an order that does not depend on their paths.
fn questions(seed: u64, wanted: usize) -> Vec<Question> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut seen: HashSet<Question> = question::exhaustive().into_iter().collect();
    let mut questions = question::exhaustive();
    questions.retain(|question| !is_own(question));
    while questions.len() < wanted {
        let question = question::random(&mut rng);
        if !is_own(&question) && seen.insert(question.clone()) {
            questions.push(question);
        }
    }
    questions.shuffle(&mut rng);
    questions
}

async fn compare(tenants: &Tenants, question: Question, number: usize, tally: &Mutex<Tally>) {
    let (direct, front) = tenants.clients(question.tenant, number);
    let mut difference = String::new();
    for attempt in 0..TRIES {
        if attempt > 0 {
            crate::harness::pace::of_tries(BETWEEN_TRIES * attempt).await;
        }
        let (right, found) = tokio::join!(ask(direct, &question), ask(front, &question));
        difference = different(right.as_ref().ok(), found.as_ref().ok());
        for (sign, answer) in [('-', &right), ('+', &found)] {
            if let (Err(error), false) = (answer, difference.is_empty()) {
                let _ = writeln!(difference, "  {sign} {error:#}");
            }
        }
        if difference.is_empty() || attempt + 1 == TRIES {
            let mut tally = tally.lock();
            let status = right.map_or(400, |answer| answer.status.as_u16());
            *tally.statuses.entry((question.tenant, status)).or_default() += 1;
            let hit = found.is_ok_and(|answer| answer.is_hit());
            *tally.hits.entry(question.tenant).or_default() += usize::from(hit);
            tally.again += usize::from(attempt > 0);
            break;
        }
    }
    if !difference.is_empty() {
        tally.lock().differences.push((question, difference));
    }
}

/// The number of consecutive tries for a question whose connection ends.
const ENDED_CONNECTIONS: usize = 10;

async fn ask(client: &Client, question: &Question) -> anyhow::Result<Answer> {
    let headers = [("accept", question.accept), ("x-apifront-debug", "cache")];
    let target = question.target();
    let mut answer = Err(anyhow::anyhow!("not asked"));
    // Both servers close connections of unauthenticated callers. Requests in
    // progress are then repeated, as clients do.
    for _ in 0..ENDED_CONNECTIONS {
        let method = question.method.clone();
        answer = client.try_send(method, &target, &headers, "").await;
        if answer.is_ok() {
            break;
        }
    }
    answer
}

/// Returns an empty text if both answers show the same.
fn different(right: Option<&Answer>, found: Option<&Answer>) -> String {
    if let (Some(right), Some(found)) = (right, found)
        && (right.status, &right.body) == (found.status, &found.body)
    {
        return String::new();
    }
    let hit = found.is_some_and(Answer::is_hit);
    let (right, found) = (Shown::from_answer(right), Shown::from_answer(found));
    let mut text = String::new();
    if right.status != found.status {
        let (right, found) = (right.status, found.status);
        let _ = writeln!(text, "  status: - {right} + {found}");
    }
    if right.objects != found.objects {
        for (sign, some, others) in [
            ('-', &right.objects, &found.objects),
            ('+', &found.objects, &right.objects),
        ] {
            for object in some.difference(others).take(4) {
                let _ = writeln!(text, "  {sign} {object:.200}");
            }
            let _ = writeln!(text, "  {sign} {} in all", some.len());
        }
    }
    if !text.is_empty() {
        let _ = writeln!(text, "  from the cache: {hit}");
    }
    text
}

fn finish(tally: &Tally) {
    for tenant in Tenant::ALL {
        let of_tenant = tally.statuses.iter().filter(|((t, _), _)| *t == tenant);
        let statuses: Vec<String> = of_tenant
            .map(|((_, status), count)| format!("{status}: {count}"))
            .collect();
        let hits = tally.hits.get(&tenant).copied().unwrap_or_default();
        println!("{tenant:?}: {hits} from the cache; {}", statuses.join(", "));
    }
    println!("{} were asked again", tally.again);
    let mut shortest: Vec<&(Question, String)> = tally.differences.iter().collect();
    shortest.sort_by_key(|(question, _)| (question.target().len(), question.tenant));
    let text: String = (shortest.iter().take(SHOWN_DIFFERENCES))
        .map(|(question, difference)| format!("{question}\n{difference}"))
        .collect();
    assert!(
        shortest.is_empty(),
        "{} answers differ (- kube-apiserver, + apifront), the shortest:\n{text}",
        shortest.len(),
    );
    for tenant in Tenant::ALL {
        let hits = tally.hits.get(&tenant).copied().unwrap_or_default();
        let answered = tally.statuses.get(&(tenant, 200)).copied();
        match tenant.least_hits(answered.unwrap_or_default()) {
            Some(least) => assert!(hits >= least, "only {hits} hits of {tenant:?}"),
            None => assert_eq!(hits, 0, "{tenant:?} may read nothing"),
        }
    }
}
