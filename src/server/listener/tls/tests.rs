use std::path::Path;

use pingora_core::protocols::l4::stream::Stream;
use pingora_core::protocols::tls::SslDigest;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

use super::*;
use crate::authn::testing::{Authority, VERSION_ONE, VERSION_ONE_CA, VERSION_ONE_KEY};
use crate::authn::{CaBundle, Subject};

const CN: &[u64] = &[2, 5, 4, 3];
const O: &[u64] = &[2, 5, 4, 10];

/// A certificate chain and its key, PEM.
type Pem = (String, String);

fn server_certificate(authority: &Authority, name: &str) -> Pem {
    let certified = authority.issue(&[(CN, name)], |params| {
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
        let name = name.try_into().unwrap();
        params.subject_alt_names = vec![rcgen::SanType::DnsName(name)];
    });
    (certified.pem, certified.key_pem)
}

fn write(dir: &Path, name: &str, (certificate, key): &Pem) -> CertificateFiles {
    let files = CertificateFiles {
        certificate: dir.join(format!("{name}.crt")),
        key: dir.join(format!("{name}.key")),
        names: Vec::new(),
    };
    std::fs::write(&files.certificate, certificate).unwrap();
    std::fs::write(&files.key, key).unwrap();
    files
}

struct World {
    authority: Authority,
    certificates: Arc<ServerCertificates>,
    default: CertificateFiles,
    sni: Vec<CertificateFiles>,
    dir: tempfile::TempDir,
}

fn world() -> World {
    let authority = Authority::new("servers");
    let dir = tempfile::tempdir().unwrap();
    let file =
        |name: &str, host: &str| write(dir.path(), name, &server_certificate(&authority, host));
    let default = file("default", "default.test");
    let sni = vec![file("one", "one.test"), file("wild", "*.wild.test")];
    let certificates = Arc::new(ServerCertificates::load(&default, &sni).unwrap());
    World {
        authority,
        certificates,
        default,
        sni,
        dir,
    }
}

