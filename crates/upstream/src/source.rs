//! The pool of API servers as the source of a cache.

use apifront_source::{BoxError, ReadKind, ResponseBody, Source, SourceError};
use futures::future::BoxFuture;
use http::Response;
use http::header::ACCEPT;
use kubernetes_wire::api::Release;

use crate::{Upstream, UpstreamKind};

impl Source for Upstream {
    fn get<'a>(
        &'a self,
        kind: ReadKind,
        path_and_query: &'a str,
        accept: &'a str,
    ) -> BoxFuture<'a, Result<Response<ResponseBody>, SourceError>> {
        Box::pin(async move {
            let headers = [(ACCEPT, accept)];
            let answer = self.get_with(kind.into(), path_and_query, &headers).await;
            answer.map_err(|error| BoxError::from(error).into())
        })
    }

    /// Uses an answer of the last second again.
    fn release(&self) -> BoxFuture<'_, Option<Release>> {
        Box::pin(self.release.get(|| self.ask_release()))
    }

    fn is_ready(&self) -> bool {
        self.any_healthy()
    }

    fn is_unreachable(&self) -> bool {
        self.is_lost()
    }
}

impl From<ReadKind> for UpstreamKind {
    fn from(kind: ReadKind) -> Self {
        match kind {
            ReadKind::List => Self::List,
            ReadKind::Watch => Self::Watch,
            ReadKind::EarlierEvents => Self::EarlierEvents,
            ReadKind::Probe => Self::Probe,
            ReadKind::SelfCheck => Self::SelfCheck,
            ReadKind::SharedRead => Self::SharedRead,
            ReadKind::Discovery => Self::Discovery,
        }
    }
}
