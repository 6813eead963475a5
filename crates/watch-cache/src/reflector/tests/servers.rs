//! Tests that no resource is read before its server is known, and that nothing
//! of a former server is kept.

use kubernetes_wire::api::GroupVersion;

use super::fake::Asked;
use super::*;
use crate::reflector::Server as Answers;

fn services(service: &str) -> Servers {
    let GroupVersion { group, version } = widgets().group_version();
    let server = Answers::Service(service.to_owned());
    let servers = [(GroupVersion { group, version }, server)];
    Servers::Known(servers.into_iter().collect())
}

fn fake() -> Fake {
    Fake::start(|asked, _| match asked {
        Asked::List => widget_list(9, &[]),
        Asked::Watch => Reply::Stays(String::new()),
    })
}

#[tokio::test]
async fn a_named_resource_is_read_once_its_server_is_known() {
    let fake = fake();
    let cache = cache(&fake);
    cache.upstream_replaced(&GroupVersionResource::new("", "v1", "none"));
    let early = cache.lookup(&widgets(), &Everything).err();
    assert_eq!(early, Some(Unavailable::Filling));
    assert_eq!(cache.entries().len(), 0);
    // A saved store is read at once. It was saved while upstream was the
    // server.
    let begun = cache.resume_one(&widgets(), &Everything).err();
    assert_eq!(begun, Some(Unavailable::Filling));
    let resumed = cache.entries().pop().expect("an entry");
    cache.served_by(services("a/one:443"), None, &Everything);
    assert!(resumed.lifecycle().is_stopped());
    let (one, _) = filled(&cache, &widgets()).await;
    // The same servers again are no change.
    cache.served_by(services("a/one:443"), None, &Everything);
    assert!(!one.lifecycle().is_stopped());
    cache.served_by(services("a/two:443"), None, &Everything);
    assert!(one.lifecycle().is_stopped());
}

#[tokio::test]
async fn a_refuted_claim_is_not_believed_until_it_is_renewed() {
    let fake = fake();
    let cache = cache(&fake);
    let (local, _) = filled(&cache, &widgets()).await;
    // A resource that upstream serves itself needs no claim.
    assert!(!cache.withdraw_claim(&widgets(), &Everything));
    assert!(!local.lifecycle().is_stopped());
    cache.served_by(services("a/one:443"), None, &Everything);
    let (remote, _) = filled(&cache, &widgets()).await;
    assert!(cache.withdraw_claim(&widgets(), &Everything));
    assert!(!cache.withdraw_claim(&widgets(), &Everything));
    assert!(remote.lifecycle().is_stopped());
    let refused = cache.lookup(&widgets(), &Everything).err();
    assert_eq!(refused, Some(Unavailable::Withdrawn));
    cache.renew_claims();
    filled(&cache, &widgets()).await;
}
