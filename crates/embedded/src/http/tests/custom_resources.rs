//! The server serves what definitions define, and holds objects to their schemas.

use super::*;

#[tokio::test]
async fn definitions_are_served_until_deleted() {
    let server = Subject::start(Options::default()).await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}},
                {"name": "v1alpha1", "served": true, "storage": false, "deprecated": true},
            ]},
    });
    let (status, defined) = server.json(Method::POST, definitions, definition).await;
    assert_eq!(status, 201);
    // The definition was stored, then an APIService for each of its versions.
    let newest = version(&defined).parse::<u64>().unwrap() + 2;
    let (_, empty) = server
        .call(Method::GET, "/apis/example.com/v1/widgets", Value::Null)
        .await;
    assert_eq!(
        empty,
        format!(
            "{{\"apiVersion\":\"example.com/v1\",\"items\":[],\"kind\":\"WidgetList\",\"metadata\":{{\"continue\":\"\",\"resourceVersion\":\"{newest}\"}}}}\n"
        )
    );
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"},
        "spec": {"size": 1}, "status": {"dropped": true}});
    let (status, made) = server.json(Method::POST, widgets, widget).await;
    assert_eq!((status, made.get("status")), (201, None));
    let (_, changed) = server
        .json(
            Method::PATCH,
            &format!("{widgets}/w/status"),
            json!({"status": {"a": 1}, "spec": {"size": 9}}),
        )
        .await;
    assert_eq!(
        (&changed["status"]["a"], &changed["spec"]["size"]),
        (&json!(1), &json!(1))
    );
    let old = server
        .send(
            Method::GET,
            "/apis/example.com/v1alpha1/namespaces/default/widgets/w",
            "",
            Value::Null,
        )
        .await;
    assert_eq!(
        old.headers()["warning"],
        "299 - \"example.com/v1alpha1 Widget is deprecated; use example.com/v1 Widget\""
    );
    let mut events = server.watch(&format!("{widgets}?watch=1")).await;
    assert_eq!(events.next().await, event("ADDED", "w"));
    server
        .json(
            Method::DELETE,
            &format!("{definitions}/widgets.example.com"),
            Value::Null,
        )
        .await;
    assert_eq!(events.next().await, event("DELETED", "w"));
    assert_eq!(events.next().await, None);
    let (status, _) = server.call(Method::GET, widgets, Value::Null).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn custom_resources_follow_their_schema() {
    let server = Subject::start(Options::default()).await;
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "size": {"type": "integer", "minimum": 0, "default": 3},
                    }},
                    "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
                }}},
            }]},
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(
        server.json(Method::POST, definitions, definition).await.0,
        201
    );
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = |spec: Value| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec});
    let (status, refused) = server
        .json(Method::POST, widgets, widget(json!({"size": -1})))
        .await;
    assert_eq!(
        (status, refused["message"].as_str().unwrap()),
        (
            422,
            "Widget.example.com \"w\" is invalid: spec.size: Invalid value: -1: spec.size in body should be greater than or equal to 0"
        )
    );
    let strict = format!("{widgets}?fieldValidation=Strict");
    let unknown = widget(json!({"unknown": 1}));
    let (status, refused) = server.json(Method::POST, &strict, unknown.clone()).await;
    assert_eq!(
        (status, refused["message"].as_str().unwrap()),
        (
            400,
            "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: unknown field \"spec.unknown\""
        )
    );
    let wrong = format!("{widgets}?fieldValidation=x");
    assert_eq!(
        server.json(Method::POST, &wrong, unknown.clone()).await.0,
        422
    );
    let warned = server
        .send(Method::POST, widgets, "application/json", unknown)
        .await;
    assert_eq!(warned.status(), 201);
    assert_eq!(
        warned.headers()["warning"],
        "299 - \"unknown field \\\"spec.unknown\\\"\""
    );
    let path = format!("{widgets}/w");
    let (_, made) = server.json(Method::GET, &path, Value::Null).await;
    assert_eq!(made["spec"], json!({"size": 3}));
    let open_api = "/openapi/v3/apis/example.com/v1";
    let (_, described) = server.json(Method::GET, open_api, Value::Null).await;
    let size = "/components/schemas/example.com.v1.Widget/properties/spec/properties/size/minimum";
    assert_eq!(described.pointer(size), Some(&json!(0)));
    for (path, patch, code) in [
        (path.clone(), json!({"spec": {"size": "x"}}), 422),
        (
            format!("{path}?fieldValidation=Strict"),
            json!({"spec": {"u": 1}}),
            422,
        ),
        (path.clone(), json!({"spec": {"size": 4}}), 200),
        (
            format!("{path}/status"),
            json!({"status": {"ready": 1}}),
            422,
        ),
        (
            format!("{path}/status"),
            json!({"status": {"ready": true}}),
            200,
        ),
    ] {
        let (status, answer) = server.json(Method::PATCH, &path, patch).await;
        assert_eq!(status, code, "{answer}");
    }
}
