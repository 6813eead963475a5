//! The shapes in which the configuration has reads answered to clients that do not ask
//! for them, and what these shapes leave out.

mod metrics;
mod rule;
mod settings;

use std::sync::Arc;

use apifront_watch_cache::LeftOut;
use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderName, HeaderValue};
use kubernetes_wire::api::{GroupVersionResource, UserInfo};
pub use metrics::ShapeMetrics;
pub use rule::{Rule, RuleReport};
pub use settings::{ManagedFields, ShapeRule};

/// The header of an answer that has another shape than its client asked for.
pub const SHAPE: HeaderName = HeaderName::from_static("x-apifront-shape");

/// The value of [`SHAPE`] of an answer without managedFields: the parameter of the
/// Accept header that asks for this shape (KEP-5958).
pub const WITHOUT_MANAGED_FIELDS: HeaderValue =
    HeaderValue::from_static("drop=metadata.managedFields");

/// The rules in force.
pub struct Shapes {
    rules: ArcSwap<Vec<Arc<Rule>>>,
    /// Counts the bytes that clients asked to be left out themselves.
    asked_for: LeftOut,
    metrics: ShapeMetrics,
}

impl Shapes {
    pub fn new(metrics: ShapeMetrics, rules: &[ShapeRule]) -> Self {
        let shapes = Self {
            rules: ArcSwap::default(),
            asked_for: metrics.asked_for(),
            metrics,
        };
        shapes.reload(rules);
        shapes
    }

    /// Puts other rules in force. The counters of a name go on.
    pub fn reload(&self, rules: &[ShapeRule]) {
        let rules = rules.iter().map(|settings| {
            let counters = self.metrics.of_rule(&settings.name);
            Arc::new(Rule::new(settings.clone(), counters))
        });
        self.rules.store(Arc::new(rules.collect()));
    }

    /// Returns the rule by which a read is answered without managedFields, if there is
    /// one. The first rule that names the read decides.
    pub fn rule_for(
        &self,
        user: Option<&UserInfo>,
        headers: &HeaderMap,
        gvr: &GroupVersionResource,
    ) -> Option<Arc<Rule>> {
        let rules = self.rules.load();
        let rule = rules.iter().find(|rule| rule.names(user, headers, gvr))?;
        rule.drops_managed_fields().then(|| rule.clone())
    }

    /// Returns the rules that leave something out, in their order.
    pub fn rules(&self) -> Vec<Arc<Rule>> {
        let rules = self.rules.load();
        let dropping = rules.iter().filter(|rule| rule.drops_managed_fields());
        dropping.cloned().collect()
    }

    /// Returns what counts the bytes that clients asked to be left out themselves.
    pub fn asked_for(&self) -> LeftOut {
        self.asked_for.clone()
    }
}

#[cfg(test)]
mod tests {
    use apifront_watch_cache::ResourcePattern;
    use http::header::USER_AGENT;
    use prometheus::Registry;

    use super::*;
    use crate::authz::NamedCallers;

    fn rule(name: &str, groups: &[&str], agents: &[&str], resources: &[&str]) -> ShapeRule {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        let resources = resources.iter().map(|text| ResourcePattern::parse(text));
        ShapeRule {
            name: name.to_owned(),
            callers: (!groups.is_empty()).then(|| NamedCallers {
                users: Vec::new(),
                groups: texts(groups),
            }),
            user_agents: texts(agents),
            resources: resources.map(Option::unwrap).collect(),
            managed_fields: ManagedFields::Drop,
        }
    }

    #[test]
    fn the_first_rule_that_names_a_read_decides() {
        let registry = Registry::new();
        let metrics = ShapeMetrics::register(&registry).unwrap();
        let kept = ShapeRule {
            managed_fields: ManagedFields::Keep,
            ..rule("kept", &["editors"], &[], &["*"])
        };
        let rules = [
            kept,
            rule("robots", &["robots"], &[], &["pods", "*.apps"]),
            rule("agents", &[], &["kube-state-metrics/", "argo"], &["*"]),
            rule("both", &["robots", "people"], &["curl/"], &["*"]),
        ];
        let shapes = Shapes::new(metrics, &rules);
        let (pods, deployments, secrets) = (
            GroupVersionResource::new("", "v1", "pods"),
            GroupVersionResource::new("apps", "v1", "deployments"),
            GroupVersionResource::new("", "v1", "secrets"),
        );
        for (groups, agent, gvr, expected) in [
            (&["robots"][..], None, &pods, Some("robots")),
            (&["robots"], None, &deployments, Some("robots")),
            (&["robots"], None, &secrets, None),
            (&["robots", "editors"], None, &pods, None),
            (&["robots"], Some("curl/8"), &secrets, Some("both")),
            (&["people"], Some("curl/8"), &pods, Some("both")),
            (&["people"], Some("curl"), &pods, None),
            (&[], Some("argocd/2.9"), &secrets, Some("agents")),
            (&[], Some("an argocd/2.9"), &secrets, None),
            (&["editors"], Some("argocd/2.9"), &secrets, None),
            (&[], None, &pods, None),
        ] {
            let user = UserInfo {
                name: "somebody".to_owned(),
                groups: groups.iter().map(|&group| group.to_owned()).collect(),
                ..UserInfo::default()
            };
            let mut headers = HeaderMap::new();
            if let Some(agent) = agent {
                headers.insert(USER_AGENT, HeaderValue::from_static(agent));
            }
            let found = shapes.rule_for(Some(&user), &headers, gvr);
            let found = found.as_ref().map(|rule| rule.name());
            assert_eq!(found, expected, "{groups:?} {agent:?} {gvr}");
            let unnamed = shapes.rule_for(None, &headers, gvr);
            let unnamed = unnamed.as_ref().map(|rule| rule.name());
            let by_agent = agent.is_some_and(|agent| agent.starts_with("argo"));
            assert_eq!(unnamed, by_agent.then_some("agents"), "{agent:?}");
        }
    }

    #[test]
    fn counters_go_on_after_a_reload() {
        let registry = Registry::new();
        let metrics = ShapeMetrics::register(&registry).unwrap();
        let rules = [rule("a", &["*"], &[], &["*"])];
        let shapes = Shapes::new(metrics, &rules);
        shapes.rules()[0].count_shaped();
        shapes.reload(&[]);
        assert!(shapes.rules().is_empty());
        shapes.reload(&rules);
        shapes.rules()[0].count_shaped();
        shapes.rules()[0].count_whole();
        let report = shapes.rules()[0].report();
        assert_eq!(
            (report.shaped, report.whole, report.left_out_bytes),
            (2, 1, 0)
        );
        let names: Vec<_> = registry
            .gather()
            .iter()
            .map(|f| f.name().to_owned())
            .collect();
        let expected = [
            "apifront_shape_answers_total",
            "apifront_shape_left_out_bytes_total",
        ];
        assert_eq!(names, expected);
    }
}
