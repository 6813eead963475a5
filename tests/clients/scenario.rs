//! One run of all programs, directly or through apifront. The programs make
//! their checks, and start informers. When all have synced, the runner writes
//! changes and restarts the servers in the middle.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use futures::future::join_all;
use serde_json::{Value, json};

use super::changes::{CHANGES, LAST, Writer};
use super::hits::{self, Reads};
use super::library::{Library, contents_check};
use super::managers::{self, Managers};
use super::program::{Contents, Program, Said};
use super::stage::{GROUP, PAGES, Stage};
use crate::harness::apifront::Apifront;
use crate::harness::kubeconfig::{self, Credential};
use crate::harness::process;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Direct,
    ThroughApifront,
    /// Through an apifront that answers the programs' reads without managedFields.
    WithoutManagedFields,
}

impl Way {
    pub const ALL: [Self; 3] = [
        Self::Direct,
        Self::ThroughApifront,
        Self::WithoutManagedFields,
    ];

    fn short(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::ThroughApifront => "through",
            Self::WithoutManagedFields => "shaped",
        }
    }

    /// Returns the namespace of the objects that the programs watch.
    pub fn changes(self) -> &'static str {
        match self {
            Self::Direct => "changes-direct",
            Self::ThroughApifront => "changes-through",
            Self::WithoutManagedFields => "changes-shaped",
        }
    }

    /// Returns the namespace in which only this library's program writes.
    pub fn namespace(self, library: &Library) -> String {
        format!("{}-{}", library.name.replace('.', "-"), self.short())
    }
}

/// What became of one library's checks.
#[derive(Debug, Default)]
pub struct Outcome {
    pub version: String,
    /// The checks. Those that failed have a text.
    pub checks: BTreeMap<String, Option<String>>,
    /// The managers of the objects that the program wrote.
    pub managers: Managers,
    /// The reads that the cache answered before servers were restarted. Directly there
    /// are none.
    pub reads: Reads,
    /// What its program logged last, and apifront of its requests for the objects
    /// that were changed.
    pub logs: String,
}

impl Outcome {
    fn note(&mut self, check: String, failure: Option<String>) {
        // A check that is made twice must pass twice.
        let noted = self.checks.entry(check).or_default();
        *noted = noted.take().or(failure);
    }
}

/// A program and what it has said.
struct Part {
    program: Program,
    outcome: Outcome,
    informers: BTreeMap<String, Contents>,
}

impl Part {
    /// Notes what the program says until it waits for the runner, or ends.
    async fn listen(&mut self) {
        while let Some(said) = self.program.hear().await {
            match said {
                Said::Version { version } => self.outcome.version = version,
                Said::Check { check, ok, detail } => {
                    self.outcome.note(check, (!ok).then_some(detail));
                }
                Said::Contents { informers } => self.informers = informers,
                Said::Step { step } => {
                    assert_eq!(step, "synced");
                    return;
                }
            }
        }
    }
}

/// Runs all programs, and returns the outcomes in the order of `libraries`.
pub async fn run(
    stage: &mut Stage,
    way: Way,
    libraries: &[Library],
    commands: &[PathBuf],
) -> Vec<Outcome> {
    let mut front = match way {
        Way::Direct => None,
        Way::ThroughApifront => Some(start_front(stage, &json!([])).await),
        Way::WithoutManagedFields => Some(start_front(stage, &shapes()).await),
    };
    let url = match &front {
        None => stage.cluster.server_url(),
        Some(front) => front.url(),
    };
    let folder = process::temporary_folder("clients");
    let starts = libraries
        .iter()
        .zip(commands)
        .map(|(library, command)| start(stage, way, library, command, &url, &folder));
    let mut parts = join_all(starts).await;
    join_all(parts.iter_mut().map(Part::listen)).await;
    // Later ones depend on which server is away when a program asks again.
    let logged = front.as_ref().map(|front| hits::logged(&front.folder));
    if way == Way::WithoutManagedFields
        && let Some(front) = &front
    {
        tell_left_out(front).await;
    }

    let mut counted = 0;
    let writer = disturb(stage, way, front.as_mut(), &mut counted).await;
    let truth = writer.truth().await;
    let finish = json!({ "step": "finish", "last": LAST });
    join_all(parts.iter_mut().map(|part| async {
        part.program.tell(&finish).await;
        part.listen().await;
    }))
    .await;

    let mut outcomes: Vec<Outcome> = parts
        .into_iter()
        .map(|part| compared(part, &truth))
        .collect();
    let admin = stage.cluster.admin_client();
    for (outcome, library) in outcomes.iter_mut().zip(libraries) {
        outcome.managers = managers::written_in(&admin, &way.namespace(library)).await;
    }
    if let Some(front) = front {
        counted += hits::counted(&front).await;
        let logs = front.folder.clone();
        front.stop().await;
        let logged = logged.unwrap_or_default();
        for (outcome, library) in outcomes.iter_mut().zip(libraries) {
            outcome.reads = logged.get(&library.user()).copied().unwrap_or_default();
            let requests = hits::last_lines(&logs, &library.user(), way.changes());
            outcome.logs.push_str(&format!("\napifront:\n{requests}"));
        }
        let sum: usize = hits::logged(&logs).values().map(|reads| reads.hits).sum();
        println!("hits: {counted} by the metrics, {sum} by the access log");
        assert!(counted >= sum, "the metrics count fewer hits than the log");
    }
    outcomes
}

