//! The API server and the credentials that kubectl would use.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use apifront_upstream::causes;
use kube::Config;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};

use super::arguments::Access;
use super::failure::Failure;

/// Reads the kubeconfig as kubectl does: the file that is named, else the files in
/// `KUBECONFIG`, else that in the home folder, else the service account of a pod.
pub(super) async fn config(access: &Access) -> Result<Config, Failure> {
    let environment = std::env::var_os("KUBECONFIG");
    let home = std::env::home_dir();
    let wrong = |error: &kube::config::KubeconfigError| {
        Failure::Kubeconfig(format!("kubeconfig: {}", causes(error)))
    };
    let files = files(access, environment, home.as_deref());
    let merged = files
        .iter()
        .try_fold(Kubeconfig::default(), |merged, file| {
            Kubeconfig::read_from(file).and_then(|next| merged.merge(next))
        })
        .map_err(|error| wrong(&error))?;
    let context = access.context.clone();
    let is_named = context.is_some() || merged.current_context.is_some();
    let mut config = match &access.server {
        Some(server) if !is_named => Config::new(url(server, false)?),
        None if files.is_empty() && context.is_none() => Config::incluster().map_err(|_| {
            let text =
                "there is no kubeconfig: name one with --kubeconfig, or a server with --server";
            Failure::Kubeconfig(text.to_owned())
        })?,
        server => {
            if let Some(proxy) = proxy(&merged, context.as_deref()) {
                let text = format!("kubeconfig: proxy-url {proxy:?}: proxies are not used");
                return Err(Failure::Kubeconfig(text));
            }
            let options = KubeConfigOptions {
                context,
                ..KubeConfigOptions::default()
            };
            let config = Config::from_custom_kubeconfig(merged, &options).await;
            let mut config = config.map_err(|error| wrong(&error))?;
            if let Some(server) = server {
                let secure = config.root_cert.is_some() || config.accept_invalid_certs;
                config.cluster_url = url(server, secure)?;
                // As kubectl does: the name is that of the other server.
                config.tls_server_name = None;
            }
            config
        }
    };
    read_token(&mut config.auth_info)?;
    // kube read it from HTTPS_PROXY, without asking NO_PROXY about the server.
    config.proxy_url = None;
    // An answer is for a person, who may ask again.
    config.default_retry = false;
    Ok(config)
}

/// Returns the files to read. Those in `KUBECONFIG` and in the home folder need not exist.
fn files(access: &Access, environment: Option<OsString>, home: Option<&Path>) -> Vec<PathBuf> {
    if let Some(file) = &access.kubeconfig {
        return vec![file.clone()];
    }
    let environment = environment.unwrap_or_default();
    let mut files: Vec<PathBuf> = std::env::split_paths(&environment)
        .filter(|file| !file.as_os_str().is_empty())
        .collect();
    if files.is_empty() {
        files.extend(home.map(|home| home.join(".kube/config")));
    }
    files.retain(|file| file.exists());
    files
}

/// Returns the proxy of the cluster that `context`, by default the current one, refers to.
fn proxy<'k>(kubeconfig: &'k Kubeconfig, context: Option<&str>) -> Option<&'k str> {
    let name = context.or(kubeconfig.current_context.as_deref())?;
    let context = kubeconfig.contexts.iter().find(|c| c.name == name)?;
    let name = &context.context.as_ref()?.cluster;
    let cluster = kubeconfig.clusters.iter().find(|c| c.name == *name)?;
    let proxy = cluster.cluster.as_ref()?.proxy_url.as_deref()?;
    (!proxy.is_empty()).then_some(proxy)
}

/// Reads an address. Without a scheme it is one of HTTPS if there are authorities.
fn url(server: &str, secure: bool) -> Result<http::Uri, Failure> {
    let server = match server.contains("://") {
        true => server.to_owned(),
        false if secure => format!("https://{server}"),
        false => format!("http://{server}"),
    };
    let url = server.parse::<http::Uri>().ok();
    let url = url.filter(|url| url.host().is_some_and(|host| !host.is_empty()));
    url.ok_or_else(|| {
        let text = format!("--server: {server:?} is not a URL like https://10.0.0.1:6443");
        Failure::Kubeconfig(text)
    })
}

