//! Plans the upstream reads that answer all waiting callers. The functions are
//! pure.

use std::collections::HashMap;

use kubernetes_wire::api::GroupVersionResource;

use crate::store::KeyScope;

/// If a resource or a namespace has at most this many objects, it is read whole
/// even for one page. That costs upstream about 13 µs an object, and later
/// pages then come from memory. If there are more objects, only the page is
/// read.
const READ_WHOLE: usize = 10_000;

/// The resource is read whole for a page of a namespace, whose later pages then come
/// from memory, if it has at most this many objects, or twice those of the namespace.
/// A caller that may list a small namespace alone must not make others wait for more.
const READ_WHOLE_FOR_NAMESPACE: usize = 1_000;

/// The fixed cost of a read for upstream, counted in objects.
const READ_COST: usize = 100;

/// The most bytes of selectors in a read that others wait for. Upstream tests
/// each object against each requirement: 13,000 requirements take ten seconds.
/// For longer selectors, everything in the namespace is read instead.
const MAX_SELECTOR: usize = 2_048;

/// The query of a list from upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ListQuery {
    /// Empty for all namespaces.
    pub namespace: String,
    /// The selectors, as the client wrote them.
    pub label_selector: String,
    pub field_selector: String,
    /// 0 means no limit.
    pub limit: usize,
}

impl ListQuery {
    /// Returns a query for everything in a namespace, or in all namespaces if
    /// it is empty.
    pub fn everything(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            ..Self::default()
        }
    }

    /// Returns the path without a resourceVersion, which asks for the most
    /// recent state.
    pub(super) fn path(&self, gvr: &GroupVersionResource) -> String {
        let mut path = gvr.group_version().path();
        if !self.namespace.is_empty() {
            path.push_str("/namespaces/");
            path.push_str(&escaped(&self.namespace));
        }
        path.push('/');
        path.push_str(&gvr.resource);
        let limit = match self.limit {
            0 => String::new(),
            limit => limit.to_string(),
        };
        let mut separator = '?';
        for (key, value) in [
            ("labelSelector", &self.label_selector),
            ("fieldSelector", &self.field_selector),
            ("limit", &limit),
        ] {
            if !value.is_empty() {
                path.push(separator);
                path.push_str(key);
                path.push('=');
                path.push_str(&escaped(value));
                separator = '&';
            }
        }
        path
    }
}

pub(super) fn escaped(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// A client's question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    List(ListQuery),
    /// Asks for the most recent version alone.
    Version,
}

