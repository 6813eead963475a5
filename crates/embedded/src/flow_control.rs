//! The FlowSchemas and PriorityLevelConfigurations of a new cluster, which
//! kube-apiserver creates at its start (k8s.io/apiserver `apis/flowcontrol/bootstrap`).

use apifront_fairness::{FlowSchema, Objects};
use serde::Serialize;
use serde_json::{Value, json};

use super::{meta, server::EmbeddedServer};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";

impl EmbeddedServer {
    pub(super) fn create_flow_control_objects(&self) {
        let objects = Objects::defaults();
        for level in &objects.priority_levels {
            let (name, status) = (&level.metadata.name, json!({}));
            let made = object("PriorityLevelConfiguration", name, &level.spec, status);
            self.seed(GROUP, "v1", made);
        }
        for schema in &objects.flow_schemas {
            let (name, status) = (&schema.metadata.name, status(schema));
            let made = object("FlowSchema", name, &schema.spec, status);
            self.seed(GROUP, "v1", made);
        }
    }
}

fn object(kind: &str, name: &str, spec: &impl Serialize, status: Value) -> Value {
    json!({
        "kind": kind,
        "metadata": {"name": name, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}},
        "spec": spec,
        "status": status,
    })
}

/// Returns the status that kube-apiserver writes for a schema whose level exists.
fn status(schema: &FlowSchema) -> Value {
    let level = &schema.spec.priority_level_configuration.name;
    json!({"conditions": [{
        "type": "Dangling",
        "status": "False",
        "lastTransitionTime": meta::now(),
        "reason": "Found",
        "message": format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?} and it exists"),
    }]})
}

#[cfg(test)]
mod tests {
    use apifront_fairness::PriorityLevelConfiguration;
    use kubernetes_wire::api::GroupResource;
    use serde::de::DeserializeOwned;

    use super::*;

    fn stored<T: DeserializeOwned>(server: &EmbeddedServer, resource: &str) -> Vec<T> {
        let resource = GroupResource {
            group: GROUP.to_owned(),
            resource: resource.to_owned(),
        };
        let snapshot = server.storage().snapshot(&resource);
        let objects = snapshot.objects.values();
        objects
            .map(|stored| serde_json::from_value(stored.value.clone()).unwrap())
            .collect()
    }

    #[test]
    fn a_new_server_has_the_objects_of_a_new_cluster() {
        let server = EmbeddedServer::new();
        let mut expected = Objects::defaults();
        expected
            .flow_schemas
            .sort_by_key(|s| s.metadata.name.clone());
        expected
            .priority_levels
            .sort_by_key(|l| l.metadata.name.clone());
        let schemas: Vec<FlowSchema> = stored(&server, "flowschemas");
        let specs = |schemas: &[FlowSchema]| -> Vec<_> {
            let named = schemas.iter();
            named
                .map(|s| (s.metadata.name.clone(), s.spec.clone()))
                .collect()
        };
        assert_eq!(specs(&schemas), specs(&expected.flow_schemas));
        let levels: Vec<PriorityLevelConfiguration> =
            stored(&server, "prioritylevelconfigurations");
        let specs = |levels: &[PriorityLevelConfiguration]| -> Vec<_> {
            let named = levels.iter();
            named
                .map(|l| (l.metadata.name.clone(), l.spec.clone()))
                .collect()
        };
        assert_eq!(specs(&levels), specs(&expected.priority_levels));
        let schema: Vec<Value> = stored(&server, "flowschemas");
        let condition = &schema[0]["status"]["conditions"][0];
        assert_eq!(condition["status"], "False", "{condition}");
        // An absent field is left out, as kube-apiserver leaves it out.
        assert!(!schema.iter().any(|s| s.to_string().contains("null")));
    }
}