/// As in client-go, the file comes before the token, and spaces at its ends do not count.
/// kube would send them. What has none is left to kube, which reads it again.
fn read_token(user: &mut AuthInfo) -> Result<(), Failure> {
    let Some(file) = &user.token_file else {
        return Ok(());
    };
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::Kubeconfig(format!("kubeconfig: tokenFile {file:?}: {error}")))?;
    let token = text.trim();
    user.token = None;
    if token != text {
        user.token = Some(token.to_owned().into());
        user.token_file = None;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn written(folder: &Path, name: &str, cluster: &Value) -> PathBuf {
        let document = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{ "name": name, "cluster": cluster }],
            "users": [{ "name": name, "user": { "tokenFile": folder.join("token") } }],
            "contexts": [{ "name": name, "context": { "cluster": name, "user": name } }],
        });
        let file = folder.join(name);
        std::fs::write(&file, document.to_string()).unwrap();
        file
    }

    #[test]
    fn files_are_those_of_kubectl() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        let home = folder.path().join(".kube/config");
        std::fs::create_dir(folder.path().join(".kube")).unwrap();
        for file in [&a, &b, &home] {
            std::fs::write(file, "").unwrap();
        }
        let named = |kubeconfig: Option<&PathBuf>| Access {
            kubeconfig: kubeconfig.cloned(),
            ..Access::default()
        };
        let list = std::env::join_paths([&a, &folder.path().join("absent"), &b]).unwrap();
        let home_folder = Some(folder.path());
        let found = files(&named(None), Some(list.clone()), home_folder);
        assert_eq!(found, [a.clone(), b]);
        assert_eq!(files(&named(Some(&a)), Some(list), home_folder), [a]);
        for none in [None, Some(OsString::from("")), Some(OsString::from(":"))] {
            assert_eq!(
                files(&named(None), none, home_folder),
                std::slice::from_ref(&home)
            );
        }
        assert!(files(&named(None), None, None).is_empty());
    }

    #[tokio::test]
    async fn options_change_what_the_kubeconfig_says() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), "secret\n").unwrap();
        let cluster = json!({ "server": "https://a.test:6443", "tls-server-name": "x" });
        let file = written(folder.path(), "a", &cluster);
        let mut access = Access {
            kubeconfig: Some(file),
            ..Access::default()
        };
        let read = config(&access).await.unwrap();
        assert_eq!(read.cluster_url, "https://a.test:6443/");
        assert_eq!(read.tls_server_name.as_deref(), Some("x"));
        assert!(read.auth_info.token.is_some() && read.auth_info.token_file.is_none());
        std::fs::write(folder.path().join("token"), "secret").unwrap();
        let read = config(&access).await.unwrap();
        assert!(read.auth_info.token.is_none() && read.auth_info.token_file.is_some());
        access.server = Some("b.test".to_owned());
        let read = config(&access).await.unwrap();
        assert_eq!(read.cluster_url, "http://b.test/");
        assert_eq!(read.tls_server_name, None);
        access.context = Some("absent".to_owned());
        let error = config(&access).await.unwrap_err().to_string();
        assert!(error.contains("absent"), "{error}");
        access.kubeconfig = Some(folder.path().join("absent"));
        let error = config(&access).await.unwrap_err().to_string();
        assert!(error.starts_with("kubeconfig: "), "{error}");
        let cluster = json!({ "server": "https://a.test", "proxy-url": "http://proxy.test" });
        access = Access {
            kubeconfig: Some(written(folder.path(), "b", &cluster)),
            ..Access::default()
        };
        let error = config(&access).await.unwrap_err().to_string();
        assert!(error.contains("http://proxy.test"), "{error}");
    }

    #[test]
    fn addresses_without_a_scheme_have_one() {
        for (server, secure, expected) in [
            ("https://a:1/path", false, "https://a:1/path"),
            ("a:1", true, "https://a:1/"),
            ("127.0.0.1:8001", false, "http://127.0.0.1:8001/"),
        ] {
            assert_eq!(url(server, secure).unwrap(), expected);
        }
        for server in ["", "https://", "a b"] {
            assert!(url(server, true).is_err(), "{server}");
        }
    }
}
