use std::time::Duration;

use prometheus::Registry;
use rcgen::ExtendedKeyUsagePurpose;

use super::ca_bundle::MAX_CHAIN;
use super::testing::{Authority, Certified, FakeApiServer, VERSION_ONE, VERSION_ONE_CA, headers};
use super::*;
use rustls::pki_types::pem::PemObject;

const CN: &[u64] = &[2, 5, 4, 3];
const O: &[u64] = &[2, 5, 4, 10];
const UID: &[u64] = &[1, 3, 6, 1, 4, 1, 57683, 2];

const GOOD_TOKEN: &str = r#"{"status":{"authenticated":true,"user":{"username":"jane","uid":"7","groups":["devs"],"extra":{"k":["v"]}}}}"#;
const BAD_TOKEN: &str = r#"{"status":{"authenticated":false,"error":"invalid bearer token"}}"#;

/// An API server that accepts the token `good`, and that cannot be reached for the
/// token `unreachable`.
fn api_server() -> Arc<FakeApiServer> {
    FakeApiServer::new(|path, review| {
        assert_eq!(path, "/apis/authentication.k8s.io/v1/tokenreviews");
        assert_eq!(review["kind"], "TokenReview");
        match review["spec"]["token"].as_str() {
            Some("good") => Ok((201, GOOD_TOKEN.to_owned())),
            Some("unreachable") => Err(ReviewError::Unavailable("refused".to_owned())),
            _ => Ok((201, BAD_TOKEN.to_owned())),
        }
    })
}

fn metrics() -> AuthnMetrics {
    AuthnMetrics::register(&Registry::new()).unwrap()
}

struct World {
    clients: Authority,
    proxies: Authority,
    authenticator: Authenticator,
}

fn world(anonymous: bool) -> World {
    let (clients, proxies) = (Authority::new("clients"), Authority::new("proxies"));
    let settings = AuthnSettings {
        client_ca: Some(clients.bundle()),
        token_review: Some(TokenReviewSettings {
            success_ttl: Duration::from_secs(120),
            failure_ttl: Duration::from_secs(10),
            degraded: Duration::ZERO,
        }),
        request_header: Some(RequestHeaderSettings {
            client_ca: proxies.bundle(),
            allowed_names: vec!["front-proxy".to_owned()],
            names: RequestHeaderNames::default(),
        }),
        anonymous,
    };
    World {
        clients,
        proxies,
        authenticator: Authenticator::new(settings, api_server(), metrics()),
    }
}

impl World {
    async fn authenticate(
        &self,
        headers: &HeaderMap,
        peer: &Peer,
    ) -> Result<Authenticated, Status> {
        authenticate(&self.authenticator, headers, peer).await
    }
}

async fn authenticate(
    authenticator: &Authenticator,
    headers: &HeaderMap,
    peer: &Peer,
) -> Result<Authenticated, Status> {
    let presented = Presented {
        headers,
        connection: &ConnectionOptions::read(headers, http::Version::HTTP_11),
        peer,
        from: None,
    };
    authenticator.authenticate(&presented, None).await
}

/// Returns the result in short form: `method user [groups]`, or the code.
async fn who(world: &World, peer: &Peer, pairs: &[(&str, &str)]) -> String {
    match world.authenticate(&headers(pairs), peer).await {
        Ok(caller) => format!(
            "{} {} [{}]",
            caller.method.as_str(),
            caller.user.name,
            caller.user.groups.join(",")
        ),
        Err(status) => status.code.to_string(),
    }
}

