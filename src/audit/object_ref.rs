//! The object that a request is about: `audit.k8s.io/v1` ObjectReference.

use kubernetes_wire::api::GroupVersionResource;
use kubernetes_wire::representation::scan;
use kubernetes_wire::request::RequestInfo;

use super::text::Object;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectRef {
    gvr: GroupVersionResource,
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
    subresource: String,
}

impl ObjectRef {
    /// Returns the object, with the fields that the URL names.
    pub(super) fn from_info(info: &RequestInfo) -> Self {
        Self {
            gvr: info.gvr.clone(),
            namespace: info.namespace.clone(),
            name: info.name.clone(),
            uid: String::new(),
            resource_version: String::new(),
            subresource: info.subresource.clone(),
        }
    }

    /// Writes the object, with the fields that the URL names.
    pub(super) fn write_of(info: &RequestInfo, out: &mut Vec<u8>) {
        let mut object = Object::begin(out);
        object.text("resource", &info.gvr.resource);
        object.text("namespace", &info.namespace);
        object.text("name", &info.name);
        object.text("apiGroup", &info.gvr.group);
        object.text("apiVersion", &info.gvr.version);
        object.text("subresource", &info.subresource);
        object.end();
    }

    /// Fills fields that the URL does not name from the request's object.
    pub(super) fn fill(&mut self, object: &[u8]) {
        for (field, key) in [
            (&mut self.namespace, "namespace"),
            (&mut self.name, "name"),
            (&mut self.uid, "uid"),
            (&mut self.resource_version, "resourceVersion"),
        ] {
            if field.is_empty()
                && let Some(text) = scan::text_at(object, &["metadata", key])
            {
                *field = text.into_owned();
            }
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut object = Object::begin(out);
        object.text("resource", &self.gvr.resource);
        object.text("namespace", &self.namespace);
        object.text("name", &self.name);
        object.text("uid", &self.uid);
        object.text("apiGroup", &self.gvr.group);
        object.text("apiVersion", &self.gvr.version);
        object.text("resourceVersion", &self.resource_version);
        object.text("subresource", &self.subresource);
        object.end();
    }
}
