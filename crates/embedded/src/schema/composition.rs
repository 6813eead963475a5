//! Checks allOf, anyOf, oneOf and not.

use serde_json::Value;

use super::{Schema, findings::Findings};

impl Schema {
    pub(super) fn check_compositions(&self, value: &Value, name: &str, out: &mut Findings) {
        let found = |schema: &Self| {
            let mut inner = out.fork();
            schema.check(value, None, name, &mut inner);
            inner
        };
        let any: Vec<Findings> = self.any_of.iter().map(found).collect();
        let one: Vec<Findings> = self.one_of.iter().map(found).collect();
        let all: Vec<Findings> = self.all_of.iter().map(found).collect();
        let not = self.not.as_deref().map(found);
        if !any.is_empty() && any.iter().all(|findings| !findings.is_empty()) {
            out.general(format!(
                "\"{name}\" must validate at least one schema (anyOf)"
            ));
            out.extend(any.into_iter().next());
        }
        let valid = one.iter().filter(|findings| findings.is_empty()).count();
        if !one.is_empty() && valid != 1 {
            let which = if valid == 0 {
                "Found none valid".to_owned()
            } else {
                format!("Found {valid} valid alternatives")
            };
            out.general(format!(
                "\"{name}\" must validate one and only one schema (oneOf). {which}"
            ));
            if valid == 0 {
                out.extend(one.into_iter().next());
            }
        }
        if all.iter().any(|findings| !findings.is_empty()) {
            let none = all.iter().all(|findings| !findings.is_empty());
            for findings in all {
                out.extend(Some(findings));
            }
            let suffix = if none { ". None validated" } else { "" };
            out.general(format!(
                "\"{name}\" must validate all the schemas (allOf){suffix}"
            ));
        }
        if not.is_some_and(|findings| findings.is_empty()) {
            out.general(format!("\"{name}\" must not validate the schema (not)"));
        }
    }
}
