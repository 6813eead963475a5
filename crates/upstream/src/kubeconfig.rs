//! Checks a kubeconfig's files and fields before use, and names the wrong one: the
//! libraries that use them say what is wrong, but not where.

use std::path::{Path, PathBuf};

use kube::config::{AuthInfo, Cluster, Kubeconfig};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use secrecy::ExposeSecret;

use super::pem::{Problem, certificates_in, inline_or_file, read};

#[derive(Debug, thiserror::Error)]
#[error("kubeconfig {file:?}: {field}: {problem}")]
pub struct KubeconfigFieldError {
    file: PathBuf,
    field: String,
    problem: String,
}

/// Checks the cluster and the user that `context`, by default the current one,
/// refers to. A context, cluster or user that does not exist is not reported
/// here but by kube, which uses the kubeconfig next.
pub(super) fn check(
    file: &Path,
    kubeconfig: &Kubeconfig,
    context: Option<&str>,
) -> Result<(), KubeconfigFieldError> {
    let wrong = |list: &str, name: &str, (field, problem): Problem| KubeconfigFieldError {
        file: file.to_owned(),
        field: format!("{list}[{name}].{field}"),
        problem,
    };
    let Some(used) = Used::by(kubeconfig, context) else {
        return Ok(());
    };
    if let Some((name, cluster)) = used.cluster {
        check_cluster(cluster).map_err(|p| wrong("clusters", name, p))?;
    }
    if let Some((name, user)) = used.user {
        check_user(user).map_err(|p| wrong("users", name, p))?;
    }
    Ok(())
}

/// Returns the files of certificates and keys that the cluster and the user of
/// `context`, by default of the current one, name. They may be renewed in place. A
/// token file is not among them, because each request reads it. The result is empty
/// if the kubeconfig cannot be read: whoever uses it reports that.
pub fn certificate_files(file: &Path, context: Option<&str>) -> Vec<PathBuf> {
    let Ok(kubeconfig) = Kubeconfig::read_from(file) else {
        return Vec::new();
    };
    let Some(used) = Used::by(&kubeconfig, context) else {
        return Vec::new();
    };
    let authority = used.cluster.map(|(_, c)| &c.certificate_authority);
    let pair = used
        .user
        .map(|(_, user)| [&user.client_certificate, &user.client_key]);
    let names = authority.into_iter().chain(pair.into_iter().flatten());
    let names = names.flatten().filter(|name| !name.is_empty());
    names.map(PathBuf::from).collect()
}

/// The cluster and the user of a context, with their names.
struct Used<'a> {
    cluster: Option<(&'a str, &'a Cluster)>,
    user: Option<(&'a str, &'a AuthInfo)>,
}

impl<'a> Used<'a> {
    /// Returns `None` if the context does not exist.
    fn by(kubeconfig: &'a Kubeconfig, context: Option<&str>) -> Option<Self> {
        let name = context.or(kubeconfig.current_context.as_deref())?;
        let context = kubeconfig.contexts.iter().find(|c| c.name == name)?;
        let context = context.context.as_ref()?;
        let mut clusters = kubeconfig.clusters.iter();
        let cluster = clusters.find(|c| c.name == context.cluster);
        let mut users = kubeconfig.auth_infos.iter();
        let user = users.find(|u| Some(&u.name) == context.user.as_ref());
        Some(Self {
            cluster: cluster.and_then(|c| Some((c.name.as_str(), c.cluster.as_ref()?))),
            user: user.and_then(|u| Some((u.name.as_str(), u.auth_info.as_ref()?))),
        })
    }
}

fn check_cluster(cluster: &Cluster) -> Result<(), Problem> {
    if let Some(server) = &cluster.server {
        let url = server.parse::<http::Uri>();
        if !url.is_ok_and(|u| u.host().is_some() && u.scheme().is_some()) {
            let problem = format!("{server:?} is not a URL like https://10.0.0.1:6443");
            return Err(("server".to_owned(), problem));
        }
    }
    if let Some(name) = &cluster.tls_server_name
        && ServerName::try_from(name.as_str()).is_err()
    {
        let problem = format!("{name:?} is no host name");
        return Err(("tls-server-name".to_owned(), problem));
    }
    let (data, file) = (
        cluster.certificate_authority_data.as_deref(),
        cluster.certificate_authority.as_deref(),
    );
    certificates("certificate-authority", data, file)
}

fn check_user(user: &AuthInfo) -> Result<(), Problem> {
    if let Some(file) = &user.token_file {
        read("tokenFile".to_owned(), file)?;
    }
    let (data, file) = (
        user.client_certificate_data.as_deref(),
        user.client_certificate.as_deref(),
    );
    certificates("client-certificate", data, file)?;
    let data = user.client_key_data.as_ref().map(|d| d.expose_secret());
    let key = inline_or_file("client-key", data, user.client_key.as_deref())?;
    match key {
        Some((field, pem)) if PrivateKeyDer::from_pem_slice(&pem).is_err() => {
            Err((field, "holds no PEM private key".to_owned()))
        }
        _ => Ok(()),
    }
}

fn certificates(field: &str, data: Option<&str>, file: Option<&str>) -> Result<(), Problem> {
    match inline_or_file(field, data, file)? {
        Some((field, pem)) if certificates_in(&pem).is_empty() => {
            Err((field, "holds no PEM certificate".to_owned()))
        }
        _ => Ok(()),
    }
}
