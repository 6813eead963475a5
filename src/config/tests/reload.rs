//! The configuration of a running process.

use std::fs;
use std::time::Duration;

use clap::Parser;
use prometheus::Registry;
use tempfile::TempDir;

use super::*;

#[test]
fn a_restart_is_asked_for_where_one_is_needed() {
    let old = load_text(MINIMAL, &[]).unwrap();
    let same = load_text(&minimal_with("logging", "  verbosity: 4"), &[]).unwrap();
    assert_eq!(restart_required(&old, &same), Vec::<&str>::new());
    let new = minimal_with(
        "serving",
        "  securePort: 7443\n  requestHeaderTimeout: 5s\n  idleTimeout: 5m\n  maxConnections: 1\n  \
         maxConnectionsPerClient: 0",
    );
    let new = load_text(&new.replace("upstream.kubeconfig", "other"), &[]).unwrap();
    assert_eq!(
        restart_required(&old, &new),
        [
            "serving.securePort",
            "serving.requestHeaderTimeout",
            "serving.idleTimeout",
            "serving.maxConnections",
            "serving.maxConnectionsPerClient",
        ]
    );
}

fn live(source: &Source) -> std::sync::Arc<LiveConfig> {
    let metrics = ReloadMetrics::register(&Registry::new()).unwrap();
    LiveConfig::new(source.load().unwrap(), metrics)
}

#[test]
fn a_bad_file_leaves_the_running_configuration() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("front.yaml");
    fs::write(&file, MINIMAL).unwrap();
    let flags = Flags::try_parse_from(["apifront", "--config", file.to_str().unwrap()]).unwrap();
    let source = Source::new(flags, Demo::Absent);
    let live = live(&source);
    let mut generation = live.subscribe();

    fs::write(&file, minimal_with("cache", "  maxStaleness: soon")).unwrap();
    assert!(live.reload(&source).is_err());
    assert_eq!(live.load().cache.max_staleness, Duration::from_secs(30));
    let error = live.last_error().unwrap();
    assert!(
        error.contains("front.yaml: cache.maxStaleness: \"soon\": "),
        "{error}"
    );
    assert!(!generation.has_changed().unwrap());

    fs::write(&file, minimal_with("cache", "  maxStaleness: 5s")).unwrap();
    assert_eq!(live.reload(&source).unwrap(), [""; 0]);
    assert_eq!(live.load().cache.max_staleness, Duration::from_secs(5));
    assert_eq!(live.last_error(), None);
    assert!(generation.has_changed().unwrap());
    generation.mark_unchanged();
}

/// Kubernetes replaces the file of a mounted ConfigMap through the symlink `..data`.
#[tokio::test]
async fn the_symlink_swap_of_a_config_map_is_noticed() {
    use std::os::unix::fs::symlink;
    let dir = TempDir::new().unwrap();
    let at = |name: &str| dir.path().join(name);
    for (version, text) in [("..1", "old"), ("..2", "new")] {
        fs::create_dir(at(version)).unwrap();
        fs::write(at(version).join("front.yaml"), text).unwrap();
    }
    symlink("..1", at("..data")).unwrap();
    symlink("..data/front.yaml", at("front.yaml")).unwrap();
    let mut watcher = Watcher::new(vec![at("front.yaml")]).unwrap();

    // Reading the file, or a change of another file, is no change.
    fs::read(at("front.yaml")).unwrap();
    fs::write(at("other"), "x").unwrap();
    let wait = tokio::time::timeout(Duration::from_millis(600), watcher.changed());
    assert!(wait.await.is_err());

    symlink("..2", at("..data_tmp")).unwrap();
    fs::rename(at("..data_tmp"), at("..data")).unwrap();
    let wait = tokio::time::timeout(Duration::from_secs(20), watcher.changed());
    wait.await.expect("the swap is noticed");
    assert_eq!(fs::read_to_string(at("front.yaml")).unwrap(), "new");
}
