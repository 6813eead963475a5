//! The document as a whole: the commented file, fields that do not fit, all errors at once.

use std::fs;

use super::*;

#[test]
fn the_commented_file_holds_the_defaults() {
    let all = load(&[
        "--config",
        shipped("front-configuration.yaml").to_str().unwrap(),
    ])
    .unwrap();
    let minimal = load(&["--config", shipped("minimal.yaml").to_str().unwrap()]).unwrap();
    assert_eq!(all, minimal);
    assert_eq!(all.mode(), Mode::Front);
}

#[test]
fn the_commented_file_names_every_field() {
    let text = fs::read_to_string(shipped("front-configuration.yaml")).unwrap();
    let uncommented: String = text
        .lines()
        .map(|line| {
            let example = line.trim_start().strip_prefix("# ").filter(|rest| {
                let key = rest.trim_start_matches("- ").trim_start();
                let word = key.split(':').next().unwrap_or_default();
                let ends = key.contains(": ") || key.ends_with(':');
                ends && word.chars().all(|c| c.is_ascii_alphanumeric())
            });
            match example {
                Some(example) => format!("{}\n", example.trim_start_matches("- ").trim_start()),
                None => format!("{}\n", line.trim_start()),
            }
        })
        .collect();
    let source = include_str!("../raw.rs");
    let mut renamed = None;
    for line in source.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("#[serde(rename = \"") {
            renamed = name.strip_suffix("\")]");
        }
        let Some((field, _)) = line.strip_prefix("pub ").and_then(|l| l.split_once(": ")) else {
            continue;
        };
        if field.contains(' ') {
            continue;
        }
        let name = match renamed.take() {
            Some(name) => name.to_owned(),
            None => camel_case(field),
        };
        assert!(
            uncommented.contains(&format!("\n{name}:")) || uncommented.starts_with(&name),
            "{name} is missing"
        );
    }
}

fn camel_case(field: &str) -> String {
    let mut words = field.split('_');
    let mut name = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, rest) = word.split_at(1);
        name.push_str(&first.to_ascii_uppercase());
        name.push_str(rest);
    }
    name
}

#[test]
fn errors_name_field_value_and_what_is_allowed_all_at_once() {
    let text = minimal_with(
        "cache",
        "  consistency: Sometimes\n  shardedListAndWatch: Never\n  maxStaleness: 30\n  exclude: [events, Pods]\n  preload: ['*']",
    );
    let errors = load_text(&text, &["--secure-port=70000", "--logging-format=xml"]).unwrap_err();
    assert_eq!(
        errors,
        [
            r#"--secure-port: "70000": must be between 0 and 65535"#,
            r#"--logging-format: "xml": must be one of text, json"#,
            r#"cache.preload[0]: "*": must name one resource, without *"#,
            r#"cache.consistency: "Sometimes": must be one of Strict, Fresh, Bounded"#,
            r#"cache.shardedListAndWatch: "Never": must be one of Upstream, Always"#,
            r#"cache.maxStaleness: "30": must be a duration like 2m, 10s, 1h30m or 500ms"#,
            r#"cache.exclude[1]: "Pods": must be like pods, deployments.apps, deployments.v1.apps, *.apps or *"#,
        ]
    );
}

#[test]
fn a_document_that_does_not_fit_is_explained_field_by_field() {
    let text = minimal_with("cache", "  consistancy: Strict").replace(
        "serving:\n",
        "upsteam: {a: 1, b: 2}\nserving:\n  securePort: many\n",
    );
    assert_eq!(
        load_text(&text, &[]).unwrap_err(),
        [
            "cache.consistancy: unknown field `consistancy`, expected one of `mode`, \
             `resourceModes`, `shadow`, `consistency`, `shardedListAndWatch`, `dropManagedFields`, `maxStaleness`, `idleTimeout`, `selfCheck`, `memoryLimit`, \
             `include`, `exclude`, `aggregated`, `preload`, `degraded`, `directory`, `persistence`",
            "serving.securePort: \"many\": invalid type: string \"many\", expected i64",
            "upsteam: unknown field `upsteam`, expected one of `apiVersion`, `kind`, `serving`, \
             `observability`, `logging`, `upstream`, `authentication`, `authorization`, \
             `identity`, `flow`, `cache`, `views`, `shapes`, `queries`, `aggregation`, `apis`",
        ]
    );
    let one = minimal_with("authentication", "  tokenReview:\n    enabled: yes");
    assert_eq!(
        load_text(&one, &[]).unwrap_err(),
        [
            "authentication.tokenReview.enabled: \"yes\": invalid type: string \"yes\", \
             expected a boolean (line 15, column 14)"
        ]
    );
    // A section may be left empty.
    assert!(load_text(&minimal_with("cache", "  preload:\n"), &[]).is_ok());
    assert!(load_text(&format!("{MINIMAL}cache:\n"), &[]).is_ok());
    for (text, part) in [
        ("a: [", "line"),
        ("", "apiVersion: must be apifront.dev/v1alpha1"),
        ("kind: FrontConfiguration\nkind: x\n", "duplicate"),
        (
            "serving: &a {securePort: 1}\ncache: *a\n",
            "unknown field `securePort`",
        ),
    ] {
        let errors = load_text(text, &[]).unwrap_err();
        assert!(
            errors.iter().any(|e| e.contains(part)),
            "{text}: {errors:?}"
        );
    }
    let deep = format!("apis: {}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(load_text(&deep, &[]).is_err());
    assert!(load(&["--config", "/nonexistent"]).is_err());
}
