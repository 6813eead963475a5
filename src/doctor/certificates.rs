//! The certificates in the files that a configuration names: are they valid
//! now, and for how long?

use std::path::{Path, PathBuf};

use apifront_upstream::Server;
use base64::Engine;
use chrono::{DateTime, TimeDelta, Utc};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use super::{Finding, Section};
use crate::authn::der::PublicKey;
use crate::config::{Config, Upstream};

/// A certificate with less time left should have been renewed. kubeadm's
/// certificates last a year, those of most managers 90 days.
const SOON: TimeDelta = TimeDelta::days(14);

const SECTION: Section = Section::Certificates;

struct Named {
    field: &'static str,
    file: PathBuf,
}

/// Examines the files that a configuration names, and the certificates in a
/// kubeconfig.
pub(super) fn examine(config: &Config, servers: &[Server], now: DateTime<Utc>) -> Vec<Finding> {
    let named = named(config);
    let mut findings: Vec<_> = named.iter().flat_map(|named| of_file(named, now)).collect();
    if let Upstream::Kubeconfig { path, .. } = &config.upstream {
        let of = |server: &Server| of_kubeconfig(path, &server.own, now);
        findings.extend(servers.iter().flat_map(of));
    }
    if findings.is_empty() {
        findings.push(Finding::neutral(SECTION, "files", "none are configured"));
    }
    findings
}

/// Examines the client certificate and the authorities of a kubeconfig.
fn of_kubeconfig(file: &Path, config: &kube::Config, now: DateTime<Utc>) -> Vec<Finding> {
    let file = file.display();
    let mut findings = Vec::new();
    for authority in config.root_cert.iter().flatten() {
        findings.push(judge(
            &format!("{file} certificate-authority"),
            authority,
            now,
        ));
    }
    let auth = &config.auth_info;
    let subject = format!("{file} client-certificate");
    if let Some(data) = &auth.client_certificate_data {
        let pem = base64::engine::general_purpose::STANDARD.decode(data);
        findings.extend(of_pem(&subject, &pem.unwrap_or_default(), now));
    } else if let Some(path) = &auth.client_certificate {
        let named = Named {
            field: "client-certificate",
            file: path.into(),
        };
        findings.extend(of_file(&named, now));
    }
    findings
}

fn named(config: &Config) -> Vec<Named> {
    let mut named = Vec::new();
    let mut add = |field, file: &Path| {
        let file = file.to_owned();
        named.push(Named { field, file });
    };
    if let Some(secure) = &config.serving.secure {
        add("serving.tlsCertFile", &secure.tls_cert_file);
        for sni in &secure.sni_certs {
            add("serving.sniCerts", &sni.cert_file);
        }
    }
    if let Some(delegated) = config.access.delegated() {
        let authentication = &delegated.authentication;
        if let Some(file) = &authentication.client_ca_file {
            add("authentication.clientCAFile", file);
        }
        if let Some(header) = &authentication.request_header {
            add(
                "authentication.requestHeader.clientCAFile",
                &header.client_ca_file,
            );
        }
        if let Some(proxy) = &delegated.proxy_client {
            add("identity.proxyClientCertFile", &proxy.cert_file);
        }
    }
    if let Upstream::Servers {
        ca_file,
        client_cert,
        ..
    } = &config.upstream
    {
        add("upstream.caFile", ca_file);
        if let Some(client) = client_cert {
            add("upstream.clientCertFile", &client.cert_file);
        }
    }
    named
}

fn of_file(named: &Named, now: DateTime<Utc>) -> Vec<Finding> {
    let subject = format!("{} {}", named.field, named.file.display());
    let pem = match std::fs::read(&named.file) {
        Ok(pem) => pem,
        Err(error) => {
            let found = format!("cannot be read: {error}");
            let remedy = "let the user of apifront read the file, or correct its name";
            return vec![Finding::fault(SECTION, subject, found).mended_by(remedy)];
        }
    };
    of_pem(&subject, &pem, now)
}

fn of_pem(subject: &str, pem: &[u8], now: DateTime<Utc>) -> Vec<Finding> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if !all.is_empty() => {
            let one = |certificate: &CertificateDer<'_>| judge(subject, certificate, now);
            all.iter().map(one).collect()
        }
        _ => {
            let finding = Finding::fault(SECTION, subject, "holds no PEM certificate");
            vec![finding.mended_by("name a file with -----BEGIN CERTIFICATE-----")]
        }
    }
}

