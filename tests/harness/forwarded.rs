//! Lists the reads that apifront forwards before releases other than 1.37: reads of
//! kinds that its schema and printers do not know, or know in another form. A
//! forwarded answer is right, but it costs the upstream a request.

use std::ops::RangeInclusive;

use serde_json::Value;

use super::client::Answer;
use super::differential::unpacked;
use super::expect::Expect;
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

/// Lists of unknown kinds whose Tables are forwarded, because no newer version is
/// printed alike.
const NOT_PRINTED: [(&str, RangeInclusive<u32>); 6] = [
    (
        "/apis/certificates.k8s.io/v1alpha1/podcertificaterequests",
        34..=34,
    ),
    ("/apis/coordination.k8s.io/v1alpha1/leasecandidates", 0..=31),
    (
        "/apis/resource.k8s.io/v1alpha3/podschedulingcontexts",
        0..=31,
    ),
    ("/apis/resource.k8s.io/v1alpha3/resourceclaims", 0..=33),
    ("/apis/scheduling.k8s.io/v1alpha2/podgroups", 36..=36),
    (
        "/apis/storagemigration.k8s.io/v1alpha1/storageversionmigrations",
        0..=34,
    ),
];

/// Lists that the cache cannot read. 1.31 writes their metadata as `listMeta`, so
/// they show no version.
const NOT_CACHED: [(&str, RangeInclusive<u32>); 1] =
    [("/apis/resource.k8s.io/v1alpha3/resourceslices", 0..=31)];

/// Lists of kinds for which other releases do not write a field of the schema.
const LACKS_FIELDS: [(&str, RangeInclusive<u32>); 1] =
    [("/apis/storage.k8s.io/v1/csinodes", 0..=36)];

/// Tells whether 1.37 lacks the kind of a list such as `/api/v1/pods`.
pub fn unknown(list: &str) -> bool {
    names(&UNKNOWN, list)
}

/// Tells whether Tables of this list come from the upstream before the release under
/// test, but not before 1.37.
pub fn tables(list: &str) -> bool {
    names(&NOT_PRINTED, list) || entirely(list)
}

/// Tells whether all answers for this list come from the upstream before the release
/// under test.
pub fn entirely(list: &str) -> bool {
    names(&NOT_CACHED, list)
}

/// Tells whether the protobuf of this list comes from the upstream before the
/// release under test. The cache keeps the objects as JSON, because the release
/// writes them differently from the schema.
pub fn protobuf(list: &str) -> bool {
    unknown(list) || names(&LACKS_FIELDS, list) || is_written_otherwise(list)
}

/// Tells whether the release under test writes the JSON of a built-in kind
/// differently from the schema.
fn is_written_otherwise(path: &str) -> bool {
    let otherwise_at_34 = ["/apis/resource.k8s.io/", "/apis/apiextensions.k8s.io/"];
    let at_34 = otherwise_at_34.iter().any(|group| path.starts_with(group));
    !Release::at_least(34) || at_34 && !Release::at_least(35)
}

/// Returns an empty text if the answer came from the right place: where it is
/// `usually` expected before 1.37, or from the upstream where the release under test
/// requires that.
pub fn unmet(usually: Expect, path: &str, accept: &str, answer: &Answer) -> String {
    let protobuf = answer.header("content-type").contains("protobuf");
    let expected = match usually {
        Expect::Hit | Expect::Bypass("history_too_short")
            if protobuf && !accept.contains("as=Partial") && is_written_otherwise(path) =>
        {
            Expect::Bypass("representation")
        }
        // These Tables show no object, even if it is annotated like a bookmark.
        Expect::Hit if path.contains("includeObject=None") && !Release::at_least(34) => {
            Expect::Bypass("representation")
        }
        // 1.32 ends the initial state with a bookmark that only it can write. 1.31
        // and 1.33 send no bookmark there.
        Expect::Hit if begins_with_the_state(path) && !Release::at_least(34) => {
            Expect::Bypass("no_bookmark")
        }
        // The upstream writes its own continue tokens. A read that several callers
        // share has the upstream's token.
        Expect::Hit if !Release::at_least(34) && !answer.is_hit() && is_cut(answer) => {
            Expect::Bypass("unusual_request")
        }
        // Later pages come from etcd, which honours a limit with version 0.
        Expect::Hit if !Release::at_least(34) && is_later_page_at_zero(path) => {
            Expect::Bypass("unusual_request")
        }
        usual => usual,
    };
    expected.unmet(answer)
}

fn is_later_page_at_zero(path: &str) -> bool {
    let token = path.split("&continue=").nth(1);
    path.contains("resourceVersion=0&") && token.is_some_and(|token| !token.is_empty())
}

/// Tells whether a watch with bookmarks begins with the state.
fn begins_with_the_state(path: &str) -> bool {
    let newest = path.contains("resourceVersion=0&") || !path.contains("resourceVersion=");
    path.contains("watch=1") && path.contains("allowWatchBookmarks=true") && newest
}

/// Tells whether a list is a page that another page follows.
fn is_cut(answer: &Answer) -> bool {
    let list: Option<Value> = serde_json::from_slice(&unpacked(answer)).ok();
    list.is_some_and(|list| {
        let token = list["metadata"]["continue"].as_str();
        token.is_some_and(|token| !token.is_empty())
    })
}

fn names(lists: &[(&str, RangeInclusive<u32>)], list: &str) -> bool {
    let mut found = lists.iter().filter(|(name, _)| *name == list);
    found.any(|(_, minors)| Release::under_test().is_in(minors))
}
