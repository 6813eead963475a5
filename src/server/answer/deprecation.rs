//! Adds warnings about deprecated APIs to answers of every kind, and notes which
//! caller used the API. The note is recorded when the request ends.

use apifront_watch_cache::reflector::Entry;
use apifront_watch_cache::store::Store;
use http::header::WARNING;
use http::{HeaderMap, HeaderValue, StatusCode};
use kubernetes_wire::api::{GroupVersionResource, warning};
use pingora_core::Result;
use pingora_http::ResponseHeader;

use crate::server::stage::context::RequestContext;
use crate::server::state::generation::Generation;

pub(in crate::server) async fn of_cached(
    generation: &Generation,
    gvr: &GroupVersionResource,
    entry: &Entry,
    store: &Store,
) -> Vec<HeaderValue> {
    let learnt = &store.presentation().warnings;
    let configured = &generation.config.apis.deprecations;
    let warnings = generation.deprecations.of_cached(gvr, learnt, configured);
    generation
        .deprecations
        .study(&*entry.upstream(), gvr, &warnings)
        .await;
    warnings
}

/// Reads the warnings of a forwarded answer. If apifront adds a warning, returns all
/// warnings for the client.
pub(in crate::server) async fn of_forwarded(
    ctx: &mut RequestContext,
    status: StatusCode,
    headers: &HeaderMap,
) -> Option<Vec<HeaderValue>> {
    let forward = ctx.forward.as_ref()?;
    let generation = forward.generation();
    let info = Some(forward.info()).filter(|info| info.is_resource_request)?;
    let entries = &generation.config.apis.deprecations;
    if entries.is_empty() && !headers.contains_key(WARNING) {
        return None;
    }
    let mut warnings: Vec<HeaderValue> = headers.get_all(WARNING).iter().cloned().collect();
    generation
        .deprecations
        .study(&*forward.upstream, &info.gvr, &warnings)
        .await;
    let before = warnings.len();
    if reached(status)
        && let Some(lifecycle) =
            generation
                .deprecations
                .configured(entries, &info.gvr, &info.subresource)
    {
        warning::add(&mut warnings, &lifecycle.warning());
    }
    let more = warnings.len() > before;
    note(ctx, status, &warnings);
    more.then_some(warnings)
}

/// Sets these warnings, and removes all others.
pub(in crate::server) fn replace(
    header: &mut ResponseHeader,
    warnings: Vec<HeaderValue>,
) -> Result<()> {
    header.remove_header(&WARNING);
    for warning in warnings {
        header.append_header(WARNING, warning)?;
    }
    Ok(())
}

/// Tells whether the answer may come from the API itself. kube-apiserver gives no
/// warning if an earlier filter answers.
fn reached(status: StatusCode) -> bool {
    !matches!(
        status,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS
    )
}

/// Notes the deprecation that an answer's warnings name, for the request's record.
pub(in crate::server) fn note(
    ctx: &mut RequestContext,
    status: StatusCode,
    warnings: &[HeaderValue],
) {
    if warnings.is_empty() {
        return;
    }
    let info = ctx.stage().received().map(|received| received.info());
    let info = info.filter(|info| info.is_resource_request);
    ctx.reply.deprecated = info.and_then(|info| {
        let known = &ctx.generation().deprecations;
        let configured = &ctx.generation().config.apis.deprecations;
        known.requested(&info.gvr, &info.subresource, status, warnings, configured)
    });
    if let (Some(requested), Some(trail)) = (&ctx.reply.deprecated, &mut ctx.audit) {
        for (key, value) in requested.annotations() {
            trail.annotate_at_end(key, value);
        }
    }
}

/// Does what [`note`] does, for an answer that was made here.
pub(in crate::server) fn note_answer(
    ctx: &mut RequestContext,
    status: StatusCode,
    headers: &HeaderMap,
) {
    if headers.contains_key(WARNING) {
        let warnings: Vec<HeaderValue> = headers.get_all(WARNING).iter().cloned().collect();
        note(ctx, status, &warnings);
    }
}
