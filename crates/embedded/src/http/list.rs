//! LIST: selection, snapshots, pages. The choice of the state that a list shows
//! follows apiserver `storage/cacher/delegator`.

use std::{ops::Bound, sync::Arc};

use http::Response;
use kubernetes_wire::{
    api::{ContinueToken, ListOptions, ResourceVersionMatch, Status},
    negotiation::Transform,
    representation::{ListMeta, TableOptions},
};

use super::{
    call::Call,
    errors,
    fresh::wait_for,
    list_options,
    reply::{Body, ready},
    selection::Selection,
    watch,
};
use crate::{
    storage::{Snapshot, SnapshotError, Stored},
    table, view,
};

pub(super) async fn list_or_watch(call: &Call<'_>) -> Result<Response<Body>, Status> {
    let options = list_options::decode(&call.head.query, call.target.watch)?;
    call.resource.check_fields(&options.field_selector)?;
    let selection = Selection::from_call(call, options);
    if selection.options.watch {
        return watch::start(call, selection).await;
    }
    let transform = call.negotiate()?;
    let (items, meta) = page(call, &selection).await?;
    let resource = &call.resource;
    let shaped = match transform {
        Transform::None => None,
        Transform::Table(version) => {
            let include = call.include_object()?;
            table::list(resource, &items, &meta, TableOptions { version, include }).ok()
        }
        Transform::PartialObjectMetadataList(version) => {
            table::metadata_list(resource, &items, &meta, version)
        }
        Transform::PartialObjectMetadata(_) => {
            return Err(call.wrong_shape("PartialObjectMetadata", "a list", "List"));
        }
    };
    let whole = || view::list(resource, &items, &meta);
    Ok(ready(shaped.unwrap_or_else(whole)))
}

pub(super) async fn page(
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
    // A list with resourceVersion 0 is served whole; its limit is ignored.
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
