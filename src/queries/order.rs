//! One order that is kept: the objects that a query selects, as of one state.

use std::sync::{Arc, Weak};
use std::time::Instant;

use apifront_query::{Changed, Failed, KeptOrder, NotKept, Plan};
use apifront_shares::{Share, Shares};
use apifront_watch_cache::store::{BytesBeside, Differing, Snapshot, Store, StoredObject};
use kubernetes_wire::representation::Envelope;
use parking_lot::Mutex;

use super::object::QueriedObject;
use super::selections::Selections;

/// The most memory of one order.
const MAX_BYTES: usize = 64 << 20;

/// The most objects that may have changed since an earlier state, for which the order
/// goes back to it. Whoever asks next waits until it is of the newest state again.
const MAX_STEPS_BACK: usize = 1_000;

/// What an order counts as, however few objects it has: each is followed.
pub(super) const LEAST_BYTES: usize = 256 << 10;

/// An order, which one request at a time uses.
pub struct Order {
    plan: Arc<Plan>,
    selections: Arc<Selections>,
    /// `None` until it is asked for, and after it failed.
    made: Mutex<Option<Box<Made>>>,
    /// Who asked first.
    owner: Option<Arc<str>>,
    share: Mutex<Share<Arc<str>>>,
    used: Mutex<Instant>,
}

struct Made {
    /// The store of the objects. The order does not keep it alive.
    store: Weak<Store>,
    envelope: Arc<Envelope>,
    snapshot: Arc<Snapshot>,
    kept: KeptOrder<QueriedObject>,
    beside: BytesBeside,
}

impl Made {
    fn is_of(&self, store: &Arc<Store>) -> bool {
        Weak::ptr_eq(&self.store, &Arc::downgrade(store))
    }

    fn is_later_than(&self, snapshot: &Snapshot) -> bool {
        self.snapshot.resource_version > snapshot.resource_version
    }
}

/// The state that an order is wanted of, and who waits for it.
pub struct Wanted<'a> {
    pub store: &'a Arc<Store>,
    pub snapshot: &'a Arc<Snapshot>,
    pub until: Option<Instant>,
    pub goes_on: &'a dyn Fn() -> bool,
}

impl Order {
    pub(super) fn new(
        plan: Arc<Plan>,
        selections: Arc<Selections>,
        shares: &Shares<Arc<str>>,
        owner: Option<Arc<str>>,
    ) -> Self {
        Self {
            plan,
            selections,
            made: Mutex::default(),
            share: Mutex::new(shares.nothing(owner.clone())),
            owner,
            used: Mutex::new(Instant::now()),
        }
    }

    pub(super) fn used(&self) -> Instant {
        *self.used.lock()
    }

    pub(super) fn owner(&self) -> Option<&Arc<str>> {
        self.owner.as_ref()
    }

    /// Brings the order to a state, and reads it. `make_room` frees memory of the same
    /// owner, and tells whether it did.
    pub(super) fn read<T>(
        &self,
        wanted: &Wanted<'_>,
        make_room: impl Fn() -> bool,
        read: impl FnOnce(&KeptOrder<QueriedObject>) -> T,
    ) -> Result<T, NotKept> {
        *self.used.lock() = Instant::now();
        let locked = match wanted.until {
            Some(until) => self.made.try_lock_until(until),
            None => Some(self.made.lock()),
        };
        let mut slot = locked.ok_or(Failed::GivenUp)?;
        let made = slot.as_ref().filter(|made| made.is_of(wanted.store));
        let difference = made.map(|made| wanted.snapshot.difference(&made.snapshot));
        if made.is_some_and(|made| made.is_later_than(wanted.snapshot))
            && difference.as_ref().map_or(0, Vec::len) > MAX_STEPS_BACK
        {
            return Err(NotKept::OfLater);
        }
        // Whatever fails, the order is not used again as it is.
        let made = match (slot.take(), difference) {
            (Some(made), Some(difference)) => match self.moved(made, difference, wanted) {
                Err(NotKept::Failed(failed)) if failed != Failed::GivenUp => self.make(wanted),
                moved => moved,
            },
            _ => self.make(wanted),
        };
        let mut made = made.inspect_err(|_| self.share.lock().set(0))?;
        self.count(&mut made, make_room)?;
        let answer = read(&made.kept);
        *slot = Some(made);
        Ok(answer)
    }

    /// Orders all objects.
    fn make(&self, wanted: &Wanted<'_>) -> Result<Box<Made>, NotKept> {
        let Wanted {
            store, snapshot, ..
        } = wanted;
        let envelope = Arc::new(store.resource.envelope.clone());
        let objects = self.selections.objects(snapshot, &envelope);
        let kept = KeptOrder::new(self.plan.clone(), objects, MAX_BYTES, wanted.goes_on)?;
        Ok(Box::new(Made {
            store: Arc::downgrade(store),
            envelope,
            snapshot: (*snapshot).clone(),
            kept,
            beside: store.beside(),
        }))
    }

    /// Takes over what differs between the order's state and the wanted one.
    fn moved(
        &self,
        mut made: Box<Made>,
        difference: Vec<Differing>,
        wanted: &Wanted<'_>,
    ) -> Result<Box<Made>, NotKept> {
        let envelope = made.envelope.clone();
        let selected = |object: Option<Arc<StoredObject>>| {
            let object = object.filter(|object| self.selections.selects(object))?;
            let envelope = envelope.clone();
            Some(QueriedObject { object, envelope })
        };
        let changes = difference.into_iter();
        let changes = changes.map(|differing| Changed {
            before: selected(differing.before),
            after: selected(differing.after),
        });
        made.kept.change(changes, wanted.goes_on)?;
        made.snapshot = wanted.snapshot.clone();
        if made.kept.held_bytes() > MAX_BYTES {
            return Err(NotKept::TooLarge);
        }
        Ok(made)
    }

    /// Counts the memory as the owner's, and as that of the objects' store.
    fn count(&self, made: &mut Made, make_room: impl Fn() -> bool) -> Result<(), NotKept> {
        let bytes = made.kept.held_bytes().saturating_add(self.plan.memory());
        made.beside.set(bytes);
        let bytes = bytes.max(LEAST_BYTES);
        let mut share = self.share.lock();
        let Some(more) = bytes.checked_sub(share.amount()) else {
            share.set(bytes);
            return Ok(());
        };
        while share.grow(more).is_err() {
            if !make_room() {
                share.set(0);
                return Err(NotKept::TooLarge);
            }
        }
        Ok(())
    }

    /// Brings the order to the newest state of its store, so that it holds no objects
    /// that are gone. Returns `false` if the order is of no use any more.
    pub fn follow(&self, goes_on: &dyn Fn() -> bool) -> bool {
        // Whoever reads it brings it to a state, too.
        let Some(mut slot) = self.made.try_lock() else {
            return true;
        };
        let Some(made) = slot.take() else {
            return true;
        };
        let Some(store) = made.store.upgrade() else {
            return false;
        };
        let snapshot = store.snapshot();
        let wanted = Wanted {
            store: &store,
            snapshot: &snapshot,
            until: None,
            goes_on,
        };
        let difference = snapshot.difference(&made.snapshot);
        let moved = self.moved(made, difference, &wanted);
        let moved = moved.inspect_err(|_| self.share.lock().set(0));
        *slot = moved
            .and_then(|mut made| self.count(&mut made, || false).map(|()| made))
            .ok();
        slot.is_some()
    }
}
