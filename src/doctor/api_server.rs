//! Can an API server be reached and trusted? Which server is it, and does its clock
//! agree?

use std::io;
use std::time::{Duration, Instant};

use apifront_upstream::Server;
use chrono::{DateTime, TimeDelta, Utc};
use http::StatusCode;
use http::header::DATE;
use kube::client::ConfigExt;
use kubernetes_wire::api::Release;
use rustls::CertificateError;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::certificates::Validity;
use super::client::{Answer, Client};
use super::{Finding, Section};

const SECTION: Section = Section::ApiServers;

/// The time limit of a connection with its TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The first and the last release that the tests run against.
const TESTED: [(u32, u32); 2] = [(1, 31), (1, 37)];

/// A greater difference of the clocks is noted, because ages are shown by apifront's
/// clock. Tokens and certificates fail at a difference of minutes.
const SKEW_NOTED: TimeDelta = TimeDelta::seconds(3);
const SKEW_AT_MOST: TimeDelta = TimeDelta::seconds(60);

pub(super) struct Reached {
    pub(super) client: Client,
    pub(super) server: Server,
    pub(super) release: Option<Release>,
    /// The UID of kube-system, if apifront may read it.
    pub(super) cluster: Option<String>,
}

/// Examines one server. The second value is there if more can be asked.
pub(super) async fn examine(server: &Server) -> (Vec<Finding>, Option<Reached>) {
    let name = server.own.cluster_url.to_string();
    let name = name.trim_end_matches('/');
    let mut findings = match connect(server, name).await {
        Ok(findings) => findings,
        Err(finding) => return (vec![*finding], None),
    };
    let client = match Client::new(&server.own) {
        Ok(client) => client,
        Err(error) => {
            findings.push(credentials(name, error));
            return (findings, None);
        }
    };
    let began = Instant::now();
    let version = match client.get("/version").await {
        Ok(version) => version,
        Err(error) => {
            findings.push(credentials(name, error));
            return (findings, None);
        }
    };
    let took = began.elapsed();
    findings.push(clock(name, &version, took, Utc::now()));
    if version.status == StatusCode::UNAUTHORIZED {
        let found = "does not accept apifront's own credentials (401)";
        let remedy = "renew the client certificate or the token in upstream (or in the \
                      kubeconfig); it must be of this cluster";
        findings.push(Finding::fault(SECTION, name, found).mended_by(remedy));
        return (findings, None);
    }
    let release = Release::of_server(&version.body);
    findings.push(release_of(name, &version, release, took));
    findings.push(ready(name, client.get("/readyz").await));
    let cluster = cluster(&client).await;
    let reached = Reached {
        server: server.clone(),
        client,
        release,
        cluster,
    };
    (findings, Some(reached))
}

fn credentials(name: &str, error: String) -> Finding {
    let remedy = "check the credentials in upstream or in the kubeconfig";
    Finding::fault(SECTION, name, error).mended_by(remedy)
}

/// Connects as apifront does. Boxed, because a finding is large.
async fn connect(server: &Server, name: &str) -> Result<Vec<Finding>, Box<Finding>> {
    let url = &server.own.cluster_url;
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
    let secure = url.scheme_str() == Some("https");
    let port = url.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect((host, port)));
    let tcp = match connected.await {
        Ok(Ok(tcp)) => tcp,
        Ok(Err(error)) => return Err(Box::new(unreachable(name, &error))),
        Err(_) => {
            let found = format!("no connection within {CONNECT_TIMEOUT:?}");
            let remedy = "a firewall or a NetworkPolicy drops the packets, or nothing has this \
                          address: correct the address in upstream, or open the way";
            return Err(Box::new(
                Finding::fault(SECTION, name, found).mended_by(remedy),
            ));
        }
    };
    if !secure {
        let finding = Finding::neutral(SECTION, name, "can be reached, without TLS");
        return Ok(vec![finding]);
    }
    let wrong = |error: String| Box::new(credentials(name, error));
    let tls = server
        .own
        .rustls_client_config()
        .map_err(|e| wrong(e.to_string()))?;
    let asked = server.own.tls_server_name.as_deref().unwrap_or(host);
    let server_name = ServerName::try_from(asked.to_owned()).map_err(|e| wrong(e.to_string()))?;
    let handshake = TlsConnector::from(std::sync::Arc::new(tls)).connect(server_name, tcp);
    let stream = match tokio::time::timeout(CONNECT_TIMEOUT, handshake).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(Box::new(untrusted(name, asked, &error))),
        Err(_) => {
            let found = format!("no TLS handshake within {CONNECT_TIMEOUT:?}");
            let remedy = "is this the HTTPS port of a kube-apiserver?";
            return Err(Box::new(
                Finding::fault(SECTION, name, found).mended_by(remedy),
            ));
        }
    };
    let mut findings = Vec::new();
    if server.own.accept_invalid_certs {
        let found = "can be reached; its certificate is not verified (insecure-skip-tls-verify)";
        let remedy = "put the cluster's CA into the kubeconfig instead";
        findings.push(Finding::neutral(SECTION, name, found).mended_by(remedy));
    } else {
        findings.push(Finding::good(
            SECTION,
            name,
            "can be reached, and its certificate is trusted",
        ));
    }
    let shown = stream.get_ref().1.peer_certificates();
    let leaf = shown.and_then(|shown| Validity::read(shown.first()?));
    if let Some(validity) = leaf {
        findings.push(validity.judge(SECTION, &format!("{name} certificate"), Utc::now()));
    }
    Ok(findings)
}

