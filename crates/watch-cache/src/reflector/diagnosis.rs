//! Finds out how a resource would be answered from a cache, without filling
//! one.

use std::fmt;

use apifront_source::{BodyLimit, ReadKind, Source};
use http::StatusCode;
use kubernetes_wire::api::{GroupVersionResource, Release};
use kubernetes_wire::representation::Form;

use super::definition;
use super::list::message;
use super::list_page::ListPage;
use super::{presentation, printer_check, source_encoding};
use crate::store::{FieldTable, MalformedObject, StoredObject, field_table};

/// The number of objects that are read. More would show more, but cost the API
/// server more.
const SAMPLED_OBJECTS: usize = 5;

/// How a resource would be answered.
#[derive(Debug, Default)]
pub struct Diagnosis(Vec<Limit>);

/// A kind of request that upstream would have to answer, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The resource cannot be listed, so everything is forwarded.
    NotListed(String),
    /// An object holds something that the schema does not know.
    Unknown(String),
    /// Upstream's release writes some objects differently.
    OtherRelease(Option<Release>),
    /// Upstream's release writes continue tokens differently.
    OtherLists(Option<Release>),
    /// Upstream shows Tables in other columns than are known here.
    Columns,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |release: &Option<Release>| match release {
            Some(release) => format!("release {release}"),
            None => "a release that is not told".to_owned(),
        };
        match self {
            Self::NotListed(why) => write!(f, "everything is forwarded: {why}"),
            Self::Unknown(what) => {
                write!(
                    f,
                    "protobuf is forwarded, JSON is not: an object has {what}"
                )
            }
            Self::OtherRelease(release) => write!(
                f,
                "protobuf is forwarded, JSON is not: {} writes some objects otherwise",
                name(release)
            ),
            Self::OtherLists(release) => write!(
                f,
                "lists that need more pages are forwarded: {} writes their tokens otherwise",
                name(release)
            ),
            Self::Columns => {
                f.write_str("Tables (kubectl get) are forwarded: other columns than are known here")
            }
        }
    }
}

impl Diagnosis {
    pub fn limits(&self) -> impl Iterator<Item = &Limit> {
        self.0.iter()
    }

    /// Tells whether every request can be answered without upstream.
    pub fn is_answered_whole(&self) -> bool {
        self.0.is_empty()
    }
}

/// Examines a resource by its definition, its columns and some objects.
pub async fn diagnose(upstream: &dyn Source, gvr: &GroupVersionResource) -> Diagnosis {
    let (release, defined, columns) = tokio::join!(
        upstream.release(),
        definition::read(upstream, gvr),
        printer_check::ask(upstream, gvr),
    );
    let other_release = presentation::is_other_release(gvr, release);
    let fields = match defined.definition() {
        Some(definition) => definition.fields.clone(),
        None => field_table(gvr),
    };
    let accept = source_encoding::accept(gvr, other_release);
    let form = match sample(upstream, gvr, accept, &fields).await {
        Ok(form) => form,
        Err(limit) => return Diagnosis(vec![limit]),
    };
    let mut limits = Vec::new();
    if other_release {
        limits.push(Limit::OtherRelease(release));
    }
    if presentation::has_other_lists(gvr, &defined, release) {
        limits.push(Limit::OtherLists(release));
    }
    let definition = defined.definition();
    if printer_check::printer(gvr, form, definition, release, &columns).is_none() {
        limits.push(Limit::Columns);
    }
    Diagnosis(limits)
}

/// Reads some objects as the cache would, and returns their form.
async fn sample(
    upstream: &dyn Source,
    gvr: &GroupVersionResource,
    accept: &str,
    fields: &FieldTable,
) -> Result<Form, Limit> {
    let refused = |why: String| Limit::NotListed(why);
    let path = format!("{}?limit={SAMPLED_OBJECTS}", gvr.path());
    let asked = upstream.get(ReadKind::Discovery, &path, accept);
    let response = asked.await.map_err(|error| refused(error.to_string()))?;
    let (status, encoding) = (
        response.status(),
        source_encoding::encoding(response.headers()),
    );
    let body = response.into_body().collect_bytes(BodyLimit::DOCUMENT);
    let body = body.await.map_err(|error| refused(error.to_string()))?;
    if status != StatusCode::OK {
        return Err(refused(format!("{}: {}", status.as_u16(), message(&body))));
    }
    let page = ListPage::parse(encoding, &body, usize::MAX);
    let page = page.map_err(|error| refused(error.to_string()))?;
    for item in &page.items {
        match StoredObject::decode(page.encoding, item.clone(), fields, &page.envelope) {
            Ok(_) => {}
            Err(MalformedObject::Protobuf(what)) => return Err(Limit::Unknown(what.to_string())),
            Err(error) => return Err(refused(error.to_string())),
        }
    }
    Ok(page.envelope.form)
}
