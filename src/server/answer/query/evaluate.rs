//! Evaluates a query.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use apifront_query::{Answer, Failed, NotKept, Plan};
use kubernetes_wire::api::{Reason, Status};
use kubernetes_wire::request::Deadline;

use super::Unanswered;
use crate::queries::{self, Shown};
use crate::server::answer::cached::Selected;
use crate::server::offload::{OffloadRefusal, OffloadUser};
use crate::server::stage::Identified;

/// The longest time for an evaluation if the request names none.
const EVALUATED_WITHIN: Duration = Duration::from_secs(60);

/// A query about fewer objects is evaluated at once. No order is kept for it.
const LEAST_ORDERED: usize = 100;

/// Evaluates a plan on a thread that serves no other request, until nobody waits any
/// more.
pub(super) async fn evaluate(
    plan: &Arc<Plan>,
    shown: &Arc<Shown>,
    selected: &Arc<Selected>,
    identified: &Identified,
    by: OffloadUser<'_>,
) -> Result<Answer, Unanswered> {
    let within = match identified.deadline() {
        Deadline::Within(within) => within,
        _ => EVALUATED_WITHIN,
    };
    let until = identified.started().checked_add(within);
    let waits = Arc::new(AtomicBool::new(true));
    let waiter = Waiter(waits.clone());
    let orders = identified.generation().query_orders.clone();
    let user = identified.user().map(|user| user.name.clone());
    let (plan, shown, selected) = (plan.clone(), shown.clone(), selected.clone());
    let work = move || {
        let goes_on =
            || waits.load(Ordering::Relaxed) && until.is_none_or(|until| Instant::now() < until);
        let Selected {
            store, snapshot, ..
        } = &*selected;
        let asked = queries::Asked {
            plan: &plan,
            selections: &selected.selections,
            user: user.as_deref(),
        };
        let wanted = queries::Wanted {
            store,
            snapshot,
            until,
            goes_on: &goes_on,
        };
        let kept = match is_small(&selected) {
            true => Err(NotKept::TooLarge),
            false => orders.read(&asked, &wanted, |order| order.answer(&plan)),
        };
        let mut answered = match kept {
            Ok(answered) => answered?,
            Err(NotKept::Failed(failed)) => return Err(failed),
            Err(NotKept::TooLarge | NotKept::OfLater) => plain(&plan, &selected, goes_on)?,
        };
        shown.complete(&mut answered, snapshot)?;
        Ok(answered)
    };
    let done = by.run(work).await.map_err(OffloadRefusal::from)?;
    drop(waiter);
    let Some(answered) = done else {
        return Err(Status::internal_error("the query could not be evaluated").into());
    };
    Ok(answered.map_err(status_of)?)
}

/// Tells whether the lists have few objects.
fn is_small(selected: &Selected) -> bool {
    let lists = selected.selections.key.lists.iter();
    let objects = lists.map(|(namespace, _)| match namespace.as_str() {
        "" => selected.snapshot.len(),
        namespace => selected.store.count_about(&selected.snapshot, namespace),
    });
    objects.sum::<usize>() < LEAST_ORDERED
}

/// Evaluates a plan without an order that is kept.
fn plain(plan: &Plan, selected: &Selected, goes_on: impl Fn() -> bool) -> Result<Answer, Failed> {
    let envelope = Arc::new(selected.store.resource.envelope.clone());
    let objects = selected.selections.objects(&selected.snapshot, &envelope);
    apifront_query::answer(plan, objects, goes_on)
}

pub(super) fn status_of(failed: Failed) -> Status {
    match failed {
        Failed::GivenUp => Status::failure(504, Reason::Timeout, failed.to_string()),
        failed => Status::bad_request(failed.to_string()),
    }
}

/// Tells the evaluation when nobody waits for it any more.
struct Waiter(Arc<AtomicBool>);

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