fn unreachable(name: &str, error: &io::Error) -> Finding {
    let remedy = match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            "nothing listens there: start kube-apiserver, or correct address and port in upstream"
        }
        _ if error.to_string().contains("lookup") || error.to_string().contains("resolve") => {
            "the name is not known here: correct it in upstream, or the machine's DNS"
        }
        _ => "correct the address in upstream, or the way to it",
    };
    Finding::fault(SECTION, name, format!("cannot be reached: {error}")).mended_by(remedy)
}

/// Names the reason why a TLS handshake failed.
fn untrusted(name: &str, asked: &str, error: &io::Error) -> Finding {
    use CertificateError as Wrong;
    let cause = error
        .get_ref()
        .and_then(|cause| cause.downcast_ref::<rustls::Error>());
    let (found, remedy) = match cause {
        Some(rustls::Error::InvalidCertificate(Wrong::Expired | Wrong::ExpiredContext { .. })) => (
            "its certificate has expired".to_owned(),
            "renew it at the API server (kubeadm certs renew apiserver), or set this machine's \
             clock"
                .to_owned(),
        ),
        Some(rustls::Error::InvalidCertificate(
            Wrong::NotValidYet | Wrong::NotValidYetContext { .. },
        )) => (
            "its certificate is not valid yet".to_owned(),
            "set this machine's clock".to_owned(),
        ),
        Some(rustls::Error::InvalidCertificate(
            Wrong::NotValidForName | Wrong::NotValidForNameContext { .. },
        )) => (
            format!("its certificate is not for {asked:?}"),
            "name the server in upstream as its certificate does, or add the name to the \
             certificate (--apiserver-cert-extra-sans of kubeadm)"
                .to_owned(),
        ),
        Some(rustls::Error::InvalidCertificate(Wrong::UnknownIssuer)) => (
            "its certificate is signed by an unknown CA".to_owned(),
            "upstream.caFile (or the kubeconfig) must hold the CA of this cluster, ca.crt of \
             kubeadm"
                .to_owned(),
        ),
        Some(rustls::Error::InvalidMessage(_)) => (
            format!("does not speak TLS: {error}"),
            "this is no HTTPS port: correct the port or the scheme in upstream".to_owned(),
        ),
        _ => (
            format!("the TLS handshake fails: {error}"),
            "see the reason, and the log of kube-apiserver".to_owned(),
        ),
    };
    Finding::fault(SECTION, name, found).mended_by(remedy)
}

fn release_of(name: &str, version: &Answer, release: Option<Release>, took: Duration) -> Finding {
    let Some(release) = release.filter(|_| version.status == StatusCode::OK) else {
        let found = format!("does not tell its version: {}", version.error());
        let remedy = "is this a Kubernetes API server? apifront's user needs get of /version";
        return Finding::fault(SECTION, name, found).mended_by(remedy);
    };
    let told = version.json();
    let exact = told
        .as_ref()
        .and_then(|told| told.get("gitVersion")?.as_str());
    let exact = exact.map_or_else(|| release.to_string(), str::to_owned);
    let found = format!(
        "Kubernetes {exact}, answers in {:.1} ms",
        took.as_secs_f64() * 1e3
    );
    let [oldest, newest] = TESTED.map(Release::from);
    if release < oldest || release > newest {
        let remedy = format!(
            "{oldest} to {newest} are tested; objects of other releases are checked one by one, \
             and what is not understood is forwarded"
        );
        return Finding::neutral(SECTION, name, found).mended_by(remedy);
    }
    Finding::good(SECTION, name, found)
}

fn ready(name: &str, answer: Result<Answer, String>) -> Finding {
    match answer {
        Ok(answer) if answer.status == StatusCode::OK => {
            Finding::good(SECTION, format!("{name}/readyz"), "ready")
        }
        Ok(answer) if answer.status == StatusCode::FORBIDDEN => {
            let found = "apifront may not ask whether it is ready (403)";
            let remedy = "allow apifront's user to get the non-resource URL /readyz \
                          (examples/cluster/rbac.yaml)";
            Finding::fault(SECTION, format!("{name}/readyz"), found).mended_by(remedy)
        }
        Ok(answer) => {
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            let failed: Vec<&str> = text
                .lines()
                .filter(|line| line.starts_with("[-]"))
                .collect();
            let found = format!(
                "not ready ({}): {}",
                answer.status.as_u16(),
                failed.join(", ")
            );
            let remedy = "see the log of kube-apiserver, and whether it reaches etcd";
            Finding::fault(SECTION, format!("{name}/readyz"), found).mended_by(remedy)
        }
        Err(error) => Finding::fault(SECTION, format!("{name}/readyz"), error)
            .mended_by("see the log of kube-apiserver"),
    }
}

