//! Limits that follow demand, compared with figures of k8s.io/apiserver v0.37.1
//! with its default objects and 600 seats.

use std::collections::BTreeMap;
use std::time::Duration;

use super::support::engine;
use crate::Fairness;

/// Each level's limit, its highest demand and its smoothed demand.
type Figures = [(&'static str, usize, usize, f64); 8];

/// The figures after the start and after the periods 1, 2, 3, 4 and 6.
const PERIODS: [Figures; 6] = [
    [
        ("catch-all", 30, 0, 0.0),
        ("exempt", 0, 0, 0.0),
        ("global-default", 56, 0, 0.0),
        ("leader-election", 58, 0, 0.0),
        ("node-high", 170, 0, 0.0),
        ("system", 117, 0, 0.0),
        ("workload-high", 114, 0, 0.0),
        ("workload-low", 56, 0, 0.0),
    ],
    [
        ("catch-all", 13, 0, 0.0),
        ("exempt", 7, 7, 6.22928563989645),
        ("global-default", 49, 60, 60.0),
        ("leader-election", 25, 0, 0.0),
        ("node-high", 73, 0, 0.0),
        ("system", 50, 10, 12.0),
        ("workload-high", 49, 0, 0.0),
        ("workload-low", 343, 700, 756.1552812808831),
    ],
    [
        ("catch-all", 13, 200, 200.0),
        ("exempt", 0, 0, 6.086012070178831),
        ("global-default", 49, 200, 200.0),
        ("leader-election", 25, 200, 200.0),
        ("node-high", 98, 200, 200.0),
        ("system", 74, 200, 200.0),
        ("workload-high", 98, 200, 200.0),
        ("workload-low", 245, 700, 743.3637098114227),
    ],
    [
        ("catch-all", 13, 200, 200.0),
        ("exempt", 300, 300, 300.0),
        ("global-default", 28, 200, 200.0),
        ("leader-election", 25, 200, 200.0),
        ("node-high", 77, 200, 200.0),
        ("system", 54, 200, 200.0),
        ("workload-high", 56, 200, 200.0),
        ("workload-low", 50, 200, 730.86634448576),
    ],
    [
        ("catch-all", 13, 200, 200.0),
        ("exempt", 500, 500, 500.0),
        ("global-default", 24, 200, 200.0),
        ("leader-election", 25, 200, 200.0),
        ("node-high", 73, 200, 200.0),
        ("system", 50, 200, 200.0),
        ("workload-high", 49, 200, 200.0),
        ("workload-low", 24, 200, 718.6564185625875),
    ],
    [
        ("catch-all", 62, 0, 190.9058),
        ("exempt", 0, 0, 477.2645),
        ("global-default", 62, 0, 190.9058),
        ("leader-election", 62, 0, 190.9058),
        ("node-high", 73, 0, 190.9058),
        ("system", 62, 0, 190.9058),
        ("workload-high", 62, 0, 190.9058),
        ("workload-low", 221, 0, 685.978392554128),
    ],
];

#[test]
fn limits_follow_demand_as_in_kube_apiserver() {
    let (fairness, clock, _registry) = engine(600);
    let names = PERIODS[0].map(|(name, ..)| name);
    let want = |name: &str, seats: f64| {
        let controller = fairness.controller.lock();
        let level = &controller.levels()[name].level;
        level.change(|set, now| set.set_demand(now, seats));
    };
    let pass = |seconds| clock.pass(Duration::from_secs(seconds));
    expect(&fairness, 0);
    pass(1);
    want("workload-low", 500.0);
    want("system", 10.0);
    want("exempt", 7.0);
    pass(4);
    want("exempt", 0.0);
    want("workload-low", 700.0);
    want("global-default", 60.0);
    pass(5);
    fairness.adjust();
    expect(&fairness, 1);
    // All levels want more than there is.
    for name in names.iter().filter(|name| **name != "exempt") {
        want(name, 200.0);
    }
    pass(10);
    fairness.adjust();
    expect(&fairness, 2);
    // Exempt requests take some of the seats, and then nearly all.
    want("exempt", 300.0);
    pass(10);
    fairness.adjust();
    expect(&fairness, 3);
    want("exempt", 500.0);
    pass(10);
    fairness.adjust();
    expect(&fairness, 4);
    names.iter().for_each(|name| want(name, 0.0));
    for _ in 0..2 {
        pass(10);
        fairness.adjust();
    }
    expect(&fairness, 5);
}

fn expect(fairness: &Fairness, period: usize) {
    let controller = fairness.controller.lock();
    for (name, limit, highest, smoothed) in PERIODS[period] {
        let state = &controller.levels()[name];
        let found = (state.current, state.demand.high_watermark);
        assert_eq!(found, (limit, highest), "{name} after period {period}");
        let close = (state.demand.smoothed - smoothed).abs() < 1e-6;
        assert!(close, "{name}: {:?}", state.demand);
    }
}

#[test]
fn the_most_seats_of_a_request_depend_on_its_level() {
    let (fairness, ..) = engine(600);
    let found: BTreeMap<String, Option<u64>> = fairness
        .controller
        .lock()
        .levels()
        .iter()
        .map(|(name, state)| (name.clone(), state.level.max_seats()))
        .collect();
    let expected = [
        ("catch-all", None),
        ("exempt", None),
        ("global-default", Some(8)),
        ("leader-election", Some(4)),
        ("node-high", Some(15)),
        ("system", Some(12)),
        ("workload-high", Some(15)),
        ("workload-low", Some(37)),
    ];
    let expected = expected.map(|(name, most)| (name.to_owned(), most));
    assert_eq!(found, BTreeMap::from(expected));
}