#[tokio::test]
async fn client_certificates() {
    let world = world(true);
    let strangers = Authority::new("clients");
    let (intermediate, its_certificate) = world.clients.intermediate("intermediate");
    let mut long = intermediate.client(&[(CN, "jane")]);
    let without_intermediate = long.peer();
    long.chain.push(its_certificate);
    let date = rcgen::date_time_ymd;
    let cases: Vec<(&str, Certified, &str)> = vec![
        (
            "two organizations stay apart",
            world
                .clients
                .client(&[(O, "system:masters"), (O, "devs"), (CN, "jane")]),
            "certificate jane [system:masters,devs,system:authenticated]",
        ),
        (
            "several organizations in any place of the subject",
            world.clients.client(&[(CN, "jane"), (O, "b"), (O, "a,b")]),
            "certificate jane [b,a,b,system:authenticated]",
        ),
        (
            "an intermediate authority",
            long,
            "certificate jane [system:authenticated]",
        ),
        (
            "no extended key usage is good for all",
            world
                .clients
                .issue(&[(CN, "jane")], |p| p.extended_key_usages.clear()),
            "certificate jane [system:authenticated]",
        ),
        (
            "server auth only",
            world.clients.issue(&[(CN, "jane")], |p| {
                p.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            }),
            "401",
        ),
        (
            "expired",
            world.clients.issue(&[(CN, "jane")], |p| {
                p.not_after = date(2001, 1, 1);
            }),
            "401",
        ),
        (
            "not yet valid",
            world.clients.issue(&[(CN, "jane")], |p| {
                p.not_before = date(4000, 1, 1);
            }),
            "401",
        ),
        (
            "another authority of the same name",
            strangers.client(&[(CN, "jane")]),
            "401",
        ),
        (
            "an empty UID",
            world.clients.client(&[(CN, "jane"), (UID, "")]),
            "401",
        ),
        // The client CA finds no name in it, and the front proxy's CA refuses it. So
        // the caller is not anonymous.
        (
            "no common name",
            world.clients.client(&[(O, "devs")]),
            "401",
        ),
    ];
    for (what, certified, expected) in cases {
        assert_eq!(
            who(&world, &certified.peer(), &[]).await,
            expected,
            "{what}"
        );
    }
    assert_eq!(who(&world, &without_intermediate, &[]).await, "401");
    assert_eq!(
        who(&world, &Peer::unknown(), &[]).await,
        "anonymous system:anonymous [system:unauthenticated]"
    );
    // A good token makes up for a bad certificate, as in kube-apiserver.
    let stranger = strangers.client(&[(CN, "jane")]).peer();
    assert_eq!(
        who(&world, &stranger, &[("Authorization", "Bearer good")]).await,
        "token jane [devs,system:authenticated]"
    );
}

#[tokio::test]
async fn a_certificate_has_a_uid_and_a_credential_id() {
    let world = world(false);
    let peer = world.clients.client(&[(CN, "jane"), (UID, "u-1")]).peer();
    let caller = world.authenticate(&HeaderMap::new(), &peer).await.unwrap();
    assert_eq!(caller.user.uid, "u-1");
    let credential = &caller.user.extra["authentication.kubernetes.io/credential-id"];
    assert_eq!(credential.len(), 1);
    assert!(credential[0].starts_with("X509SHA256=") && credential[0].len() == 11 + 64);
}

#[tokio::test]
async fn a_common_name_is_needed_only_by_certificates() {
    let clients = Authority::new("clients");
    let authenticator = Authenticator::new(
        AuthnSettings {
            client_ca: Some(clients.bundle()),
            anonymous: true,
            ..AuthnSettings::default()
        },
        api_server(),
        metrics(),
    );
    let nameless = clients.client(&[(O, "system:masters")]).peer();
    let caller = authenticate(&authenticator, &HeaderMap::new(), &nameless).await;
    assert_eq!(caller.unwrap().user, UserInfo::anonymous());
}

#[tokio::test]
async fn only_the_front_proxy_names_users() {
    let world = world(true);
    let anonymous = "anonymous system:anonymous [system:unauthenticated]";
    let proxy = world.proxies.client(&[(CN, "front-proxy")]).peer();
    let other_name = world.proxies.client(&[(CN, "other")]).peer();
    let client = world
        .clients
        .client(&[(CN, "front-proxy"), (O, "devs")])
        .peer();
    let nobody = Peer::unknown();
    for (what, peer, pairs, expected) in [
        (
            "spoofed without a certificate",
            &nobody,
            vec![
                ("X-Remote-User", "admin"),
                ("X-Remote-Group", "system:masters"),
            ],
            anonymous,
        ),
        (
            "spoofed with a client certificate of the proxy's name",
            &client,
            vec![
                ("X-Remote-User", "admin"),
                ("X-Remote-Group", "system:masters"),
            ],
            "certificate front-proxy [devs,system:authenticated]",
        ),
        (
            "a name that is not allowed",
            &other_name,
            vec![("X-Remote-User", "admin")],
            "401",
        ),
        (
            "the proxy itself",
            &proxy,
            vec![
                ("X-Remote-User", "jane"),
                ("X-Remote-Group", "system:masters"),
            ],
            "request_header jane [system:masters,system:authenticated]",
        ),
        (
            "any case, first name, all groups but empty ones",
            &proxy,
            vec![
                ("X-REMOTE-USER", "jane"),
                ("x-remote-user", "admin"),
                ("x-Remote-group", "a"),
                ("X-Remote-Group", ""),
                ("x-remote-group", "b"),
            ],
            "request_header jane [a,b,system:authenticated]",
        ),
        (
            "named by Connection, which the proxy should not have let through",
            &proxy,
            vec![("Connection", "X-Remote-User"), ("X-Remote-User", "jane")],
            "request_header jane [system:authenticated]",
        ),
        (
            "anonymous keeps its one group",
            &proxy,
            vec![
                ("X-Remote-User", "system:anonymous"),
                ("X-Remote-Group", "system:unauthenticated"),
            ],
            "request_header system:anonymous [system:unauthenticated]",
        ),
        // Without a user the front proxy has no opinion, and then the client CA
        // refuses the certificate.
        ("no user", &proxy, vec![("X-Remote-Group", "a")], "401"),
        ("an empty user", &proxy, vec![("X-Remote-User", "")], "401"),
    ] {
        assert_eq!(who(&world, peer, &pairs).await, expected, "{what}");
    }
    let mut sent = headers(&[
        ("X-Remote-User", "jane"),
        ("X-Remote-Uid", "7"),
        ("X-Remote-Extra-Acme.io%2FScopes", "a"),
        ("x-remote-extra-acme.io%2fscopes", "b"),
        ("X-Remote-Extra-Odd%zz", "c"),
    ]);
    let caller = world.authenticate(&sent, &proxy).await;
    let user = caller.unwrap().user;
    assert_eq!(user.uid, "7");
    assert_eq!(user.extra["acme.io/scopes"], ["a", "b"]);
    assert_eq!(user.extra["odd%zz"], ["c"]);
    // Decoding a value that is not text could make one name of two.
    sent.append(
        "x-remote-group",
        http::HeaderValue::from_bytes(b"a\xff").unwrap(),
    );
    let caller = world.authenticate(&sent, &proxy).await;
    assert_eq!(caller.unwrap_err().code, 401);
}

