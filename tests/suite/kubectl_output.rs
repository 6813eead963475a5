//! kubectl prints every kind of the API server the same directly and through
//! apifront: as Tables, wide, as YAML and JSON, in pages, sorted, watched, and
//! several kinds at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStdout};
use tokio::sync::{RwLock, Semaphore};

use crate::harness::ages_have_ticked;
use crate::harness::apifront::Apifront;
use crate::harness::cluster::Cluster;
use crate::harness::kubectl::{Both, EXACT_TRIES, Kubectl, Printed, first_lines};
use crate::harness::pool::Lease;
use crate::harness::sample::{self, NAMESPACE};
use crate::harness::shared::Shared;
use crate::kubectl::both;

/// The number of concurrent commands in all these tests together, so that other
/// tests can run. Each command goes to both servers at once.
const AT_A_TIME: usize = 5;
/// The number of tries, since ages tick between two watches.
const TRIES: usize = 8;
/// kube-apiserver probes the components concurrently, and lists them in the order in
/// which they answer.
const UNORDERED: &str = "componentstatuses";
/// The number of kinds in one command that prints ages. With so few, an age hardly
/// ever ticks during the command.
const KINDS_OF_A_TABLE: usize = 4;
const WATCHED_WITHIN: Duration = Duration::from_secs(60);

struct Ways {
    both: Both,
    /// Tests that change objects lock this for writing, so that nothing changes
    /// while other tests compare.
    moving: RwLock<()>,
    slots: Semaphore,
    _front: Apifront,
    _cluster: Lease,
}

fn ways() -> Arc<Ways> {
    static WAYS: Shared<Ways> = Shared::new();
    WAYS.get(|| async {
        let cluster = Cluster::leased(&[]).await;
        sample::create(&cluster.admin_client()).await;
        let front = Apifront::start(&cluster, |_| {}).await;
        Ways {
            both: both(&cluster, &front),
            moving: RwLock::new(()),
            slots: Semaphore::new(AT_A_TIME),
            _front: front,
            _cluster: cluster,
        }
    })
}

impl Ways {
    async fn difference(&self, command: &[&str]) -> Option<String> {
        let _slot = self.slots.acquire().await.expect("never closed");
        let _still = self.moving.read().await;
        self.both.same(command, |_| true).await.err()
    }

    async fn same(&self, commands: Vec<Vec<String>>) {
        let count = commands.len();
        let differences: Vec<String> = futures::stream::iter(commands)
            .map(|command| async move {
                let command: Vec<&str> = command.iter().map(String::as_str).collect();
                self.difference(&command).await
            })
            .buffer_unordered(AT_A_TIME)
            .filter_map(async |difference| difference)
            .collect()
            .await;
        println!("{count} commands, {} differ", differences.len());
        assert!(
            differences.is_empty(),
            "(- direct, + through apifront)\n{}",
            differences.join("\n")
        );
    }

    /// Returns the kinds whose objects the upstream always lists in the same order.
    async fn ordered_kinds(&self) -> Vec<String> {
        let mut kinds = self.kinds().await;
        kinds.retain(|kind| kind != UNORDERED);
        kinds
    }

    /// Returns the kinds as `kubectl api-resources` names them, such as
    /// `deployments.apps`.
    async fn kinds(&self) -> Vec<String> {
        let command = ["api-resources", "--verbs=list,get", "-o", "name"];
        let printed = self.both.direct.run(&command).await.ok();
        let kinds: Vec<String> = printed.lines().map(str::to_owned).collect();
        assert!(kinds.len() > 50, "{kinds:?}");
        kinds
    }
}

fn words(command: &str) -> Vec<String> {
    command.split(' ').map(str::to_owned).collect()
}

#[tokio::test]
async fn every_kind_has_an_object() {
    let ways = ways();
    let kinds = ways.kinds().await;
    let command = ["get", &kinds.join(","), "-A", "-o", "name"];
    let printed = ways.both.direct.run(&command).await.ok();
    let there: BTreeSet<&str> = printed
        .lines()
        .filter_map(|line| Some(line.split_once('/')?.0))
        .collect();
    // `get -o name` prints the singular.
    assert_eq!(kinds.len(), there.len(), "{kinds:?}\nand of {there:?}");
}

