//! The managers of the objects that a program wrote, as the API server has them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::harness::client::Client;

/// The managers by object. Each is JSON without its time.
pub type Managers = BTreeMap<String, Vec<String>>;

/// The resources that the programs write.
const RESOURCES: [&str; 2] = ["/api/v1 configmaps", "/apis/apps/v1 deployments"];

pub async fn written_in(admin: &Client, namespace: &str) -> Managers {
    let mut all = Managers::new();
    for resource in RESOURCES {
        let (api, name) = resource.split_once(' ').expect("an API and a name");
        let path = format!("{api}/namespaces/{namespace}/{name}");
        let list = admin.get(&path).await.expect(200);
        for object in list["items"].as_array().expect("items") {
            let metadata = &object["metadata"];
            let fields = metadata["managedFields"].as_array();
            let fields = fields.into_iter().flatten().map(without_time);
            let mut fields: Vec<String> = fields.collect();
            // Their order is that of their times, in seconds.
            fields.sort();
            let object = metadata["name"].as_str().expect("a name");
            all.insert(format!("{name}/{object}"), fields);
        }
    }
    all
}

fn without_time(manager: &Value) -> String {
    let mut manager = manager.clone();
    manager["time"] = Value::Null;
    manager.to_string()
}

/// Returns a line for each object whose managers differ.
pub fn differences(direct: &Managers, through: &Managers) -> Vec<String> {
    let names = direct.keys().chain(through.keys());
    let names: std::collections::BTreeSet<&String> = names.collect();
    let differ = names
        .into_iter()
        .filter(|name| direct.get(*name) != through.get(*name));
    differ
        .map(|name| {
            let (direct, through) = (direct.get(name), through.get(name));
            format!("managers of {name}: directly {direct:#?}, through apifront {through:#?}")
        })
        .collect()
}
