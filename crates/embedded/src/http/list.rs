//! LIST: selection, snapshots, pages. Which state a list shows follows
//! apiserver `storage/cacher/delegator`.

use std::{ops::Bound, sync::Arc, time::Duration};

use http::Response;

use super::{Body, Media, call::Call, errors, list_options, ready, watch};
use crate::{
    storage::{Snapshot, SnapshotError, Stored},
    table, view,
};
use kubernetes_wire::{
    api::{ContinueToken, ListOptions, ResourceVersionMatch, Status},
    representation::{ListMeta, TableOptions},
};

/// How long a read waits for a version from the future (`blockTimeout` of the
/// watch cache).
pub const FRESH_WAIT: Duration = Duration::from_secs(3);

/// Which keys and objects a list or watch is about.
#[derive(Clone)]
pub struct Selection {
    /// `namespace/`, or empty for all.
    pub prefix: String,
    /// The only key it can be about.
    pub key: Option<String>,
    pub options: ListOptions,
}

impl Selection {
    pub fn of(call: &Call<'_>, options: ListOptions) -> Self {
        let fields = &options.field_selector;
        let mut namespace = call.target.namespace.clone();
        if namespace.is_empty()
            && call.resource.namespaced
            && let Some(required) = fields.required("metadata.namespace")
        {
            namespace = required.to_owned();
        }
        let name = if call.target.name.is_empty() {
            fields.required("metadata.name").map(str::to_owned)
        } else {
            Some(call.target.name.clone())
        };
        let known = !call.resource.namespaced || !namespace.is_empty();
        Self {
            key: name
                .filter(|_| known)
                .map(|name| call.resource.key(&namespace, &name)),
            prefix: if namespace.is_empty() {
                String::new()
            } else {
                format!("{namespace}/")
            },
            options,
        }
    }

    pub fn has_key(&self, key: &str) -> bool {
        match &self.key {
            Some(only) => only == key,
            None => key.starts_with(&self.prefix),
        }
    }

    pub fn matches(&self, resource: &crate::registry::Resource, object: &Stored) -> bool {
        self.options.label_selector.matches(&object.labels)
            && resource.matches_fields(&self.options.field_selector, &object.value)
    }

    fn selects_all(&self) -> bool {
        self.options.label_selector.is_empty() && self.options.field_selector.is_empty()
    }
}

pub async fn list_or_watch(call: &Call<'_>) -> Result<Response<Body>, Status> {
    let options = list_options::decode(&call.head.query, call.target.watch)?;
    call.resource.check_fields(&options.field_selector)?;
    let selection = Selection::of(call, options);
    if selection.options.watch {
        return watch::start(call, selection).await;
    }
    let media = call.media()?;
    let (items, meta) = page(call, &selection).await?;
    let resource = &call.resource;
    let shaped = match media {
        Media::Table(version) => {
            let include = call.include_object()?;
            table::list(resource, &items, &meta, TableOptions { version, include }).ok()
        }
        Media::MetadataList(version) => table::metadata_list(resource, &items, &meta, version),
        Media::Metadata(_) => {
            return Err(call.wrong_shape("PartialObjectMetadata", "a list", "List"));
        }
        Media::Json | Media::Discovery => None,
    };
    Ok(ready(
        shaped.unwrap_or_else(|| view::list(resource, &items, &meta)),
    ))
}

/// The objects of a page, and what to say about it.
pub async fn page(
    call: &Call<'_>,
    selection: &Selection,
) -> Result<(Vec<Arc<Stored>>, ListMeta), Status> {
    let options = &selection.options;
    let token = match options.continue_token.as_str() {
        _ if selection.key.is_some() => None,
        "" => None,
        text => Some(
            ContinueToken::parse(text)
                .map_err(|why| Status::bad_request(format!("invalid continue token: {why}")))?,
        ),
    };
    if token.is_some() && !matches!(options.resource_version.as_str(), "" | "0") {
        return Err(Status::bad_request(
            "specifying resource version is not allowed when using continue",
        ));
    }
    let version = list_options::parse_version(&options.resource_version)
        .map_err(|text| Status::bad_request(format!("invalid resource version: {text}")))?;
    let snapshot = snapshot(call, options, token.as_ref(), version).await?;
    Ok(cut(call, selection, token.as_ref(), &snapshot))
}

