//! Records a request that has ended, in metrics and in the access log.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apifront_upstream::UpstreamKind;
use apifront_watch_cache::read::HitCost;
use apifront_watch_cache::watch::Tally;
use http::header::CONTENT_TYPE;
use http::{Method, Uri, request};
use kubernetes_wire::api::GroupVersionResource;
use kubernetes_wire::request::RequestInfo;
use kubernetes_wire::request::metric_labels::{DryRun, ScopeLabel, Verb};

use super::context::{CacheResult, Hit, Reply, RequestContext};
use super::talker;
use crate::deprecation::{Deprecations, Requested};
use crate::metrics::{
    self, CacheResult as CountedResult, CachedResource, KnownName, RequestOutcome, ResourceMetrics,
};
use crate::server::exchange::{Culprit, Exchange};
use crate::spans::{Ending, RequestSpan};

/// The health paths. They are the only paths without a resource that kube-apiserver
/// counts by their path.
const HEALTH: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// The most bytes of a URI in the access log. Longer URIs are lists of selectors, or
/// attempts to fill a disk.
const MAX_LOGGED_URI_BYTES: usize = 2048;

/// The most bytes of a method or a user's name in the access log.
const MAX_LOGGED_WORD_BYTES: usize = 256;

/// The facts about a request that its record needs, independent of the exchange.
pub(in crate::server) struct Finished {
    started: Instant,
    method: Method,
    /// The path and the query. The query is logged unchanged, because nothing in the
    /// Kubernetes API puts secrets there.
    uri: Uri,
    /// The user's name, without groups.
    user: Option<String>,
    code: u16,
    cache: CacheResult,
    /// The time until upstream's answer began, if upstream was asked.
    upstream_took: Option<Duration>,
    labels: Labels,
    series: Option<Arc<ResourceMetrics>>,
    cached: Option<Arc<CachedResource>>,
    deprecated: Option<DeprecatedApi>,
    metrics: Arc<metrics::Metrics>,
    end: &'static str,
    span: Option<Box<RequestSpan>>,
}

#[derive(Clone, Copy)]
struct Labels {
    verb: Verb,
    scope: ScopeLabel,
    dry_run: DryRun,
    /// The lower-case verb in the cache's own metric.
    read: &'static str,
}

/// The requested API, if it is deprecated.
struct DeprecatedApi {
    gvr: GroupVersionResource,
    subresource: String,
    requested: Requested,
    known: Arc<Deprecations>,
}

impl DeprecatedApi {
    fn from_context(ctx: &RequestContext) -> Option<Self> {
        let requested = ctx.reply.deprecated?;
        let info = ctx.stage().received()?.info();
        Some(Self {
            gvr: info.gvr.clone(),
            subresource: info.subresource.clone(),
            requested,
            known: ctx.generation().deprecations.clone(),
        })
    }
}

/// Counts a watcher, and the events that are sent to it.
pub(in crate::server) struct Watching {
    series: Option<Arc<ResourceMetrics>>,
    scope: ScopeLabel,
    started: Instant,
    cached: Option<Arc<CachedResource>>,
    _long_running: Option<metrics::LongRunning>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        if let Some(cached) = &self.cached {
            cached.watchers.dec();
        }
    }
}

impl Watching {
    /// Measures how long a batch was on its way, from the moment its oldest event
    /// arrived.
    pub(in crate::server) fn delivered(&self, arrived: Instant) {
        if let Some(series) = &self.series {
            series.watch_events().delivered(arrived.elapsed());
        }
    }

    /// Counts the events that were sent to the watches of a group.
    pub(in crate::server) fn count(&self, tally: &Tally) {
        if let Some(series) = &self.series {
            let events = series.watch_events();
            for (bytes, number) in &tally.frames {
                events.sent_to_many(*bytes, *number);
            }
            events.delivered_to_many(tally.waited, tally.clients);
        }
    }

    /// Counts a batch of whole frames.
    pub(in crate::server) fn sent(&self, bytes: usize, events: usize) {
        if let (Some(series), Some(each)) = (&self.series, bytes.checked_div(events)) {
            let counted = series.watch_events();
            for _ in 0..events {
                counted.sent(each);
            }
        }
    }
}

impl Watching {
    pub(in crate::server) fn ended(&self, reason: &'static str) {
        if let Some(cached) = &self.cached {
            cached.watch_ended(reason);
        }
    }

