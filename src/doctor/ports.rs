//! Can apifront listen on the configured ports?

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use super::{Finding, Section};
use crate::config::Config;

const SECTION: Section = Section::Ports;

/// The time in which a process on this machine answers.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) async fn examine(config: &Config) -> Vec<Finding> {
    let secure = config.serving.secure.as_ref().map(|secure| secure.address);
    let running = runs(config.observability.address).await;
    let mut findings = Vec::new();
    for (field, address) in [
        ("serving.securePort", secure),
        ("serving.insecurePort", config.serving.insecure),
        ("observability.port", config.observability.address),
    ] {
        if let Some(address) = address {
            findings.push(check_port(field, address, running));
        }
    }
    findings
}

fn check_port(field: &str, address: SocketAddr, running: bool) -> Finding {
    let subject = format!("{field} {address}");
    match TcpListener::bind(address) {
        Ok(_) => Finding::good(SECTION, subject, "free"),
        Err(error) if running && error.kind() == std::io::ErrorKind::AddrInUse => {
            let found = "in use by an apifront that runs";
            Finding::neutral(SECTION, subject, found)
        }
        Err(error) => {
            let remedy = match error.kind() {
                std::io::ErrorKind::AddrInUse => {
                    "end the process that listens there (ss -ltnp tells which), or choose \
                     another port"
                }
                std::io::ErrorKind::PermissionDenied => {
                    "choose a port above 1023, or give the process CAP_NET_BIND_SERVICE"
                }
                std::io::ErrorKind::AddrNotAvailable => {
                    "choose an address of this machine, or 0.0.0.0 for all"
                }
                _ => "choose another address or port",
            };
            Finding::fault(SECTION, subject, format!("cannot be listened on: {error}"))
                .mended_by(remedy)
        }
    }
}

/// Tells whether an apifront with this observability port runs here.
async fn runs(address: Option<SocketAddr>) -> bool {
    let Some(address) = address else {
        return false;
    };
    let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), address.port());
    let asked = async {
        let mut config = kube::Config::new(format!("http://{local}").parse().ok()?);
        config.connect_timeout = Some(PROBE_TIMEOUT);
        let client = super::client::Client::new(&config).ok()?;
        let metrics = client.get_as("/metrics", "text/plain").await.ok()?;
        let text = String::from_utf8_lossy(&metrics.body).into_owned();
        text.contains("\napifront_").then_some(())
    };
    matches!(
        tokio::time::timeout(PROBE_TIMEOUT, asked).await,
        Ok(Some(()))
    )
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn a_taken_port_is_a_fault_unless_apifront_has_it() {
        let held = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = held.local_addr().unwrap();
        assert_eq!(check_port("p", address, false).verdict, Verdict::Fault);
        assert_eq!(check_port("p", address, true).verdict, Verdict::Neutral);
        drop(held);
        assert_eq!(check_port("p", address, false).verdict, Verdict::Good);
        // An address that no machine has (RFC 5737).
        let foreign = SocketAddr::from(([192, 0, 2, 1], 0));
        let finding = check_port("p", foreign, false);
        assert!(finding.remedy.unwrap().contains("0.0.0.0"));
    }

    #[tokio::test]
    async fn only_an_apifront_is_taken_for_one() {
        assert!(!runs(None).await);
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(!runs(Some(silent.local_addr().unwrap())).await);
    }
}
