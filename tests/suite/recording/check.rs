//! Sends random requests one after the other, and checks the outcome of each.

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::answer_changes;
use super::changes::{self, Case};
use super::exchange::Ending;
use super::generate::{self, Trial};
use super::http1_client::Http1Client;
use super::http2_client::Http2Client;
use super::ledger::Ledger;
use super::outcome::Outcome;
use super::refusal;
use super::tally::{self, Tally};
use super::worlds::World;

/// The number of resets after which a worker uses a new HTTP/2 connection. apifront
/// ends a connection after a hundred.
const RESETS: usize = 90;

/// The time within which an exchange must end. Everything runs on this machine.
const DEADLINE: Duration = Duration::from_secs(30);

pub struct Worker<'a> {
    world: &'a World,
    ledger: &'a Ledger,
    tally: &'a Tally,
    seed: u64,
    next: u64,
    http1: Option<Http1Client>,
    http2: Option<Http2Client>,
    /// The number of reset requests on that connection.
    resets: usize,
}

impl<'a> Worker<'a> {
    pub fn new(
        world: &'a World,
        ledger: &'a Ledger,
        tally: &'a Tally,
        seed: u64,
        first: u64,
    ) -> Self {
        Self {
            world,
            ledger,
            tally,
            seed,
            next: first,
            http1: None,
            http2: None,
            resets: 0,
        }
    }

    /// Sends this worker's requests: every `step`th one.
    pub async fn run(&mut self, step: u64, wanted: u64) {
        while self.next < wanted.next_multiple_of(step) && !self.tally.is_over() {
            let mut rng = StdRng::seed_from_u64(self.seed.wrapping_add(self.next));
            let trial = generate::trial(&mut rng, self.next, &self.world.traits);
            self.next += step;
            let wrong = self.try_one(&trial).await;
            if !wrong.is_empty() {
                let shown = trial.request.shown();
                let name = self.world.traits.name;
                let planned = (
                    trial.planned.status,
                    trial.planned.framing,
                    trial.planned.ending,
                );
                let fault = trial.fault.map_or("none", |fault| fault.name);
                let number = trial.request.number;
                self.tally.differs(format!(
                    "{number} in {name}: {shown}\n  fault: {fault}; planned: {planned:?}\n- {}",
                    wrong.join("\n- ")
                ));
            }
        }
    }

    async fn try_one(&mut self, trial: &Trial) -> Vec<String> {
        let request = &trial.request;
        self.ledger.plan(request.number, trial.planned.clone());
        self.tally
            .may_arrive(request, &trial.planned, trial.fault.is_some());
        let exchange = self.exchange(trial);
        let outcome = match tokio::time::timeout(DEADLINE, exchange).await {
            Ok(outcome) => outcome,
            Err(_) => {
                (self.http1, self.http2) = (None, None);
                Outcome::Silence
            }
        };
        self.judge(trial, &outcome)
    }

    async fn exchange(&mut self, trial: &Trial) -> Outcome {
        let request = &trial.request;
        if request.wire.is_http2() {
            let mut client = match self.http2.take() {
                Some(client) => client,
                None => {
                    self.tally.connected();
                    self.resets = 0;
                    self.world.http2().await
                }
            };
            let outcome = client.exchange(request).await;
            self.http2 = client.is_open.then_some(client);
            return outcome;
        }
        let mut client = match self.http1.take() {
            Some(client) => client,
            None => {
                self.tally.connected();
                self.world.http1().await
            }
        };
        let outcome = client.exchange(request).await;
        self.http1 = client.is_open.then_some(client);
        outcome
    }

    fn judge(&mut self, trial: &Trial, outcome: &Outcome) -> Vec<String> {
        if trial.fault.is_some() {
            return self.refused(trial, outcome);
        }
        let request = &trial.request;
        let traits = &self.world.traits;
        if request.body.cut.is_some() {
            self.tally.count("ended early by the client");
            self.tally.check_later(request.clone(), *traits);
            return Vec::new();
        }
        let Some(answered) = outcome.answer() else {
            let is_half = trial.planned.ending != Ending::Whole;
            // The upstream broke off, and so did apifront.
            if is_half && !matches!(outcome, Outcome::Silence) {
                self.tally.count("broken off");
                self.tally.check_later(request.clone(), *traits);
                return Vec::new();
            }
            return vec![format!("no answer: {}", outcome.shown())];
        };
        let is_broken = trial.planned.ending == Ending::Whole
            && answered.status == 503
            && String::from_utf8_lossy(&answered.content.body).contains("broke off before")
            && refusal::is_own_answer(answered, &request.method);
        if is_broken {
            self.tally.count(tally::BROKEN);
            return Vec::new();
        }
        self.tally.count("answered");
        let mut wrong = answer_changes::differences(&answer_changes::Case {
            request,
            planned: &trial.planned,
            answered,
            traits,
        });
        if trial.planned.is_early {
            self.tally.check_later(request.clone(), *traits);
            return self.with_answer(wrong, outcome);
        }
        let arrivals = self.ledger.take(request.number);
        if arrivals.is_empty() {
            wrong = vec![format!("it was refused with {}", answered.status)];
        }
        for arrived in &arrivals {
            let case = Case {
                request,
                arrived,
                traits,
            };
            wrong.extend(changes::differences(&case));
        }
        self.with_answer(wrong, outcome)
    }

    fn refused(&mut self, trial: &Trial, outcome: &Outcome) -> Vec<String> {
        let request = &trial.request;
        let mut wrong = Vec::new();
        for arrived in self.ledger.take(request.number) {
            let target = super::fields::shown(&arrived.target);
            wrong.push(format!("it arrived as {target}"));
        }
        let statuses = trial.fault.map_or(&[][..], |fault| fault.statuses);
        match outcome {
            Outcome::Reset(_) if request.wire.is_http2() => self.tally.count("reset"),
            Outcome::Answer(answered)
                if statuses.contains(&answered.status)
                    && refusal::is_own_answer(answered, &request.method) =>
            {
                self.tally.count("refused");
            }
            other => wrong.push(format!(
                "it was not refused with {statuses:?}: {}",
                other.shown()
            )),
        }
        if request.wire.is_http2() && self.http2.is_none() {
            wrong.push("the connection ended with the stream".to_owned());
        }
        self.resets += usize::from(matches!(outcome, Outcome::Reset(_)));
        if self.resets == RESETS {
            self.http2 = None;
        }
        wrong
    }

    fn with_answer(&self, mut wrong: Vec<String>, outcome: &Outcome) -> Vec<String> {
        if !wrong.is_empty() {
            wrong.push(outcome.shown());
        }
        wrong
    }
}
