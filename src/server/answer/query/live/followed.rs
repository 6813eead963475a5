//! The objects that a live answer is about.

use std::sync::Arc;
use std::time::{Duration, Instant};

use apifront_query::{KeptOrder, NotKept, Plan};
use apifront_watch_cache::store::{Snapshot, Store};

use crate::queries::{Asked, QueriedObject, Selections, Wanted};
use crate::server::state::process_state::ProcessState;

/// The longest time for which one update may be evaluated. The next one tries again.
const UPDATED_WITHIN: Duration = Duration::from_secs(10);

/// It holds no state of the objects.
#[derive(Clone)]
pub(super) struct Followed {
    pub(super) store: Arc<Store>,
    pub(super) selections: Arc<Selections>,
}

impl Followed {
    pub(super) fn asked<'a>(&'a self, plan: &'a Arc<Plan>, user: Option<&'a str>) -> Asked<'a> {
        Asked {
            plan,
            selections: &self.selections,
            user,
        }
    }

    pub(super) fn read_order<T>(
        &self,
        process: &ProcessState,
        asked: &Asked<'_>,
        snapshot: &Arc<Snapshot>,
        read: impl FnOnce(&KeptOrder<QueriedObject>) -> T,
    ) -> Result<T, NotKept> {
        let began = Instant::now();
        let wanted = Wanted {
            store: &self.store,
            snapshot,
            until: began.checked_add(UPDATED_WITHIN),
            goes_on: &|| began.elapsed() < UPDATED_WITHIN,
        };
        process.query_orders.read(asked, &wanted, read)
    }
}
