use http::HeaderMap;
use kubernetes_wire::request::ConnectionOptions;

use super::*;
use crate::authn::RequestHeaderNames;
use crate::authn::testing::headers;

fn strip(headers: &mut HeaderMap, configured: Option<&RequestHeaderNames>) {
    let connection = ConnectionOptions::read(headers, http::Version::HTTP_11);
    for (name, value) in changes(headers, &connection, configured) {
        headers.remove(&name);
        if let Some(value) = value {
            headers.insert(name, value);
        }
    }
}

/// Returns the names and values, sorted.
fn list(headers: &HeaderMap) -> Vec<String> {
    let mut list: Vec<_> = headers
        .iter()
        .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
        .collect();
    list.sort();
    list
}

#[test]
fn nothing_that_claims_an_identity_travels_on() {
    let custom = RequestHeaderNames {
        username: vec!["X-Acme-User".to_owned()],
        extra_prefix: vec!["X-Acme-Extra-".to_owned()],
        ..RequestHeaderNames::default()
    };
    let mut all = headers(&[
        ("Accept", "a"),
        ("Authorization", "Bearer t"),
        ("X-REMOTE-USER", "root"),
        ("x-remote-user", "root"),
        ("X-Remote-Uid", "0"),
        ("X-Remote-Group", "system:masters"),
        ("X-Remote-Group", "a"),
        ("x-Remote-Extra-k%zz", "v"),
        ("X_Remote_User", "root"),
        ("Impersonate-User", "root"),
        ("impersonate-group", "system:masters"),
        ("Impersonate-Extra-K", "v"),
        ("Impersonate-Uid", "0"),
        ("X-Acme-User", "root"),
        ("X-Apifront-View", "true"),
        ("X-Acme-Extra-k", "v"),
        ("X-Remote-Addr", "kept"),
    ]);
    strip(&mut all, Some(&custom));
    assert_eq!(list(&all), ["accept: a", "x-remote-addr: kept"]);
}

/// Comparing each header with each name in `Connection` once took hours for this
/// head.
#[test]
fn connection_may_name_as_much_as_a_head_holds() {
    let mut all = HeaderMap::new();
    for n in 0..16_000 {
        let name = http::HeaderName::try_from(format!("h{n}")).unwrap();
        all.append(name, http::HeaderValue::from_static("v"));
    }
    let named = format!("{}H1, h2", "b,".repeat(2_000_000));
    all.append("connection", named.try_into().unwrap());
    strip(&mut all, None);
    assert_eq!(all.len(), 15_998);
    assert!(!all.contains_key("h1") && !all.contains_key("h2"));
}

#[test]
fn hop_by_hop_headers_end_here() {
    for (sent, kept) in [
        (
            vec![
                ("Connection", "keep-alive, X-Remote-User"),
                ("Connection", " x-other ,,"),
                ("Keep-Alive", "timeout=5"),
                ("X-Other", "1"),
                ("X-Kept", "1"),
                ("TE", "trailers"),
                ("Proxy-Authorization", "x"),
                ("Upgrade", "h2c"),
            ],
            vec!["x-kept: 1"],
        ),
        (
            vec![
                ("Connection", "Upgrade, X-Other"),
                ("Upgrade", "SPDY/3.1"),
                ("X-Other", "1"),
                ("X-Stream-Protocol-Version", "v4.channel.k8s.io"),
            ],
            vec!["x-stream-protocol-version: v4.channel.k8s.io"],
        ),
        (vec![("Connection", "Upgrade")], vec![]),
        (
            vec![
                ("Connection", "Upgrade, HTTP2-Settings"),
                ("Upgrade", "h2c"),
                ("HTTP2-Settings", "AAMAAABkAARAAAAAAAIAAAAA"),
            ],
            vec![],
        ),
        (vec![("HTTP2-Settings", "AAMAAABkAARAAAAAAAIAAAAA")], vec![]),
        // If these headers were removed, the rest of a body would be read as a
        // request.
        (
            vec![
                ("Connection", "content-length, transfer-encoding, host"),
                ("Content-Length", "5"),
                ("Host", "h"),
                ("Transfer-Encoding", "chunked"),
            ],
            vec!["content-length: 5", "host: h", "transfer-encoding: chunked"],
        ),
        (
            vec![
                ("Connection", "upgrade"),
                ("Upgrade", "websocket"),
                (
                    "Sec-WebSocket-Protocol",
                    "base64url.bearer.authorization.k8s.io.YQ, v5.channel.k8s.io",
                ),
                ("Sec-WebSocket-Protocol", "v4.channel.k8s.io"),
            ],
            vec!["sec-websocket-protocol: v5.channel.k8s.io, v4.channel.k8s.io"],
        ),
    ] {
        let mut headers = headers(&sent);
        strip(&mut headers, None);
        assert_eq!(list(&headers), kept);
    }
}

