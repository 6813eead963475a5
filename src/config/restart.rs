//! The settings that a running process cannot change.

use super::Config;

/// Returns the changed fields that take effect only at the next start: sockets stay
/// open, and the kind of process stays the same. Everything else is read again by
/// the next request, connection or handshake.
pub fn restart_required(old: &Config, new: &Config) -> Vec<&'static str> {
    let secure_address = |c: &Config| c.serving.secure.as_ref().map(|s| s.address);
    let serving = (&old.serving, &new.serving);
    let persistence = |c: &Config| c.cache.persistence.clone();
    let directory = |c: &Config| persistence(c).map(|p| p.directory);
    let key_file = |c: &Config| persistence(c).and_then(|p| p.encryption_key_file);
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
            serving.0.connection.http2_max_streams_per_connection
                != serving.1.connection.http2_max_streams_per_connection,
        ),
        (
            "serving.goawayChance",
            serving.0.connection.goaway_chance != serving.1.connection.goaway_chance,
        ),
        (
            "observability.port",
            old.observability.address != new.observability.address,
        ),
        ("logging.format", old.logging.format != new.logging.format),
        (
            "serving.requestHeaderTimeout",
            serving.0.connection.request_header_timeout
                != serving.1.connection.request_header_timeout,
        ),
        (
            "serving.idleTimeout",
            serving.0.connection.idle_timeout != serving.1.connection.idle_timeout,
        ),
        (
            "serving.maxConnections",
            serving.0.connection.max_connections != serving.1.connection.max_connections,
        ),
        (
            "serving.maxConnectionsPerClient",
            serving.0.connection.max_connections_per_client
                != serving.1.connection.max_connections_per_client,
        ),
        (
            "serving.maxRequestHeaderBytes",
            serving.0.connection.max_request_header_bytes
                != serving.1.connection.max_request_header_bytes,
        ),
        ("upstream", old.mode() != new.mode()),
        ("cache.directory", directory(old) != directory(new)),
        (
            "cache.persistence.encryptionKeyFile",
            key_file(old) != key_file(new),
        ),
    ]
    .into_iter()
    .filter_map(|(field, changed)| changed.then_some(field))
    .collect()
}
