//! Tests upstreams with a wrong certificate.

use http::Method;
use serde_json::json;

use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::kubeconfig;
use crate::harness::process;

/// A server with a wrong certificate gets no request of any kind.
#[tokio::test]
async fn upstream_must_be_who_it_says() {
    let cluster = Cluster::shared();
    let folder = process::temporary_folder("names");
    let port = cluster.apiserver.port;
    let ip = format!("https://127.0.0.1:{port}");
    let name = format!("https://localhost:{port}");
    let stranger = cluster.certificates.stranger("kubernetes-admin", &[]);
    // This authority is trusted here, but did not sign the server's certificate.
    let other_ca = stranger.cert.with_file_name("stranger-ca.crt");
    let user = json!({ "token": "token-of-root" });
    let cases = [
        ("address", &ip, cluster.ca(), None, true),
        ("name", &name, cluster.ca(), None, true),
        ("given name", &ip, cluster.ca(), Some("localhost"), true),
        ("other name", &ip, cluster.ca(), Some("example.test"), false),
        ("other address", &ip, cluster.ca(), Some("127.0.0.2"), false),
        ("other authority", &ip, other_ca.as_path(), None, false),
    ];
    let test = async |(case, server, ca, server_name, good): (
        &str,
        &String,
        &std::path::Path,
        Option<&str>,
        bool,
    )| {
        let mut upstream = json!({ "server": server, "certificate-authority": ca });
        if let Some(server_name) = server_name {
            upstream["tls-server-name"] = json!(server_name);
        }
        let file = case.replace(' ', "-");
        let config = kubeconfig::write_parts(&folder, &file, upstream, user.clone());
        let front = Apifront::personal_alive(&config, &[]).await;
        let client = Client::plain(front.address);
        let pods = "/api/v1/namespaces/default/pods";
        let upgrade = [("connection", "Upgrade"), ("upgrade", "SPDY/3.1")];
        for (path, headers, code) in [
            ("/api/v1/namespaces/default".to_owned(), &[][..], 200),
            ("/api/v1/namespaces?resourceVersion=0".to_owned(), &[], 200),
            (format!("{pods}?watch=1&timeoutSeconds=1"), &[], 200),
            (format!("{pods}/none/log"), &[], 404),
            (format!("{pods}/none/exec?command=true"), &upgrade, 404),
        ] {
            let answer = client.send(Method::GET, &path, headers, "").await;
            let expected = if good { code } else { 503 };
            assert_eq!(answer.status, expected, "{case} {path}: {}", answer.text());
            if !good {
                assert_eq!(answer.header("retry-after"), "1", "{case} {path}");
                assert_eq!(answer.json()["reason"], "ServiceUnavailable");
            }
        }
        let ready = client.get("/readyz").await;
        assert_eq!(ready.status == 200, good, "{case}: {}", ready.text());
        front.stop().await;
    };
    futures::future::join_all(cases.map(test)).await;
}