/// Compares the clocks by the header `Date`, which has whole seconds.
fn clock(name: &str, answer: &Answer, took: Duration, now: DateTime<Utc>) -> Finding {
    let subject = format!("{name} clock");
    let date = answer.headers.get(DATE).and_then(|date| date.to_str().ok());
    let Some(date) = date.and_then(|date| DateTime::parse_from_rfc2822(date).ok()) else {
        return Finding::neutral(SECTION, subject, "the server does not tell its time");
    };
    // The server answered within the second that begins at `date`.
    let half = TimeDelta::milliseconds(500);
    let ours = now.checked_sub_signed(half).unwrap_or(now);
    let skew = ours.signed_duration_since(date);
    let took = TimeDelta::from_std(took).unwrap_or(TimeDelta::zero());
    let apart = skew.abs().checked_sub(&half).unwrap_or(skew);
    let apart = apart
        .checked_sub(&took)
        .unwrap_or(apart)
        .max(TimeDelta::zero());
    let found = format!("{} s apart", apart.num_seconds());
    let remedy = "let both machines synchronize their clocks (NTP)";
    if apart > SKEW_AT_MOST {
        return Finding::fault(SECTION, subject, found).mended_by(remedy);
    }
    if apart > SKEW_NOTED {
        return Finding::neutral(SECTION, subject, found).mended_by(remedy);
    }
    Finding::good(SECTION, subject, "agrees with this machine's")
}

async fn cluster(client: &Client) -> Option<String> {
    let namespace = client.get("/api/v1/namespaces/kube-system").await.ok()?;
    let namespace = namespace.json()?;
    let uid = namespace.get("metadata")?.get("uid")?.as_str()?;
    Some(uid.to_owned())
}

pub(super) fn one_cluster(reached: &[Reached]) -> Option<Finding> {
    let known = || {
        reached
            .iter()
            .filter_map(|reached| reached.cluster.as_ref())
    };
    let first = known().next()?;
    if reached.len() < 2 {
        return None;
    }
    if known().any(|cluster| cluster != first) {
        let found = "they are of different clusters (kube-system has different UIDs)";
        let remedy = "upstream.servers must name the API servers of one cluster";
        return Some(Finding::fault(SECTION, "all servers", found).mended_by(remedy));
    }
    Some(Finding::good(SECTION, "all servers", "of one cluster"))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderMap;

    use super::super::Verdict;
    use super::*;

    fn answer(status: StatusCode, body: &'static str, date: Option<DateTime<Utc>>) -> Answer {
        let mut headers = HeaderMap::new();
        if let Some(date) = date {
            let date = date.format("%a, %d %b %Y %H:%M:%S GMT").to_string();
            headers.insert(DATE, date.parse().unwrap());
        }
        let body = Bytes::from_static(body.as_bytes());
        Answer {
            status,
            headers,
            body,
        }
    }

    #[test]
    fn clocks_are_compared_to_the_second() {
        let now = Utc::now();
        for (skew, expected) in [
            (0, Verdict::Good),
            (2, Verdict::Good),
            (-2, Verdict::Good),
            (10, Verdict::Neutral),
            (-30, Verdict::Neutral),
            (120, Verdict::Fault),
            (-3600, Verdict::Fault),
        ] {
            let told = answer(StatusCode::OK, "", Some(now + TimeDelta::seconds(skew)));
            let finding = clock("s", &told, Duration::from_millis(5), now);
            assert_eq!(finding.verdict, expected, "{skew}: {}", finding.found);
        }
        let silent = answer(StatusCode::OK, "", None);
        assert_eq!(
            clock("s", &silent, CONNECT_TIMEOUT, now).verdict,
            Verdict::Neutral
        );
    }

    #[test]
    fn releases_and_readiness_are_judged() {
        let version = |minor: u32| {
            let body = format!(r#"{{"major":"1","minor":"{minor}","gitVersion":"v1.{minor}.2"}}"#);
            answer(StatusCode::OK, body.leak(), None)
        };
        let judged = |answer: &Answer| {
            release_of(
                "s",
                answer,
                Release::of_server(&answer.body),
                CONNECT_TIMEOUT,
            )
            .verdict
        };
        assert_eq!(judged(&version(37)), Verdict::Good);
        assert_eq!(judged(&version(28)), Verdict::Neutral);
        assert_eq!(judged(&version(39)), Verdict::Neutral);
        assert_eq!(
            judged(&answer(StatusCode::OK, "<html>", None)),
            Verdict::Fault
        );
        let body = "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n";
        let failed = ready(
            "s",
            Ok(answer(StatusCode::INTERNAL_SERVER_ERROR, body, None)),
        );
        assert!(failed.found.contains("[-]etcd failed"), "{}", failed.found);
        assert_eq!(failed.verdict, Verdict::Fault);
    }
}
