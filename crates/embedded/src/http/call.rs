//! A request to one resource, with all data that its handlers need.

use std::sync::Arc;

use http::{Response, StatusCode};
use kubernetes_wire::{
    api::{GroupResource, Reason, Status},
    negotiation::{IncludeObject, Representation, Transform},
    representation::TableOptions,
};

use super::{
    accept::PathTraits,
    head::Head,
    reply::{Body, json_bytes},
    route::Target,
};
use crate::{
    registry::Resource,
    server::EmbeddedServer,
    storage::{Storage, Stored},
    table, view,
};

/// The number of attempts of a write that names no version, if other writes come
/// first.
pub(super) const MAX_WRITE_ATTEMPTS: usize = 16;

pub(super) struct Call<'a> {
    pub server: &'a EmbeddedServer,
    pub resource: Arc<Resource>,
    pub target: Target,
    pub head: &'a Head,
}

impl<'a> Call<'a> {
    pub(super) fn new(
        server: &'a EmbeddedServer,
        resource: Arc<Resource>,
        target: Target,
        head: &'a Head,
    ) -> Self {
        Self {
            server,
            resource,
            target,
            head,
        }
    }

    pub(super) fn storage(&self) -> &Storage {
        self.server.storage()
    }

    pub(super) fn group_resource(&self) -> GroupResource {
        self.resource.group_resource()
    }

    pub(super) fn key(&self, name: &str) -> String {
        self.resource.key(&self.target.namespace, name)
    }

    pub(super) fn find(&self) -> Result<Arc<Stored>, Status> {
        let name = &self.target.name;
        self.storage()
            .get(&self.group_resource(), &self.key(name))
            .ok_or_else(|| Status::not_found(&self.group_resource(), name))
    }

    fn place(&self) -> PathTraits {
        PathTraits {
            custom: self.resource.custom.is_some(),
            collection: self.target.name.is_empty() && self.head.method == http::Method::GET,
        }
    }

    /// Decides the encoding of the answer. Returns the transformation of its
    /// objects.
    pub(super) fn negotiate(&self) -> Result<Transform, Status> {
        Ok(self.head.negotiate(self.place())?.transform)
    }

    pub(super) fn negotiate_watch(&self) -> Result<Representation, Status> {
        self.head.negotiate_watch(self.place())
    }

    /// Answers with one object in the requested representation. An object that
    /// cannot be transformed is sent unchanged.
    pub(super) fn object(
        &self,
        code: StatusCode,
        stored: &Stored,
    ) -> Result<Response<Body>, Status> {
        let resource = &self.resource;
        let object = view::object(resource, stored);
        let shaped = match self.negotiate()? {
            Transform::None => None,
            Transform::Table(version) => {
                let include = self.include_object()?;
                table::single(resource, &object, TableOptions { version, include })
                    .ok()
                    .map(|table| table.trim_ascii_end().to_vec())
            }
            Transform::PartialObjectMetadata(version) => {
                table::metadata(resource, &object, version).map(|metadata| metadata.to_vec())
            }
            Transform::PartialObjectMetadataList(_) => {
                return Err(self.wrong_shape("PartialObjectMetadataList", "not a list", ""));
            }
        };
        Ok(json_bytes(code, shaped.unwrap_or_else(|| object.to_vec())))
    }

    /// Returns the 406 for a representation that the object's Go type does not
    /// have.
    pub(super) fn wrong_shape(&self, asked: &str, is: &str, suffix: &str) -> Status {
        if self.resource.custom.is_some() {
            return if suffix.is_empty() {
                Status::failure(500, Reason::Unknown, "content is not a list")
            } else {
                Status::failure(
                    406,
                    Reason::NotAcceptable,
                    format!(
                        "you requested {asked}, but the requested object is {is} (*unstructured.UnstructuredList)"
                    ),
                )
            };
        }
        let group = match self.resource.gvr.group.split('.').next() {
            None | Some("") => "core",
            Some(group) => group,
        };
        let kind = &self.resource.kind;
        Status::failure(
            406,
            Reason::NotAcceptable,
            format!(
                "you requested {asked}, but the requested object is {is} (*{group}.{kind}{suffix})"
            ),
        )
    }

    pub(super) fn include_object(&self) -> Result<IncludeObject, Status> {
        IncludeObject::from_query(&self.head.query).map_err(Status::bad_request)
    }
}
