//! Tests with hostile input and with examples of special types. The suite
//! compares objects of every kind with Go (tests/suite/encodings).

use proptest::prelude::*;

use super::*;

/// A Deployment with many kinds of fields, as kube-apiserver writes it.
const OBJECT: &str = r#"{"metadata":{"name":"web","namespace":"shop","uid":"7d1f","resourceVersion":"42","generation":2,"creationTimestamp":"2026-01-02T03:04:05Z","labels":{"a":"1","b":"2"},"managedFields":[{"manager":"kubectl","operation":"Update","apiVersion":"apps/v1","time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:replicas":{}}}}]},"spec":{"replicas":3,"selector":{"matchLabels":{"a":"1"}},"template":{"metadata":{"labels":{"a":"1"}},"spec":{"volumes":[{"name":"config","configMap":{"name":"web","defaultMode":420}},{"name":"tmp","emptyDir":{"sizeLimit":"512Mi"}}],"containers":[{"name":"web","image":"web:1","ports":[{"containerPort":80,"protocol":"TCP"}],"env":[{"name":"X","value":"a\u003cb\u003e\u0026\"\n"}],"resources":{"limits":{"cpu":"1500m"}},"livenessProbe":{"httpGet":{"path":"/","port":"http"},"periodSeconds":10}}],"tolerations":[{"operator":"Exists","tolerationSeconds":-1}]}},"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":"25%","maxSurge":1}}},"status":{"observedGeneration":2,"conditions":[{"type":"Available","status":"True","lastUpdateTime":null,"lastTransitionTime":"2026-01-02T03:04:05Z"}]}}"#;

fn message(name: &str) -> &'static Message {
    Schema::builtin().message(name).unwrap()
}

fn json(name: &str, protobuf: &[u8]) -> Result<String> {
    let mut out = Vec::new();
    to_json(message(name), protobuf, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

fn protobuf(name: &str, json: &str) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    to_protobuf(message(name), json.as_bytes(), &mut out).map(|()| out)
}

fn there_and_back(name: &str, text: &str) -> String {
    json(name, &protobuf(name, text).unwrap()).unwrap()
}

#[test]
fn an_object_goes_there_and_back() {
    assert_eq!(there_and_back("apps/v1.Deployment", OBJECT), OBJECT);
    // The members are in another order, with the object's kind, white space and
    // null values.
    let other = r#" { "status" : {} , "kind":"Pod", "spec" : {"nodeName":"n","containers":[
        {"image":"i","name":"c"}],"volumes":null},"metadata":{"labels":{"b":"2","a":"1"},
        "name":"p"},"apiVersion":"v1" } "#;
    assert_eq!(
        there_and_back("core/v1.Pod", other),
        r#"{"metadata":{"name":"p","labels":{"a":"1","b":"2"}},"spec":{"containers":[{"name":"c","image":"i","resources":{}}],"nodeName":"n"},"status":{}}"#
    );
}

#[test]
fn output_is_appended_or_left() {
    let mut out = b"before".to_vec();
    to_protobuf(message("core/v1.Namespace"), b"{}", &mut out).unwrap();
    assert!(out.starts_with(b"before") && out.len() > 6);
    let length = out.len();
    let open = br#"{"metadata":{"name":"a"}"#;
    assert!(to_protobuf(message("core/v1.Namespace"), open, &mut out).is_err());
    assert!(to_json(message("core/v1.Namespace"), b"\x0a\x01\x0a", &mut out).is_err());
    assert_eq!(out.len(), length);
}

#[test]
fn kinds_inside_objects_are_those_the_server_adds() {
    let claims = r#"{"volumeClaimTemplates":[{"metadata":{"name":"d"}}]}"#;
    let written = there_and_back("apps/v1.StatefulSetSpec", claims);
    let named = r#""volumeClaimTemplates":[{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"d"},"#;
    assert!(written.contains(named), "{written}");
    assert_eq!(there_and_back("apps/v1.StatefulSetSpec", &written), written);
    // The items of a generic list are opaque, including their kinds.
    let list = r#"{"metadata":{},"items":[{"kind":"Pod","x":1}]}"#;
    assert_eq!(there_and_back("core/v1.List", list), list);
}

