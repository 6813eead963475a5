//! Lists the reads that apifront forwards before other releases than 1.37: of
//! kinds that its schema and its printers do not know, or know in another form. An answer that
//! is forwarded is right, but it costs upstream a request.

use std::ops::RangeInclusive;

use super::release::Release;

/// Lists of kinds that 1.37 does not have, and the releases that have them.
const UNKNOWN: [(&str, RangeInclusive<u32>); 18] = [
    (
        "/apis/admissionregistration.k8s.io/v1alpha1/validatingadmissionpolicies",
        0..=31,
    ),
    (
        "/apis/admissionregistration.k8s.io/v1alpha1/validatingadmissionpolicybindings",
        0..=31,
    ),
    (
        "/apis/admissionregistration.k8s.io/v1beta1/validatingadmissionpolicies",
        0..=33,
    ),
    (
        "/apis/admissionregistration.k8s.io/v1beta1/validatingadmissionpolicybindings",
        0..=33,
    ),
    (
        "/apis/certificates.k8s.io/v1alpha1/podcertificaterequests",
        34..=34,
    ),
    ("/apis/coordination.k8s.io/v1alpha1/leasecandidates", 0..=31),
    (
        "/apis/flowcontrol.apiserver.k8s.io/v1beta3/flowschemas",
        0..=31,
    ),
    (
        "/apis/flowcontrol.apiserver.k8s.io/v1beta3/prioritylevelconfigurations",
        0..=31,
    ),
    ("/apis/resource.k8s.io/v1alpha3/deviceclasses", 0..=33),
    (
        "/apis/resource.k8s.io/v1alpha3/podschedulingcontexts",
        0..=31,
    ),
    ("/apis/resource.k8s.io/v1alpha3/resourceclaims", 0..=33),
    (
        "/apis/resource.k8s.io/v1alpha3/resourceclaimtemplates",
        0..=33,
    ),
    ("/apis/resource.k8s.io/v1alpha3/resourceslices", 0..=33),
    ("/apis/scheduling.k8s.io/v1alpha1/workloads", 35..=35),
    ("/apis/scheduling.k8s.io/v1alpha2/podgroups", 36..=36),
    ("/apis/scheduling.k8s.io/v1alpha2/workloads", 36..=36),
    (
        "/apis/storage.k8s.io/v1alpha1/volumeattributesclasses",
        0..=34,
    ),
    (
        "/apis/storagemigration.k8s.io/v1alpha1/storageversionmigrations",
        0..=34,
    ),
];

/// Lists of kinds of 1.37 that other releases print in other columns, or in a
/// way that only they can know.
const PRINTED_OTHERWISE: [(&str, RangeInclusive<u32>); 3] = [
    ("/api/v1/serviceaccounts", 0..=34),
    ("/api/v1/resourcequotas", 0..=32),
    ("/apis/scheduling.k8s.io/v1/priorityclasses", 0..=31),
];

/// Lists of kinds of which other releases do not write a field that the schema
/// has.
const LACKS_FIELDS: [(&str, RangeInclusive<u32>); 1] =
    [("/apis/storage.k8s.io/v1/csinodes", 0..=36)];

/// Tells whether 1.37 does not have the kind of a list such as `/api/v1/pods`.
pub fn unknown(list: &str) -> bool {
    names(&UNKNOWN, list)
}

/// Tells whether Tables of a list come from upstream before the release under
/// test, and not before 1.37.
pub fn tables(list: &str) -> bool {
    unknown(list) || names(&PRINTED_OTHERWISE, list)
}

/// Tells whether the protobuf of a list comes from upstream before the release
/// under test.
pub fn protobuf(list: &str) -> bool {
    unknown(list) || names(&LACKS_FIELDS, list)
}

/// Tells whether the cache keeps the objects of a list as JSON, because the
/// release under test writes them otherwise than the schema.
pub fn is_kept_as_json(list: &str) -> bool {
    let writes_devices = list.starts_with("/apis/resource.k8s.io/") && !Release::at_least(35);
    !Release::at_least(34) || writes_devices || protobuf(list)
}

fn names(lists: &[(&str, RangeInclusive<u32>)], list: &str) -> bool {
    let mut found = lists.iter().filter(|(name, _)| *name == list);
    found.any(|(_, minors)| Release::under_test().is_in(minors))
}
