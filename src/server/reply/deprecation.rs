//! Adds warnings about deprecated APIs to answers of every kind (`deprecation/mod.rs`
//! decides which), and notes which caller used the API. The note is recorded when the
//! request ends.

use apifront_watch_cache::reflector::Entry;
use apifront_watch_cache::store::Store;
use http::header::WARNING;
use http::response::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use kubernetes_wire::api::{GroupVersionResource, warning};

use crate::server::exchange::answer_head::AnswerHead;
use crate::server::stage::context::RequestContext;
use crate::server::state::generation::Generation;

pub(in crate::server) async fn of_cached(
    generation: &Generation,
    gvr: &GroupVersionResource,
    entry: &Entry,
    store: &Store,
) -> Vec<HeaderValue> {
    let learnt = &store.presentation().warnings;
    let configured = &generation.settings.deprecations;
    let warnings = generation.deprecations.of_cached(gvr, learnt, configured);
    generation
        .deprecations
        .study(&*entry.upstream(), gvr, &warnings)
        .await;
    warnings
}

/// Reads the warnings of a forwarded answer, and adds those of the configuration.
pub(super) async fn warn_forwarded(ctx: &mut RequestContext, head: &mut impl AnswerHead) {
    let Some(forward) = &ctx.forward else { return };
    let generation = forward.generation();
    let info = forward.info();
    let entries = &generation.settings.deprecations;
    let is_silent = entries.is_empty() && !head.read().headers.contains_key(WARNING);
    if !info.is_resource_request || is_silent {
        return;
    }
    let status = head.read().status;
    let mut warnings = warnings(&head.read().headers);
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
    // Together they have a limit, so that an addition may shorten the others.
    if warnings.len() > before {
        let headers = &mut head.change().headers;
        headers.remove(WARNING);
        for warning in &warnings {
            headers.append(WARNING, warning.clone());
        }
    }
    note(ctx, status, &warnings);
}

fn warnings(headers: &HeaderMap) -> Vec<HeaderValue> {
    headers.get_all(WARNING).iter().cloned().collect()
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
pub(super) fn note(ctx: &mut RequestContext, status: StatusCode, warnings: &[HeaderValue]) {
    if warnings.is_empty() {
        return;
    }
    let info = ctx.stage().received().map(|received| received.info());
    let info = info.filter(|info| info.is_resource_request);
    ctx.reply.deprecated = info.and_then(|info| {
        let known = &ctx.generation().deprecations;
        let configured = &ctx.generation().settings.deprecations;
        known.requested(&info.gvr, &info.subresource, status, warnings, configured)
    });
    if let (Some(requested), Some(trail)) = (&ctx.reply.deprecated, &mut ctx.audit) {
        for (key, value) in requested.annotations() {
            trail.annotate_at_end(key, value);
        }
    }
}

/// Does what [`note`] does, for an answer that was made here.
pub(super) fn note_made(ctx: &mut RequestContext, head: &Parts) {
    if head.headers.contains_key(WARNING) {
        note(ctx, head.status, &warnings(&head.headers));
    }
}