impl World {
    /// Does a handshake through pingora's acceptor. Returns what the server kept,
    /// and what the client saw: the server's certificate and the negotiated
    /// protocol.
    async fn handshake(
        &self,
        host: &str,
        client: Option<&Pem>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> std::io::Result<(Arc<SslDigest>, CertificateDer<'static>, Option<Vec<u8>>)> {
        let clients = Arc::new(AnyClientCertificate::new([]));
        let acceptor = acceptor(self.certificates.clone(), clients).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let server = tokio::spawn(async move {
            let (tcp, _) = listener.accept().await?;
            let stream = acceptor.tls_handshake(Stream::from(tcp)).await;
            let stream = stream.map_err(std::io::Error::other)?;
            stream
                .ssl_digest()
                .ok_or_else(|| std::io::Error::other("no digest"))
        });
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from_pem_slice(self.authority.pem.as_bytes()).unwrap();
        roots.add(root).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match client {
            Some((certificate, key)) => {
                let chain = CertificateDer::pem_slice_iter(certificate.as_bytes());
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                let key = ring::default_provider()
                    .key_provider
                    .load_private_key(key)
                    .unwrap();
                let chain = chain.collect::<Result<_, _>>().unwrap();
                let certified = rustls::sign::CertifiedKey::new(chain, key);
                let always = Arc::new(rustls::sign::SingleCertAndKey::from(certified));
                config.with_client_cert_resolver(always)
            }
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let tcp = TcpStream::connect(address).await?;
        let name = ServerName::try_from(host.to_owned()).unwrap();
        let mut stream = TlsConnector::from(Arc::new(config))
            .connect(name, tcp)
            .await?;
        let seen = stream.get_ref().1.peer_certificates().unwrap()[0].clone();
        let protocol = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        let digest = server.await??;
        let _ = stream.read(&mut [0]).await;
        Ok((digest, seen, protocol))
    }
}

#[tokio::test]
async fn organizations_of_a_client_certificate_stay_apart() {
    let world = world();
    let clients = Authority::new("clients");
    let jane = clients.client(&[(O, "system:masters"), (O, "devs"), (CN, "jane")]);
    let pem = (jane.pem.clone(), jane.key_pem.clone());
    for version in [&TLS12, &TLS13] {
        let (digest, _, protocol) = world
            .handshake("default.test", Some(&pem), &[version])
            .await
            .unwrap();
        assert_eq!(protocol.as_deref(), Some(&b"h2"[..]));
        let peer = digest.extension.get::<Peer>().unwrap();
        let subject = peer.verify(&clients.bundle(), UnixTime::now()).unwrap();
        assert_eq!(subject.organizations, ["system:masters", "devs"]);
        // This is why the digest's own field is never read.
        assert_eq!(digest.organization.as_deref(), Some("system:mastersdevs"));
    }
}

#[tokio::test]
async fn every_client_certificate_passes_the_handshake() {
    let world = world();
    let version_one = (VERSION_ONE.to_owned(), VERSION_ONE_KEY.to_owned());
    let stranger = Authority::new("strangers").issue(&[(CN, "jane")], |params| {
        params.not_after = rcgen::date_time_ymd(2001, 1, 1);
    });
    let stranger = (stranger.pem, stranger.key_pem);
    for version in [&TLS12, &TLS13] {
        for (client, certificates) in [(Some(&version_one), 1), (Some(&stranger), 1), (None, 0)] {
            let (digest, ..) = world
                .handshake("default.test", client, &[version])
                .await
                .unwrap();
            let peer = digest.extension.get::<Peer>().unwrap();
            assert_eq!(peer.certificates().len(), certificates);
        }
    }
}

#[test]
fn hints_follow_the_authorities() {
    let bundles: Vec<_> = (0..400)
        .map(|n| {
            if n % 2 == 0 {
                VERSION_ONE_CA.to_owned()
            } else {
                Authority::new("b").pem
            }
        })
        .map(|pem| CaBundle::from_pem(pem.as_bytes(), "test").unwrap())
        .collect();
    let clients = AnyClientCertificate::new([]);
    assert!(clients.root_hint_subjects().is_empty());
    for bundle in &bundles[..2] {
        clients.reload([bundle]);
        let expected: Vec<_> = bundle.subjects().collect();
        let sent = clients.root_hint_subjects();
        assert_eq!(sent[0].as_ref(), expected[0].as_ref());
        assert_eq!(sent.len(), 1);
    }
    clients.reload(&bundles[..2]);
    assert_eq!(clients.root_hint_subjects().len(), 2);
    for bundle in &bundles {
        clients.reload([bundle]);
    }
    assert!(
        clients.root_hint_subjects().is_empty(),
        "any certificate is welcome"
    );
}

#[tokio::test]
async fn a_client_must_hold_the_key_of_its_certificate() {
    let world = world();
    let clients = Authority::new("clients");
    let (jane, other) = (
        clients.client(&[(CN, "jane")]),
        clients.client(&[(CN, "x")]),
    );
    let stolen = (jane.pem, other.key_pem);
    let stolen_version_one = (VERSION_ONE.to_owned(), stolen.1.clone());
    for pem in [stolen, stolen_version_one] {
        for version in [&TLS12, &TLS13] {
            let result = world
                .handshake("default.test", Some(&pem), &[version])
                .await;
            assert!(result.is_err());
        }
    }
}

#[tokio::test]
async fn certificates_are_chosen_by_server_name_and_reload() {
    let world = world();
    let shown = async |host: &str| {
        let (_, seen, _) = world.handshake(host, None, &[&TLS13]).await.unwrap();
        Subject::parse(&seen).unwrap().common_name
    };
    for (host, expected) in [
        ("default.test", "default.test"),
        ("one.test", "one.test"),
        ("ONE.test", "one.test"),
        ("a.wild.test", "*.wild.test"),
    ] {
        assert_eq!(shown(host).await, expected, "{host}");
    }
    let (_, before, _) = world.handshake("one.test", None, &[&TLS13]).await.unwrap();
    write(
        world.dir.path(),
        "one",
        &server_certificate(&world.authority, "one.test"),
    );
    let fresh = ServerCertificates::load(&world.default, &world.sni).unwrap();
    world.certificates.replace(&fresh);
    let (_, after, _) = world.handshake("one.test", None, &[&TLS13]).await.unwrap();
    assert_ne!(before, after);
}

#[test]
fn bad_files_are_named() {
    let world = world();
    let dir = world.dir.path();
    let other = server_certificate(&world.authority, "other.test");
    let good = server_certificate(&world.authority, "good.test");
    let missing = CertificateFiles {
        certificate: dir.join("missing.crt"),
        ..world.default.clone()
    };
    let mixed = write(dir, "mixed", &(good.0.clone(), other.1));
    let swapped = write(dir, "swapped", &(good.1.clone(), good.0.clone()));
    let no_key = write(dir, "no-key", &(good.0, String::new()));
    for (files, expected) in [
        (missing, "missing.crt: No such file"),
        (mixed, "mixed.crt: is not for the key in "),
        (swapped, "swapped.crt: holds no certificate"),
        (no_key, "no-key.key: no private key"),
    ] {
        let error = ServerCertificates::load(&files, &[]).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(expected), "{error}");
        assert!(error.starts_with(dir.to_str().unwrap()), "{error}");
    }
}
