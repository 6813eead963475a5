//! The encoding and the layout of answers and errors.

use http::Method;
use serde_json::{Value, json};

use crate::harness::media_types::{CBOR, JSON, PROTOBUF, YAML};
use crate::harness::objects::config_map;
use crate::harness::subject::Subject;

conformance!(
    accept_headers,
    accept_headers_of_watches,
    accept_headers_of_discovery,
    refusals_are_negotiated,
    indented_answers,
    fields_come_in_the_order_of_go,
    selected_by_what_is_absent,
    paths_are_decoded_first,
);

async fn one_map(subject: &Subject) -> String {
    let ns = subject.namespace("accept").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let body = config_map("a", json!({}), json!({"x": "1"}));
    subject.admin.post(&list, &body).await.expect(201);
    list
}

async fn accept_headers(subject: Subject) {
    let list = one_map(&subject).await;
    let cbor = if subject.has_cbor { CBOR } else { JSON };
    for (accept, expected) in [
        ("*/*", JSON),
        ("application/*", ""),
        ("*", ""),
        ("APPLICATION/JSON", ""),
        ("application/json;q=0", JSON),
        ("application/json;q=0,application/yaml", YAML),
        ("*/*;q=1,application/yaml;q=0.1", YAML),
        ("application/yaml;q=0.1,*/*", JSON),
        (
            "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8",
            JSON,
        ),
        ("application/json;charset=utf-8", JSON),
        ("application/json;stream=watch", JSON),
        ("application/yaml;stream=watch", ""),
        ("application/json;sv=v1", JSON),
        ("application/json;sv=v2", ""),
        ("application/json;as=Table", ""),
        ("application/json;as=Table;g=meta.k8s.io;v=v2", ""),
        ("application/yaml;as=Table;g=meta.k8s.io;v=v1", YAML),
        (
            "application/json;as=Foo;g=meta.k8s.io;v=v1,application/yaml",
            YAML,
        ),
        (
            "application/vnd.kubernetes.protobuf,application/json",
            PROTOBUF,
        ),
        ("application/cbor,application/json", cbor),
        ("application/json;q=x,application/yaml;q=0.001", YAML),
    ] {
        for path in [list.clone(), format!("{list}/a")] {
            let answer = subject.admin.get_as(&path, accept).await;
            let code = if expected.is_empty() { 406 } else { 200 };
            assert_eq!(answer.status, code, "{accept}: {}", answer.text());
            if code == 200 {
                assert_eq!(answer.header("content-type"), expected, "{accept}");
            }
        }
    }
}

async fn accept_headers_of_watches(subject: Subject) {
    let list = one_map(&subject).await;
    let streamed = "only the following media types are accepted: application/json;stream=watch, \
                    application/vnd.kubernetes.protobuf;stream=watch";
    for (accept, expected) in [
        ("application/json", JSON),
        ("application/json;stream=watch", JSON),
        (PROTOBUF, "application/vnd.kubernetes.protobuf;stream=watch"),
        ("application/yaml,application/json", ""),
        (
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            JSON,
        ),
    ] {
        let path = format!("{list}?watch=1&resourceVersion=0&timeoutSeconds=1");
        let answer = subject.admin.get_as(&path, accept).await;
        if expected.is_empty() {
            assert_eq!(answer.status, 406, "{accept}");
            // YAML breaks long lines.
            let words: Vec<String> = answer
                .text()
                .split_whitespace()
                .map(str::to_owned)
                .collect();
            assert!(words.join(" ").contains(streamed), "{}", answer.text());
        } else {
            assert_eq!(answer.status, 200, "{accept}: {}", answer.text());
            assert_eq!(answer.header("content-type"), expected, "{accept}");
        }
        // No event is a list, so such a watch ends before its first event.
        if accept.contains("List") {
            assert_eq!(answer.text(), "", "{accept}");
        } else if expected == JSON {
            let event: Value = serde_json::Deserializer::from_slice(&answer.body)
                .into_iter()
                .next()
                .unwrap_or_else(|| panic!("{accept}: no event"))
                .expect("JSON");
            assert_eq!(event["object"]["kind"], "ConfigMap", "{accept}");
        }
    }
}

