//! Asks the server which resources it has.

use kube::client::APIGroupDiscovery;
use serde::Deserialize;

use super::QUERY_GROUP;
use super::client::Client;
use super::failure::Failure;
use super::resource::name_of;

/// A server without aggregated discovery answers in its plain form. It is no apifront.
const ACCEPT: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

#[derive(Deserialize)]
struct Groups {
    #[serde(default)]
    items: Vec<APIGroupDiscovery>,
}

/// Returns all groups, the core group first. Fails if the group of queries is not among
/// them.
pub(super) async fn groups(client: &Client) -> Result<Vec<APIGroupDiscovery>, Failure> {
    let (core, others) = tokio::try_join!(groups_at(client, "/api"), groups_at(client, "/apis"))?;
    if !others.iter().any(|group| name_of(group) == QUERY_GROUP) {
        return Err(Failure::NoQueries {
            server: client.server().to_owned(),
            group: QUERY_GROUP,
        });
    }
    Ok(core.into_iter().chain(others).collect())
}

async fn groups_at(client: &Client, path: &str) -> Result<Vec<APIGroupDiscovery>, Failure> {
    let body = client.get(path, ACCEPT).await?;
    let groups: Groups = serde_json::from_slice(&body).map_err(Failure::unreadable)?;
    Ok(groups.items)
}
