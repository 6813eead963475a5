//! The limits of requests in flight.

use super::*;

#[test]
fn removed_limits_name_what_replaces_them() {
    let flow = "  userConcurrencyLimit: 100\n  groupConcurrencyLimits: {staff: 3}\n  \
                queueLengthLimit: 5\n  queueWait: 2s";
    let removed = load_text(&minimal_with("flow", flow), &[]).unwrap_err();
    assert_eq!(
        removed,
        [
            "flow.userConcurrencyLimit: was removed: a FlowSchema with distinguisherMethod ByUser \
             keeps users apart",
            "flow.groupConcurrencyLimits: was removed: a FlowSchema for the group chooses a \
             PriorityLevelConfiguration",
            "flow.queueLengthLimit: was removed: a PriorityLevelConfiguration has its own \
             queueLengthLimit",
        ]
    );
}

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