#[tokio::test]
async fn each_kind_as_a_table() {
    let ways = ways();
    let mut commands = Vec::new();
    let sorted = "-A --sort-by=.metadata.name";
    for kinds in ways.ordered_kinds().await.chunks(KINDS_OF_A_TABLE) {
        let kinds = kinds.join(",");
        for form in [
            "-A -o wide --show-labels",
            sorted,
            "-A --chunk-size=1 -L app",
        ] {
            commands.push(words(&format!("get {kinds} {form}")));
        }
    }
    commands.push(words(&format!("get {UNORDERED} {sorted}")));
    ways.same(commands).await;
}

#[tokio::test]
async fn each_kind_without_ages() {
    let ways = ways();
    let kinds = ways.ordered_kinds().await.join(",");
    let forms = [
        "-A -o name",
        "-A -o yaml",
        "-A -o json --show-managed-fields",
        "-A --chunk-size=1 -o name",
        "-A -l app=sample -o yaml --chunk-size=3",
        "-A -l app!=sample -o name",
        "-A -o custom-columns=K:.kind,N:.metadata.name,V:.metadata.resourceVersion",
        "-A --sort-by=.metadata.creationTimestamp -o name",
        "-o name --ignore-not-found",
    ];
    let commands = forms.map(|form| words(&format!("get {kinds} {form}")));
    ways.same(commands.to_vec()).await;
}