#[test]
fn special_types_are_as_go_writes_them() {
    for (name, from, to) in [
        ("meta/v1.Time", "null", "null"),
        (
            "meta/v1.Time",
            r#""2026-01-02T04:04:05.9+01:00""#,
            r#""2026-01-02T03:04:05Z""#,
        ),
        (
            "meta/v1.MicroTime",
            r#""2026-01-02T03:04:05.000600Z""#,
            r#""2026-01-02T03:04:05.000600Z""#,
        ),
        ("api/resource.Quantity", "1000", r#""1k""#),
        ("api/resource.Quantity", "null", r#""0""#),
        ("util/intstr.IntOrString", "-80", "-80"),
        ("util/intstr.IntOrString", r#""http""#, r#""http""#),
        ("meta/v1.FieldsV1", r#"{ "f:a" : {} }"#, r#"{"f:a":{}}"#),
        ("meta/v1.FieldsV1", "null", "null"),
        ("pkg/runtime.RawExtension", " [1, \"<\"]", r#"[1,"\u003c"]"#),
        ("apiextensions/v1.JSON", "false", "false"),
        ("apiextensions/v1.JSONSchemaPropsOrBool", "true", "true"),
        (
            "apiextensions/v1.JSONSchemaPropsOrBool",
            r#"{"type":"x"}"#,
            r#"{"type":"x"}"#,
        ),
        (
            "apiextensions/v1.JSONSchemaPropsOrArray",
            "[{},{}]",
            "[{},{}]",
        ),
        ("apiextensions/v1.JSONSchemaPropsOrArray", "[]", "null"),
        (
            "apiextensions/v1.JSONSchemaPropsOrStringArray",
            r#"["a"]"#,
            r#"["a"]"#,
        ),
        (
            "apiextensions/v1.JSONSchemaProps",
            r#"{"maximum":1e21}"#,
            r#"{"maximum":1e+21}"#,
        ),
        (
            "core/v1.Secret",
            r#"{"data":{"a":"AAE=","b":null}}"#,
            r#"{"metadata":{},"data":{"a":"AAE=","b":""}}"#,
        ),
        (
            "meta/v1.APIResource",
            r#"{"verbs":[]}"#,
            r#"{"name":"","singularName":"","namespaced":false,"kind":"","verbs":[]}"#,
        ),
        (
            "meta/v1.APIResource",
            r#"{"verbs":null}"#,
            r#"{"name":"","singularName":"","namespaced":false,"kind":"","verbs":null}"#,
        ),
    ] {
        assert_eq!(there_and_back(name, from), to, "{name} {from}");
    }
}

#[test]
fn json_that_go_would_bend_is_refused() {
    use NotTranscodable::*;
    for (name, text, why) in [
        ("core/v1.Pod", r#"{"specs":{}}"#, UnknownField),
        ("core/v1.Pod", r#"{"Spec":{}}"#, UnknownField),
        ("core/v1.Pod", r#"{"spec":{},"spec":{}}"#, Twice),
        ("core/v1.Pod", r#"{"kind":"Pod","kind":"Pod"}"#, Twice),
        ("core/v1.PodSpec", r#"{"kind":"Pod"}"#, UnknownField),
        ("core/v1.Pod", r#"{"spec":null,"spec":null}"#, Twice),
        ("core/v1.ConfigMap", r#"{"data":{"a":"","a":""}}"#, Twice),
        (
            "core/v1.ConfigMap",
            r#"{"data":{"b":"","a":"","b":""}}"#,
            Twice,
        ),
        ("core/v1.Pod", r#"{"spec":[]}"#, WrongType),
        ("core/v1.PodSpec", r#"{"nodeName":1}"#, WrongType),
        ("core/v1.PodSpec", r#"{"priority":2147483648}"#, WrongType),
        ("core/v1.PodSpec", r#"{"priority":1.0}"#, WrongType),
        ("core/v1.PodSpec", r#"{"hostNetwork":"true"}"#, WrongType),
        ("core/v1.PodSpec", "{\"nodeName\":\"\u{1}\"}", Malformed),
        ("core/v1.PodSpec", r#"{"nodeName":"\ud800"}"#, Unsupported),
        ("core/v1.PodSpec", r#"{"priority":01}"#, Malformed),
        ("core/v1.Secret", r#"{"data":{"a":"*"}}"#, WrongType),
        ("core/v1.Secret", r#"{"data":{"a":"AAE"}}"#, WrongType),
        ("apiextensions/v1.JSONSchemaPropsOrBool", "null", WrongType),
        ("core/v1.Pod", "{} {}", Malformed),
        ("core/v1.Pod", "{,}", Malformed),
        ("core/v1.Pod", r#"{"spec":{},}"#, Malformed),
        ("core/v1.Pod", "", WrongType),
    ] {
        assert_eq!(protobuf(name, text), Err(why), "{name} {text}");
    }
}

#[test]
fn protobuf_that_go_would_bend_is_refused() {
    use NotTranscodable::*;
    for (name, bytes, why) in [
        ("core/v1.Namespace", &b"\x22\0"[..], UnknownField),
        ("core/v1.Namespace", b"\x0a\0\x0a\0", Twice),
        ("core/v1.Namespace", b"\x0d\0\0\0\0", WrongType),
        ("core/v1.Namespace", b"\x0b\x0c", WrongType),
        ("core/v1.Namespace", b"\x0a\x05\x0a", Malformed),
        ("core/v1.Namespace", b"\x0a", Malformed),
        ("core/v1.ConfigMap", b"\x12\x02\x0a\0\x12\x02\x0a\0", Twice),
        ("core/v1.ConfigMap", b"\x12\x02\x1a\0", UnknownField),
        // supplementalGroups, packed.
        ("core/v1.PodSecurityContext", b"\x22\x02\x01\x02", WrongType),
        (
            "meta/v1.Time",
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
            Unsupported,
        ),
        ("util/intstr.IntOrString", b"\x08\x02", WrongType),
        ("pkg/runtime.RawExtension", b"\x0a\x06k8s\0ab", Unsupported),
        ("meta/v1.FieldsV1", b"\x0a\x01{", Malformed),
        ("api/resource.Quantity", b"\x0a\x01x", WrongType),
    ] {
        assert_eq!(json(name, bytes), Err(why), "{name} {bytes:x?}");
    }
}

#[test]
fn fields_come_in_any_order() {
    // Two finalizers of a namespace; then entries of a map, unsorted and with
    // another field between them.
    let spec = json("core/v1.NamespaceSpec", b"\x0a\x01b\x0a\x01a").unwrap();
    assert_eq!(spec, r#"{"finalizers":["b","a"]}"#);
    let map = b"\x12\x06\x0a\x01b\x12\x01y\x0a\0\x12\x06\x12\x01x\x0a\x01a";
    let map = json("core/v1.ConfigMap", map).unwrap();
    assert_eq!(map, r#"{"metadata":{},"data":{"a":"x","b":"y"}}"#);
    // Go writes absent values like zero values.
    assert_eq!(
        json("core/v1.Pod", b"").unwrap(),
        r#"{"metadata":{},"spec":{"containers":null},"status":{}}"#
    );
}

#[test]
fn depth_is_bounded() {
    let wrap = |levels: usize| {
        let open = r#"{"not":"#.repeat(levels);
        format!("{open}{{}}{}", "}".repeat(levels))
    };
    let name = "apiextensions/v1.JSONSchemaProps";
    let deep = wrap(MAX_DEPTH - 1);
    assert_eq!(there_and_back(name, &deep), deep);
    assert_eq!(
        protobuf(name, &wrap(MAX_DEPTH)),
        Err(NotTranscodable::TooDeep)
    );
    assert_eq!(
        protobuf(name, &wrap(100_000)),
        Err(NotTranscodable::TooDeep)
    );
    let arrays = format!(r#"{{"default":{}"#, "[".repeat(100_000));
    assert_eq!(protobuf(name, &arrays), Err(NotTranscodable::TooDeep));
    // Field 27 is "not".
    let mut bomb = Vec::new();
    for _ in 0..2000 {
        let mut outer = vec![0xda, 0x01];
        prost::encoding::encode_varint(bomb.len() as u64, &mut outer);
        outer.extend_from_slice(&bomb);
        bomb = outer;
    }
    assert!(json(name, &bomb).is_err());
}

/// The most bytes of JSON per byte of protobuf. No byte and no empty message
/// has longer JSON.
const MAX_GROWTH: usize = 200;

#[test]
fn a_truncated_object_is_an_error() {
    let whole = protobuf("apps/v1.Deployment", OBJECT).unwrap();
    for end in 0..whole.len() {
        let part = whole.get(..end).unwrap();
        // A message truncated between two fields is a valid message.
        if let Ok(written) = json("apps/v1.Deployment", part) {
            assert!(serde_json::from_str::<serde_json::Value>(&written).is_ok());
        }
        assert!(written_within_bounds(part));
    }
    for end in 0..OBJECT.len() {
        assert!(protobuf("apps/v1.Deployment", OBJECT.get(..end).unwrap()).is_err());
    }
}

fn written_within_bounds(bytes: &[u8]) -> bool {
    let mut out = Vec::new();
    let written = to_json(message("apps/v1.Deployment"), bytes, &mut out);
    written.is_err() || out.len() <= MAX_GROWTH * (bytes.len() + 1)
}

proptest! {
    #[test]
    fn a_changed_byte_makes_no_panic(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = protobuf("apps/v1.Deployment", OBJECT).unwrap();
        *at.get_mut(&mut bytes) = byte;
        prop_assert!(written_within_bounds(&bytes));
        let mut text = OBJECT.as_bytes().to_vec();
        *at.get_mut(&mut text) = byte;
        let mut out = Vec::new();
        let _ = to_protobuf(message("apps/v1.Deployment"), &text, &mut out);
    }

    #[test]
    fn any_bytes_make_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for message in ["core/v1.PodSpec", "apiextensions/v1.JSONSchemaProps", "meta/v1.Status"] {
            let _ = json(message, &bytes);
        }
        prop_assert!(written_within_bounds(&bytes));
    }

    #[test]
    fn text_and_keys_go_there_and_back(
        data in proptest::collection::btree_map(any::<String>(), any::<String>(), 0..5),
    ) {
        let mut text = serde_json::json!({ "data": data }).to_string();
        if data.is_empty() {
            text = "{}".to_owned();
        }
        let written = there_and_back("core/v1.ConfigMap", &text);
        let read: serde_json::Value = serde_json::from_str(&written).unwrap();
        let expected = if data.is_empty() { serde_json::Value::Null } else { serde_json::json!(data) };
        prop_assert_eq!(&read["data"], &expected);
    }
}