    /// Notes that the client has all initial events. Only changes follow.
    pub(in crate::server) fn initial_events_sent(&self) {
        if let Some(series) = &self.series {
            series.watch_list(self.scope, self.started.elapsed());
        }
    }
}

impl Finished {
    pub(in crate::server) fn new(request: &request::Parts, ctx: &RequestContext) -> Self {
        let content_type = request.headers.get(CONTENT_TYPE).map(|v| v.as_bytes());
        let Reply { code, cache, .. } = ctx.reply;
        let info = ctx.stage().received().map(|received| received.info());
        let name = info
            .filter(|info| info.is_resource_request)
            .and_then(|info| name(ctx, info));
        let requests = &ctx.generation().metrics.requests;
        let series = info.map(
            |info| match HEALTH.iter().find(|path| **path == info.path) {
                Some(path) => Arc::new(requests.path(path)),
                None => requests.resource(name.as_ref()),
            },
        );
        let cached = name
            .filter(|_| !matches!(cache, CacheResult::NotAsked | CacheResult::Remembered))
            .map(|name| ctx.generation().metrics.cache.resource(name.gvr()));
        let user = ctx.stage().identified().and_then(|i| i.user());
        Self {
            started: ctx.started(),
            method: request.method.clone(),
            uri: request.uri.clone(),
            user: user.map(|user| user.name.clone()),
            code,
            cache,
            upstream_took: ctx.forward.as_ref().and_then(|forward| forward.took()),
            labels: Labels::from_context(ctx, content_type),
            series,
            cached,
            deprecated: DeprecatedApi::from_context(ctx),
            metrics: ctx.generation().metrics.clone(),
            end: "",
            span: None,
        }
    }

    /// Makes the one `Finished` that will be recorded. Unlike [`Finished::new`], it
    /// takes the request's spans along. A watch that is not sampled keeps no memory
    /// for spans.
    pub(in crate::server) fn last(request: &request::Parts, ctx: &mut RequestContext) -> Self {
        Self {
            span: ctx.span.take().filter(|span| span.is_sampled()),
            ..Self::new(request, ctx)
        }
    }

    /// Counts the request among the long-running requests, until the result is
    /// dropped.
    pub(in crate::server) fn long_running(&self) -> Option<metrics::LongRunning> {
        let Labels { verb, scope, .. } = self.labels;
        self.series.as_ref().map(|s| s.long_running(verb, scope))
    }

    /// Counts a watch that is served from the cache, until the result is dropped.
    pub(in crate::server) fn watching(&self) -> Watching {
        if let Some(cached) = &self.cached {
            cached.watchers.inc();
        }
        Watching {
            series: self.series.clone(),
            scope: self.labels.scope,
            started: self.started,
            cached: self.cached.clone(),
            _long_running: self.long_running(),
        }
    }

    /// Counts a request that was refused to protect this process.
    pub(in crate::server) fn terminated(&self) {
        let Labels { verb, scope, .. } = self.labels;
        if let Some(series) = &self.series {
            series.termination(verb, scope, self.code);
        }
    }

    pub(in crate::server) fn aborted(&self) {
        let Labels { verb, scope, .. } = self.labels;
        if let Some(series) = &self.series {
            series.abort(verb, scope);
        }
    }

    pub(in crate::server) fn ended(&mut self, end: &'static str) {
        self.end = end;
    }

