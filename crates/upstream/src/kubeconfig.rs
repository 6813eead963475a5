//! Checks a kubeconfig's files and fields before use, and names the wrong one: the
//! libraries that use them say what is wrong, but not where.

use std::path::{Path, PathBuf};

use base64::Engine;
use kube::config::{AuthInfo, Cluster, Kubeconfig};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use secrecy::ExposeSecret;

use super::transport::pem_certificates;

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
    let name = context.or(kubeconfig.current_context.as_deref());
    let context = kubeconfig
        .contexts
        .iter()
        .find(|c| Some(c.name.as_str()) == name)
        .and_then(|c| c.context.as_ref());
    let Some(context) = context else {
        return Ok(());
    };
    let wrong = |of: &str, name: &str, (field, problem): Problem| KubeconfigFieldError {
        file: file.to_owned(),
        field: format!("{of}[{name}].{field}"),
        problem,
    };
    let clusters = &kubeconfig.clusters;
    if let Some(found) = clusters.iter().find(|c| c.name == context.cluster)
        && let Some(cluster) = &found.cluster
    {
        check_cluster(cluster).map_err(|p| wrong("clusters", &found.name, p))?;
    }
    let users = &kubeconfig.auth_infos;
    if let Some(found) = users
        .iter()
        .find(|u| Some(&u.name) == context.user.as_ref())
        && let Some(user) = &found.auth_info
    {
        check_user(user).map_err(|p| wrong("users", &found.name, p))?;
    }
    Ok(())
}

type Problem = (String, String);

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
    let key = pem("client-key", data, user.client_key.as_deref())?;
    match key {
        Some((field, pem)) if PrivateKeyDer::from_pem_slice(&pem).is_err() => {
            Err((field, "holds no PEM private key".to_owned()))
        }
        _ => Ok(()),
    }
}

fn certificates(field: &str, data: Option<&str>, file: Option<&str>) -> Result<(), Problem> {
    match pem(field, data, file)? {
        Some((field, pem)) if pem_certificates(&pem).is_empty() => {
            Err((field, "holds no PEM certificate".to_owned()))
        }
        _ => Ok(()),
    }
}

/// Returns the field that was used and its PEM text. Inline data takes
/// precedence over a file, as in kubectl.
fn pem(
    field: &str,
    data: Option<&str>,
    file: Option<&str>,
) -> Result<Option<(String, Vec<u8>)>, Problem> {
    if let Some(data) = data.filter(|d| !d.is_empty()) {
        let field = format!("{field}-data");
        let decoded = base64::engine::general_purpose::STANDARD.decode(data.trim());
        return match decoded {
            Ok(pem) => Ok(Some((field, pem))),
            Err(error) => Err((field, format!("not base64: {error}"))),
        };
    }
    let Some(file) = file.filter(|f| !f.is_empty()) else {
        return Ok(None);
    };
    let pem = read(field.to_owned(), file)?;
    Ok(Some((format!("{field} {file:?}"), pem)))
}

fn read(field: String, file: &str) -> Result<Vec<u8>, Problem> {
    std::fs::read(file).map_err(|error| (field, format!("cannot read {file:?}: {error}")))
}
