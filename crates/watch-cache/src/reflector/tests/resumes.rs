//! Tests of stores that go on where the process before stopped.

use std::path::Path;

use super::fake::Asked;
use super::idle::config;
use super::*;
use crate::saved::SavedStores;
use crate::{Persistence, Settings};

const SAVE_WITHIN: Duration = Duration::from_secs(10);

fn saving(directory: &Path) -> Settings {
    Settings {
        persistence: Some(Persistence {
            directory: directory.to_owned(),
            interval: Duration::from_secs(60),
            encryption_key_file: None,
            exclude: Vec::new(),
        }),
        ..config()
    }
}

fn server() -> Fake {
    Fake::start(|asked, _| match asked {
        Asked::List => pod_list(1, &[]),
        Asked::Watch => Reply::Stays(String::new()),
    })
}

fn saved_cache(fake: &Fake, directory: &Path) -> Cache {
    let saved = SavedStores::open(directory, None, Arc::new(())).unwrap();
    cache(fake).saved_in(Some(saved))
}

/// A server that was just started may be too busy to tell its version in time. A list
/// of everything would be more work for it.
#[tokio::test]
async fn a_busy_upstream_is_not_listed_instead() {
    let folder = tempfile::tempdir().unwrap();
    let directory = &folder.path().join("stores");
    let settings = saving(directory);
    {
        let fake = server();
        let cache = saved_cache(&fake, directory);
        filled(&cache, &pods()).await;
        cache.save(&settings, SAVE_WITHIN).await;
    }
    let fake = server().busy(5);
    let cache = saved_cache(&fake, directory);
    cache.resume(&settings, &Everything);
    filled(&cache, &pods()).await;
    let mut asked = fake.asked(Asked::List);
    // This asks for the version.
    asked.retain(|path| path != "/api/v1/pods?limit=1");
    assert_eq!(asked, Vec::<String>::new());
}
