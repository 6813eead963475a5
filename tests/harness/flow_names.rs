//! Maps the UIDs of FlowSchemas and priority levels to names. Each cluster gives its
//! own UIDs to the objects that all clusters have.

use std::collections::HashMap;
use std::sync::Mutex;

use super::client::Client;

/// The response headers that carry these UIDs.
pub const HEADERS: [&str; 2] = [
    "x-kubernetes-pf-flowschema-uid",
    "x-kubernetes-pf-prioritylevel-uid",
];

static NAMES: Mutex<Option<HashMap<String, String>>> = Mutex::new(None);

/// Learns the names from a cluster that is ready.
pub async fn learn(admin: &Client) {
    for resource in ["flowschemas", "prioritylevelconfigurations"] {
        let path = format!("/apis/flowcontrol.apiserver.k8s.io/v1/{resource}");
        let list = admin.get(&path).await.expect(200);
        let mut names = NAMES.lock().expect("no panic while locked");
        let names = names.get_or_insert_default();
        for object in list["items"].as_array().expect("items") {
            let text = |key: &str| object["metadata"][key].as_str().expect("text").to_owned();
            names.insert(text("uid"), format!("{resource}/{}", text("name")));
        }
    }
}

/// Returns the name of the object with this UID, or the UID itself if only one
/// cluster has the object.
pub fn name(uid: &str) -> String {
    let names = NAMES.lock().expect("no panic while locked");
    let name = names.as_ref().and_then(|names| names.get(uid));
    name.map_or(uid, String::as_str).to_owned()
}
