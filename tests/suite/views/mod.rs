//! Views: lists and watches over all namespaces for callers who may read only some
//! of them, before a real kube-apiserver with RBAC.

mod informer;
mod lists;
mod names;
mod outage;
mod refusals;
mod tenants;
mod told;
mod watches;
mod websocket;
pub mod world;
