//! `kubectl auth can-i`, by a tenant with a view.

use crate::harness::cluster::Cluster;
use crate::harness::kubeconfig::{self, Credential};
use crate::harness::kubectl::{Both, Kubectl};
use crate::views::world::World;

#[tokio::test]
async fn a_tenant_asks_what_it_may() {
    skip_under_oracle!("kube-apiserver has no views");
    let world = World::start(2, |_| {}).await;
    world.grant(&world.namespaces[0]).await;
    let client = world.client();
    world.settled(&client, &[&world.namespaces[0]]).await;
    let certificate = world.certificate();
    let kubeconfig = |server: &str, name: &str| {
        let (folder, ca) = (&world.cluster.folder, Some(Cluster::ca(&world.cluster)));
        let name = format!("{}-{name}", world.tenant);
        kubeconfig::write(
            folder,
            &name,
            server,
            ca,
            Credential::Certificate(&certificate),
        )
    };
    let (direct, front) = (world.cluster.server_url(), world.front.url());
    let front = (kubeconfig(&front, "front"), front);
    let direct = (kubeconfig(&direct, "direct"), direct);
    let kubectl = Kubectl::new(&front.0);
    for command in [
        ["auth", "can-i", "list", "configmaps", "-A"],
        ["auth", "can-i", "watch", "configmaps", "-A"],
        ["auth", "can-i", "list", "pods", "-A"],
    ] {
        let printed = kubectl.run(&command).await;
        assert_eq!(
            (printed.stdout.trim(), printed.code),
            ("yes", Some(0)),
            "{}",
            printed.stderr
        );
    }
    let listed = kubectl
        .run(&["get", "configmaps", "-A", "-o", "name"])
        .await
        .ok();
    assert_eq!(listed.lines().count(), 3, "{listed}");
    let both = Both::new((&direct.0, direct.1.clone()), (&front.0, front.1.clone()));
    let (namespace, other) = (&*world.namespaces[0], &*world.namespaces[1]);
    for command in [
        &["auth", "can-i", "create", "configmaps", "-A"][..],
        &["auth", "can-i", "get", "configmaps", "-A"],
        &["auth", "can-i", "list", "secrets", "-A"],
        &["auth", "can-i", "list", "configmaps", "-n", namespace],
        &["auth", "can-i", "list", "configmaps", "-n", other],
        &["auth", "can-i", "list", "configmaps/a", "-n", namespace],
        &["auth", "can-i", "list", "pods", "--subresource=log", "-A"],
        &["auth", "can-i", "get", "/healthz"],
        &["auth", "can-i", "get", "/logs"],
        &["auth", "can-i", "--list", "-n", namespace],
        &["auth", "can-i", "--list", "-n", other],
    ] {
        for _ in 0..2 {
            both.must_be_same(command).await;
        }
    }
}
