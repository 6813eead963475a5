//! Expressions have the values that CEL gives them.

use super::*;

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