/// Starts an apifront that has read what programs read, so that the number of
/// hits does not depend on who comes first.
async fn start_front(stage: &Stage, shapes: &Value) -> Apifront {
    let front = Apifront::start(&stage.cluster, |config| {
        config["shapes"] = shapes.clone();
        config["logging"] = json!({ "format": "json", "verbosity": 2 });
    })
    .await;
    warm(&front).await;
    front
}

fn shapes() -> Value {
    json!([{ "name": "clients", "groups": [GROUP], "managedFields": "Drop" }])
}

/// Prints how much the programs were not sent.
async fn tell_left_out(front: &Apifront) {
    let answers = async |shape| {
        let labels = [("rule", "clients"), ("shape", shape)];
        front.metric("apifront_shape_answers_total", &labels).await
    };
    let shaped = answers("without_managed_fields").await;
    let whole = answers("whole").await;
    let bytes = front
        .metric("apifront_shape_left_out_bytes_total", &[])
        .await;
    println!("without managedFields: {shaped} answers, {bytes} bytes less; {whole} whole");
    assert!(shaped > 0.0 && bytes > 0.0);
}

async fn warm(front: &Apifront) {
    let admin = front.admin_client();
    for resources in ["/api/v1", "/apis/apps/v1"]
        .iter()
        .zip(["configmaps", "deployments"])
    {
        let path = format!("{}/namespaces/{PAGES}/{}", resources.0, resources.1);
        front.warm(&admin, &path).await;
    }
}

async fn start(
    stage: &Stage,
    way: Way,
    library: &Library,
    command: &Path,
    url: &str,
    folder: &Path,
) -> Part {
    let certificate = stage.cluster.certificates.client(&library.user(), &[GROUP]);
    let ca = Some(stage.cluster.ca());
    let who = Credential::Certificate(&certificate);
    let folder = folder.join(library.name);
    std::fs::create_dir(&folder).expect("a folder");
    let kubeconfig = kubeconfig::write(&folder, library.name, url, ca, who);
    let task = stage.task(&way.namespace(library), way, &kubeconfig);
    let name = format!("{}-{}", library.name, way.short());
    Part {
        program: Program::start(name, command, &folder, &task).await,
        outcome: Outcome::default(),
        informers: BTreeMap::new(),
    }
}

/// Writes all changes. After each quarter of them a server is killed and started
/// again: the API server, while watches come from apifront's cache; apifront,
/// while the writer goes on; and the API server again, since a new apifront
/// forwards the watches that begin before its history. Adds the hits that
/// apifront had counted before it was killed.
async fn disturb(
    stage: &mut Stage,
    way: Way,
    front: Option<&mut Apifront>,
    counted: &mut usize,
) -> Writer {
    let mut writer = Writer::new(stage.cluster.admin_client(), way.changes());
    writer.write(CHANGES / 4).await;
    stage.cluster.restart_apiserver().await;
    writer.write(CHANGES / 2).await;
    if let Some(front) = front {
        *counted += hits::counted(front).await;
        tokio::join!(front.restart(), writer.write(CHANGES * 5 / 8));
        warm(front).await;
    }
    writer.write(CHANGES * 3 / 4).await;
    stage.cluster.restart_apiserver().await;
    writer.write(CHANGES).await;
    writer.finish().await;
    writer
}

/// Compares what a program's informers hold with a list.
fn compared(mut part: Part, truth: &Contents) -> Outcome {
    for (name, contents) in part.informers {
        let failure = (contents != *truth).then(|| {
            let missing: Vec<_> = truth
                .iter()
                .filter(|o| contents.get(o.0) != Some(o.1))
                .collect();
            let wrong: Vec<_> = contents
                .iter()
                .filter(|o| truth.get(o.0) != Some(o.1))
                .collect();
            format!("the list has {missing:?} and the informer {wrong:?}")
        });
        part.outcome.note(contents_check(&name), failure);
    }
    part.outcome.logs = part.program.log_tail();
    part.outcome
}
