//! Client certificates from exec credential plugins
//! (client.authentication.k8s.io). kube handles the tokens from plugins. It
//! does not give out the certificates, and the connections that carry callers'
//! requests need them too.

use std::time::Duration;

use base64::Engine;
use kube::config::AuthInfo;
use secrecy::SecretString;
use serde::Deserialize;

/// The time that a plugin has. It may ask a human or a slow identity provider.
const PLUGIN_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    #[error("cannot run {command:?}: {error}")]
    Start {
        command: String,
        error: std::io::Error,
    },
    #[error("{command:?} did not end within {PLUGIN_TIMEOUT:?}")]
    Timeout { command: String },
    #[error("{command:?} ended with {status}: {stderr}")]
    Failed {
        command: String,
        status: std::process::ExitStatus,
        stderr: String,
    },
    #[error("{command:?} printed no ExecCredential: {error}")]
    Output {
        command: String,
        error: serde_json::Error,
    },
}

#[derive(Deserialize)]
struct ExecCredential {
    status: Option<ExecStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecStatus {
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

/// If the user has a plugin that answers with a certificate, replaces the
/// plugin by that certificate.
pub(super) async fn resolve_certificate(auth: &mut AuthInfo) -> Result<(), ExecError> {
    let Some(config) = auth.exec.as_ref() else {
        return Ok(());
    };
    let Some(command) = config.command.clone() else {
        return Ok(());
    };
    let info = serde_json::json!({
        "apiVersion": config.api_version.as_deref().unwrap_or("client.authentication.k8s.io/v1"),
        "kind": "ExecCredential",
        "spec": {"interactive": false},
    });
    let mut process = tokio::process::Command::new(&command);
    process
        .args(config.args.iter().flatten())
        .env("KUBERNETES_EXEC_INFO", info.to_string())
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true);
    for pair in config.env.iter().flatten() {
        if let (Some(name), Some(value)) = (pair.get("name"), pair.get("value")) {
            process.env(name, value);
        }
    }
    let output = tokio::time::timeout(PLUGIN_TIMEOUT, process.output())
        .await
        .map_err(|_| ExecError::Timeout {
            command: command.clone(),
        })?
        .map_err(|error| ExecError::Start {
            command: command.clone(),
            error,
        })?;
    if !output.status.success() {
        return Err(ExecError::Failed {
            command,
            status: output.status,
            stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        });
    }
    let credential: ExecCredential = serde_json::from_slice(&output.stdout)
        .map_err(|error| ExecError::Output { command, error })?;
    if let Some(ExecStatus {
        client_certificate_data: Some(certificate),
        client_key_data: Some(key),
    }) = credential.status
    {
        let base64 = base64::engine::general_purpose::STANDARD;
        auth.client_certificate_data = Some(base64.encode(certificate));
        auth.client_key_data = Some(SecretString::from(base64.encode(key)));
        auth.exec = None;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use kube::config::ExecConfig;
    use secrecy::ExposeSecret;

    use super::*;

    async fn resolved(script: &str) -> Result<AuthInfo, ExecError> {
        let exec: ExecConfig = serde_json::from_value(serde_json::json!({
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "sh",
            "args": ["-c", script],
            "env": [{"name": "KIND", "value": "ExecCredential"}],
        }))
        .unwrap();
        let mut auth = AuthInfo {
            exec: Some(exec),
            ..AuthInfo::default()
        };
        resolve_certificate(&mut auth).await.map(|()| auth)
    }

    #[tokio::test]
    async fn a_certificate_takes_the_place_of_its_plugin() {
        let script = r#"echo "{\"kind\":\"$KIND\",\"status\":{\"clientCertificateData\":\"C\",\"clientKeyData\":\"K\"}}""#;
        let auth = resolved(script).await.unwrap();
        assert!(auth.exec.is_none());
        assert_eq!(auth.client_certificate_data.as_deref(), Some("Qw=="));
        assert_eq!(auth.client_key_data.unwrap().expose_secret(), "Sw==");
    }

    #[tokio::test]
    async fn a_token_is_left_to_be_asked_for_again() {
        for status in [r#"{"token":"t"}"#, "{}", "null"] {
            let auth = resolved(&format!("echo '{{\"status\":{status}}}'"))
                .await
                .unwrap();
            assert!(auth.exec.is_some() && auth.client_certificate_data.is_none());
        }
        let mut none = AuthInfo::default();
        resolve_certificate(&mut none).await.unwrap();
    }

    #[tokio::test]
    async fn a_plugin_that_fails_says_why() {
        let error = resolved("echo locked >&2; exit 3")
            .await
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("locked") && error.contains('3'), "{error}");
        for script in ["true", "echo nonsense", "echo '[1]'"] {
            let error = resolved(script).await.err().unwrap();
            assert!(
                matches!(error, ExecError::Output { .. }),
                "{script}: {error}"
            );
        }
    }
}