#[tokio::test]
async fn bearer_tokens() {
    let world = world(true);
    let nobody = Peer::unknown();
    let websocket = |protocols: &'static str| {
        vec![
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Protocol", protocols),
        ]
    };
    for (pairs, expected) in [
        (
            vec![("Authorization", "Bearer good")],
            "token jane [devs,system:authenticated]",
        ),
        (vec![("Authorization", "Bearer bad")], "401"),
        (vec![("Authorization", "Bearer unreachable")], "503"),
        (
            vec![("Authorization", "Basic good")],
            "anonymous system:anonymous [system:unauthenticated]",
        ),
        (
            websocket("base64url.bearer.authorization.k8s.io.Z29vZA, v5.channel.k8s.io"),
            "token jane [devs,system:authenticated]",
        ),
        (
            websocket("base64url.bearer.authorization.k8s.io.Z29vZA"),
            "401",
        ),
        (
            websocket("base64url.bearer.authorization.k8s.io.YmFk,v5.channel.k8s.io"),
            "401",
        ),
    ] {
        assert_eq!(who(&world, &nobody, &pairs).await, expected, "{pairs:?}");
    }
    let caller = world
        .authenticate(&headers(&[("Authorization", "Bearer good")]), &nobody)
        .await
        .unwrap();
    assert_eq!(caller.token.as_deref(), Some("good"));
    assert_eq!(caller.user.uid, "7");
    assert_eq!(caller.user.extra["k"], ["v"]);
}

