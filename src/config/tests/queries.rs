//! The API group of queries, and who else may not have it.

use super::*;
use crate::queries::QueriesSettings;

#[test]
fn queries_are_off_unless_they_are_enabled() {
    for (lines, enabled) in [
        ("  {}", false),
        ("  enabled: false", false),
        ("  enabled: true", true),
    ] {
        let config = load_text(&minimal_with("queries", lines), &[]).unwrap();
        assert_eq!(config.queries, QueriesSettings { enabled }, "{lines}");
        let flag = load_text(&minimal_with("queries", lines), &["--enable-queries"]).unwrap();
        assert!(flag.queries.enabled, "{lines}");
    }
}

#[test]
fn two_servers_of_the_group_are_an_error() {
    let dir = TempDir::new().unwrap();
    let manifest = dir.path().join("service.yaml");
    let text = "
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.query.apifront.dev}
spec:
  group: query.apifront.dev
  version: v1
  groupPriorityMinimum: 1000
  versionPriority: 15
  service: {name: api, namespace: queries}
";
    fs::write(&manifest, text).unwrap();
    let manifest = manifest.display();
    let aggregation = minimal_with("aggregation", &format!("  apiServices: [{manifest}]"));
    assert!(load_text(&aggregation, &[]).is_ok());
    let both = format!("{aggregation}queries: {{enabled: true}}\n");
    let expected = format!(
        "queries.enabled: \"true\": aggregation.apiServices registers v1.query.apifront.dev \
         of the same group ({manifest}); only one of the two can answer"
    );
    assert_eq!(load_text(&both, &[]).unwrap_err(), [expected]);
}
