//! One request to one resource: what every handler needs.

use std::sync::Arc;

use http::{Response, StatusCode};

use super::{Body, Head, Media, Offer, accept::negotiate, json_bytes, route::Target};
use crate::{
    EmbeddedServer,
    registry::Resource,
    storage::{Storage, Stored},
    table, view,
};
use kubernetes_wire::{
    api::{GroupResource, Reason, Status},
    negotiation::IncludeObject,
    representation::TableOptions,
};

pub struct Call<'a> {
    pub server: &'a EmbeddedServer,
    pub resource: Arc<Resource>,
    pub target: Target,
    pub head: &'a Head,
}

impl<'a> Call<'a> {
    pub fn new(
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

    pub fn storage(&self) -> &Storage {
        self.server.storage()
    }

    pub fn group_resource(&self) -> GroupResource {
        self.resource.group_resource()
    }

    pub fn key(&self, name: &str) -> String {
        self.resource.key(&self.target.namespace, name)
    }

    pub fn find(&self) -> Result<Arc<Stored>, Status> {
        let name = &self.target.name;
        self.storage()
            .get(&self.group_resource(), &self.key(name))
            .ok_or_else(|| Status::not_found(&self.group_resource(), name))
    }

    pub fn media(&self) -> Result<Media, Status> {
        let collection = self.target.name.is_empty() && self.head.method == http::Method::GET;
        let offer = if collection {
            Offer::Collection
        } else {
            Offer::Object
        };
        self.negotiate(offer)
    }

    pub fn negotiate(&self, offer: Offer) -> Result<Media, Status> {
        let routed = self.resource.custom.is_none();
        let (media, media_type) = negotiate(&self.head.headers, offer, routed)?;
        self.head.chosen.set(media_type);
        Ok(media)
    }

    /// One object, as it was asked for. What cannot be shaped goes out as it is.
    pub fn object(&self, code: StatusCode, stored: &Stored) -> Result<Response<Body>, Status> {
        let resource = &self.resource;
        let object = view::object(resource, stored);
        let shaped = match self.media()? {
            Media::Table(version) => {
                let include = self.include_object()?;
                table::single(resource, &object, TableOptions { version, include })
                    .ok()
                    .map(|table| table.trim_ascii_end().to_vec())
            }
            Media::Metadata(version) => {
                table::metadata(resource, &object, version).map(|metadata| metadata.to_vec())
            }
            Media::MetadataList(_) => {
                return Err(self.wrong_shape("PartialObjectMetadataList", "not a list", ""));
            }
            Media::Json | Media::Discovery => None,
        };
        Ok(json_bytes(code, shaped.unwrap_or_else(|| object.to_vec())))
    }

    /// 406 about a shape that the object, of a Go type, does not have.
    pub fn wrong_shape(&self, asked: &str, is: &str, suffix: &str) -> Status {
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

    pub fn include_object(&self) -> Result<IncludeObject, Status> {
        IncludeObject::from_query(&self.head.query).map_err(Status::bad_request)
    }
}
