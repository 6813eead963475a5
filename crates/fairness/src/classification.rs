//! A classification tells the schema, the level and the flow of one request.

use std::fmt;
use std::sync::Arc;

use http::HeaderValue;

use crate::level::Level;
use crate::objects::DistinguisherMethod;
use crate::request_digest::RequestDigest;
use crate::schema::Schema;

/// The schema and the level of a request. Cloning copies one pointer.
#[derive(Clone, Debug)]
pub struct Classification(Arc<Classified>);

struct Classified {
    schema: Arc<Schema>,
    flow: u64,
    is_watch: bool,
    /// Dumps show the request's words.
    request: Arc<dyn RequestDigest>,
}

impl fmt::Debug for Classified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Classified")
            .field("schema", &self.schema)
            .field("flow", &self.flow)
            .finish_non_exhaustive()
    }
}

impl Classification {
    pub(crate) fn new(schema: &Arc<Schema>, request: Arc<dyn RequestDigest>) -> Self {
        Self(Arc::new(Classified {
            schema: schema.clone(),
            flow: schema.flow(distinguisher(schema, &*request)),
            is_watch: request.info().verb == "watch",
            request,
        }))
    }

    #[cfg(test)]
    pub(crate) fn of_flow(schema: &Arc<Schema>, flow: u64) -> Self {
        use kubernetes_wire::api::UserInfo;
        let info = crate::tests::support::info("GET", "/api/v1/pods");
        Self(Arc::new(Classified {
            schema: schema.clone(),
            flow,
            is_watch: false,
            request: Arc::new((info, UserInfo::anonymous())),
        }))
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.0.schema
    }

    pub(crate) fn level(&self) -> &Arc<Level> {
        &self.0.schema.level
    }

    pub(crate) fn flow(&self) -> u64 {
        self.0.flow
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.0.is_watch
    }

    pub(crate) fn request(&self) -> &dyn RequestDigest {
        &*self.0.request
    }

    /// Returns the value that tells the request's flow from the other flows of its
    /// schema.
    pub(crate) fn distinguisher(&self) -> &str {
        distinguisher(&self.0.schema, self.request())
    }

    pub fn flow_schema(&self) -> &str {
        &self.schema().name
    }

    pub fn priority_level(&self) -> &str {
        self.level().name()
    }

    /// Returns the value of the header `X-Kubernetes-PF-FlowSchema-UID`, or `None`
    /// if the schema is not an object of the cluster.
    pub fn flow_schema_uid(&self) -> Option<&HeaderValue> {
        self.schema().uid.value()
    }

    /// Returns the value of the header `X-Kubernetes-PF-PriorityLevel-UID`, or
    /// `None` if the level is not an object of the cluster.
    pub fn priority_level_uid(&self) -> Option<&HeaderValue> {
        self.schema().level_uid.value()
    }

    /// Tells whether the request never waits and is never refused.
    pub fn is_exempt(&self) -> bool {
        self.level().is_exempt()
    }

    /// Returns the most seats that an estimator may give to one request of the
    /// level. A level that never had queues sets no bound.
    pub fn max_seats(&self) -> Option<u64> {
        self.level().max_seats()
    }
}

fn distinguisher<'r>(schema: &Schema, request: &'r dyn RequestDigest) -> &'r str {
    match schema.distinguisher.filter(|_| schema.has_flows) {
        Some(DistinguisherMethod::ByUser) => request.user().map_or("", |user| &user.name),
        Some(DistinguisherMethod::ByNamespace) => &request.info().namespace,
        None => "",
    }
}
