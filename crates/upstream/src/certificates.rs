//! The certificates and keys that a kubeconfig names or holds, as pingora takes them.
//! `config/watcher.rs` of the program notices when their files change; the server is
//! then made again.

use std::sync::Arc;

use pingora_core::protocols::tls::CaType;
use pingora_core::utils::tls::{CertKey, WrappedX509, parse_x509};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use secrecy::ExposeSecret;

use super::pem::{certificates_in, inline_or_file};

/// Returns the configuration without the credentials that [`HeaderSource`] adds
/// to each request. The exec plugin is left out too: kube would run it again
/// for a certificate, which apifront already has.
pub(super) fn certificate_only(config: &kube::Config) -> kube::Config {
    let mut config = config.clone();
    let full = std::mem::take(&mut config.auth_info);
    config.auth_info.client_certificate = full.client_certificate;
    config.auth_info.client_certificate_data = full.client_certificate_data;
    config.auth_info.client_key = full.client_key;
    config.auth_info.client_key_data = full.client_key_data;
    config
}

pub(super) fn authorities(config: &kube::Config) -> Result<Option<Arc<CaType>>, String> {
    let from_file;
    let bundle = match (&config.root_cert, &config.root_cert_file) {
        (_, Some(file)) => {
            from_file = certificates_in(
                &std::fs::read(file).map_err(|e| format!("cannot read {file:?}: {e}"))?,
            );
            &from_file
        }
        (Some(bundle), None) => bundle,
        (None, None) => return Ok(None),
    };
    let parsed: Vec<WrappedX509> = bundle
        .iter()
        .map(|der| {
            check_certificate(der)?;
            Ok(WrappedX509::new(der.clone(), parse_x509))
        })
        .collect::<Result<_, String>>()?;
    Ok(Some(parsed.into()))
}

/// Checks that pingora can parse a certificate. pingora panics if it cannot.
fn check_certificate(der: &[u8]) -> Result<(), String> {
    x509_parser::parse_x509_certificate(der)
        .map(|_| ())
        .map_err(|e| format!("not an X.509 certificate: {e}"))
}

pub(super) fn client_certificate(config: &kube::Config) -> Result<Option<Arc<CertKey>>, String> {
    let auth = &config.auth_info;
    let data = auth.client_certificate_data.as_deref();
    let certificate = pem("client-certificate", data, &auth.client_certificate)?;
    let data = auth.client_key_data.as_ref().map(|d| d.expose_secret());
    let key = pem("client-key", data, &auth.client_key)?;
    let (Some(certificate), Some(key)) = (certificate, key) else {
        return Ok(None);
    };
    let chain = certificates_in(&certificate);
    if chain.is_empty() {
        return Err("the client certificate is not PEM".to_owned());
    }
    for der in &chain {
        check_certificate(der)?;
    }
    let key = PrivateKeyDer::from_pem_slice(&key)
        .map_err(|e| format!("the client key is not PEM: {e:?}"))?;
    // pingora hands the key to rustls, which guesses the kind of the key from
    // its bytes.
    let key = key.secret_der().to_vec();
    PrivateKeyDer::try_from(key.clone())
        .map_err(|e| format!("the client key is of no known kind: {e}"))?;
    Ok(Some(Arc::new(CertKey::new(chain, key))))
}

fn pem(field: &str, data: Option<&str>, file: &Option<String>) -> Result<Option<Vec<u8>>, String> {
    match inline_or_file(field, data, file.as_deref()) {
        Ok(found) => Ok(found.map(|(_, pem)| pem)),
        Err((field, problem)) => Err(format!("{field}: {problem}")),
    }
}
