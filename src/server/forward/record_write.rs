//! Learns the version that a caller's write made, from the answer that is passed on.

use std::time::Instant;

use apifront_watch_cache::Consistency;
use apifront_watch_cache::read::WrittenVersion;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{Method, response};

use crate::server::stage::forwarded::Forward;

/// Notes a write when its answer begins with a success.
pub(in crate::server) fn begin(method: &Method, response: &response::Parts, forward: &mut Forward) {
    let info = forward.info();
    let writes = matches!(
        *method,
        Method::POST | Method::PUT | Method::PATCH | Method::DELETE
    );
    // A proxied answer is not about the resource. In strict mode nothing is noted,
    // because reads show every write anyway.
    let counts = writes
        && response.status.is_success()
        && info.is_resource_request
        && info.subresource != "proxy"
        && !forward.query().contains("dryRun")
        && forward.generation().settings.cache.consistency != Consistency::Strict;
    if !counts {
        return;
    }
    let content_type = response.headers.get(CONTENT_TYPE);
    let content_type = content_type.map_or(&b""[..], |v| v.as_bytes());
    let version = if *method == Method::DELETE {
        // The answer holds a Status, the object before its deletion, or the object
        // that waits for its finalizers.
        WrittenVersion::Known(None)
    } else {
        let is_encoded = response.headers.contains_key(CONTENT_ENCODING);
        WrittenVersion::for_content_type(content_type, is_encoded)
    };
    let writes = &forward.generation().own_writes;
    let write = writes.begin(forward.user(), &info.gvr, Instant::now());
    forward.write = Some((write, version));
}

/// Reads a piece of the answer, before the client gets it.
pub(in crate::server) fn learn(bytes: &[u8], end: bool, forward: &mut Forward) {
    let Some((_, version)) = &mut forward.write else {
        return;
    };
    if (version.push(bytes) || end)
        && let Some((write, version)) = forward.write.take()
    {
        write.close(version.version());
    }
}
