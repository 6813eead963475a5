//! Aggregated discovery (KEP-3352) comes from memory. No release since 1.30 can
//! switch it off, so every server of the range has it.

use http::Method;

use super::World;
use crate::harness::differential::compare_exactly;
use crate::harness::expect::{DEBUG, Expect};

#[tokio::test]
async fn aggregated_discovery_comes_from_memory() {
    skip_under_oracle!("the documents would be upstream's");
    let world = World::alone().await;
    let (old, front) = (world.old(), world.front.admin_client());
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    for path in ["/api", "/apis"] {
        let headers = [("accept", accept)];
        let theirs = old.send(Method::GET, path, &headers, "").await;
        let debug = [("accept", accept), DEBUG];
        let ours = front.send(Method::GET, path, &debug, "").await;
        assert_eq!(Expect::Document.unmet(&ours), "", "{path}");
        assert_eq!(compare_exactly(&theirs, &ours), "", "{path}");
        assert_eq!(ours.expect(200)["kind"], "APIGroupDiscoveryList");
    }
}
