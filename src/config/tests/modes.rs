//! The kinds of process, and what each of them needs.

use super::*;

#[test]
fn without_the_demo_a_start_needs_a_cluster() {
    let errors = load_with(Demo::Absent, &[]).unwrap_err().to_string();
    for named in ["--kubeconfig FILE", "--config FILE", "--features demo"] {
        assert!(errors.contains(named), "{named}: {errors}");
    }
    assert_eq!(errors.lines().count(), 1, "{errors}");
    // The mistakes of other flags are told with it.
    let errors = load_with(Demo::Absent, &["--context", "c", "--v=11"]).unwrap_err();
    assert_eq!(errors.errors.len(), 3, "{errors}");

    for demo in [Demo::Included, Demo::Absent] {
        let personal = load_with(demo, &["--kubeconfig", "k"]).unwrap();
        assert_eq!(personal.mode(), Mode::Personal);
        let file = shipped("minimal.yaml");
        let front = load_with(demo, &["--config", file.to_str().unwrap()]).unwrap();
        assert_eq!(front.mode(), Mode::Front);
    }
}

#[test]
fn each_mode_listens_where_it_should() {
    let demo = load(&[]).unwrap();
    assert_eq!(demo.mode(), Mode::Demo);
    assert_eq!(demo.serving.insecure.unwrap().to_string(), "127.0.0.1:8001");
    assert_eq!(demo.serving.secure, None);
    assert_eq!(demo.observability.address, None);

    let personal = load(&[
        "--kubeconfig",
        "k",
        "--context",
        "c",
        "--insecure-port",
        "8080",
    ]);
    let personal = personal.unwrap();
    assert_eq!(personal.mode(), Mode::Personal);
    assert_eq!(
        personal.serving.insecure.unwrap().to_string(),
        "127.0.0.1:8080"
    );
    assert!(matches!(
        personal.upstream,
        Upstream::Kubeconfig { context: Some(c), .. } if c == "c"
    ));

    // Without the check, a front would start with half of what the flags ask for.
    let errors = load(&["--kubeconfig", "k", "--client-ca-file", "ca.crt"]).unwrap_err();
    assert_eq!(
        errors.to_string().lines().next().unwrap(),
        "identity.proxyClientCertFile: needed by identity.mode RequestHeader \
         (other modes are Impersonate and PassThrough)"
    );
    let front = load(&[
        "--kubeconfig=k",
        "--tls-cert-file=c",
        "--tls-private-key-file=k",
        "--proxy-client-cert-file=c",
        "--proxy-client-key-file=k",
        "--anonymous-auth",
    ])
    .unwrap();
    let headers = [
        "--requestheader-client-ca-file=c",
        "--requestheader-allowed-names=",
    ];
    let config = load_text(MINIMAL, &headers).unwrap();
    let authentication = &config.access.delegated().unwrap().authentication;
    let trusted = authentication.request_header.as_ref().unwrap();
    assert!(trusted.allowed_names.is_empty());
    assert_eq!(trusted.username_headers, ["x-remote-user"]);
    assert!(front.access.delegated().unwrap().authentication.anonymous);
}

#[test]
fn contradictions_are_refused() {
    let base = "apiVersion: apifront.dev/v1alpha1\nkind: FrontConfiguration\n";
    let rest = "serving: {securePort: 0, insecurePort: 8001}\nidentity: {mode: Impersonate}\n";
    for (text, expected) in [
        ("upstream: {}\n", "upstream: needs kubeconfig or servers"),
        (
            "upstream: {kubeconfig: k, servers: ['https://a']}\n",
            "upstream.kubeconfig: \"k\": cannot be combined with upstream.servers",
        ),
        (
            "upstream: {kubeconfig: k, tokenFile: t}\n",
            "upstream.tokenFile: \"t\": belongs to upstream.servers; a kubeconfig has its own",
        ),
        (
            "upstream: {servers: ['http://10.0.0.1:6443']}\n",
            "upstream.servers[0]: \"http://10.0.0.1:6443\": must be https; plain http only to a \
             loopback address",
        ),
        (
            "upstream: {servers: ['https://a/path']}\n",
            "upstream.servers[0]: \"https://a/path\": must have neither path nor query",
        ),
        (
            "upstream: {servers: ['https://a'], clientCertFile: c}\n",
            "upstream.clientKeyFile: needed with upstream.clientCertFile",
        ),
        (
            "upstream: {kubeconfig: k}\nauthentication: {tokenReview: {enabled: false}}\n",
            "authentication: nobody could log in: set clientCAFile, tokenReview, requestHeader or \
             anonymous",
        ),
        (
            "upstream: {kubeconfig: k}\nobservability: {bindAddress: 0.0.0.0}\n",
            "observability.bindAddress: \"0.0.0.0\": must be a loopback address, this port is \
             plain HTTP without authentication; /metrics and the health paths are on the secure \
             port too",
        ),
    ] {
        let errors = load_text(&format!("{base}{rest}{text}"), &[]).unwrap_err();
        assert!(errors.iter().any(|e| e == expected), "{text}: {errors:?}");
    }
    let errors = load_text(&format!("{base}upstream: {{kubeconfig: k}}\n"), &[]).unwrap_err();
    assert!(errors.iter().any(|e| {
        e == "serving.tlsCertFile: needed to serve HTTPS on port 6443 \
              (serving.securePort: 0 turns it off)"
    }));
    let pass = minimal_with("authentication", "  clientCAFile: ca.crt")
        .replace("identity:\n", "identity:\n  mode: PassThrough\n");
    let errors = load_text(&pass, &[]).unwrap_err();
    assert!(
        errors
            .iter()
            .any(|e| e.starts_with("authentication.clientCAFile: \"ca.crt\": "))
    );
}
