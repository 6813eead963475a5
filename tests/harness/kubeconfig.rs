//! Writes kubeconfig files, as JSON, which is YAML.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::certificates::Pair;

pub enum Credential<'a> {
    Certificate(&'a Pair),
    Token(&'a str),
    None,
}

pub fn write(
    folder: &Path,
    name: &str,
    server: &str,
    ca: Option<&Path>,
    who: Credential,
) -> PathBuf {
    let user = match who {
        Credential::Certificate(pair) => json!({
            "client-certificate": pair.cert,
            "client-key": pair.key,
        }),
        Credential::Token(token) => json!({ "token": token }),
        Credential::None => json!({}),
    };
    let mut cluster = json!({ "server": server });
    if let Some(ca) = ca {
        cluster["certificate-authority"] = json!(ca);
    }
    write_parts(folder, name, cluster, user)
}

/// Writes a kubeconfig with any fields of cluster and user. Tests may write and read
/// the same file at the same time, so the file is complete at every moment.
pub fn write_parts(folder: &Path, name: &str, cluster: Value, user: Value) -> PathBuf {
    let document = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{ "name": "test", "cluster": cluster }],
        "users": [{ "name": "test", "user": user }],
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
    });
    let path = folder.join(format!("{name}.kubeconfig"));
    let mut file = tempfile::NamedTempFile::new_in(folder).expect("a file for a kubeconfig");
    file.write_all(format!("{document:#}\n").as_bytes())
        .expect("kubeconfig");
    file.persist(&path).expect("kubeconfig");
    path
}
