//! The rules about the shapes of answers.

use super::*;
use crate::shapes::{ManagedFields, ShapeRule};

fn shapes(lines: &str) -> Result<Vec<ShapeRule>, Vec<String>> {
    load_text(&minimal_with("shapes", lines), &[]).map(|config| config.shapes)
}

#[test]
fn rules_are_read_in_their_order() {
    assert_eq!(shapes("  []").unwrap(), []);
    let rules = shapes(
        "  - name: kept\n    users: [ann]\n    managedFields: Keep\n  - name: exporters\n    \
         groups: [monitors]\n    userAgents: [kube-state-metrics/]\n    \
         resources: [pods, '*.apps']\n    managedFields: Drop",
    )
    .unwrap();
    let [kept, exporters] = &rules[..] else {
        panic!("{rules:?}");
    };
    assert_eq!(kept.managed_fields, ManagedFields::Keep);
    assert_eq!(kept.callers.as_ref().unwrap().users, ["ann"]);
    let resources: Vec<String> = kept.resources.iter().map(|r| r.to_string()).collect();
    assert_eq!(resources, ["*"]);
    assert_eq!(exporters.managed_fields, ManagedFields::Drop);
    assert_eq!(exporters.user_agents, ["kube-state-metrics/"]);
    assert_eq!(exporters.resources.len(), 2);
}

#[test]
fn a_rule_names_somebody_and_says_what_to_do() {
    for (lines, expected) in [
        (
            "  - name: a\n    managedFields: Drop",
            r#"shapes[0]: "a": must name users, groups or userAgents; groups: ['*'] is everybody"#,
        ),
        (
            "  - name: a\n    groups: [b]",
            r"shapes[0].managedFields: needed: Drop or Keep",
        ),
        (
            "  - name: a\n    groups: [b]\n    managedFields: Omit",
            r#"shapes[0].managedFields: "Omit": must be one of Drop, Keep"#,
        ),
        (
            "  - groups: [b]\n    managedFields: Drop",
            r"shapes[0].name: must be 1 to 63 letters, digits, '-', '_' or '.'",
        ),
        (
            "  - name: a b\n    groups: [b]\n    managedFields: Drop",
            r#"shapes[0].name: "a b": must be 1 to 63 letters, digits, '-', '_' or '.'"#,
        ),
        (
            "  - name: a\n    userAgents: ['']\n    managedFields: Drop",
            r"shapes[0].userAgents: must not have an empty text",
        ),
        (
            "  - name: a\n    groups: [b]\n    resources: []\n    managedFields: Drop",
            r"shapes[0].resources: must name a resource",
        ),
        (
            "  - name: a\n    groups: [b]\n    resources: ['a b']\n    managedFields: Drop",
            r#"shapes[0].resources[0]: "a b": must be like pods, deployments.apps, deployments.v1.apps, *.apps or *"#,
        ),
        (
            "  - {name: a, groups: [b], managedFields: Drop}\n  - {name: a, groups: [c], managedFields: Drop}",
            r#"shapes[1].name: "a": must be unique"#,
        ),
    ] {
        assert_eq!(shapes(lines).unwrap_err(), [expected], "{lines}");
    }
    let many: Vec<String> = (0..101)
        .map(|n| format!("  - {{name: r{n}, groups: [b], managedFields: Drop}}"))
        .collect();
    let errors = shapes(&many.join("\n")).unwrap_err();
    assert_eq!(errors, [r#"shapes: "101": must have at most 100 rules"#]);
}