#[tokio::test]
async fn each_kind_by_name() {
    let ways = ways();
    let kinds = ways.kinds().await;
    let command = ["get", &kinds.join(","), "-A", "-o", "json"];
    let list: Value =
        serde_json::from_str(&ways.both.direct.run(&command).await.ok()).expect("JSON");
    let mut seen = BTreeSet::new();
    let mut named: BTreeMap<Option<&str>, Vec<String>> = BTreeMap::new();
    for object in list["items"].as_array().expect("items") {
        let text = |path| object.pointer(path).and_then(Value::as_str);
        let api_version = text("/apiVersion").expect("an apiVersion");
        let kind = text("/kind").expect("a kind");
        if !seen.insert((api_version, kind)) {
            continue;
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let name = text("/metadata/name").expect("a name");
        let there = named.entry(text("/metadata/namespace")).or_default();
        there.push(format!("{kind}.{version}.{group}/{name}"));
    }
    assert_eq!(seen.len(), kinds.len());
    let mut commands = Vec::new();
    for (namespace, names) in named {
        let namespace = namespace.map(|n| format!(" -n {n}")).unwrap_or_default();
        for names in names.chunks(KINDS_OF_A_TABLE) {
            let names = names.join(" ");
            commands.push(words(&format!("get {names}{namespace} --show-labels")));
        }
    }
    ways.same(commands).await;
}

#[tokio::test]
async fn several_kinds() {
    let commands = [
        format!("get pods,svc,deploy -n {NAMESPACE}"),
        format!("get pods,svc,deploy -n {NAMESPACE} -o yaml"),
        format!("get pods,svc,deploy -n {NAMESPACE} -o wide --show-labels"),
        "get pods,svc,deploy -A".to_owned(),
        "get pods,nodes,widgets -A --show-kind".to_owned(),
        format!("get all -n {NAMESPACE}"),
        "get all -A -o wide".to_owned(),
        "get all -A -o name".to_owned(),
        format!("get pods/running svc/sample deploy/sample -n {NAMESPACE}"),
        format!("get pods/running svc/none -n {NAMESPACE}"),
        format!("get pod running failed none -n {NAMESPACE}"),
        "get hpa.v1.autoscaling,hpa.v2.autoscaling -A -o yaml".to_owned(),
        "get hpa.v1.autoscaling,hpa.v2.autoscaling -A".to_owned(),
        "get events -A --sort-by=.lastTimestamp".to_owned(),
        format!("events -n {NAMESPACE}"),
        format!("get pods -n {NAMESPACE} --sort-by=.spec.nodeName"),
        format!("get pods -n {NAMESPACE} --sort-by={{.status.startTime}} -o wide"),
        format!("get pods -n {NAMESPACE} --output-watch-events --watch-only=false -o name"),
        format!("get pods -n {NAMESPACE} -o jsonpath={{.items[*].spec.containers[*].image}}"),
        format!(
            "get pods -n {NAMESPACE} -o go-template={{{{range.items}}}}{{{{.metadata.uid}}}}{{{{end}}}}"
        ),
        format!("get configmaps -n {NAMESPACE} --chunk-size=7"),
        "get pods -A --field-selector=spec.nodeName=node-1,status.phase!=Failed".to_owned(),
        "get no-such-things,pods -A".to_owned(),
        "get pods -n no-such-namespace".to_owned(),
    ];
    ways()
        .same(commands.iter().map(|c| words(c)).collect())
        .await;
}

struct Watching {
    _child: Child,
    stdout: ChildStdout,
    printed: String,
}

impl Watching {
    fn start(kubectl: &Kubectl, command: &[&str]) -> Self {
        let mut child = kubectl.start(command);
        Self {
            stdout: child.stdout.take().expect("piped"),
            _child: child,
            printed: String::new(),
        }
    }

    /// Reads until the command has printed `wanted` lines.
    async fn lines(&mut self, wanted: usize) {
        let deadline = Instant::now() + WATCHED_WITHIN;
        let mut buffer = vec![0; 64 << 10];
        while self.printed.lines().count() < wanted {
            let left = deadline.saturating_duration_since(Instant::now());
            match tokio::time::timeout(left, self.stdout.read(&mut buffer)).await {
                Ok(Ok(read)) if read > 0 => {
                    self.printed += &String::from_utf8_lossy(&buffer[..read]);
                }
                _ => break,
            }
        }
    }
}

#[tokio::test]
async fn each_kind_watched() {
    let ways = ways();
    let command = ["api-resources", "--verbs=list,watch,patch", "-o", "name"];
    let kinds = ways.both.direct.run(&command).await.ok();
    let _moving = ways.moving.write().await;
    let differences: Vec<String> = futures::stream::iter(kinds.lines())
        .map(|kind| watched(&ways, kind))
        .buffer_unordered(AT_A_TIME)
        .filter_map(async |difference| difference)
        .collect()
        .await;
    assert!(
        differences.is_empty(),
        "(- direct, + through apifront)\n{}",
        differences.join("\n")
    );
}

async fn watched(ways: &Ways, kind: &str) -> Option<String> {
    let mut difference = None;
    for n in 0..TRIES {
        let list = ways.both.direct.run(&["get", kind, "-A"]).await.ok();
        if n > 0 {
            ages_have_ticked().await;
        }
        let listed = list.lines().count();
        let began = Instant::now();
        let command = ["get", kind, "-A", "-w", "--output-watch-events"];
        let mut direct = Watching::start(&ways.both.direct, &command);
        let mut front = Watching::start(&ways.both.front, &command);
        tokio::join!(direct.lines(listed), front.lines(listed));
        ages_have_ticked().await;
        let annotation = format!("example.test/watched={n}");
        let change = ["annotate", kind, "--all", "-A", "--overwrite", &annotation];
        // The server refuses to change some objects, and then sends no event.
        let changed = ways.both.direct.run(&change).await.stdout.lines().count();
        let wanted = listed + changed;
        tokio::join!(direct.lines(wanted), front.lines(wanted));
        assert!(
            direct.printed.lines().count() >= wanted,
            "kubectl {} directly shows only\n{}",
            command.join(" "),
            direct.printed
        );
        let [expected, got] = [direct.printed, front.printed].map(|stdout| Printed {
            code: None,
            stdout,
            stderr: String::new(),
        });
        let ticked = n >= EXACT_TRIES && expected.ticked_into(&got, began.elapsed());
        if expected == got || ticked {
            return None;
        }
        let lines = first_lines(&expected, &got);
        difference = Some(format!("kubectl {}\n{lines}", command.join(" ")));
    }
    difference
}
