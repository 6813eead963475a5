//! What flow control knows of one request: its schema, its level, its flow, and
//! the words that a dump shows.

use std::sync::Arc;

use http::HeaderValue;
use kubernetes_wire::api::UserInfo;
use kubernetes_wire::request::RequestInfo;

use crate::level::Level;
use crate::objects::DistinguisherMethod;
use crate::schema::Schema;

/// The schema and the level of a request. A clone is a pointer.
#[derive(Clone, Debug)]
pub struct Classification(Arc<Classified>);

#[derive(Debug)]
struct Classified {
    schema: Arc<Schema>,
    flow: u64,
    is_watch: bool,
    details: Details,
}

impl Classification {
    pub(crate) fn new(schema: &Arc<Schema>, info: &RequestInfo, user: &UserInfo) -> Self {
        let method = schema.distinguisher.filter(|_| schema.has_flows);
        let distinguisher = match method {
            Some(DistinguisherMethod::ByUser) => Some(Word::UserName),
            Some(DistinguisherMethod::ByNamespace) => Some(Word::Namespace),
            None => None,
        };
        let details = Details::new(info, user, distinguisher);
        Self(Arc::new(Classified {
            schema: schema.clone(),
            flow: schema.flow(details.distinguisher()),
            is_watch: info.verb == "watch",
            details,
        }))
    }

    #[cfg(test)]
    pub(crate) fn of_flow(schema: &Arc<Schema>, flow: u64) -> Self {
        let info = crate::tests::support::info("GET", "/api/v1/pods");
        Self(Arc::new(Classified {
            schema: schema.clone(),
            flow,
            is_watch: false,
            details: Details::new(&info, &UserInfo::anonymous(), None),
        }))
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.0.schema
    }

    pub(crate) fn level(&self) -> &Arc<Level> {
        &self.0.schema.level
    }

    /// Returns the hash of the request's flow.
    pub(crate) fn flow(&self) -> u64 {
        self.0.flow
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.0.is_watch
    }

    pub(crate) fn details(&self) -> &Details {
        &self.0.details
    }

    pub fn flow_schema(&self) -> &str {
        &self.schema().name
    }

    pub fn priority_level(&self) -> &str {
        self.level().name()
    }

    /// Returns the value of the header
    /// `X-Kubernetes-PF-FlowSchema-UID`. A schema that is not an object of the
    /// cluster has none.
    pub fn flow_schema_uid(&self) -> Option<&HeaderValue> {
        self.schema().uid.value()
    }

    /// Returns the value of the header
    /// `X-Kubernetes-PF-PriorityLevel-UID`. A level that is not an object of the
    /// cluster has none.
    pub fn priority_level_uid(&self) -> Option<&HeaderValue> {
        self.schema().level_uid.value()
    }

    /// Tells whether the request never waits and is never refused.
    pub fn is_exempt(&self) -> bool {
        self.level().is_exempt()
    }

    /// Returns the most seats that an estimator may give to one request of the
    /// level. Levels that never had queues set no such bound.
    pub fn max_seats(&self) -> Option<u64> {
        self.level().max_seats()
    }
}

/// The words of a request, as kube-apiserver's dump of requests has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    UserName,
    Verb,
    Path,
    Namespace,
    Name,
    Group,
    Version,
    Resource,
    Subresource,
}

impl Word {
    const COUNT: usize = 9;
}

/// The words in one text, which costs a request one allocation.
#[derive(Debug)]
pub(crate) struct Details {
    text: Box<str>,
    /// Where each word ends.
    ends: [usize; Word::COUNT],
    distinguisher: Option<Word>,
}

impl Details {
    fn new(info: &RequestInfo, user: &UserInfo, distinguisher: Option<Word>) -> Self {
        // In the order of `Word`.
        let words: [&str; Word::COUNT] = [
            &user.name,
            &info.verb,
            &info.path,
            &info.namespace,
            &info.name,
            &info.gvr.group,
            &info.gvr.version,
            &info.gvr.resource,
            &info.subresource,
        ];
        let length = words
            .iter()
            .fold(0_usize, |sum, w| sum.saturating_add(w.len()));
        let mut text = String::with_capacity(length);
        let ends = words.map(|word| {
            text.push_str(word);
            text.len()
        });
        Self {
            text: text.into_boxed_str(),
            ends,
            distinguisher,
        }
    }

    pub(crate) fn word(&self, word: Word) -> &str {
        let at = word as usize;
        let begin = at.checked_sub(1).and_then(|before| self.ends.get(before));
        let end = self.ends.get(at).copied().unwrap_or(0);
        self.text
            .get(begin.copied().unwrap_or(0)..end)
            .unwrap_or_default()
    }

    /// Returns what distinguishes the request's flow in its schema.
    pub(crate) fn distinguisher(&self) -> &str {
        self.distinguisher.map_or("", |word| self.word(word))
    }
}
