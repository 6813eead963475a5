//! The start refuses wrong credentials, and names the file and the field.

use super::*;

#[tokio::test]
async fn start_up_errors_name_file_and_field() {
    skip_under_oracle!("it is about apifront's credentials for API servers");
    let users = Users::create().await;
    let cluster = Cluster::shared();
    let pair = users.certificate("erik");
    let junk = users.file("junk.pem", "junk");
    let text = |p: &Path| p.display().to_string();
    let config = |name: &str, user: Value| users.kubeconfig(name, user);
    let server = |name: &str, server: Value| {
        let user = json!({ "client-certificate": pair.cert, "client-key": pair.key });
        kubeconfig::write_parts(&users.folder, name, server, user)
    };
    let url = cluster.server_url();
    let missing = users.folder.join("missing");
    let (failing, _) = users.plugin("failing", "echo out of order >&2; exit 7");
    let (garbage, _) = users.plugin("garbage", "echo garbage");
    let cases: Vec<(&str, PathBuf, Vec<String>)> = vec![
        ("kubeconfig", missing.clone(), vec![text(&missing)]),
        (
            "yaml",
            users.file("broken.kubeconfig", "{"),
            vec!["broken.kubeconfig".into()],
        ),
        (
            "certificate",
            config(
                "e1",
                json!({ "client-certificate": missing, "client-key": pair.key }),
            ),
            vec![
                text(&missing),
                "e1.kubeconfig".into(),
                "client-certificate".into(),
            ],
        ),
        (
            "key",
            config(
                "e2",
                json!({ "client-certificate": pair.cert, "client-key": missing }),
            ),
            vec![text(&missing), "e2.kubeconfig".into(), "client-key".into()],
        ),
        (
            "no PEM",
            config(
                "e3",
                json!({ "client-certificate": junk, "client-key": pair.key }),
            ),
            vec!["e3.kubeconfig".into(), "client-certificate".into()],
        ),
        (
            "base64",
            config(
                "e4",
                json!({ "client-certificate-data": "%%%", "client-key": pair.key }),
            ),
            vec!["e4.kubeconfig".into(), "client-certificate-data".into()],
        ),
        (
            "token file",
            config("e5", json!({ "tokenFile": missing })),
            vec![text(&missing), "e5.kubeconfig".into(), "tokenFile".into()],
        ),
        (
            "plugin",
            config(
                "e6",
                json!({ "exec": { "apiVersion": "client.authentication.k8s.io/v1", "command": missing, "interactiveMode": "Never" } }),
            ),
            vec![text(&missing), "e6.kubeconfig".into(), "exec".into()],
        ),
        (
            "failing",
            config("e7", failing),
            vec!["out of order".into(), "e7.kubeconfig".into(), "exec".into()],
        ),
        (
            "garbage",
            config("e8", garbage),
            vec!["e8.kubeconfig".into(), "exec".into()],
        ),
        (
            "authority",
            server(
                "e9",
                json!({ "server": url, "certificate-authority": missing }),
            ),
            vec![
                text(&missing),
                "e9.kubeconfig".into(),
                "certificate-authority".into(),
            ],
        ),
        (
            "no authority",
            server(
                "e10",
                json!({ "server": url, "certificate-authority": junk }),
            ),
            vec!["e10.kubeconfig".into(), "certificate-authority".into()],
        ),
        (
            "server",
            server("e11", json!({ "server": "not a url" })),
            vec!["e11.kubeconfig".into(), "server".into()],
        ),
        (
            "server name",
            server(
                "e12",
                json!({ "server": url, "tls-server-name": "no name!", "certificate-authority": cluster.ca() }),
            ),
            vec!["e12.kubeconfig".into(), "tls-server-name".into()],
        ),
    ];
    let mut wrong = Vec::new();
    for (case, file, expected) in cases {
        let flags = [
            "--kubeconfig".into(),
            text(&file),
            "--insecure-port".into(),
            crate::harness::ports::free().to_string(),
        ];
        check_refusal(case, &flags, &expected, &mut wrong);
    }
    let good = config("contexts", json!({ "token": "x" }));
    let flags = [
        "--kubeconfig".into(),
        text(&good),
        "--context".into(),
        "absent".into(),
        "--insecure-port".into(),
        crate::harness::ports::free().to_string(),
    ];
    check_refusal(
        "context",
        &flags,
        &["absent".into(), text(&good)],
        &mut wrong,
    );

    for (field, value, expected) in [
        ("caFile", &missing, text(&missing)),
        ("caFile", &junk, text(&junk)),
        ("clientCertFile", &missing, text(&missing)),
        ("clientCertFile", &junk, text(&junk)),
        ("clientKeyFile", &missing, text(&missing)),
        ("clientKeyFile", &junk, text(&junk)),
        ("tokenFile", &missing, text(&missing)),
    ] {
        let mut config = config_before(cluster);
        config["upstream"] = json!({
            "servers": [url], "caFile": cluster.ca(), "clientCertFile": pair.cert, "clientKeyFile": pair.key,
        });
        config["upstream"][field] = json!(value);
        let file = users.file("front.yaml", config.to_string());
        let flags = ["--config".into(), text(&file)];
        let field = format!("upstream.{field}");
        check_refusal(&field, &flags, &[expected, field.clone()], &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn check_refusal(case: &str, flags: &[String], expected: &[String], wrong: &mut Vec<String>) {
    // `timeout` ends apifront with 124 if it starts anyway. One that refuses is waited for
    // as long as the machine takes to run it.
    let output = Command::new("timeout")
        .arg("60")
        .arg(apifront::built())
        .args(flags)
        .output()
        .expect("apifront");
    let text = String::from_utf8_lossy(&output.stderr);
    let missing: Vec<_> = expected
        .iter()
        .filter(|e| !text.contains(e.as_str()))
        .collect();
    let refused = matches!(output.status.code(), Some(1 | 2));
    if !refused || !missing.is_empty() || text.contains("panicked") {
        wrong.push(format!(
            "{case}: {}, without {missing:?}: {text:.600}",
            output.status
        ));
    }
}
