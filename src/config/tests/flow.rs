//! The limits of requests in flight.

use super::*;

#[test]
fn there_are_seats_to_share() {
    let none = [
        "--max-requests-inflight=0",
        "--max-mutating-requests-inflight=0",
    ];
    let errors = load_text(MINIMAL, &none).unwrap_err();
    assert_eq!(
        errors,
        [
            "--max-requests-inflight: \"0\": must not be 0 together with \
             maxMutatingRequestsInflight while flow.enablePriorityAndFairness is true"
        ]
    );
    let without = [none[0], none[1], "--enable-priority-and-fairness=false"];
    let config = load_text(MINIMAL, &without).unwrap();
    assert!(!config.flow.enable_priority_and_fairness);
    assert_eq!(config.cache.pinned.len(), 1);
    let config = load_text(MINIMAL, &none[..1]).unwrap();
    assert_eq!(config.flow.in_flight.total_seats(), 200);
    let pinned: Vec<_> = config
        .cache
        .pinned
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        pinned,
        [
            "flowschemas.v1.flowcontrol.apiserver.k8s.io",
            "prioritylevelconfigurations.v1.flowcontrol.apiserver.k8s.io",
            "apiservices.v1.apiregistration.k8s.io",
        ]
    );
}