async fn accept_headers_of_discovery(subject: Subject) {
    let everything = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let beta = ";g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
    for (path, accept, expected) in [
        ("/api", JSON.to_owned(), JSON.to_owned()),
        ("/api", YAML.to_owned(), YAML.to_owned()),
        ("/api", PROTOBUF.to_owned(), PROTOBUF.to_owned()),
        ("/apis", YAML.to_owned(), YAML.to_owned()),
        ("/apis", PROTOBUF.to_owned(), PROTOBUF.to_owned()),
        ("/apis", "text/html".to_owned(), String::new()),
        ("/apis", "application/*".to_owned(), JSON.to_owned()),
        ("/apis/apps", YAML.to_owned(), YAML.to_owned()),
        ("/apis/apps/v1", YAML.to_owned(), YAML.to_owned()),
        ("/apis/apps/v1", PROTOBUF.to_owned(), PROTOBUF.to_owned()),
        ("/apis/apps/v1", "application/*".to_owned(), String::new()),
        ("/api/v1", PROTOBUF.to_owned(), PROTOBUF.to_owned()),
        (
            "/apis",
            format!("{YAML}{everything}"),
            format!("{YAML}{everything}"),
        ),
        (
            "/api",
            format!("{PROTOBUF}{everything}"),
            format!("{PROTOBUF}{everything}"),
        ),
        (
            "/apis",
            format!("{JSON}{beta},{JSON}"),
            // 1.33 no longer serves it.
            match subject.release.is_at_least(33) {
                true => JSON.to_owned(),
                false => format!("{JSON}{beta}"),
            },
        ),
    ] {
        let answer = subject.admin.get_as(path, &accept).await;
        let code = if expected.is_empty() { 406 } else { 200 };
        assert_eq!(answer.status, code, "{path} {accept}: {}", answer.text());
        if code == 200 {
            assert_eq!(answer.header("content-type"), expected, "{path} {accept}");
        }
    }
}

async fn refusals_are_negotiated(subject: Subject) {
    let missing = format!("{}/none", one_map(&subject).await);
    for (accept, expected, start) in [
        ("application/*", JSON, "{\n  \"kind\": \"Status\",\n"),
        (YAML, YAML, "apiVersion: v1\ncode: 404\n"),
        (PROTOBUF, PROTOBUF, "k8s\0"),
        (
            "application/json;as=Table;g=meta.k8s.io;v=v1",
            JSON,
            "{\n  \"kind\": \"Status\",\n",
        ),
        (
            "application/json;as=Table;g=meta.k8s.io;v=v1,application/json",
            JSON,
            "{\"kind\":\"Status\",",
        ),
        (
            "application/json;pretty=1",
            JSON,
            "{\n  \"kind\": \"Status\",\n",
        ),
    ] {
        // The router itself refuses `application/*`, with a 406.
        let code = if accept == "application/*" { 406 } else { 404 };
        let start = if code == 406 {
            "{\"kind\":\"Status\","
        } else {
            start
        };
        let answer = subject.admin.get_as(&missing, accept).await;
        assert_eq!(answer.status, code, "{accept}");
        assert_eq!(answer.header("content-type"), expected, "{accept}");
        assert!(
            answer.text().starts_with(start),
            "{accept}: {}",
            answer.text()
        );
    }
}