    pub(in crate::server) fn record(self, response_bytes: usize) {
        let Labels {
            verb,
            scope,
            dry_run,
            read,
        } = self.labels;
        let elapsed = self.started.elapsed();
        if let Some(series) = &self.series {
            series.observe(
                verb,
                scope,
                dry_run,
                RequestOutcome {
                    code: self.code,
                    elapsed,
                    response_bytes: u64::try_from(response_bytes).unwrap_or(u64::MAX),
                },
            );
        }
        if let Some(api) = &self.deprecated {
            api.known.count(&api.gvr, &api.subresource, api.requested);
        }
        let (result, reason) = counted(self.cache);
        if let (Some(cached), Some(result)) = (&self.cached, result) {
            cached.request(read, result, reason);
        }
        if let Some(took) = self.upstream_took {
            let code = (self.code != 0).then_some(self.code);
            self.metrics
                .upstream
                .observe(UpstreamKind::Forward, code, took);
        }
        if let Some(span) = self.span {
            span.end(&Ending {
                code: self.code,
                bytes: response_bytes,
                cache: result.map_or("", CountedResult::as_str),
                reason,
                end: self.end,
            });
        }
        tracing::info!(
            target: crate::logging::ACCESS,
            method = &*short(self.method.as_str(), MAX_LOGGED_WORD_BYTES),
            uri = &*short(&self.uri.to_string(), MAX_LOGGED_URI_BYTES),
            user = self.user.as_deref().map(|user| short(user, MAX_LOGGED_WORD_BYTES)).as_deref(),
            code = self.code,
            cache = result.map(CountedResult::as_str),
            reason = (!reason.is_empty()).then_some(reason),
            end = (!self.end.is_empty()).then_some(self.end),
            bytes = response_bytes,
            took = ?elapsed,
        );
    }
}

impl Labels {
    fn from_context(ctx: &RequestContext, content_type: Option<&[u8]>) -> Self {
        let values = ctx.query().into_iter();
        let dry_run = DryRun::from_values(values.flat_map(|query| query.all("dryRun")));
        let Some(info) = ctx.stage().received().map(|received| received.info()) else {
            return Self {
                verb: Verb::Other,
                scope: ScopeLabel::None,
                dry_run,
                read: "",
            };
        };
        Self {
            verb: info.metric_verb(content_type),
            scope: info.scope(),
            dry_run,
            read: match info.verb.as_str() {
                "get" => "get",
                "list" => "list",
                "watch" => "watch",
                _ => "",
            },
        }
    }
}

/// Records a request that pingora saw to its end. `broken_by` is given if it was
/// broken off.
pub(in crate::server) fn record_request(
    exchange: &Exchange<'_>,
    ctx: &mut RequestContext,
    broken_by: Option<Culprit>,
) {
    if ctx.reply.code == 0 {
        // The client went away before the answer began.
        ctx.reply.code = if broken_by.is_some() { 499 } else { 0 };
    }
    let bytes = if ctx.reply.bytes > 0 {
        ctx.reply.bytes
    } else {
        exchange.body_bytes_sent()
    };
    let finished = Finished::last(exchange.request(), ctx);
    if broken_by == Some(Culprit::Upstream) && exchange.has_begun() {
        finished.aborted();
    }
    talker::count(exchange.request(), ctx, bytes);
    finished.record(bytes);
}

/// Returns the labels under which the cache's part in an answer is counted, with the
/// reason for it.
fn counted(cache: CacheResult) -> (Option<CountedResult>, &'static str) {
    match cache {
        CacheResult::NotAsked => (None, ""),
        CacheResult::Hit(Hit {
            cost: cost @ HitCost::Object,
            ..
        }) => (Some(CountedResult::Bypass), cost.as_str()),
        CacheResult::Hit(Hit { cost, .. }) => (Some(CountedResult::Hit), cost.as_str()),
        CacheResult::Document | CacheResult::Remembered => (Some(CountedResult::Hit), ""),
        CacheResult::Bypass(reason) => (Some(CountedResult::Bypass), reason.as_str()),
    }
}

/// Returns the name under which a request is counted.
fn name(ctx: &RequestContext, info: &RequestInfo) -> Option<KnownName> {
    let Reply { code, cache, .. } = ctx.reply;
    let is_hit = matches!(cache, CacheResult::Hit(_));
    let known = &ctx.generation().metrics.known;
    known.of_answer(&info.gvr, &info.subresource, code, is_hit)
}

/// Cuts a client's text to `most` bytes for the log.
fn short(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let beginning = text
        .get(..text.floor_char_boundary(most))
        .unwrap_or_default();
    Cow::Owned(format!("{beginning}... ({} bytes)", text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_line_is_short_whatever_the_client_sends() {
        assert_eq!(short("/api", 4), "/api");
        assert_eq!(short("/api/v1", 4), "/api... (7 bytes)");
        assert_eq!(short("\u{e9}\u{e9}", 3), "\u{e9}... (4 bytes)");
        let long = "x".repeat(65_536);
        assert!(short(&long, MAX_LOGGED_URI_BYTES).len() < MAX_LOGGED_URI_BYTES + 32);
    }
}
