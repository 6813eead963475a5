use super::*;

#[test]
fn parts_are_those_of_go() {
    for (text, scheme, host, hostname, port, path, query) in [
        ("/", "", "", "", "", "/", ""),
        ("*", "", "", "", "", "*", ""),
        ("//a/b", "", "a", "a", "", "/b", ""),
        ("///a", "", "", "", "", "///a", ""),
        ("HTTP://A:80/b?c#d", "http", "A:80", "A", "80", "/b", "c"),
        (
            "http://[::1]:8080",
            "http",
            "[::1]:8080",
            "::1",
            "8080",
            "",
            "",
        ),
        (
            "http://[fe80::1%25eth0]/",
            "http",
            "[fe80::1%eth0]",
            "fe80::1%eth0",
            "",
            "/",
            "",
        ),
        ("http://u:p@w@h:/a b", "http", "h:", "h", "", "/a%20b", ""),
        (
            "mysql://a:1,b:2/c",
            "mysql",
            "a:1,b:2",
            "a:1,b",
            "2",
            "/c",
            "",
        ),
        ("mailto:a@b.c?d=e", "mailto", "", "", "", "", "d=e"),
        ("http://%C3%A4/%2f!", "http", "ä", "ä", "", "/%2f!", ""),
        (
            "http://a/[b]\"%7e",
            "http",
            "a",
            "a",
            "",
            "/%5Bb%5D%22~",
            "",
        ),
        ("http://a/???", "http", "a", "a", "", "/", "??"),
    ] {
        let absolute = GoUrl::parse_absolute(text);
        assert!(absolute.is_ok(), "{text}: {absolute:?}");
        let url = GoUrl::parse(text).unwrap();
        assert_eq!(url.scheme, scheme, "{text}");
        assert_eq!(url.host(), host, "{text}");
        assert_eq!(url.hostname(), hostname, "{text}");
        assert_eq!(url.port(), port, "{text}");
        assert_eq!(url.path, path, "{text}");
        assert_eq!(url.query(), query, "{text}");
    }
}

#[test]
fn urls_are_written_as_go_does() {
    for (text, written) in [
        ("HTTP://u%3A:p%40@h:1/a?b#c", "http://u%3A:p%40@h:1/a?b#c"),
        ("http:/a", "http:/a"),
        ("http:///a", "http:///a"),
        ("http:", "http:"),
        ("http://", "http:"),
        ("http://?", "http:?"),
        ("//@/a", "//@/a"),
        ("/a?", "/a?"),
        ("/a??", "/a??"),
        ("/a#", "/a"),
        ("/a# \"'", "/a#%20%22%27"),
        ("a:b?c#d", "a:b?c#d"),
        ("http://%C3%A4", "http://%C3%A4"),
    ] {
        assert_eq!(GoUrl::parse(text).unwrap().to_text(), written);
    }
}

#[test]
fn errors_are_those_of_go() {
    for (text, error) in [
        ("", "empty url"),
        ("a", "invalid URI for request"),
        ("#", "invalid URI for request"),
        ("a/b:c", "invalid URI for request"),
        (":a", "missing protocol scheme"),
        ("/\u{7f}", "net/url: invalid control character in URL"),
        ("/%", r#"invalid URL escape "%""#),
        ("/%2", r#"invalid URL escape "%2""#),
        ("/%zzz", r#"invalid URL escape "%zz""#),
        ("/%aé", r#"invalid URL escape "%a\xc3""#),
        ("http://%41", r#"invalid URL escape "%41""#),
        ("http://a b", r#"invalid character " " in host name"#),
        ("http://a:b", r#"invalid port ":b" after host"#),
        ("http://a:1:2", r#"invalid port ":1:2" after host"#),
        ("http://a[::1]", "invalid IP-literal"),
        ("http://[1.2.3.4]", "invalid IP-literal"),
        ("http://[::1", "missing ']' in host"),
        ("http://[::1]a", r#"invalid port "a" after host"#),
        (
            "http://[x]",
            r#"invalid host: ParseAddr("x"): unable to parse IP"#,
        ),
        ("http://[::1%25%41%0a]", r#"invalid URL escape "%0a""#),
        ("http://ä@b", "net/url: invalid userinfo"),
    ] {
        let expected = format!("parse {}: {error}", go_quote(text));
        assert_eq!(GoUrl::parse_absolute(text), Err(expected));
    }
    // Only a request has no colon in a relative path.
    let relative = GoUrl::parse("a:b/c").map(|url| url.scheme);
    assert_eq!(relative, Ok("a".to_owned()));
    assert!(GoUrl::parse("1:2").is_err());
    assert!(GoUrl::parse("/#%").is_err());
}