#[tokio::test]
async fn tokens_are_asked_about_once() {
    let server = api_server();
    let registry = Registry::new();
    let tokens = Arc::new(TokenAuthenticator::new(
        server.clone(),
        AuthnMetrics::register(&registry).unwrap(),
    ));
    let settings = TokenReviewSettings {
        success_ttl: Duration::from_secs(120),
        failure_ttl: Duration::from_millis(50),
        degraded: Duration::ZERO,
    };
    let from = Address::from(None);
    let herd = (0..50).map(|_| tokens.authenticate("good", from, settings, None));
    for outcome in futures::future::join_all(herd).await {
        assert!(matches!(&*outcome.unwrap(), TokenOutcome::User(u) if u.name == "jane"));
    }
    assert_eq!(server.calls(), 1);
    // Failures expire sooner. Failed reviews are not remembered.
    for (token, calls) in [
        ("bad", 1),
        ("bad", 0),
        ("unreachable", 1),
        ("unreachable", 1),
    ] {
        let before = server.calls();
        let _ = tokens.authenticate(token, from, settings, None).await;
        assert_eq!(server.calls() - before, calls, "{token}");
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    while server.calls() < 5 && Instant::now() < deadline {
        let _ = tokens.authenticate("bad", from, settings, None).await;
        let _ = tokens.authenticate("good", from, settings, None).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(server.calls(), 5, "only the failure was asked about again");
}

#[test]
fn version_one_certificates_are_accepted_as_go_does() {
    let bundle = CaBundle::from_pem(VERSION_ONE_CA.as_bytes(), "test").unwrap();
    let at =
        |year: u64| UnixTime::since_unix_epoch(Duration::from_secs((year - 1970) * 31_557_600));
    let leaf = rustls::pki_types::CertificateDer::from_pem_slice(VERSION_ONE.as_bytes()).unwrap();
    let peer = Peer::new(vec![leaf.clone()]);
    let subject = peer.verify(&bundle, at(2030)).unwrap();
    assert_eq!(subject.common_name, "jane");
    assert_eq!(subject.organizations, ["devs"]);
    assert!(peer.verify(&bundle, at(2020)).is_err(), "not yet valid");
    assert!(peer.verify(&bundle, at(2200)).is_err(), "expired");
    let other = Authority::new("version-one-ca").bundle();
    assert!(peer.verify(&other, at(2030)).is_err(), "another key");
    let mut forged = leaf.to_vec();
    let name = forged.windows(4).position(|w| w == b"jane").unwrap();
    forged[name] = b'J';
    assert!(
        Peer::new(vec![forged.into()])
            .verify(&bundle, at(2030))
            .is_err()
    );
}

#[test]
fn authorities_must_be_valid_and_may_sign() {
    for (what, authority, holds) in [
        ("sound", Authority::new("a"), true),
        (
            "expired",
            Authority::with("a", |p| p.not_after = rcgen::date_time_ymd(2001, 1, 1)),
            false,
        ),
        (
            "not an authority",
            Authority::with("a", |p| p.is_ca = rcgen::IsCa::ExplicitNoCa),
            false,
        ),
        (
            "for servers only",
            Authority::with("a", |p| {
                p.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            }),
            false,
        ),
        (
            "may not sign certificates",
            Authority::with("a", |p| {
                p.key_usages = vec![rcgen::KeyUsagePurpose::DigitalSignature];
            }),
            false,
        ),
    ] {
        let peer = authority.client(&[(CN, "jane")]).peer();
        let verified = peer.verify(&authority.bundle(), UnixTime::now());
        assert_eq!(verified.is_ok(), holds, "{what}");
    }
    let error = CaBundle::from_pem(b"nothing", "/etc/ca.pem").unwrap_err();
    assert_eq!(error.to_string(), "/etc/ca.pem: holds no certificate");
}

/// Verifying this chain once blocked a thread that serves connections for a second.
#[test]
fn a_chain_that_may_be_put_together_in_many_ways_is_refused() {
    let bundle = Authority::new("clients").bundle();
    let stranger = Authority::new("strangers");
    let mut chain = stranger.client(&[(CN, "jane")]).chain;
    chain.extend((1..MAX_CHAIN).map(|_| stranger.intermediate("strangers").1));
    let found = Peer::new(chain).verify(&bundle, UnixTime::now());
    assert!(matches!(found, Err(ChainError::ManyPaths)), "{found:?}");
}

#[test]
fn a_finding_counts_only_for_its_bundle_and_its_time() {
    let (one, two) = (Authority::new("one"), Authority::new("two"));
    let (one_bundle, two_bundle) = (one.bundle(), two.bundle());
    let peer = one
        .issue(&[(CN, "jane")], |p| {
            p.not_after = rcgen::date_time_ymd(2040, 1, 1)
        })
        .peer();
    let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    for _ in 0..2 {
        assert!(peer.verify(&one_bundle, at(2_000_000_000)).is_ok());
        assert!(peer.verify(&two_bundle, at(2_000_000_000)).is_err());
        assert!(
            peer.verify(&one_bundle, at(2_300_000_000)).is_err(),
            "expired"
        );
    }
}

/// A result, good or bad, ends in the second in which a certificate or an authority
/// begins or ceases to be valid.
#[test]
fn a_finding_ends_where_validity_does() {
    let day = |year| rcgen::date_time_ymd(year, 1, 1);
    let seconds = |year| u64::try_from(day(year).unix_timestamp()).unwrap();
    let authority = Authority::with("one", |p| {
        p.not_before = day(2031);
        p.not_after = day(2036);
    });
    let other = Authority::with("two", |p| p.not_before = day(2000)).bundle();
    let bundle = authority.bundle();
    let peer = authority
        .issue(&[(CN, "jane")], |p| {
            p.not_before = day(2032);
            p.not_after = day(2040);
        })
        .peer();
    let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    for _ in 0..2 {
        for (second, holds) in [
            (seconds(2030), false),
            (seconds(2031), false),
            (seconds(2032) - 1, false),
            (seconds(2032), true),
            (seconds(2036), true),
            (seconds(2036) + 1, false),
            (seconds(2040) + 1, false),
        ] {
            let found = peer.verify(&bundle, at(second));
            assert_eq!(found.is_ok(), holds, "{second}: {found:?}");
            assert!(peer.verify(&other, at(second)).is_err());
        }
    }
}

#[tokio::test]
async fn a_reloaded_authority_counts_at_once() {
    let world = world(false);
    let peer = world.clients.client(&[(CN, "jane")]).peer();
    assert!(who(&world, &peer, &[]).await.starts_with("certificate"));
    world.authenticator.reload(AuthnSettings {
        client_ca: Some(Authority::new("clients").bundle()),
        ..AuthnSettings::default()
    });
    assert_eq!(who(&world, &peer, &[]).await, "401");
}
