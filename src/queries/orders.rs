//! The orders that are kept, so that a query that is asked again is not evaluated again.
//!
//! An order belongs to the user who asked first, and counts against what this user may
//! have. Others who see the same objects use it, too.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use apifront_query::{KeptOrder, NotKept, Plan};
use apifront_shares::{Limits, Shares};
use parking_lot::Mutex;
use prometheus::{IntGauge, Registry};

use super::object::QueriedObject;
use super::order::{Order, Wanted};
use super::selections::{Selections, SelectionsKey};

/// The most memory of all orders. One user has at most half of it.
const MAX_BYTES: usize = 256 << 20;

/// An order that nobody asked for within this time is dropped.
const UNUSED: Duration = Duration::from_secs(60);

pub struct KeptOrders {
    orders: Mutex<HashMap<Key, Arc<Order>>>,
    shares: Shares<Arc<str>>,
    kept: IntGauge,
    bytes: IntGauge,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    selections: SelectionsKey,
    /// That of the plan.
    identity: Box<str>,
}

/// A query, and who asks it.
pub struct Asked<'a> {
    pub plan: &'a Arc<Plan>,
    pub selections: &'a Arc<Selections>,
    pub user: Option<&'a str>,
}

impl KeptOrders {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        Self::within(MAX_BYTES, registry)
    }

    fn within(max_bytes: usize, registry: &Registry) -> prometheus::Result<Self> {
        let kept = IntGauge::new(
            "apifront_query_orders",
            "Orders of objects that are kept for queries that are asked again.",
        )?;
        registry.register(Box::new(kept.clone()))?;
        let bytes = IntGauge::new(
            "apifront_query_orders_bytes",
            "Memory of the orders that are kept for queries.",
        )?;
        registry.register(Box::new(bytes.clone()))?;
        Ok(Self {
            orders: Mutex::default(),
            shares: Shares::new(Limits::shared(max_bytes)),
            kept,
            bytes,
        })
    }

    /// Reads the order of a query. If it is not kept, it is made, which takes as long as
    /// an evaluation.
    pub fn read<T>(
        &self,
        asked: &Asked<'_>,
        wanted: &Wanted<'_>,
        read: impl FnOnce(&KeptOrder<QueriedObject>) -> T,
    ) -> Result<T, NotKept> {
        let order = self.hold(asked);
        let read = order.read(wanted, || self.drop_oldest_of(order.owner()), read);
        if !matches!(read, Ok(_) | Err(NotKept::OfLater)) {
            self.forget(&order);
        }
        read
    }

    /// Returns the order of a query. It is not dropped while it is held, but it may not
    /// be made yet.
    pub fn hold(&self, asked: &Asked<'_>) -> Arc<Order> {
        let key = Key {
            selections: asked.selections.key.clone(),
            identity: asked.plan.identity().into(),
        };
        let mut orders = self.orders.lock();
        if let Some(order) = orders.get(&key) {
            return order.clone();
        }
        let owner = asked.user.map(Arc::from);
        let order = Order::new(
            asked.plan.clone(),
            asked.selections.clone(),
            &self.shares,
            owner,
        );
        let order = Arc::new(order);
        orders.insert(key, order.clone());
        order
    }

    /// Drops the order that its owner has not used for the longest time. Returns `false`
    /// if there is none that nobody holds.
    fn drop_oldest_of(&self, owner: Option<&Arc<str>>) -> bool {
        let mut orders = self.orders.lock();
        let own = orders.iter();
        let own = own.filter(|(_, order)| order.owner() == owner && is_free(order));
        let oldest = own.min_by_key(|(_, order)| order.used());
        let key = oldest.map(|(key, _)| key.clone());
        let dropped = key.and_then(|key| orders.remove(&key));
        // It may be large.
        drop(orders);
        dropped.is_some()
    }

    /// Drops the orders that nobody asked for lately, or all that nobody holds. Returns
    /// the others.
    pub fn drop_unused(&self, has_memory: bool) -> Vec<Arc<Order>> {
        let mut dropped = Vec::new();
        let mut orders = self.orders.lock();
        orders.retain(|_, order| {
            let is_kept = !is_free(order) || (has_memory && order.used().elapsed() < UNUSED);
            if !is_kept {
                dropped.push(order.clone());
            }
            is_kept
        });
        let kept = orders.values().cloned().collect();
        drop(orders);
        drop(dropped);
        self.show();
        kept
    }

    /// Drops an order that is of no use any more.
    pub fn forget(&self, useless: &Arc<Order>) {
        let mut orders = self.orders.lock();
        orders.retain(|_, order| !Arc::ptr_eq(order, useless));
    }

    /// Returns the number of orders, and their memory in bytes.
    pub fn held(&self) -> (usize, usize) {
        (self.orders.lock().len(), self.shares.held())
    }

    /// Shows what is kept in the metrics.
    fn show(&self) {
        let (orders, bytes) = self.held();
        self.kept.set(i64::try_from(orders).unwrap_or(i64::MAX));
        self.bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
}

/// Tells whether nobody holds the order.
fn is_free(order: &Arc<Order>) -> bool {
    Arc::strong_count(order) == 1
}

#[cfg(test)]
mod tests;
