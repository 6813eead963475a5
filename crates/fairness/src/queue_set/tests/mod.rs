//! Tests of one set of queues, without lock, task or real time.

mod order;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::sync::Notify;

use super::QueueSet;
use super::config::{Dispatching, Queuing};
use crate::classification::Classification;
use crate::clock::Time;
use crate::level::{Level, Surroundings};
use crate::objects::{FlowSchema, Metadata};
use crate::schema::Schema;
use crate::shuffle_sharding::Dealer;
use crate::tests::support::{TestClock, info, user};

fn queues(queues: usize, hand_size: usize, length_limit: usize) -> Queuing {
    Queuing::Queues {
        queues,
        hand_size,
        length_limit,
        dealer: Dealer::new(queues, hand_size).unwrap(),
    }
}

fn seats(limit: usize) -> Dispatching {
    Dispatching {
        limit,
        denominator: limit,
    }
}

fn set(queuing: Queuing, limit: usize) -> QueueSet {
    let mut set = QueueSet::new(Time(0));
    set.configure(Time(0), queuing, seats(limit));
    set
}

/// A request of a flow with this hash.
fn of_flow(flow: u64) -> Classification {
    let surroundings = Arc::new(Surroundings {
        clock: Arc::new(TestClock::default()),
        wake: Notify::new(),
        reap: AtomicBool::new(false),
    });
    let object = FlowSchema {
        metadata: Metadata {
            name: "schema".to_owned(),
            uid: "uid".to_owned(),
        },
        ..FlowSchema::default()
    };
    let level = Level::new("level", &surroundings);
    let schema = Arc::new(Schema::new(&object, level, "level-uid", false));
    let info = info("GET", "/api/v1/pods");
    Classification {
        flow,
        ..Classification::new(&schema, &info, &user("somebody", &[]))
    }
}
