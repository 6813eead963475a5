//! Reads the user that a client certificate names.

use std::collections::BTreeMap;

use kubernetes_wire::api::UserInfo;
use sha2::{Digest, Sha256};
use x509_parser::asn1_rs::{Any, Tag};
use x509_parser::certificate::X509Certificate;
use x509_parser::oid_registry::{Oid, asn1_rs::oid};
use x509_parser::prelude::FromDer;

use super::ca_bundle::ChainError;

/// The extra key under which the API server records the credential that was used.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// `user.X509UID` of the API server: the UID as a subject attribute, since
/// Kubernetes 1.34.
const UID: Oid<'static> = oid!(1.3.6.1.4.1.57683.2);
const COMMON_NAME: Oid<'static> = oid!(2.5.4.3);
const ORGANIZATION: Oid<'static> = oid!(2.5.4.10);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The last common name, as Go reads it; empty if there is none.
    pub common_name: String,
    /// Every organization, in order.
    pub organizations: Vec<String>,
    uids: Vec<String>,
    fingerprint: String,
}

impl Subject {
    /// Parses the leaf certificate itself, because its organizations must stay
    /// apart.
    pub fn parse(certificate: &[u8]) -> Result<Self, ChainError> {
        let unreadable = |e: &dyn std::fmt::Display| ChainError::Unreadable(e.to_string());
        let (_, parsed) = X509Certificate::from_der(certificate).map_err(|e| unreadable(&e))?;
        let mut subject = Self {
            common_name: String::new(),
            organizations: Vec::new(),
            uids: Vec::new(),
            fingerprint: hex(&Sha256::digest(certificate)),
        };
        for attribute in parsed.subject().iter_attributes() {
            let kind = attribute.attr_type();
            let known = [COMMON_NAME, ORGANIZATION, UID].contains(kind);
            if !known {
                continue;
            }
            let value = text(attribute.attr_value())
                .ok_or_else(|| unreadable(&"a subject attribute is not a string"))?;
            if *kind == COMMON_NAME {
                subject.common_name = value;
            } else if *kind == ORGANIZATION {
                subject.organizations.push(value);
            } else {
                subject.uids.push(value);
            }
        }
        Ok(subject)
    }

    /// Returns the user. `None` without a common name: another authenticator may
    /// then know the caller.
    pub fn user(&self) -> Result<Option<UserInfo>, ChainError> {
        if self.common_name.is_empty() {
            return Ok(None);
        }
        let uid = match self.uids.as_slice() {
            [] => String::new(),
            [uid] if uid.is_empty() => {
                return Err(ChainError::Unreadable("the UID is empty".to_owned()));
            }
            [uid] => uid.clone(),
            _ => return Err(ChainError::Unreadable("several UIDs".to_owned())),
        };
        let credential = vec![format!("X509SHA256={}", self.fingerprint)];
        Ok(Some(UserInfo {
            name: self.common_name.clone(),
            uid,
            groups: self.organizations.clone(),
            extra: BTreeMap::from([(CREDENTIAL_ID.to_owned(), credential)]),
        }))
    }
}

/// Decodes the string types of distinguished names that Go knows.
fn text(value: &Any<'_>) -> Option<String> {
    let bytes = value.data;
    match value.tag() {
        Tag::Utf8String | Tag::PrintableString | Tag::Ia5String | Tag::NumericString => {
            std::str::from_utf8(bytes).ok().map(str::to_owned)
        }
        // Certificates that still use T.61 mean Latin-1.
        Tag::T61String => Some(bytes.iter().map(|b| char::from(*b)).collect()),
        Tag::BmpString if bytes.len().is_multiple_of(2) => {
            let units: Vec<u16> = bytes
                .chunks_exact(2)
                .map(|pair| pair.iter().fold(0, |n, b| n << 8 | u16::from(*b)))
                .collect();
            String::from_utf16(&units).ok()
        }
        _ => None,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