async fn snapshot(
    call: &Call<'_>,
    options: &ListOptions,
    token: Option<&ContinueToken>,
    version: u64,
) -> Result<Snapshot, Status> {
    let resource = call.group_resource();
    let exact = |revision: u64, too_old: &dyn Fn() -> Status| {
        call.storage()
            .snapshot_at(&resource, revision)
            .map_err(|error| match error {
                SnapshotError::TooOld => too_old(),
                SnapshotError::Future { current } => {
                    errors::too_large_resource_version(revision, current)
                }
            })
    };
    if let Some(token) = token {
        return match u64::try_from(token.resource_version) {
            Ok(revision) => exact(revision, &|| expired_continue(token)),
            Err(_) => Ok(call.storage().snapshot(&resource)),
        };
    }
    let legacy_exact = options.resource_version_match.is_empty() && options.limit > 0;
    let wants_exact = options.version_match() == Ok(Some(ResourceVersionMatch::Exact));
    if wants_exact || (legacy_exact && version > 0) {
        return exact(version, &|| {
            Status::expired("The resourceVersion for the provided list is too old.")
        });
    }
    wait_for(call, version).await?;
    Ok(call.storage().snapshot(&resource))
}

/// Waits until a revision has come to be.
pub async fn wait_for(call: &Call<'_>, version: u64) -> Result<(), Status> {
    let deadline = tokio::time::Instant::now() + FRESH_WAIT;
    while call.storage().revision() < version {
        let now = tokio::time::Instant::now();
        if now >= deadline {
            return Err(errors::too_large_resource_version(
                version,
                call.storage().revision(),
            ));
        }
        tokio::time::sleep(Duration::from_millis(20).min(deadline - now)).await;
    }
    Ok(())
}

fn expired_continue(token: &ContinueToken) -> Status {
    let mut status = Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    status.metadata.continue_token = token.clone().at_newest().to_string();
    status
}

fn cut(
    call: &Call<'_>,
    selection: &Selection,
    token: Option<&ContinueToken>,
    snapshot: &Snapshot,
) -> (Vec<Arc<Stored>>, ListMeta) {
    let options = &selection.options;
    let mut meta = ListMeta {
        resource_version: snapshot.revision.to_string(),
        ..ListMeta::default()
    };
    if let Some(key) = &selection.key {
        let found = snapshot
            .objects
            .get(key.as_str())
            .filter(|object| selection.matches(&call.resource, object));
        return (found.cloned().into_iter().collect(), meta);
    }
    // A list at any version is served whole, whatever its limit.
    let unlimited = options.limit <= 0
        || (options.resource_version == "0" && token.is_none() && {
            options.version_match() != Ok(Some(ResourceVersionMatch::Exact))
        });
    let limit = if unlimited {
        usize::MAX
    } else {
        usize::try_from(options.limit).unwrap_or(usize::MAX)
    };
    let start = format!(
        "{}{}",
        selection.prefix,
        token.map_or("", |token| token.start.as_str())
    );
    let mut candidates = snapshot
        .objects
        .range::<_, str>((Bound::Included(start.as_str()), Bound::Unbounded))
        .take_while(|(key, _)| key.starts_with(&selection.prefix));
    let mut items = Vec::new();
    for (key, object) in candidates.by_ref() {
        if selection.matches(&call.resource, object) {
            items.push(object.clone());
        }
        if items.len() == limit {
            let remaining = candidates.count();
            if remaining > 0 {
                let last = key.strip_prefix(&selection.prefix).unwrap_or(key);
                meta.continue_token = ContinueToken::after(snapshot.revision, last).to_string();
                meta.remaining_item_count = selection
                    .selects_all()
                    .then(|| i64::try_from(remaining).unwrap_or(i64::MAX));
            }
            break;
        }
    }
    (items, meta)
}
