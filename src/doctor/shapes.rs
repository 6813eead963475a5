//! What do the rules about shapes save? Some objects of each resource tell which part of
//! them is managedFields.

use futures::{StreamExt, stream};
use kubernetes_wire::api::GroupVersionResource;
use serde_json::Value;

use super::client::Client;
use super::{Finding, Section};
use crate::config::Config;
use crate::shapes::{ManagedFields, ShapeRule};

const SECTION: Section = Section::Shapes;

/// The objects of each resource that are read.
const OBJECTS: usize = 50;

const AT_ONCE: usize = 8;

/// The bytes of some objects, as JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sample {
    objects: usize,
    bytes: usize,
    managed_fields: usize,
}

impl Sample {
    fn add(&mut self, other: Self) {
        self.objects = self.objects.saturating_add(other.objects);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.managed_fields = self.managed_fields.saturating_add(other.managed_fields);
    }

    fn percent(&self) -> usize {
        let hundredfold = self.managed_fields.saturating_mul(100);
        hundredfold.checked_div(self.bytes).unwrap_or_default()
    }
}

pub(super) async fn examine(
    client: &Client,
    config: &Config,
    resources: &[GroupVersionResource],
) -> Vec<Finding> {
    let dropping = |rule: &&ShapeRule| rule.managed_fields == ManagedFields::Drop;
    let rules: Vec<_> = config.shapes.iter().filter(dropping).collect();
    let names = |rule: &ShapeRule, gvr: &GroupVersionResource| {
        rule.resources.iter().any(|pattern| pattern.matches(gvr))
    };
    let cached = |gvr: &&GroupVersionResource| {
        config.cache.caches(gvr) && config.apis.runtime_config.is_resource_enabled(gvr)
    };
    let read = resources
        .iter()
        .filter(cached)
        .filter(|gvr| rules.iter().any(|rule| names(rule, gvr)))
        .map(|gvr| async move { (gvr, sample(client, gvr).await) });
    let read: Vec<_> = stream::iter(read).buffered(AT_ONCE).collect().await;
    rules
        .iter()
        .map(|rule| {
            let mut sum = Sample::default();
            let of_rule = read.iter().filter(|(gvr, _)| names(rule, gvr));
            of_rule.for_each(|(_, sample)| sum.add(*sample));
            finding(rule, sum)
        })
        .collect()
}

fn finding(rule: &ShapeRule, sample: Sample) -> Finding {
    let subject = format!("rule {}", rule.name);
    if sample.objects == 0 {
        let found = "names no object that is cached and can be read";
        return Finding::neutral(SECTION, subject, found).mended_by("see its resources");
    }
    let found = format!(
        "managedFields are {} % of {} objects that were read as JSON",
        sample.percent(),
        sample.objects
    );
    Finding::good(SECTION, subject, found)
}

async fn sample(client: &Client, gvr: &GroupVersionResource) -> Sample {
    let api = match gvr.group.is_empty() {
        true => format!("/api/{}", gvr.version),
        false => format!("/apis/{}/{}", gvr.group, gvr.version),
    };
    let path = format!("{api}/{}?limit={OBJECTS}", gvr.resource);
    // What cannot be read is named among the rights.
    let answer = client.get(&path).await.ok();
    let list = answer.and_then(|answer| answer.json());
    list.map(|list| of_list(&list)).unwrap_or_default()
}

fn of_list(list: &Value) -> Sample {
    let items = list.get("items").and_then(Value::as_array);
    let mut sum = Sample::default();
    for item in items.into_iter().flatten() {
        let managed = item.get("metadata").and_then(|m| m.get("managedFields"));
        sum.add(Sample {
            objects: 1,
            bytes: length(item),
            managed_fields: managed.map_or(0, length),
        });
    }
    sum
}

fn length(value: &Value) -> usize {
    value.to_string().len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_part_of_the_bytes_is_told() {
        let list = json!({ "items": [
            { "metadata": { "name": "a", "managedFields": [{ "manager": "m" }] } },
            { "metadata": { "name": "b" } },
        ]});
        let sample = of_list(&list);
        assert_eq!((sample.objects, sample.managed_fields), (2, 17));
        assert_eq!((sample.bytes, sample.percent()), (84, 20));
        assert_eq!(of_list(&json!({ "kind": "Status" })), Sample::default());
        assert_eq!(Sample::default().percent(), 0);
    }
}
