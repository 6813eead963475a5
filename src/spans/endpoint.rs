//! The address of a collector, in the form of gRPC names.

use http::uri::Authority;

/// kube-apiserver's default.
pub(super) const DEFAULT: &str = "localhost:4317";

/// gRPC's port for a name without one.
const DEFAULT_PORT: u16 = 443;

const FORMS: &str = "must be HOST:PORT, dns:///HOST:PORT or unix:///PATH";

/// A collector's address. As in kube-apiserver, the connection is not encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint(String);

impl Endpoint {
    /// Parses an endpoint. The error is the reason why it cannot be used.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return dns(text);
        };
        match (scheme, rest.strip_prefix('/')) {
            ("dns", Some(name)) => dns(name),
            ("dns", None) => Err(format!(
                "{FORMS}: a DNS server of its own cannot be asked, so three slashes are needed"
            )),
            ("unix", Some(path)) if !path.is_empty() => Ok(Self(format!("unix:///{path}"))),
            ("unix", _) => Err(format!("{FORMS}: the path must be absolute")),
            (scheme, _) => Err(format!("{FORMS}: unsupported scheme: {scheme}")),
        }
    }

    pub(super) fn uri(&self) -> &str {
        &self.0
    }
}

fn dns(name: &str) -> Result<Endpoint, String> {
    let wrong = || FORMS.to_owned();
    let authority: Authority = name.parse().map_err(|_| wrong())?;
    let host = authority.host();
    if host.is_empty() || authority.as_str().contains('@') {
        return Err(wrong());
    }
    let port = match authority.port_u16() {
        Some(port) => port,
        None if authority.as_str() == host => DEFAULT_PORT,
        None => return Err(wrong()),
    };
    Ok(Endpoint(format!("http://{host}:{port}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_grpc_reads_them() {
        for (text, uri) in [
            (DEFAULT, "http://localhost:4317"),
            ("collector", "http://collector:443"),
            ("[::1]:4317", "http://[::1]:4317"),
            ("127.0.0.1:1", "http://127.0.0.1:1"),
            ("dns:///collector:4317", "http://collector:4317"),
            ("unix:///run/collector.sock", "unix:///run/collector.sock"),
        ] {
            assert_eq!(Endpoint::parse(text).unwrap().uri(), uri, "{text}");
        }
    }

    #[test]
    fn other_names_are_refused() {
        for text in [
            "",
            ":4317",
            "localhost:port",
            "localhost:99999",
            "localhost:4317/path",
            "somebody@localhost:4317",
            "dns://8.8.8.8/collector:4317",
            "dns://collector:4317",
            "http://localhost:4317",
            "https://localhost:4317",
            "unix://relative",
            "unix:///",
            "unix-abstract:///name",
            "//localhost:4317",
        ] {
            assert!(Endpoint::parse(text).is_err(), "{text}");
        }
    }
}
