//! Makes the certificate authorities and certificates of a test cluster.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// The PEM files of one certificate and its key.
#[derive(Clone, Debug)]
pub struct Pair {
    pub cert: PathBuf,
    pub key: PathBuf,
}

pub struct Authority {
    pub cert: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(folder: &Path, name: &str) -> Self {
        let key = KeyPair::generate().expect("key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, name);
        let cert = params.self_signed(&key).expect("certificate");
        Self {
            cert: write(folder, &format!("{name}.crt"), &cert.pem()),
            issuer: Issuer::new(params, key),
        }
    }

    fn sign(&self, folder: &Path, file: &str, params: CertificateParams) -> Pair {
        let key = KeyPair::generate().expect("key");
        let cert = params.signed_by(&key, &self.issuer).expect("certificate");
        Pair {
            cert: write(folder, &format!("{file}.crt"), &cert.pem()),
            key: write(folder, &format!("{file}.key"), &key.serialize_pem()),
        }
    }
}

pub struct Certificates {
    folder: PathBuf,
    pub cluster: Authority,
    pub front_proxy: Authority,
    pub serving: Pair,
    /// The certificate CN=front-proxy of the front-proxy authority.
    pub proxy_client: Pair,
    pub service_account_public: PathBuf,
    pub service_account_private: PathBuf,
}

impl Certificates {
    pub fn generate(folder: &Path) -> Self {
        let cluster = Authority::new(folder, "cluster-ca");
        let front_proxy = Authority::new(folder, "front-proxy-ca");
        let service_account = KeyPair::generate().expect("key");
        Self {
            serving: cluster.sign(folder, "serving", serving_params()),
            proxy_client: front_proxy.sign(
                folder,
                "proxy-client",
                client_params("front-proxy", &[]),
            ),
            service_account_public: write(folder, "sa.pub", &service_account.public_key_pem()),
            service_account_private: write(folder, "sa.key", &service_account.serialize_pem()),
            folder: folder.to_owned(),
            cluster,
            front_proxy,
        }
    }

    /// Returns a client certificate of the cluster's authority. CN is the user,
    /// each O a group.
    pub fn client(&self, user: &str, groups: &[&str]) -> Pair {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let file = format!("client-{}-{number}", file_name(user));
        self.cluster
            .sign(&self.folder, &file, client_params(user, groups))
    }

    /// Returns another serving certificate, as a renewal would write it.
    pub fn another_serving(&self, file: &str) -> Pair {
        self.cluster.sign(&self.folder, file, serving_params())
    }

    pub fn serving_for(&self, file: &str, names: &[&str]) -> Pair {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.cluster.sign(&self.folder, file, params)
    }

    pub fn expired_serving(&self, file: &str) -> Pair {
        let mut params = serving_params();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        self.cluster.sign(&self.folder, file, params)
    }

    pub fn expired_client(&self, user: &str) -> Pair {
        let mut params = client_params(user, &[]);
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        let file = format!("expired-{}", file_name(user));
        self.cluster.sign(&self.folder, &file, params)
    }

    /// Returns a serving certificate of an authority that nobody trusts.
    pub fn stranger_serving(&self, file: &str) -> Pair {
        let authority = Authority::new(&self.folder, &format!("{file}-ca"));
        authority.sign(&self.folder, file, serving_params())
    }

    /// Returns a client certificate of an authority that nobody trusts.
    pub fn stranger(&self, user: &str, groups: &[&str]) -> Pair {
        let authority = Authority::new(&self.folder, "stranger-ca");
        authority.sign(&self.folder, "stranger", client_params(user, groups))
    }
}

fn serving_params() -> CertificateParams {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let mut params = CertificateParams::new(names).expect("names");
    params
        .distinguished_name
        .push(DnType::CommonName, "127.0.0.1");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params
}

fn client_params(user: &str, groups: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, user);
    // rcgen keeps one value per attribute type. The second organization is
    // added under the same OID, written as a custom type.
    assert!(groups.len() <= 2, "at most two groups fit");
    let organization = [
        DnType::OrganizationName,
        DnType::CustomDnType(vec![2, 5, 4, 10]),
    ];
    for (kind, group) in organization.into_iter().zip(groups) {
        params.distinguished_name.push(kind, *group);
    }
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

fn file_name(user: &str) -> String {
    user.chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect()
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("PEM file");
    path
}