/// Returns the reads to make, and for each question the index of the read that
/// answers it. That read is the question itself, or covers everything in the
/// question's scope. `count` returns how many objects a scope is known to have.
pub(super) fn plan(
    questions: &[Question],
    count: impl Fn(&KeyScope) -> usize,
) -> (Vec<ListQuery>, Vec<usize>) {
    let count = |namespace: &str| count(&KeyScope::from_namespace(namespace));
    let cost = |read: &ListQuery| {
        let objects = count(&read.namespace);
        let page = if read.limit == 0 {
            objects
        } else {
            read.limit.min(objects)
        };
        READ_COST.saturating_add(page)
    };
    let mut reads: Vec<ListQuery> = Vec::new();
    let mut places: HashMap<ListQuery, usize> = HashMap::new();
    let mut answered_by = Vec::with_capacity(questions.len());
    for question in questions {
        let Question::List(asked) = question else {
            answered_by.push(0);
            continue;
        };
        let objects = count(&asked.namespace);
        let page = asked.limit > 0 && objects <= READ_WHOLE;
        let selectors = asked
            .label_selector
            .len()
            .saturating_add(asked.field_selector.len());
        let near = objects
            .saturating_mul(2)
            .clamp(READ_WHOLE_FOR_NAMESPACE, READ_WHOLE);
        let read = if page && objects > asked.limit && count("") <= near {
            // Later pages come from a state that is kept, and only whole ones are.
            ListQuery::everything("")
        } else if page || selectors > MAX_SELECTOR {
            ListQuery::everything(&asked.namespace)
        } else {
            asked.clone()
        };
        let at = *places.entry(read).or_insert_with_key(|read| {
            reads.push(read.clone());
            reads.len().saturating_sub(1)
        });
        answered_by.push(at);
    }
    match reads.as_slice() {
        // Any read tells the version. This is the smallest one.
        [] => reads.push(ListQuery {
            limit: 1,
            ..ListQuery::default()
        }),
        [first, others @ ..] => {
            let one = others.iter().all(|r| r.namespace == first.namespace);
            let all = ListQuery::everything(if one { &first.namespace } else { "" });
            let separately: usize = reads.iter().map(cost).fold(0, usize::saturating_add);
            if reads.len() > 1 && cost(&all) <= separately {
                reads = vec![all];
                answered_by.fill(0);
            }
        }
    }
    (reads, answered_by)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses `namespace?labels!fields#limit`.
    fn list(text: &str) -> Question {
        let (text, limit) = text.split_once('#').unwrap_or((text, "0"));
        let (text, fields) = text.split_once('!').unwrap_or((text, ""));
        let (namespace, labels) = text.split_once('?').unwrap_or((text, ""));
        Question::List(ListQuery {
            namespace: namespace.to_owned(),
            label_selector: labels.to_owned(),
            field_selector: fields.to_owned(),
            limit: limit.parse().unwrap(),
        })
    }

    fn shown(read: &ListQuery) -> String {
        let text = read.path(&GroupVersionResource::new("", "v1", "pods"));
        text.strip_prefix("/api/v1/").unwrap().to_owned()
    }

    #[test]
    fn the_narrowest_reads_that_answer_everybody() {
        // `big` has most of the 100,000 objects.
        let count = |scope: &KeyScope| match scope {
            KeyScope::All => 100_000,
            KeyScope::Namespace(name) if name == "big" => 90_000,
            KeyScope::Namespace(_) | KeyScope::Visible(_) => 50,
        };
        let everything = &["pods"][..];
        for (questions, reads, answered_by) in [
            (&["a"][..], &["namespaces/a/pods"][..], &[0][..]),
            (&["a?x=y"], &["namespaces/a/pods?labelSelector=x%3Dy"], &[0]),
            (
                &["a?x", "a?x"],
                &["namespaces/a/pods?labelSelector=x"],
                &[0, 0],
            ),
            // The whole namespace answers both selectors.
            (&["a?x", "a!y"], &["namespaces/a/pods"], &[0, 0]),
            // Two small namespaces cost less than everything.
            (
                &["a", "b"],
                &["namespaces/a/pods", "namespaces/b/pods"],
                &[0, 1],
            ),
            (&["a", "b", ""], everything, &[0, 0, 0]),
            (&["big", "", "big?x"], everything, &[0, 0, 0]),
            (&["?x", "?y"], everything, &[0, 0]),
            // A small scope is read whole for a page. For a large scope, only
            // the page is read.
            (&["a#500"], &["namespaces/a/pods"], &[0]),
            (&["a?x#5", "a"], &["namespaces/a/pods"], &[0, 0]),
            (&["#500", "#500"], &["pods?limit=500"], &[0, 0]),
            (
                &["#500", "?x#500"],
                &["pods?limit=500", "pods?labelSelector=x&limit=500"],
                &[0, 1],
            ),
            (&["#500", ""], everything, &[0, 0]),
            // Later pages of a namespace of such a resource are not kept.
            (&["a#5"], &["namespaces/a/pods"], &[0]),
        ] {
            let questions: Vec<_> = questions.iter().map(|q| list(q)).collect();
            let (found, by) = plan(&questions, count);
            let found: Vec<_> = found.iter().map(shown).collect();
            assert_eq!(
                (&found[..], &by[..]),
                (&reads.map_str()[..], answered_by),
                "{questions:?}"
            );
        }
    }

    #[test]
    fn lists_of_several_pages_are_of_whole_states() {
        for (all, in_namespace, question, read) in [
            (1_000, 50, "a#49", "pods"),
            (1_000, 50, "a?x#49", "pods"),
            (1_000, 50, "a#50", "namespaces/a/pods"),
            (1_000, 50, "a", "namespaces/a/pods"),
            (1_001, 50, "a#49", "namespaces/a/pods"),
            (9_000, 4_500, "a#500", "pods"),
            (9_001, 4_500, "a#500", "namespaces/a/pods"),
            (10_001, 9_000, "a#500", "namespaces/a/pods"),
            (10_000, 50, "#500", "pods"),
        ] {
            let count = |scope: &KeyScope| match scope {
                KeyScope::All => all,
                KeyScope::Namespace(_) | KeyScope::Visible(_) => in_namespace,
            };
            let (found, by) = plan(&[list(question)], count);
            assert_eq!(found.iter().map(shown).collect::<Vec<_>>(), [read]);
            assert_eq!(by, [0]);
        }
    }

    trait MapStr {
        fn map_str(&self) -> Vec<String>;
    }

    impl MapStr for &[&str] {
        fn map_str(&self) -> Vec<String> {
            self.iter().map(|s| (*s).to_owned()).collect()
        }
    }

    /// A query with thousands of requirements must not delay other queries.
    #[test]
    fn long_selectors_are_not_sent_upstream() {
        let long = format!("a?{}", "x,".repeat(2_000));
        let paged = format!("{long}#500");
        for text in [&long, &paged] {
            let questions = [list(text), list("b?x")];
            let count = |scope: &KeyScope| match scope {
                KeyScope::All => 1_000_000,
                KeyScope::Namespace(_) | KeyScope::Visible(_) => 20_000,
            };
            let (reads, by) = plan(&questions, count);
            let reads: Vec<_> = reads.iter().map(shown).collect();
            let expected = ["namespaces/a/pods", "namespaces/b/pods?labelSelector=x"];
            assert_eq!(
                (&reads[..], &by[..]),
                (&expected.map(str::to_owned)[..], &[0, 1][..])
            );
        }
    }

    #[test]
    fn a_version_comes_with_any_read() {
        let count = |_: &KeyScope| 50;
        let (reads, by) = plan(&[Question::Version, Question::Version], count);
        assert_eq!(
            reads.iter().map(shown).collect::<Vec<_>>(),
            ["pods?limit=1"]
        );
        assert_eq!(by, [0, 0]);
        let (reads, by) = plan(&[Question::Version, list("a")], count);
        assert_eq!(
            reads.iter().map(shown).collect::<Vec<_>>(),
            ["namespaces/a/pods"]
        );
        assert_eq!(by, [0, 0]);
    }

    #[test]
    fn a_herd_of_selectors_is_covered() {
        let questions: Vec<_> = (0..200).map(|n| list(&format!("?n={n}"))).collect();
        let (reads, by) = plan(&questions, |_| 100_000);
        assert_eq!(reads, [ListQuery::everything("")]);
        assert!(by.iter().all(|b| *b == 0));
    }
}
