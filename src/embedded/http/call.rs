//! One request to one resource: what every handler needs.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};

use super::{Body, Head, Media, Offer, accept::negotiate, json_bytes, route::Target};
use crate::{
    api::{GroupResource, Status},
    embedded::{
        EmbeddedServer,
        registry::Resource,
        storage::{Storage, Stored},
        table::{IncludeObject, TableRequest},
        view::{self, ListMeta},
    },
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
        negotiate(&self.head.headers, self.offer())
    }

    pub fn can_render(&self) -> bool {
        self.server
            .tables()
            .is_some_and(|tables| tables.supports(&self.resource.gvr))
    }

    fn offer(&self) -> Offer {
        let table = self.can_render();
        if self.target.name.is_empty() && self.head.method == http::Method::GET {
            Offer::Collection { table }
        } else if table {
            Offer::Table
        } else {
            Offer::Json
        }
    }

    /// One object, as it was asked for.
    pub fn object(&self, code: StatusCode, stored: &Stored) -> Result<Response<Body>, Status> {
        let media = self.media()?;
        let object = view::object(&self.resource, stored);
        let meta = ListMeta {
            revision: stored.revision,
            ..ListMeta::default()
        };
        if let Media::Table(version) = media
            && let Some(table) = self.table(&[object.clone()], &meta, version)?
        {
            return Ok(json_bytes(code, table));
        }
        Ok(json_bytes(code, object.to_vec()))
    }

    pub fn table(
        &self,
        objects: &[Bytes],
        metadata: &ListMeta,
        api_version: &str,
    ) -> Result<Option<Vec<u8>>, Status> {
        let include_object = self.include_object()?;
        Ok(self.server.tables().and_then(|tables| {
            tables.render(&TableRequest {
                resource: &self.resource.gvr,
                columns: self.resource.custom.as_ref().map(|c| &c.columns),
                objects,
                metadata,
                api_version,
                include_object,
                column_definitions: true,
            })
        }))
    }

    pub fn include_object(&self) -> Result<IncludeObject, Status> {
        match self.head.query.get("includeObject").unwrap_or_default() {
            "" | "Metadata" => Ok(IncludeObject::Metadata),
            "Object" => Ok(IncludeObject::Object),
            "None" => Ok(IncludeObject::None),
            other => Err(Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: \"{other}\": must be 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}
