mod limits;
mod values;

use std::time::{Duration, Instant};

use kubernetes_wire::representation::{Encoding, Envelope, Form};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use super::*;
use crate::candidate::{Candidate, Unreadable};

#[derive(Debug)]
pub(crate) struct Object(pub(crate) Value);

impl Candidate for Object {
    fn namespace(&self) -> &str {
        self.0["metadata"]["namespace"].as_str().unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.0["metadata"]["name"].as_str().unwrap_or_default()
    }

    fn uid(&self) -> &str {
        self.0["metadata"]["uid"].as_str().unwrap_or_default()
    }

    fn project(&self, wanted: &Projection, out: &mut Vec<u8>) -> Result<(), Unreadable> {
        let envelope = Envelope::new(Form::Map, "v1", "Thing", "ThingList");
        let json = self.0.to_string();
        let projected = envelope.project(json.as_bytes(), Encoding::Json, wanted, out);
        projected.map_err(|_| Unreadable)
    }
}

fn parse(source: &str) -> Result<Expression, InvalidExpression> {
    let source = source.to_owned();
    let stack = std::thread::Builder::new().stack_size(32 << 20);
    stack
        .spawn(move || Expression::parse(&source))
        .unwrap()
        .join()
        .unwrap()
}

fn evaluate(source: &str, object: Value) -> Result<Value, Valueless> {
    let expression = parse(source).unwrap_or_else(|error| panic!("{source}: {error}"));
    let object = Object(object);
    let mut scope = Scope::new();
    scope.enter(&object, expression.projection()).unwrap();
    expression.evaluate(&mut scope).map(Cell::into_json)
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Thing",
        "metadata": {
            "name": "web-1",
            "namespace": "shop",
            "labels": { "app": "web", "app.kubernetes.io/name": "web" },
            "creationTimestamp": "2026-01-02T03:04:05Z",
        },
        "spec": {
            "nodeName": "n1",
            "containers": [
                { "name": "a", "image": "registry/a:1", "resources": {} },
                { "name": "b", "image": "registry/b:2" },
            ],
            "priority": 7,
        },
        "status": {
            "phase": "Running",
            "containerStatuses": [
                { "name": "a", "restartCount": 9, "ready": true },
                { "name": "b", "restartCount": 0, "ready": false },
            ],
        },
    })
}

/// Whether an expression reads the whole object or its projection, its value is the same.
#[test]
fn a_projection_changes_no_value() {
    let maps = json!({
        "metadata": { "name": "a", "labels": { "foo": "x", "bar": "y" } },
        "spec": { "list": [{ "foo": 1 }, { "bar": 2 }, 3, [4]], "text": "t", "none": null },
    });
    for source in [
        "object.metadata.labels.exists(k, k.foo == 'x')",
        "object.metadata.labels.all(k, k.other)",
        "object.metadata.labels.map(k, k)",
        "object.metadata.labels.map(k, 1)",
        "object.spec.list.map(e, 1)",
        "object.spec.list.map(e, has(e.foo))",
        "object.spec.list.exists(e, e.foo == 1)",
        "object.spec.list.exists(e, e.foo == 2)",
        "object.spec.list[0].foo",
        "object.spec.list[3][0]",
        "object.spec.list[1]['bar']",
        "object.spec.list.foo",
        "object.spec.text.foo",
        "object.spec.none.foo",
        "object.spec.text[0]",
        "object.spec.absent",
        "object.spec.list.size() + object.metadata.labels.size()",
        "object.metadata.labels == {'foo': 'x', 'bar': 'y'}",
        "object.spec.list.filter(e, has(e.bar))[0]",
        "object.spec.list.filter(e, type(e) == int)",
        "(true ? object.spec : object.metadata).text",
        "[object.spec.text, object.metadata.name]",
        "{'a': object.spec.text}",
        "object.?metadata.labels[?'foo']",
        "object.?metadata.?labels.foo.orValue('none')",
        "object == object",
        "object.spec.list.exists(e, object.spec.list.exists(f, e == f && has(e.foo)))",
        "object.spec.map(k, k)",
    ] {
        let expression = parse(source).unwrap_or_else(|error| panic!("{source}: {error}"));
        let object = Object(maps.clone());
        let mut scope = Scope::new();
        scope.enter(&object, expression.projection()).unwrap();
        let projected = expression.evaluate(&mut scope);
        scope.enter(&object, &Projection::whole()).unwrap();
        let whole = expression.evaluate(&mut scope);
        // The order of a map's keys is not determined.
        let sorted = |value: Result<Cell, Valueless>| match value.map(Cell::into_json) {
            Ok(Value::Array(mut items)) => {
                items.sort_by_key(ToString::to_string);
                Ok(Value::Array(items))
            }
            other => other,
        };
        assert_eq!(sorted(projected), sorted(whole), "{source}");
    }
}

