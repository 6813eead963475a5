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

#[test]
fn values() {
    for (source, expected) in [
        ("object.spec.nodeName", json!("n1")),
        ("object.spec.priority", json!(7)),
        ("object.spec.priority + 1", json!(8)),
        ("object.spec.priority > 6.5", json!(true)),
        ("object['spec']['nodeName']", json!("n1")),
        (
            "object.metadata.labels['app.kubernetes.io/name']",
            json!("web"),
        ),
        ("'app' in object.metadata.labels", json!(true)),
        (
            "object.metadata.labels.exists(k, k.startsWith('app.'))",
            json!(true),
        ),
        (
            "object.metadata.labels.all(k, object.metadata.labels[k] == 'web')",
            json!(true),
        ),
        ("size(object.spec.containers)", json!(2)),
        ("object.spec.containers[1].image", json!("registry/b:2")),
        (
            "object.spec.containers.map(c, c.image)",
            json!(["registry/a:1", "registry/b:2"]),
        ),
        (
            "object.spec.containers.filter(c, has(c.resources)).map(c, c.name)",
            json!(["a"]),
        ),
        (
            "object.status.containerStatuses.exists(c, c.restartCount > 5)",
            json!(true),
        ),
        (
            "object.status.containerStatuses.all(c, c.ready)",
            json!(false),
        ),
        (
            "object.status.containerStatuses.exists_one(c, c.ready)",
            json!(true),
        ),
        (
            "object.status.containerStatuses.map(c, c.ready, c.name)",
            json!(["a"]),
        ),
        (
            "object.spec.containers.exists(c, object.status.containerStatuses.exists(s, s.name == c.name && s.ready))",
            json!(true),
        ),
        ("has(object.spec.hostNetwork)", json!(false)),
        (
            "has(object.spec.nodeName) && object.spec.nodeName == 'n1'",
            json!(true),
        ),
        (
            "has(object.status.reason) ? object.status.reason : object.status.phase",
            json!("Running"),
        ),
        ("object.?spec.?hostNetwork.orValue(false)", json!(false)),
        ("object.?spec.?nodeName.orValue('')", json!("n1")),
        ("object.spec.containers[0].image.split(':')[1]", json!("1")),
        (
            "object.spec.containers[0].image.matches('^registry/[a-z]:[0-9]$')",
            json!(true),
        ),
        ("matches(object.spec.nodeName, '[2-9]')", json!(false)),
        (
            "timestamp(object.metadata.creationTimestamp) < timestamp('2026-02-01T00:00:00Z')",
            json!(true),
        ),
        (
            "timestamp(object.metadata.creationTimestamp).getFullYear()",
            json!(2026),
        ),
        ("'a' + 'b' + object.spec.nodeName", json!("abn1")),
        ("[1] + [2]", json!([1, 2])),
        ("string(1234567.5)", json!("1.2345675e+06")),
        ("string(123456.0)", json!("123456")),
        ("string(0.00001)", json!("1e-05")),
        ("string(1.0 / 0.0)", json!("+Inf")),
        ("type(object.spec.priority) == int", json!(true)),
        ("object.kind + '/' + object.apiVersion", json!("Thing/v1")),
        ("[1, 2].map(object, object * 2)", json!([2, 4])),
        ("'a-b-c'.replace('-', '.', 1)", json!("a.b-c")),
        ("['a', 'b'].join('/')", json!("a/b")),
        ("'%s has %d'.format(['a', 3])", json!("a has 3")),
        (
            "quantity('1.5Gi').isGreaterThan(quantity('1500M'))",
            json!(true),
        ),
        (
            "quantity('1').add(quantity('500m')).compareTo(quantity('1.5'))",
            json!(0),
        ),
        ("quantity('2Gi').sub(1).asInteger()", json!(2_147_483_647)),
        ("quantity('1.5Gi')", json!(1_610_612_736)),
        ("quantity('250m')", json!(0.25)),
        ("object.?spec.?nodeName", json!("n1")),
        ("object.?spec.?absent", json!(null)),
        ("semver('v1.30', true).minor()", json!(30)),
        ("semver('1.2.3').isLessThan(semver('1.10.0'))", json!(true)),
        ("sets.contains([1, 2, 3], [3.0])", json!(true)),
        ("[3, 1, 2].max() + [1, 2].sum()", json!(6)),
        ("[3, 1, 2].sortBy(e, -e)", json!([3, 2, 1])),
        (
            "['b', 'a'].sort()[0] + ['a', 'b', 'a'].distinct().join('')",
            json!("aab"),
        ),
        (
            "['a', 'b'].lastIndexOf('b') + 'abcab'.lastIndexOf('ab')",
            json!(4),
        ),
        ("'registry/app:v1.2'.find('v[0-9.]+$')", json!("v1.2")),
        ("'a1b22'.findAll('\\\\d+')", json!(["1", "22"])),
        ("['a', 'b'].includes('b')", json!(true)),
        ("['x.y'].map(ip, ip.contains('.'))", json!([true])),
        (
            "ip('::1').isLoopback() && ip('10.0.0.1').family() == 4",
            json!(true),
        ),
        (
            "isIP('010.0.0.1') || isIP('::ffff:1.2.3.4') || isIP('fe80::1%a')",
            json!(false),
        ),
        ("ip.isCanonical('2001:DB8::1')", json!(false)),
        (
            "string(ip('2001:DB8:0:0::1')) + string(cidr('::/0'))",
            json!("2001:db8::1::/0"),
        ),
        ("cidr('10.0.0.0/8').containsIP('10.1.2.3')", json!(true)),
        (
            "cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16'))",
            json!(true),
        ),
        (
            "string(cidr('10.1.2.3/12').masked()) + string(cidr('::1/8').ip())",
            json!("10.0.0.0/12::1"),
        ),
        (
            "isCIDR('10.0.0.0/08') || isCIDR('10.0.0.0/+8')",
            json!(false),
        ),
        (
            "type(ip('::')) == net.IP && type(cidr('::/0')) == .net.CIDR",
            json!(true),
        ),
        ("[{'IP': 1}].map(net, net.IP)", json!([1])),
        (
            "['::1'].map(ip, ip(ip).isLoopback() && .ip.isCanonical(ip))",
            json!([true]),
        ),
        (
            "url('https://u@[::1]:80/a b?c#d').getHost()",
            json!("[::1]:80"),
        ),
        (
            "url('/a b').getEscapedPath() + url('HTTP:').getScheme()",
            json!("/a%20bhttp"),
        ),
        (
            "url('/?a=1&b=%zz&a=2&c;d').getQuery()",
            json!({ "a": ["1", "2"] }),
        ),
        (
            "isURL('a') || isURL('/%') || isURL('http://a:b')",
            json!(false),
        ),
        ("url('HTTP://a') == url('http://a')", json!(true)),
        (
            "['/x'].all(url, url.startsWith('/') && isURL(url))",
            json!(true),
        ),
        (
            "format.dns1123Label().validate('a.b').value()",
            json!(["must not contain dots"]),
        ),
        (
            "format.named('uri').value().validate('a').orValue([])",
            json!(["parse \"a\": invalid URI for request"]),
        ),
        (
            "format.dns1123LabelPrefix().validate('a-').hasValue()",
            json!(false),
        ),
        ("format.named('email').hasValue()", json!(false)),
        ("['%s!'].map(format, format.format(['a']))", json!(["a!"])),
        ("1.0 / 3.0 > 0.3 || 1 / 0 > 1", json!(true)),
        (
            "object.spec.containers.map(c, [c.name].map(n, n + '!'))",
            json!([["a!"], ["b!"]]),
        ),
    ] {
        assert_eq!(evaluate(source, pod()), Ok(expected), "{source}");
    }
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

/// Returns the CPU time of this thread, since others may use the processors, too.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("a time since the thread began")
}

