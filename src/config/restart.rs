//! What a running process cannot change about itself.

use super::{Config, Upstream};

/// The fields whose change takes effect at the next start only. Sockets stay
/// open and the kind of process stays what it is; all else is read anew by the
/// next request, connection or handshake.
pub fn restart_required(old: &Config, new: &Config) -> Vec<&'static str> {
    let secure_address = |c: &Config| c.serving.secure.as_ref().map(|s| s.address);
    let serving = (&old.serving, &new.serving);
    [
        (
            "serving.securePort",
            secure_address(old) != secure_address(new),
        ),
        (
            "serving.insecurePort",
            serving.0.insecure != serving.1.insecure,
        ),
        (
            "serving.http2MaxStreamsPerConnection",
            serving.0.http2_max_streams_per_connection
                != serving.1.http2_max_streams_per_connection,
        ),
        (
            "observability.port",
            old.observability.address != new.observability.address,
        ),
        ("logging.format", old.logging.format != new.logging.format),
        ("upstream", upstream_replaced(&old.upstream, &new.upstream)),
        (
            "authentication",
            old.access.delegated().map(|d| &d.authentication)
                != new.access.delegated().map(|d| &d.authentication),
        ),
        (
            "identity.mode",
            old.access.delegated().map(|d| d.identity.as_str())
                != new.access.delegated().map(|d| d.identity.as_str()),
        ),
        ("cache", old.cache != new.cache),
    ]
    .into_iter()
    .filter_map(|(field, changed)| changed.then_some(field))
    .collect()
}

fn upstream_replaced(old: &Upstream, new: &Upstream) -> bool {
    old != new
}
