//! Reads `apiregistration.k8s.io/v1` APIService manifests, unmodified.
//!
//! A file may hold many documents, and other objects besides APIServices, so that a
//! project's `deploy` folder can be named as it is. No two manifests may contradict
//! each other.

mod manifest;

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use self::manifest::{Object, checked};
use super::check::Check;
use crate::aggregation::ApiService;
use crate::config_file;

/// The most APIServices in all files. Clusters have a few dozen.
const MAX_API_SERVICES: usize = 1_000;
const MAX_DOCUMENTS: usize = 1_000;

/// Returns the APIServices in the files that the patterns match, each name
/// once.
pub(super) fn load(field: &str, patterns: &[String], check: &mut Check) -> Vec<ApiService> {
    let mut found: Vec<ApiService> = Vec::new();
    let mut seen: Vec<PathBuf> = Vec::new();
    for (i, pattern) in patterns.iter().enumerate() {
        let field = format!("{field}[{i}]");
        let files = matching(&field, pattern, check);
        for file in files {
            if seen.contains(&file) {
                continue;
            }
            for service in read(&field, &file, check) {
                match found.iter().find(|s| s.name == service.name) {
                    // Two equal manifests are no contradiction.
                    Some(other) if other.manifest == service.manifest => {}
                    Some(other) => check.error(
                        &field,
                        &service.name,
                        &format!(
                            "{} and {} register it differently",
                            other.file.display(),
                            file.display()
                        ),
                    ),
                    None if found.len() >= MAX_API_SERVICES => {
                        let most = format!("more than {MAX_API_SERVICES} APIServices");
                        check.error(&field, pattern, &most);
                        return found;
                    }
                    None => found.push(service),
                }
            }
            seen.push(file);
        }
    }
    found
}

/// Returns the files and patterns that must be watched. A pattern's folder
/// tells of new files, whose names are not known yet.
pub(super) fn watched(patterns: &[String]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for pattern in patterns {
        let path = PathBuf::from(pattern);
        let matched: Vec<PathBuf> = glob::glob(pattern)
            .map(|paths| paths.flatten().collect())
            .unwrap_or_default();
        files.extend(folder(&path));
        files.extend(matched.iter().filter_map(|file| folder(file)));
        files.extend(matched);
        // No file may have this name yet, but its folder must be watched.
        files.push(path);
    }
    files
}

fn folder(file: &Path) -> Option<PathBuf> {
    let folder = file.parent()?;
    let here = folder.as_os_str().is_empty();
    Some(if here { Path::new(".") } else { folder }.to_owned())
}

fn matching(field: &str, pattern: &str, check: &mut Check) -> Vec<PathBuf> {
    let paths = match glob::glob(pattern) {
        Ok(paths) => paths,
        Err(error) => {
            let problem = format!("must be a file name, * and ? allowed: {}", error.msg);
            check.error(field, pattern, &problem);
            return Vec::new();
        }
    };
    let mut files = Vec::new();
    for path in paths {
        match path {
            // The links of a mounted ConfigMap lead to its files a second time.
            Ok(path) if path.components().any(|c| c.as_os_str() == "..data") => {}
            Ok(path) if path.is_dir() => {}
            Ok(path) => files.push(path),
            Err(error) => check.error(field, pattern, &format!("cannot be read: {error}")),
        }
    }
    let is_one_file = !pattern.contains(['*', '?', '[']);
    if files.is_empty() && is_one_file {
        check.error(field, pattern, "no such file");
    }
    files
}

fn read(field: &str, file: &Path, check: &mut Check) -> Vec<ApiService> {
    let shown = file.display().to_string();
    let documents = match config_file::text(file).and_then(|text| documents(&text)) {
        Ok(documents) => documents,
        Err(problem) => {
            check.error(field, &shown, &problem);
            return Vec::new();
        }
    };
    let mut services = Vec::new();
    let mut pending = documents;
    pending.reverse();
    while let Some(document) = pending.pop() {
        let object = match Object::deserialize(&document) {
            Ok(object) => object,
            // The document does not say that it is an APIService, so it is not
            // checked.
            Err(_) if document.get("kind").and_then(Value::as_str) != Some("APIService") => {
                continue;
            }
            Err(error) => {
                check.error(field, &shown, &format!("APIService: {error}"));
                continue;
            }
        };
        match object.kind.as_str() {
            "APIService" => {
                let place = if object.metadata.name.is_empty() {
                    shown.clone()
                } else {
                    format!("{shown}: {}", object.metadata.name)
                };
                let mut problem =
                    |what: &str, why: &str| check.error(field, &place, &format!("{what}: {why}"));
                services.extend(checked(object, document, file, &mut problem));
            }
            "List" | "APIServiceList" => {
                pending.extend(object.items.into_iter().take(MAX_DOCUMENTS).rev());
            }
            _ => {}
        }
    }
    services
}

