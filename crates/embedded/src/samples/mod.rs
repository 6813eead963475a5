//! Sample objects for a new user: deterministic names, pods in every phase, a
//! custom resource with columns, a deprecated version, a second extension
//! group.

// The samples are fixed data that is made once, at the start. Nothing in them
// comes from a client, and a test makes all of them.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::string_slice
)]

mod custom;
mod workloads;

use super::server::EmbeddedServer;

impl EmbeddedServer {
    pub fn load_samples(&self) {
        workloads::load(self);
        custom::load(self);
    }
}

#[cfg(test)]
mod tests {
    use kubernetes_wire::api::GroupResource;

    use super::*;

    #[test]
    fn there_is_something_to_look_at() {
        let server = EmbeddedServer::with_samples();
        let count = |group: &str, resource: &str| {
            let resource = GroupResource {
                group: group.into(),
                resource: resource.into(),
            };
            server.storage().snapshot(&resource).objects.len()
        };
        assert_eq!(count("", "pods"), 200);
        assert_eq!(count("", "nodes"), 5);
        assert_eq!(count("apps", "deployments"), 10);
        assert_eq!(count("", "services"), 11);
        assert_eq!(
            count("apiextensions.k8s.io", "customresourcedefinitions"),
            2
        );
        assert_eq!(count("stable.example.com", "crontabs"), 6);
        assert_eq!(count("wardle.example.com", "flunders"), 4);
    }
}