async fn indented_answers(subject: Subject) {
    let list = one_map(&subject).await;
    let object = format!("{list}/a");
    for (path, accept, agent, indented) in [
        (object.clone(), JSON, "", false),
        (object.clone(), "application/json;pretty=1", "", true),
        (object.clone(), "application/json;pretty=2", "", false),
        (format!("{object}?pretty=T"), JSON, "", true),
        (format!("{object}?pretty=yes"), JSON, "curl/8", false),
        (format!("{object}?pretty="), JSON, "curl/8", true),
        (list.clone(), JSON, "Mozilla/5.0 (X)", true),
        ("/apis/apps".to_owned(), JSON, "curl/8", true),
        ("/apis/apps/v1".to_owned(), JSON, "kubectl", false),
    ] {
        let headers = [("accept", accept), ("user-agent", agent)];
        let answer = subject.admin.send(Method::GET, &path, &headers, "").await;
        assert_eq!(answer.status, 200, "{path}");
        let text = answer.text();
        assert_eq!(
            text.starts_with("{\n  \""),
            indented,
            "{path} {accept} {agent}"
        );
        assert_eq!(text.ends_with('\n'), !indented, "{path} {accept} {agent}");
    }
}

async fn fields_come_in_the_order_of_go(subject: Subject) {
    let ns = subject.namespace("order").await;
    let roles = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles");
    let role = json!({
        "rules": [{"apiGroups": [""], "resourceNames": ["x"], "resources": ["pods"], "verbs": ["get"]}],
        "metadata": {"name": "r"},
    });
    subject.admin.post(&roles, &role).await.expect(201);
    let policies = format!("/apis/networking.k8s.io/v1/namespaces/{ns}/networkpolicies");
    let policy = json!({
        "metadata": {"name": "p"},
        "spec": {
            "policyTypes": ["Egress"],
            "egress": [{"to": [{"ipBlock": {"except": ["10.0.0.0/24"], "cidr": "10.0.0.0/8"}}],
                "ports": [{"port": 80, "protocol": "TCP"}]}],
            "podSelector": {"matchExpressions": [{"values": ["1"], "operator": "In", "key": "a"}]},
        },
    });
    subject.admin.post(&policies, &policy).await.expect(201);
    for (path, expected) in [
        (
            format!("{roles}/r"),
            r#""rules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"],"resourceNames":["x"]}]}"#,
        ),
        (
            roles,
            r#""rules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"],"resourceNames":["x"]}]}"#,
        ),
        (
            format!("{policies}/p"),
            r#""spec":{"podSelector":{"matchExpressions":[{"key":"a","operator":"In","values":["1"]}]},"egress":[{"ports":[{"protocol":"TCP","port":80}],"to":[{"ipBlock":{"cidr":"10.0.0.0/8","except":["10.0.0.0/24"]}}]}],"policyTypes":["Egress"]}"#,
        ),
    ] {
        let answer = subject.admin.get(&path).await;
        assert!(answer.text().contains(expected), "{}", answer.text());
    }
}

async fn selected_by_what_is_absent(subject: Subject) {
    let ns = subject.namespace("absent").await;
    let pods = format!("/api/v1/namespaces/{ns}/pods");
    let pod = crate::harness::objects::pod_on_node("p", json!({}), "somewhere");
    subject.admin.post(&pods, &pod).await.expect(201);
    for (selector, count) in [
        ("spec.nodeName%3Dsomewhere", 1),
        ("spec.nodeName!%3Dsomewhere", 0),
        ("status.podIP%3D", 1),
        ("status.nominatedNodeName!%3Dx", 1),
        ("spec.hostNetwork%3Dfalse", 1),
        ("spec.hostNetwork%3Dtrue", 0),
    ] {
        let path = format!("{pods}?fieldSelector={selector}");
        let found = subject.admin.get(&path).await.expect(200);
        let found = found["items"].as_array().map(Vec::len);
        assert_eq!(found, Some(count), "{selector}");
    }
}

async fn paths_are_decoded_first(subject: Subject) {
    let list = one_map(&subject).await;
    for (path, code) in [
        (format!("{list}/%61"), 200),
        (format!("{list}/a%62"), 404),
        (list.replace("configmaps", "config%6Daps"), 200),
    ] {
        let answer = subject.admin.get(&path).await;
        assert_eq!(answer.status, code, "{path}: {}", answer.text());
    }
}
