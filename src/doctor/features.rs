//! The features of the API server's release that apifront uses. Each is tried.

use http::StatusCode;
use kubernetes_wire::api::Release;

use super::client::Client;
use super::{Finding, Section};

const SECTION: Section = Section::Features;

/// A watch of nothing that ends after a second.
const WATCH_LIST: &str = "/api/v1/namespaces?watch=true&sendInitialEvents=true\
    &resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1\
    &fieldSelector=metadata.name%3Dapifront-doctor";

/// The first release whose API server answers lists of the newest state from its
/// cache by default (KEP-2340): it asks etcd for its progress.
const CONSISTENT_READS: (u32, u32) = (1, 31);

const APF: &str = "x-kubernetes-pf-flowschema-uid";

pub(super) async fn examine(client: &Client, release: Option<Release>) -> Vec<Finding> {
    vec![
        watch_list(client).await,
        progress(release),
        priority_and_fairness(client).await,
    ]
}

async fn watch_list(client: &Client) -> Finding {
    let subject = "WatchList (KEP-3157)";
    match client.get(WATCH_LIST).await {
        Ok(answer) if answer.status == StatusCode::OK => {
            let ends = String::from_utf8_lossy(&answer.body).contains("k8s.io/initial-events-end");
            if ends {
                let found = "the cache is filled by one watch for each resource";
                return Finding::good(SECTION, subject, found);
            }
            let found = "offered, but the end of initial events did not come within a second";
            Finding::neutral(SECTION, subject, found)
        }
        Ok(answer) if answer.status == StatusCode::FORBIDDEN => {
            let found = "cannot be tried: apifront may not watch namespaces";
            Finding::neutral(SECTION, subject, found)
        }
        Ok(answer) => {
            let found = format!(
                "not offered ({}): the cache is filled by pages",
                answer.error()
            );
            let remedy = "nothing needs it; --feature-gates=WatchList=true saves the API server \
                          memory when many clients start";
            Finding::neutral(SECTION, subject, found).mended_by(remedy)
        }
        Err(error) => Finding::neutral(SECTION, subject, format!("cannot be tried: {error}")),
    }
}

fn progress(release: Option<Release>) -> Finding {
    let subject = "progress notification (KEP-2340)";
    match release {
        Some(release) if release >= Release::from(CONSISTENT_READS) => {
            let found = "the API server proves the freshness of reads without reading etcd";
            Finding::good(SECTION, subject, found)
        }
        _ => {
            let found = "not in this release: each proof of freshness is a read of etcd";
            let remedy = "with cache.consistency Fresh or Bounded, fewer are needed";
            Finding::neutral(SECTION, subject, found).mended_by(remedy)
        }
    }
}

async fn priority_and_fairness(client: &Client) -> Finding {
    let subject = "API Priority and Fairness";
    match client.get("/api").await {
        Ok(answer) if answer.headers.contains_key(APF) => {
            let found = "on: apifront's own requests have a priority level upstream";
            Finding::good(SECTION, subject, found)
        }
        Ok(_) => {
            let found = "off: apifront's own requests compete with those of all others";
            let remedy = "start kube-apiserver with --enable-priority-and-fairness";
            Finding::neutral(SECTION, subject, found).mended_by(remedy)
        }
        Err(error) => Finding::neutral(SECTION, subject, format!("cannot be tried: {error}")),
    }
}
