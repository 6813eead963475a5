//! The page in a browser.

use std::path::Path;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

use crate::harness::apifront::Apifront;
use crate::harness::browser::Page;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::kubectl::Kubectl;
use crate::kubectl::kubeconfig_of;

pub(super) const STATE: &str = "document.getElementById('state').textContent";
pub(super) const TOTAL: &str = "document.getElementById('total').textContent";
pub(super) const NAMES: &str =
    "[...document.querySelectorAll('#rows tbody th')].map((cell) => cell.textContent)";
pub(super) const COUNTS: &str =
    "[...document.querySelectorAll('#counts li')].map((item) => item.textContent)";
pub(super) const SORTED: &str = "Object.fromEntries([...document.querySelectorAll('#rows [aria-sort]')].map((head) => [head.querySelector('span').textContent, head.ariaSort]))";

/// A browser with the page, the kubectl that serves it, and a namespace to look at.
pub(super) struct Shown {
    pub(super) page: Page,
    pub(super) namespace: String,
    pub(super) pods: String,
    pub(super) admin: Client,
    pub(super) origin: String,
    _kubectl: Child,
    /// kubectl would end if it wrote to nobody.
    _lines: Lines<BufReader<ChildStdout>>,
}

impl Shown {
    /// Opens the page as the administrator of the shared cluster.
    pub(super) async fn open(front: &Apifront) -> Self {
        let cluster = Cluster::shared();
        let namespace = cluster.namespace("shop").await;
        Self::open_as(&kubeconfig_of(cluster, front), namespace).await
    }

    pub(super) async fn open_as(kubeconfig: &Path, namespace: String) -> Self {
        let mut kubectl = Kubectl::new(kubeconfig).start(&[
            "proxy",
            "--port=0",
            "--www=examples/query-page",
            "--www-prefix=/query-page/",
        ]);
        let out = kubectl.stdout.take().expect("piped");
        let mut lines = BufReader::new(out).lines();
        let line = lines.next_line().await.unwrap().expect("a line");
        let address = line.strip_prefix("Starting to serve on ");
        let origin = format!("http://{}", address.expect("an address"));
        Self {
            page: Page::open(&format!("{origin}/query-page/")).await,
            pods: format!("/api/v1/namespaces/{namespace}/pods"),
            namespace,
            admin: Cluster::shared().admin_client(),
            origin,
            _kubectl: kubectl,
            _lines: lines,
        }
    }

    /// Waits until the page is live, and lets it show the namespace alone.
    pub(super) async fn begin(&self) {
        self.page.shows(STATE, &json!("Live")).await;
        self.fill("namespaces", &self.namespace).await;
    }

    /// Writes a text into a field, and leaves it.
    pub(super) async fn fill(&self, field: &str, text: &str) {
        let script = format!(
            "(() => {{ const field = document.getElementById({}); field.value = {}; \
             field.dispatchEvent(new Event('change', {{ bubbles: true }})); }})()",
            json!(field),
            json!(text)
        );
        self.page.evaluate(&script).await;
    }

    pub(super) async fn click(&self, selector: &str) {
        let script = format!("document.querySelector({}).click()", json!(selector));
        self.page.evaluate(&script).await;
    }

    /// Clicks the head of a column.
    pub(super) async fn sort(&self, column: &str, with_shift: bool) {
        let script = format!(
            "[...document.querySelectorAll('#rows thead button')] \
             .find((button) => button.firstChild.textContent === {}) \
             .dispatchEvent(new MouseEvent('click', {{ bubbles: true, shiftKey: {with_shift} }}))",
            json!(column)
        );
        self.page.evaluate(&script).await;
    }

    pub(super) async fn names(&self, expected: &[String]) {
        self.page.shows(NAMES, &json!(expected)).await;
    }

    pub(super) async fn counts(&self, expected: &[&str]) {
        self.page.shows(COUNTS, &json!(expected)).await;
    }

    pub(super) async fn create(&self, pod: &Value) {
        self.admin.post(&self.pods, pod).await.expect(201);
    }

    pub(super) async fn set_phase(&self, name: &str, phase: &str) {
        let path = format!("{}/{name}/status", self.pods);
        let patch = json!({ "status": { "phase": phase } });
        let answer = self.admin.patch(&path, "merge-patch+json", &patch).await;
        answer.expect(200);
    }

    /// Checks that the console is empty, and that nothing was loaded from elsewhere.
    pub(super) async fn is_quiet(&self) {
        assert_eq!(self.page.call("console", &json!([])).await, json!([]));
        let requests = self.page.call("requests", &json!([])).await;
        for request in requests.as_array().unwrap() {
            let request = request.as_str().unwrap();
            let is_own = request.starts_with(&format!("{}/", self.origin));
            let is_none = request.starts_with("data:") || request == "about:blank";
            assert!(is_own || is_none, "{request}");
        }
    }
}
