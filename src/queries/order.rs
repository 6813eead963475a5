//! One order that is kept: the objects that a query selects, as of one state.

use std::mem;
use std::sync::{Arc, Weak};
use std::time::Instant;

use apifront_query::{Changed, Failed, KeptOrder, NotKept, Plan};
use apifront_shares::{Share, Shares};
use apifront_watch_cache::store::{BytesBeside, Snapshot, Store, StoredObject};
use kubernetes_wire::representation::Envelope;
use parking_lot::Mutex;

use super::object::QueriedObject;
use super::selections::Selections;

/// The most memory of one order.
const MAX_BYTES: usize = 64 << 20;

/// What an order counts as, however few objects it has.
pub(super) const LEAST_BYTES: usize = 16 << 10;

/// An order, which one request at a time uses.
pub struct Order {
    plan: Arc<Plan>,
    selections: Arc<Selections>,
    state: Mutex<State>,
    /// Who asked first.
    owner: Option<Arc<str>>,
    share: Mutex<Share<Arc<str>>>,
    used: Mutex<Instant>,
}

enum State {
    New,
    Made(Box<Made>),
    /// It cannot be kept.
    Refused,
}

struct Made {
    /// The store of the objects. The order does not keep it alive.
    store: Weak<Store>,
    envelope: Arc<Envelope>,
    snapshot: Arc<Snapshot>,
    kept: KeptOrder<QueriedObject>,
    beside: BytesBeside,
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
            state: Mutex::new(State::New),
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
            Some(until) => self.state.try_lock_until(until),
            None => Some(self.state.lock()),
        };
        let mut state = locked.ok_or(Failed::GivenUp)?;
        // Whatever fails, the order is not used again as it is.
        let before = mem::replace(&mut *state, State::Refused);
        let is_current = |made: &Made| Weak::ptr_eq(&made.store, &Arc::downgrade(wanted.store));
        let made = match before {
            State::Refused => return Err(NotKept::TooLarge),
            State::Made(made) if is_current(&made) => match self.moved(made, wanted) {
                Err(NotKept::Failed(failed)) if failed != Failed::GivenUp => self.made(wanted),
                moved => moved,
            },
            State::New | State::Made(_) => self.made(wanted),
        };
        let made = made.and_then(|made| {
            self.count(&made, make_room)?;
            Ok(made)
        });
        match made {
            Ok(mut made) => {
                made.beside.set(made.kept.held_bytes());
                let answer = read(&made.kept);
                *state = State::Made(made);
                Ok(answer)
            }
            Err(error) => {
                self.share.lock().set(0);
                if matches!(error, NotKept::Failed(_)) {
                    *state = State::New;
                }
                Err(error)
            }
        }
    }

    /// Orders all objects.
    fn made(&self, wanted: &Wanted<'_>) -> Result<Box<Made>, NotKept> {
        let Wanted {
            store, snapshot, ..
        } = wanted;
        let envelope = Arc::new(store.resource.envelope.clone());
        let objects = self.selections.objects(snapshot).into_iter();
        let objects = objects.map(|object| QueriedObject {
            object: object.clone(),
            envelope: envelope.clone(),
        });
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
    fn moved(&self, mut made: Box<Made>, wanted: &Wanted<'_>) -> Result<Box<Made>, NotKept> {
        if Arc::ptr_eq(&made.snapshot, wanted.snapshot) {
            return Ok(made);
        }
        let envelope = made.envelope.clone();
        let selected = |object: Option<Arc<StoredObject>>| {
            let object = object.filter(|object| self.selections.selects(object))?;
            let envelope = envelope.clone();
            Some(QueriedObject { object, envelope })
        };
        let changes = wanted.snapshot.difference(&made.snapshot).into_iter();
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

    /// Counts the memory as the owner's.
    fn count(&self, made: &Made, make_room: impl Fn() -> bool) -> Result<(), NotKept> {
        let bytes = made.kept.held_bytes().max(LEAST_BYTES);
        let mut share = self.share.lock();
        let Some(more) = bytes.checked_sub(share.amount()) else {
            share.set(bytes);
            return Ok(());
        };
        while share.grow(more).is_err() {
            if !make_room() {
                return Err(NotKept::TooLarge);
            }
        }
        Ok(())
    }

    /// Brings the order to the newest state of its store, so that it holds no objects
    /// that are gone. Returns `false` if the order is of no use any more.
    pub fn follow(&self, goes_on: &dyn Fn() -> bool) -> bool {
        let Some(mut state) = self.state.try_lock() else {
            return true;
        };
        let made = match mem::replace(&mut *state, State::Refused) {
            State::Made(made) => made,
            other => {
                *state = other;
                return true;
            }
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
        let moved = self.moved(made, &wanted).and_then(|mut made| {
            self.count(&made, || false)?;
            made.beside.set(made.kept.held_bytes());
            Ok(made)
        });
        match moved {
            Ok(made) => {
                *state = State::Made(made);
                true
            }
            Err(_) => {
                self.share.lock().set(0);
                false
            }
        }
    }
}
