//! Tests kube-apiserver's tracing file: apifront refuses the files that
//! kube-apiserver refuses, and names the error.

use std::path::Path;
use std::process::Stdio;

use serde_json::json;
use tokio::process::Command;

use super::world::SOON;
use crate::harness::apifront::{self, config_before};
use crate::harness::binaries;
use crate::harness::cluster::Cluster;
use crate::harness::process::temporary_folder;

const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n";

/// The files that both refuse, with apifront's message.
const BAD: [(&str, &str); 9] = [
    ("extra: 7\n", "extra: \"7\": unknown field"),
    ("metadata: {}\n", "metadata: \"{}\": unknown field"),
    (
        "Endpoint: localhost:4317\n",
        "Endpoint: \"localhost:4317\": unknown field",
    ),
    (
        "samplingRatePerMillion: -1\n",
        "samplingRatePerMillion: \"-1\": must be a whole number",
    ),
    (
        "samplingRatePerMillion: 1000001\n",
        "samplingRatePerMillion: \"1000001\": must be a whole number between 0 and 1000000",
    ),
    (
        "samplingRatePerMillion: text\n",
        "samplingRatePerMillion: \"text\": must be a whole number",
    ),
    (
        "endpoint: http://localhost:4317\n",
        "unsupported scheme: http",
    ),
    (
        "endpoint: localhost:port\n",
        "endpoint: \"localhost:port\": must be HOST:PORT",
    ),
    ("kind: TracingConfiguration\n", "duplicate"),
];

async fn said(program: &mut Command) -> (bool, String) {
    let output = program.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = tokio::time::timeout(SOON, output).await.expect("it ends");
    let output = output.expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.success(),
        text(&output.stdout) + &text(&output.stderr),
    )
}

/// Starts kube-apiserver with a file and without a running etcd. It reads the file
/// before it connects.
async fn kube_apiserver(folder: &Path, file: &Path) -> String {
    let certificates = &Cluster::shared().certificates;
    let flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
    let public = flag(
        "service-account-key-file",
        &certificates.service_account_public,
    );
    let private = &certificates.service_account_private;
    let private = flag("service-account-signing-key-file", private);
    let mut program = Command::new(binaries::kube_apiserver());
    program
        .args([
            "--etcd-servers=http://127.0.0.1:1",
            "--bind-address=127.0.0.1",
        ])
        .args(["--service-account-issuer=https://kubernetes.default.svc"])
        .args([public, private, flag("cert-dir", folder)])
        .args([flag("tracing-config-file", file)]);
    let (fine, text) = said(&mut program).await;
    assert!(!fine, "{text}");
    text
}

#[tokio::test]
async fn bad_files_are_refused_by_start_check_and_doctor() {
    skip_under_oracle!("kube-apiserver has other words for it");
    let folder = temporary_folder("bad-tracing");
    let file = folder.join("tracing.yaml");
    let mut config = config_before(Cluster::shared());
    config["observability"]["tracingConfigFile"] = json!(file);
    let config_file = folder.join("config.yaml");
    std::fs::write(&config_file, config.to_string()).expect("config");
    for (line, expected) in BAD {
        std::fs::write(&file, format!("{HEAD}{line}")).expect("tracing file");
        let theirs = kube_apiserver(&folder, &file).await;
        let reads =
            theirs.contains("to read tracing config") || theirs.contains("to validate tracing");
        assert!(reads && !theirs.contains("no kind"), "{line}: {theirs}");
        for arguments in [&["--validate-only"][..], &[], &["doctor"]] {
            let mut program = Command::new(apifront::built());
            let program = program.args(arguments).arg("--config").arg(&config_file);
            let (fine, text) = said(program).await;
            assert!(!fine, "{arguments:?} {line}: {text}");
            assert!(
                text.contains("tracing.yaml: ") && text.contains(expected),
                "{arguments:?} {line}: {text}"
            );
        }
    }
}