fn user(name: &str, groups: &[&str]) -> UserInfo {
    UserInfo {
        name: name.to_owned(),
        groups: groups.iter().map(|g| g.to_string()).collect(),
        ..UserInfo::default()
    }
}

fn caller(user: &UserInfo) -> Caller<'_> {
    Caller {
        user,
        token: None,
        impersonation: None,
    }
}

#[test]
fn a_user_in_headers() {
    let mut jane = user("jane", &["a", "", "system:authenticated"]);
    jane.uid = "7".to_owned();
    jane.extra.insert(
        "acme.io/é%".to_owned(),
        vec!["v".to_owned(), "w".to_owned()],
    );
    for (mode, expected) in [
        (
            Mode::RequestHeader,
            vec![
                "x-remote-extra-acme.io%2f%c3%a9%25: v",
                "x-remote-extra-acme.io%2f%c3%a9%25: w",
                "x-remote-group: a",
                "x-remote-group: system:authenticated",
                "x-remote-uid: 7",
                "x-remote-user: jane",
            ],
        ),
        (
            Mode::Impersonate,
            vec![
                "impersonate-extra-acme.io%2f%c3%a9%25: v",
                "impersonate-extra-acme.io%2f%c3%a9%25: w",
                "impersonate-group: a",
                "impersonate-uid: 7",
                "impersonate-user: jane",
            ],
        ),
        (Mode::Personal, vec![]),
    ] {
        let mut headers = HeaderMap::new();
        apply(mode, caller(&jane), &mut headers).unwrap();
        assert_eq!(list(&headers), expected);
    }
}

#[test]
fn impersonation_asks_for_no_more_groups_than_needed() {
    let account = "system:serviceaccount:ns:sa";
    for (name, groups, asked) in [
        ("jane", vec!["system:authenticated"], vec![]),
        ("system:anonymous", vec!["system:unauthenticated"], vec![]),
        (
            "jane",
            vec!["a", "system:unauthenticated"],
            vec!["a", "system:unauthenticated"],
        ),
        (
            account,
            vec![
                "system:serviceaccounts",
                "system:serviceaccounts:ns",
                "system:authenticated",
            ],
            vec!["system:serviceaccounts", "system:serviceaccounts:ns"],
        ),
        // Without any group, the receiver would add the groups of their kinds.
        (
            "system:node:n1",
            vec!["system:authenticated"],
            vec!["system:authenticated"],
        ),
        (
            account,
            vec!["system:authenticated"],
            vec!["system:authenticated"],
        ),
    ] {
        let mut headers = HeaderMap::new();
        let user = user(name, &groups);
        apply(Mode::Impersonate, caller(&user), &mut headers).unwrap();
        let sent: Vec<_> = headers.get_all("impersonate-group").iter().collect();
        assert_eq!(sent, asked, "{name} {groups:?}");
    }
}

#[test]
fn own_credentials_travel_with_own_impersonation() {
    let (jane, bob) = (user("jane", &["system:authenticated"]), user("bob", &[]));
    let impersonation = Impersonation {
        wanted: bob.clone(),
    };
    let asked = Caller {
        user: &bob,
        token: Some("t"),
        impersonation: Some(&impersonation),
    };
    let mut headers = HeaderMap::new();
    apply(Mode::PassThrough, asked, &mut headers).unwrap();
    assert_eq!(
        list(&headers),
        ["authorization: Bearer t", "impersonate-user: bob"]
    );
    let mut headers = HeaderMap::new();
    apply(Mode::Personal, asked, &mut headers).unwrap();
    assert_eq!(list(&headers), ["impersonate-user: bob"]);
    let refused = apply(Mode::PassThrough, caller(&jane), &mut HeaderMap::new());
    assert_eq!(refused.unwrap_err().code, 401);
}

#[test]
fn what_would_be_read_differently_is_not_sent() {
    let with_extra = |value: &str| {
        let mut jane = user("jane", &[]);
        jane.extra.insert("k".to_owned(), vec![value.to_owned()]);
        jane
    };
    for odd in [
        user("", &[]),
        user(" root", &[]),
        user("root\t", &[]),
        user("a\nb", &[]),
        user("a\0", &[]),
        user("jane", &["system:masters "]),
        user("jane", &["a\r\nX-Remote-Group: system:masters"]),
        with_extra("v\u{7f}"),
    ] {
        for mode in [Mode::RequestHeader, Mode::Impersonate] {
            let result = apply(mode, caller(&odd), &mut HeaderMap::new());
            assert_eq!(result.unwrap_err().code, 500, "{odd:?}");
        }
    }
    let jane = user("jane", &[]);
    let token = Caller {
        token: Some("a\nb"),
        ..caller(&jane)
    };
    assert!(apply(Mode::PassThrough, token, &mut HeaderMap::new()).is_err());
}