fn judge(subject: &str, certificate: &[u8], now: DateTime<Utc>) -> Finding {
    let Some(read) = Validity::read(certificate) else {
        let finding = Finding::fault(SECTION, subject, "holds a certificate that cannot be read");
        return finding.mended_by("issue it anew");
    };
    if !has_usable_key(certificate) {
        let found = format!(
            "{} has a key of a kind that apifront's TLS cannot use, such as P-521: signatures of \
             that key are refused, and so is who presents them",
            read.name
        );
        let remedy = "issue it anew with a key of RSA, P-256, P-384 or Ed25519";
        return Finding::fault(SECTION, subject, found).mended_by(remedy);
    }
    read.judge(SECTION, subject, now)
}

/// Tells whether the TLS library can verify signatures with the certificate's key.
fn has_usable_key(certificate: &[u8]) -> bool {
    let Ok((_, read)) = X509Certificate::from_der(certificate) else {
        return false;
    };
    let Some(key) = PublicKey::parse(read.tbs_certificate.subject_pki.raw) else {
        return false;
    };
    let algorithms = ring::default_provider().signature_verification_algorithms;
    let mut known = algorithms.all.iter().map(|a| a.public_key_alg_id());
    known.any(|known| *known == *key.algorithm)
}

/// The name in a certificate, and the time for which it is valid.
pub(super) struct Validity {
    name: String,
    from: DateTime<Utc>,
    until: DateTime<Utc>,
}

impl Validity {
    pub(super) fn read(certificate: &[u8]) -> Option<Self> {
        let (_, read) = X509Certificate::from_der(certificate).ok()?;
        let validity = read.validity();
        let time =
            |time: x509_parser::time::ASN1Time| DateTime::from_timestamp(time.timestamp(), 0);
        Some(Self {
            name: name(&read),
            from: time(validity.not_before)?,
            until: time(validity.not_after)?,
        })
    }

    pub(super) fn judge(&self, section: Section, subject: &str, now: DateTime<Utc>) -> Finding {
        let Self { name, from, until } = self;
        let day = until.format("%Y-%m-%d");
        if now < *from {
            let found = format!(
                "{name} is valid from {} on",
                from.format("%Y-%m-%d %H:%M UTC")
            );
            let remedy = "set the clock of this machine, or issue the certificate anew";
            return Finding::fault(section, subject, found).mended_by(remedy);
        }
        let left = until.signed_duration_since(now);
        if left <= TimeDelta::zero() {
            let found = format!("{name} has expired on {day}");
            let remedy = "renew it (kubeadm certs renew, for those of kubeadm); a running apifront \
                          reads the file again";
            return Finding::fault(section, subject, found).mended_by(remedy);
        }
        let found = format!("{name} is valid until {day}, {} days more", left.num_days());
        if left < SOON {
            return Finding::neutral(section, subject, found).mended_by("renew it soon");
        }
        Finding::good(section, subject, found)
    }
}

/// Returns the common name, or the first DNS name if there is none.
fn name(certificate: &X509Certificate<'_>) -> String {
    let mut common_names = certificate.subject().iter_common_name();
    let common_name = common_names.next().and_then(|name| name.as_str().ok());
    if let Some(name) = common_name {
        return format!("{name:?}");
    }
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names.iter().flat_map(|names| &names.value.general_names);
    let mut dns = names.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(format!("{name:?}")),
        _ => None,
    });
    dns.next()
        .unwrap_or_else(|| "a certificate without a name".to_owned())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::super::Verdict;
    use super::*;

    fn verdict(from: i64, until: i64) -> (Verdict, String) {
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let now = Utc::now();
        let day = |days: i64| {
            let at = now + TimeDelta::days(days);
            let unix = at.timestamp();
            rcgen::date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(unix as u64)
        };
        (params.not_before, params.not_after) = (day(from), day(until));
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let finding = judge("x", certificate.der(), now);
        (finding.verdict, finding.found)
    }

    #[test]
    fn certificates_are_judged_by_their_days() {
        for (from, until, expected, words) in [
            (-1, 90, Verdict::Good, "valid until"),
            (-1, 7, Verdict::Neutral, "days more"),
            (-9, -1, Verdict::Fault, "has expired on"),
            (1, 90, Verdict::Fault, "is valid from"),
        ] {
            let (verdict, found) = verdict(from, until);
            assert_eq!(verdict, expected, "{found}");
            assert!(
                found.contains(words) && found.contains("\"a.example\""),
                "{found}"
            );
        }
        assert_eq!(judge("x", b"no", Utc::now()).verdict, Verdict::Fault);
    }

    #[test]
    fn a_key_that_tls_cannot_use_is_a_fault() {
        let pem = include_bytes!("../authn/testdata/p521-ca.pem");
        let found = of_pem("authentication.clientCAFile ca.crt", pem, Utc::now());
        let [finding] = found.as_slice() else {
            panic!("{} findings", found.len());
        };
        assert_eq!(finding.verdict, Verdict::Fault);
        assert!(finding.found.contains("P-521"), "{}", finding.found);
    }
}
