//! The `Impersonate-*` headers, in which a caller names the user to impersonate.
//! Whether the caller may is decided in `authz/impersonation.rs`.

use http::{HeaderMap, HeaderName, HeaderValue};
use kubernetes_wire::api::query::go_quote;
use kubernetes_wire::api::{Status, UserInfo};

use super::extra_key;

const IMPERSONATE_PREFIX: &str = "impersonate-";
pub const IMPERSONATE_USER: &str = "impersonate-user";
pub const IMPERSONATE_UID: &str = "impersonate-uid";
pub const IMPERSONATE_GROUP: &str = "impersonate-group";
pub const IMPERSONATE_EXTRA_PREFIX: &str = "impersonate-extra-";

/// The user to impersonate, as the headers name it. No implicit group has been
/// added, and nothing has been authorized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impersonation {
    pub wanted: UserInfo,
}

impl Impersonation {
    /// Returns the user to impersonate. `None` if there are no such headers. If
    /// there are some without a user name, returns a 400 with the text of the API
    /// server's `processImpersonationHeaders`.
    pub fn from_headers(headers: &HeaderMap) -> Result<Option<Self>, Status> {
        // This single pass is enough for nearly all requests, which have no such
        // header.
        let any = |name: &HeaderName| name.as_str().starts_with(IMPERSONATE_PREFIX);
        if !headers.keys().any(any) {
            return Ok(None);
        }
        let mut wanted = UserInfo {
            name: first(headers, IMPERSONATE_USER)?.to_owned(),
            uid: first(headers, IMPERSONATE_UID)?.to_owned(),
            ..UserInfo::default()
        };
        for group in headers.get_all(IMPERSONATE_GROUP) {
            wanted.groups.push(text(group)?.to_owned());
        }
        for header in headers.keys() {
            let Some(key) = header.as_str().strip_prefix(IMPERSONATE_EXTRA_PREFIX) else {
                continue;
            };
            let values = wanted.extra.entry(extra_key::decode(key)).or_default();
            for value in headers.get_all(header) {
                values.push(text(value)?.to_owned());
            }
        }
        if !wanted.name.is_empty() {
            return Ok(Some(Self { wanted }));
        }
        if wanted == UserInfo::default() {
            return Ok(None);
        }
        Err(Status::bad_request(format!(
            "requested {} without impersonating a user name",
            go_syntax(&wanted)
        )))
    }
}

fn first<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, Status> {
    headers.get(name).map_or(Ok(""), text)
}

fn text(value: &HeaderValue) -> Result<&str, Status> {
    std::str::from_utf8(value.as_bytes())
        .map_err(|_| Status::bad_request("an Impersonate header is not UTF-8"))
}

/// Writes a user as Go's `%#v` prints a `*user.DefaultInfo`.
fn go_syntax(user: &UserInfo) -> String {
    let strings = |values: &[String]| {
        let quoted: Vec<_> = values.iter().map(|v| go_quote(v)).collect();
        format!("[]string{{{}}}", quoted.join(", "))
    };
    let groups = if user.groups.is_empty() {
        "[]string(nil)".to_owned()
    } else {
        strings(&user.groups)
    };
    let extra = if user.extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        let entries: Vec<_> = user
            .extra
            .iter()
            .map(|(key, values)| format!("{}:{}", go_quote(key), strings(values)))
            .collect();
        format!("map[string][]string{{{}}}", entries.join(", "))
    };
    format!(
        "&user.DefaultInfo{{Name:{}, UID:{}, Groups:{groups}, Extra:{extra}}}",
        go_quote(&user.name),
        go_quote(&user.uid)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Option<Impersonation>, Status> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(
                http::HeaderName::from_bytes(name.as_bytes()).unwrap(),
                value.parse().unwrap(),
            );
        }
        Impersonation::from_headers(&headers)
    }

    #[test]
    fn every_header_counts_whatever_its_case() {
        let wanted = read(&[
            ("IMPERSONATE-USER", "jane"),
            ("impersonate-user", "ignored"),
            ("Impersonate-Uid", "7"),
            ("Impersonate-Group", "a"),
            ("iMPERSONATE-gROUP", "b"),
            ("Impersonate-Extra-Acme.io%2FScope", "x"),
            ("impersonate-extra-acme.io%2fscope", "y"),
            ("Impersonate-Extra-odd%zz", ""),
        ])
        .unwrap()
        .unwrap()
        .wanted;
        assert_eq!((wanted.name.as_str(), wanted.uid.as_str()), ("jane", "7"));
        assert_eq!(wanted.groups, ["a", "b"]);
        assert_eq!(wanted.extra["acme.io/scope"], ["x", "y"]);
        assert_eq!(wanted.extra["odd%zz"], [""]);
        assert_eq!(read(&[("Accept", "x")]).unwrap(), None);
        assert_eq!(read(&[("Impersonate-User", "")]).unwrap(), None);
    }

    #[test]
    fn nothing_without_a_user_name() {
        for (header, value, printed) in [
            (
                "Impersonate-Group",
                "a\"b",
                r#"Groups:[]string{"a\"b"}, Extra:map[string][]string(nil)"#,
            ),
            (
                "Impersonate-Extra-K",
                "v",
                r#"Groups:[]string(nil), Extra:map[string][]string{"k":[]string{"v"}}"#,
            ),
        ] {
            let status = read(&[(header, value)]).unwrap_err();
            assert_eq!((status.code, status.reason.as_str()), (400, "BadRequest"));
            assert_eq!(
                status.message,
                format!(
                    "requested &user.DefaultInfo{{Name:\"\", UID:\"\", {printed}}} \
                     without impersonating a user name"
                )
            );
        }
        assert_eq!(read(&[("Impersonate-Uid", "7")]).unwrap_err().code, 400);
    }
}
