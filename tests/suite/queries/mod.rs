//! The API group of queries, which apifront answers itself: `queries` in the
//! configuration.

mod answers;
mod audited;
mod cel;
mod discovery;
mod live;
mod network_texts;
mod others;
mod page;
mod plugin;
mod random_expressions;
mod random_libraries;
mod random_networks;
mod random_rights;
mod refusals;
mod rights;
mod tables;

use serde_json::{Value, json};

use crate::harness::apifront::Apifront;
use crate::harness::cluster::{Cluster, Once, once};

const GROUP: &str = "query.apifront.dev";
const VERSION: &str = "query.apifront.dev/v1alpha1";

pub const QUERIES: &str = "/apis/query.apifront.dev/v1alpha1/queries";

pub fn query(spec: &Value) -> Value {
    json!({ "apiVersion": VERSION, "kind": "Query", "spec": spec })
}

fn enable(config: &mut Value) {
    config["queries"] = json!({ "enabled": true });
}

/// Returns an instance before the shared cluster that answers queries. Tests that
/// write ask this one, as the quiet cluster is read-only.
fn shared_front() -> &'static Apifront {
    static FRONT: Once<Apifront> = Once::new();
    once(&FRONT, || Apifront::start(Cluster::shared(), enable))
}

/// Returns an instance before the quiet cluster that answers queries.
fn front() -> &'static Apifront {
    static FRONT: Once<Apifront> = Once::new();
    once(&FRONT, || Apifront::start(Cluster::quiet(), enable))
}