fn documents(text: &str) -> Result<Vec<Value>, String> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: 64,
            max_nodes: 200_000,
            max_documents: MAX_DOCUMENTS,
            max_anchors: 64,
            max_aliases: 256,
        },
        with_snippet: false,
    };
    let documents: Vec<Option<Value>> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(|e| e.to_string())?;
    Ok(documents.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WARDLE: &str = "
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1alpha1.wardle.example.com}
spec:
  insecureSkipTLSVerify: true
  group: wardle.example.com
  groupPriorityMinimum: 1000
  versionPriority: 15
  version: v1alpha1
  service: {name: api, namespace: wardle}
";

    fn files(texts: &[(&str, &str)]) -> (tempfile::TempDir, Vec<ApiService>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in texts {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let mut check = Check::default();
        let pattern = folder.path().join("*.yaml").to_string_lossy().into_owned();
        let services = load("aggregation.apiServices", &[pattern], &mut check);
        let errors = check.errors().iter().map(ToString::to_string).collect();
        (folder, services, errors)
    }

    #[test]
    fn manifests_are_taken_as_they_are() {
        let beside = format!("# a comment\n---\nkind: Namespace\napiVersion: v1\n---{WARDLE}---\n");
        let (_folder, services, errors) = files(&[
            ("a.yaml", &beside),
            ("again.yaml", WARDLE),
            ("other.txt", "{"),
        ]);
        assert_eq!(errors, Vec::<String>::new());
        let [wardle] = services.as_slice() else {
            panic!("{services:?}")
        };
        assert_eq!(wardle.name, "v1alpha1.wardle.example.com");
        let service = wardle.service.as_ref().unwrap();
        assert_eq!(
            (service.server_name().as_str(), service.port),
            ("api.wardle.svc", 443)
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_file_and_field() {
        let local = WARDLE.replace("service: {name: api, namespace: wardle}", "");
        let many = WARDLE
            .replace("1000", "0")
            .replace("15", "1001")
            .replace("name: api", "port: 0");
        for (text, expected) in [
            (WARDLE.replace("v1\n", "v1beta1\n"), vec!["apiVersion"]),
            (local, vec!["spec.insecureSkipTLSVerify"]),
            (
                many,
                vec![
                    "spec.groupPriorityMinimum",
                    "spec.versionPriority",
                    "spec.service.name",
                    "spec.service.port",
                ],
            ),
            (
                WARDLE.replace("name: v1alpha1.", "name: v1."),
                vec!["metadata.name"],
            ),
            ("kind: [".to_owned(), vec![""]),
            ("kind: APIService\nspec: 3".to_owned(), vec!["APIService"]),
            (
                WARDLE.replace("insecureSkipTLSVerify: true", "caBundle: '!'"),
                vec!["spec.caBundle"],
            ),
        ] {
            let (_folder, services, errors) = files(&[("a.yaml", &text)]);
            assert!(services.is_empty(), "{text}");
            assert_eq!(errors.len(), expected.len(), "{text}\n{errors:?}");
            for (error, field) in errors.iter().zip(expected) {
                assert!(error.starts_with("aggregation.apiServices[0]: "), "{error}");
                assert!(error.contains("a.yaml"), "{error}");
                assert!(error.contains(field), "{error}");
            }
        }
        let (_folder, _, errors) =
            files(&[("a.yaml", WARDLE), ("b.yaml", &WARDLE.replace("15", "16"))]);
        assert!(errors[0].contains("differently"), "{errors:?}");
    }
}