#[test]
fn plain_paths_are_read_as_cel_reads_them() {
    let object = json!({
        "a": { "b": [1], "c": null, "d": 18_446_744_073_709_551_615u64, "e": 1.5, "f\"g": 1 },
    });
    for path in [
        "a.b", "a.c", "a.d", "a.e", "a.x", "a.c.x", "a.b.x", "a.e.x", "x", "a",
    ] {
        let plain = evaluate(&format!("object.{path}"), object.clone());
        let cel = evaluate(&format!("[object.{path}][0]"), object.clone());
        match (&plain, &cel) {
            (Err(Valueless::NoSuchKey(_)), Err(Valueless::NoSuchKey(_)))
            | (Err(Valueless::Failed(_)), Err(Valueless::Failed(_))) => {}
            _ => assert_eq!(plain, cel, "{path}"),
        }
    }
}

#[test]
fn failures() {
    let key = |name: &str| Err(Valueless::NoSuchKey(name.to_owned()));
    assert_eq!(evaluate("object.spec.x", pod()), key("x"));
    assert_eq!(evaluate("object.spec.x == 1", pod()), key("x"));
    for source in [
        "1 / 0",
        "object.spec.nodeName + 1",
        "object.spec.containers[9]",
        "int('x')",
        "'a'.matches('(' + '')",
        "duration('1s' + ')')",
        "ip('1.2.3')",
        "cidr('::1')",
        "cidr('10.0.0.0/8').containsIP('10.1.2')",
        "ip('::1').getHost()",
        "ip('::1')",
        "url('http://a:b')",
        "string(url('/'))",
        "format.named('email').value()",
    ] {
        let failed = evaluate(source, pod());
        assert!(
            matches!(failed, Err(Valueless::Failed(_))),
            "{source}: {failed:?}"
        );
    }
    for (source, reason) in [
        ("object.spec.nodeName + 1", "'_+_'"),
        ("semver('1.0.0')", "a kubernetes.Semver is no result"),
        ("[quantity('1')]", "a kubernetes.Quantity is no result"),
        ("'%s'.format([ip('::1')])", "a value of type net.IP"),
    ] {
        let Err(Valueless::Failed(text)) = evaluate(source, pod()) else {
            panic!("{source}");
        };
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    for (source, name) in [
        ("authorizer.path('/')", "path"),
        ("[1].transformList(i, v, v)", "transformList"),
        ("base64.encode(b'a')", "encode"),
        ("math.greatest(1, 2)", "greatest"),
    ] {
        match parse(source) {
            Err(InvalidExpression::UnknownFunction(found)) => assert_eq!(found, name),
            Err(InvalidExpression::UnknownVariable(found)) => {
                assert!(source.starts_with(&found), "{source}: {found}");
            }
            other => panic!("{source}: {:?}", other.err()),
        }
    }
    for (source, hint) in [
        (
            "object.labels.all(k, v, v == '')",
            "loops have one variable here: ",
        ),
        ("isUrl('a')", "; alike are isURL, isUnspecified"),
        ("set.intersect([], [])", "; alike are int, sets.intersects"),
        ("xyz()", "this function is not available"),
    ] {
        let error = parse(source).err().unwrap().to_string();
        assert!(error.contains(hint), "{source}: {error}");
    }
    for source in [
        "x",
        "self.spec",
        "request.user",
        "@result",
        "[1].exists(x, y)",
    ] {
        assert!(parse(source).is_err(), "{source}");
    }
    for source in [
        "'a'.matches('(')",
        "ip(object.spec.podIP) == '10.0.0.1'",
        "1 != quantity(object.spec.x)",
        "matches('a', '[')",
        "duration('1 s')",
        "duration('')",
        "timestamp('2026-01-02')",
    ] {
        let refused = parse(source).err();
        assert!(
            matches!(refused, Some(InvalidExpression::Argument(_))),
            "{source}: {refused:?}"
        );
    }
    assert_eq!(parse(" ").err(), Some(InvalidExpression::Empty));
    assert_eq!(
        parse(&"1".repeat(5000)).err(),
        Some(InvalidExpression::TooLong)
    );
    assert!(matches!(
        parse("a.b{c: 1}").err(),
        Some(InvalidExpression::Message(_))
    ));
    let loops = "[1].all(a, [1].all(b, [1].all(c, [1].all(d, [1].all(e, true)))))";
    assert_eq!(parse(loops).err(), Some(InvalidExpression::TooManyLoops));
}