/// What the interpreter cannot finish cheaply is stopped.
#[test]
fn dear_expressions_are_stopped() {
    let items = |n: usize| format!("[{}]", vec!["0"; n].join(","));
    let list = items(150);
    let long = "x".repeat(900);
    for source in [
        // Loops in loops.
        format!("{list}.all(a, {list}.all(b, {list}.all(c, true)))"),
        format!("{list}.all(a, {list}.exists(b, false) || {list}.all(c, {list}.all(d, true)))"),
        format!("{list}.map(a, {list}.map(b, {list}.map(c, 'a'))).size() > 0"),
        // An error that another operand hides does not hide the cost.
        format!("{list}.all(a, {list}.all(b, {list}.all(c, true))) || true"),
        // Texts that grow.
        format!(
            "['{long}'].map(a, {0}).map(b, {0}).map(c, {0}).size() > 0",
            "a+a+a+a+a+a+a+a+a+a+a+a"
        )
        .replace("(b, a+a+a+a+a+a+a+a+a+a+a+a", "(b, b+b+b+b+b+b+b+b+b+b+b+b")
        .replace("(c, a+a+a+a+a+a+a+a+a+a+a+a", "(c, c+c+c+c+c+c+c+c+c+c+c+c"),
        format!("{list}.all(a, {list}.all(b, '{long}'.matches('(x+x+)+y') || true))"),
        // Each search reads all of the text, and finds its first character.
        format!("{list}.all(a, {list}.all(b, '{long}'.findAll('.*y|x').size() > 0))"),
        format!("{list}.all(a, {list}.all(b, quantity('1e1000') < quantity('1e-1000') || true))"),
    ] {
        let began = cpu_time();
        let expression = parse(&source).unwrap_or_else(|error| panic!("{source}: {error}"));
        let object = Object(json!({}));
        let mut scope = Scope::new();
        scope.enter(&object, expression.projection()).unwrap();
        let value = expression.evaluate(&mut scope);
        let is_stopped = matches!(
            value,
            Err(Valueless::TooExpensive(
                TooExpensive::ForOneObject | TooExpensive::Memory
            ))
        );
        assert!(is_stopped, "{source}: {value:?}");
        assert!(cpu_time() - began < Duration::from_secs(20), "{source}");
    }
}

