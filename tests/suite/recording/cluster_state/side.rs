//! One of the two servers, and the namespace that is changed through it.

use std::fmt::Debug;

use serde_json::{Value, json};

use super::super::exchange::Answered;
use super::super::fields;
use super::super::http1_client::Http1Client;
use super::super::http2_client::Http2Client;
use super::super::outcome::Outcome;
use super::normal;
use super::writes::{NAMES, Write};
use crate::harness::client::{Client, Protocol};
use crate::harness::cluster::Cluster;
use crate::harness::objects::config_map;

/// The header fields of an answer that are compared.
const COMPARED: [&str; 5] = [
    "content-type",
    "warning",
    "allow",
    "location",
    "retry-after",
];

pub struct Side {
    client: Client,
    /// A client of kube-apiserver itself, which reads the state.
    teller: Client,
    pub namespace: String,
    http1: Option<Http1Client>,
    http2: Option<Http2Client>,
}

pub struct Came {
    pub status: u16,
    body: String,
    fields: Vec<(&'static str, Vec<String>)>,
    /// Whether the answer came from the API machinery, which adds an Audit-ID to
    /// every answer.
    has_audit_id: bool,
    /// Whether another request can follow on the connection.
    stays_open: bool,
    state: Vec<String>,
}

pub struct Outcomes {
    pub direct: Came,
    pub front: Came,
}

impl Side {
    pub async fn new(client: Client, teller: Client) -> Self {
        // All names have the same length, so that bodies have, too.
        let namespace = format!("state-{:08x}", rand::random::<u32>());
        crate::harness::cluster::create_namespace_named(&teller, &namespace).await;
        Self {
            client,
            teller: teller.over(Protocol::Http2),
            namespace,
            http1: None,
            http2: None,
        }
    }

    fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.namespace)
    }

    /// Creates the objects that requests are about.
    pub async fn create_all(&mut self) {
        for (n, name) in NAMES.iter().enumerate() {
            let labels = json!({ "v": (n % 3).to_string() });
            let object = config_map(name, labels, json!({ "a": "b" }));
            let _exists = self.teller.post(&self.path(), &object).await;
        }
    }

    pub async fn ask(&mut self, write: &Write) -> Came {
        let request = write.request(&self.namespace);
        let outcome = if request.wire.is_http2() {
            let mut client = match self.http2.take() {
                Some(client) => client,
                None => {
                    let stream = self.client.tls_stream(b"h2").await.expect("a connection");
                    Http2Client::new(Box::new(stream), "https").await
                }
            };
            let outcome = client.exchange(&request).await;
            self.http2 = client.is_open.then_some(client);
            outcome
        } else {
            let mut client = match self.http1.take() {
                Some(client) => client,
                None => {
                    let stream = self.client.tls_stream(b"http/1.1").await;
                    Http1Client::new(Box::new(stream.expect("a connection")))
                }
            };
            let outcome = client.exchange(&request).await;
            self.http1 = client.is_open.then_some(client);
            outcome
        };
        let stays_open = match request.wire.is_http2() {
            true => self.http2.is_some(),
            false => self.http1.is_some(),
        };
        // The upstream may answer before it has read the body, and promise to keep
        // the connection open. apifront may then close it.
        if write.has_body() && (write.method() == "GET" || is_error(&outcome)) {
            self.http1 = None;
        }
        let has_audit_id = outcome
            .answer()
            .is_some_and(|answered| !answered.header("audit-id").is_empty());
        let (status, body, fields) = match outcome {
            Outcome::Answer(answered) => self.answer(&answered),
            other => (0, other.shown(), Vec::new()),
        };
        Came {
            status,
            body,
            fields,
            has_audit_id,
            stays_open,
            state: self.state().await,
        }
    }

    fn answer(&self, answered: &Answered) -> (u16, String, Vec<(&'static str, Vec<String>)>) {
        let body = normal::body(&answered.content.body, &self.namespace);
        let compared = COMPARED.map(|name| {
            let values = fields::values(&answered.fields, name).into_iter();
            let texts = values.map(|value| String::from_utf8_lossy(&value).into_owned());
            (name, texts.collect())
        });
        (answered.status, body, compared.to_vec())
    }

    async fn state(&self) -> Vec<String> {
        let list = self.teller.get(&self.path()).await.expect(200);
        let items = list["items"].as_array().expect("items").iter();
        let mut items: Vec<Value> = items
            .filter(|item| item["metadata"]["name"] != "kube-root-ca.crt")
            .cloned()
            .collect();
        items.iter_mut().for_each(normal::value_of);
        let texts = items
            .iter()
            .map(|item| item.to_string().replace(&self.namespace, "NAMESPACE"));
        texts.collect()
    }
}

impl Outcomes {
    pub fn difference(&self, write: &Write) -> Option<String> {
        let (direct, front) = (&self.direct, &self.front);
        let mut text = format!("- {}\n+ {}", direct.status, front.status);
        let mut is_equal = direct.status == front.status;
        let mut compare = |what: &str, direct: &dyn Debug, front: &dyn Debug| {
            let (direct, front) = (format!("{direct:?}"), format!("{front:?}"));
            if direct != front {
                is_equal = false;
                text += &format!("\n{what}\n- {direct:.1500}\n+ {front:.1500}");
            }
        };
        // Go's HTTP server refuses in plain text. apifront says the same in a
        // Status.
        if direct.has_audit_id && !write.is_faulty() {
            compare("body", &direct.body, &front.body);
            compare("fields", &direct.fields, &front.fields);
        }
        // An error, or the answer to a read, may come before the upstream has read
        // the body. The rest of the body then has no reader.
        let needs_no_body = direct.status >= 400 || write.method() == "GET";
        if !(write.is_faulty() || write.has_body() && needs_no_body) {
            compare("stays open", &direct.stays_open, &front.stays_open);
        }
        compare("what is there", &direct.state, &front.state);
        (!is_equal).then_some(text)
    }
}

fn is_error(outcome: &Outcome) -> bool {
    outcome
        .answer()
        .is_none_or(|answered| answered.status >= 400)
}

/// Tells whether the object exists in the end.
pub async fn is_there(namespace: &str, name: &str) -> bool {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
    Cluster::shared().admin_client().get(&path).await.status == 200
}
