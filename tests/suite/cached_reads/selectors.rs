//! Label and field selectors.

use super::{EXCLUDED, FIELD_SELECTOR, INVALID};
use crate::harness::differential::Differential;
use crate::harness::release::{Release, tell_left_out};

pub(super) async fn selectors(mut both: Differential) {
    let pods = "/api/v1/pods?resourceVersion=0";
    for selector in [
        "spec.nodeName%3Dnode-1",
        "spec.nodeName%3D",
        "spec.nodeName!%3Dnode-1",
        "status.phase%3DRunning",
        "status.phase!%3DRunning,spec.nodeName%3Dnode-1",
        "status.podIP%3D10.0.0.1",
        "status.podIPs%3D10.0.0.1",
        "status.nominatedNodeName%3D",
        "spec.restartPolicy%3DNever",
        "spec.schedulerName%3Ddefault-scheduler",
        "spec.serviceAccountName%3D",
        "spec.serviceAccountName%3Dbuilder",
        "spec.hostNetwork%3Dtrue",
        "spec.hostNetwork%3Dfalse",
        "spec.host%3Dnode-1",
        "metadata.name%3Drunning",
        "metadata.name!%3Drunning",
        "metadata.namespace%3Dsample,metadata.name%3Drunning",
        "metadata.namespace%3Dnowhere",
        "metadata.namespace%3DNOT%20VALID",
    ] {
        both.get(&format!("{pods}&fieldSelector={selector}")).await;
    }
    let unknown = format!("{pods}&fieldSelector=spec.unknown%3Dx");
    both.expect(FIELD_SELECTOR).get(&unknown).await;
    for selector in [
        "app%3Dsample",
        "app%3D%3Dsample",
        "app!%3Dsample",
        "app%20in%20(sample,x)",
        "app%20notin%20(sample)",
        "app",
        "!app",
        "weight%3E4",
        "weight%3C4",
        "app%3D",
        "app%20in%20()",
        "example.test/with-prefix",
    ] {
        both.get(&format!("{pods}&labelSelector={selector}")).await;
    }
    for selector in [
        "a%20b",
        "%3D",
        "app%3Dsample,",
        ",",
        "-bad",
        "app%3D-bad",
        "(",
        "weight%3Ex",
    ] {
        let path = format!("{pods}&labelSelector={selector}");
        both.expect(INVALID).get(&path).await;
    }
    selectors_of_others(&mut both).await;
    both.finish();
}

/// Fields of other resources, known and unknown.
async fn selectors_of_others(both: &mut Differential) {
    for (path, selector) in [
        ("/api/v1/nodes", "spec.unschedulable%3Dtrue"),
        ("/api/v1/nodes", "spec.unschedulable%3Dfalse"),
        ("/api/v1/secrets", "type%3DOpaque"),
        ("/api/v1/services", "spec.type%3DClusterIP"),
        ("/api/v1/services", "spec.clusterIP%3DNone"),
        ("/api/v1/namespaces", "status.phase%3DActive"),
        ("/api/v1/namespaces", "status.phase%3DTerminating"),
        ("/api/v1/replicationcontrollers", "status.replicas%3D0"),
        ("/apis/batch/v1/jobs", "status.successful%3D0"),
        (
            "/apis/certificates.k8s.io/v1/certificatesigningrequests",
            "spec.signerName%3Dx.test%2Fy",
        ),
        ("/apis/resource.k8s.io/v1/resourceslices", "spec.driver%3Dx"),
        ("/apis/sample.example.test/v1/widgets", "spec.color%3Dred"),
    ] {
        if path.contains("/resource.k8s.io/v1/") && !Release::at_least(34) {
            tell_left_out("selectors of resourceslices v1");
            continue;
        }
        let path = format!("{path}?resourceVersion=0&fieldSelector={selector}");
        both.get(&path).await;
    }
    for (expected, path, selector) in [
        (EXCLUDED, "/api/v1/events", "involvedObject.name%3Drunning"),
        (EXCLUDED, "/api/v1/events", "reason%3DTested"),
        (
            EXCLUDED,
            "/apis/events.k8s.io/v1/events",
            "regarding.name%3Drunning",
        ),
        (FIELD_SELECTOR, "/api/v1/nodes", "metadata.namespace%3Dx"),
        (
            FIELD_SELECTOR,
            "/apis/apps/v1/replicasets",
            "status.replicas%3D0",
        ),
        (
            FIELD_SELECTOR,
            "/apis/apps/v1/deployments",
            "status.replicas%3D0",
        ),
        (FIELD_SELECTOR, "/apis/batch/v1/jobs", "status.x%3D0"),
        (
            FIELD_SELECTOR,
            "/apis/sample.example.test/v1/widgets",
            "spec.size%3D1",
        ),
    ] {
        let path = format!("{path}?resourceVersion=0&fieldSelector={selector}");
        both.expect(expected).get(&path).await;
    }
}
