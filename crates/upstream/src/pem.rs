//! Reads PEM, which a kubeconfig holds inline or names as a file.

use base64::Engine;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// The field that is wrong, and why.
pub(super) type Problem = (String, String);

/// Returns the certificates in a PEM text. Anything else in it is skipped.
pub(super) fn certificates_in(pem: &[u8]) -> Vec<Vec<u8>> {
    CertificateDer::pem_slice_iter(pem)
        .flatten()
        .map(|der| der.to_vec())
        .collect()
}

/// Returns the field that was used and its PEM text. Inline data takes
/// precedence over a file, as in kubectl.
pub(super) fn inline_or_file(
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

pub(super) fn read(field: String, file: &str) -> Result<Vec<u8>, Problem> {
    std::fs::read(file).map_err(|error| (field, format!("cannot read {file:?}: {error}")))
}