/// Hostile texts are parsed within the stack and soon, or refused.
#[test]
fn hostile_texts_are_refused_or_parsed() {
    let deep = |open: &str, middle: &str, close: &str, n: usize| {
        format!("{}{middle}{}", open.repeat(n), close.repeat(n))
    };
    for n in [10, 47, 200, 1300] {
        for source in [
            deep("(", "1", ")", n),
            deep("[", "1", "]", n),
            deep("{1:", "1", "}", n),
            deep("-", "1", "", n),
            deep("!", "true", "", n),
            deep("size(", "1", ")", n),
            deep("1+", "1", "", n),
            deep("1?1:", "1", "", n),
            deep("true||", "true", "", n),
            deep("object[", "1", "]", n),
            format!("object{}", ".a".repeat(n)),
            format!("object{}", "[0]".repeat(n)),
            format!("object{}", "[0".repeat(n)),
            "(((((((((".repeat(n / 9),
            "1 in ".repeat(n),
            "a?b".repeat(n),
            "'".repeat(n),
            "\u{1F600}".repeat(n),
        ] {
            if source.len() > MAX_BYTES {
                continue;
            }
            let began = cpu_time();
            if let Ok(expression) = parse(&source) {
                let object = Object(json!({}));
                let mut scope = Scope::new();
                scope.enter(&object, expression.projection()).unwrap();
                let _ = expression.evaluate(&mut scope);
            }
            let took = cpu_time() - began;
            assert!(took < Duration::from_secs(5), "{took:?}: {source}");
        }
    }
}

/// An expression makes and copies values of at most some megabytes.
#[test]
fn expressions_that_fill_the_memory_are_stopped() {
    let data = (0..2000).map(|n| (format!("key-{n:08}"), json!("v".repeat(30))));
    let object = json!({
        "data": data.collect::<serde_json::Map<_, _>>(),
        "text": "x".repeat(300_000),
        "list": vec![0; 3000],
    });
    let many = |part: &str, times| vec![part; times].join(",");
    for source in [
        format!("[{}]", many("object", 400)),
        format!("[{}]", many("object.text.split('')", 150)),
        format!("[{}]", many("object.text + object.text", 120)),
        format!("[{}]", many("object.text.replace('x', 'y')", 120)),
        format!("[{}]", many("object.text.findAll('x')", 150)),
        format!("[{}]", many("url('/' + object.text)", 150)),
        "[object.text.substring(0, 9000).replace('x', 'a&')].map(t, object.list.map(i, url('/?' + t).getQuery()))"
            .to_owned(),
        "object.list.map(i, format.uri().validate(object.text))".to_owned(),
        format!(
            "{{{}}}",
            (0..300)
                .map(|n| format!("{n}:object"))
                .collect::<Vec<_>>()
                .join(",")
        ),
        vec!["[object, object]"; 40].join("+"),
        "object.text.findAll('.*y|x')".to_owned(),
        "object.text.split('').distinct()".to_owned(),
        "object.data.map(k, object)".to_owned(),
        "object.data.map(k, {'o': object})".to_owned(),
        "object.data.filter(k, true).map(k, object.data.filter(l, true))".to_owned(),
        "[object.text].map(t, t.replace('', t))".to_owned(),
        "lists.range(1000000).map(i, lists.range(1000000))".to_owned(),
        "object.list.map(i, object.list)".to_owned(),
        "object.list.map(i, object.list.sort())".to_owned(),
        "object.list.map(i, i + lists.range(3000).distinct().size())".to_owned(),
        "sets.contains(lists.range(100000), lists.range(100000))".to_owned(),
        "'%s%s'.format([object.text, object.text]).split('')".to_owned(),
    ] {
        let started = Instant::now();
        let value = evaluate(&format!("({source}).size() > 0"), object.clone());
        let is_stopped = matches!(
            value,
            Err(Valueless::TooExpensive(
                TooExpensive::Memory | TooExpensive::ForOneObject
            ))
        );
        let begin: String = source.chars().take(60).collect();
        assert!(
            is_stopped,
            "{begin}: {value:?} after {:?}",
            started.elapsed()
        );
    }
    // Large objects as such are no reason.
    for source in [
        "object.list.map(i, i).size() == 3000",
        "object.list.filter(i, i == 0).size() == 3000",
        "object.text.split('x', 3).size() == 3",
        "object.text.indexOf('y') == -1",
        "object.list.sum() == 0",
    ] {
        assert_eq!(
            evaluate(source, object.clone()),
            Ok(json!(true)),
            "{source}"
        );
    }
}
