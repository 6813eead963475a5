//! The demo: an API server with sample objects in this process, for a start that names
//! no cluster. Only builds with the feature `demo` have it.

pub(crate) use self::build::{DEMO, start};

#[cfg(feature = "demo")]
mod build {
    use std::io;

    use apifront::config::{Config, Demo, Upstream};
    use apifront_embedded::{EmbeddedServer, Handle};

    pub(crate) const DEMO: Demo = Demo::Included;

    /// Starts the API server if the configuration asks for it. Dropping the handle ends
    /// the server and the task that changes its sample objects.
    pub(crate) async fn start(config: &Config) -> io::Result<Option<Handle>> {
        if config.upstream != Upstream::Demo {
            return Ok(None);
        }
        let loopback = ([127, 0, 0, 1], 0).into();
        EmbeddedServer::start_default(loopback).await.map(Some)
    }
}

#[cfg(not(feature = "demo"))]
mod build {
    use std::io;
    use std::net::SocketAddr;

    use apifront::config::{Config, Demo};

    pub(crate) const DEMO: Demo = Demo::Absent;

    /// A running server, of which there is none.
    pub(crate) enum Handle {}

    impl Handle {
        pub(crate) fn address(&self) -> SocketAddr {
            match *self {}
        }

        pub(crate) async fn stop(self) {
            match self {}
        }
    }

    pub(crate) async fn start(_config: &Config) -> io::Result<Option<Handle>> {
        Ok(None)
    }
}
