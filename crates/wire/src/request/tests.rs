//! Tests with the cases of k8s.io/apiserver's own tests of request info, and
//! with paths that were tried against kube-apiserver.

use http::Method;
use proptest::prelude::*;

use super::*;
use crate::api::Query;

fn parse(method: &str, url: &str) -> Result<RequestInfo, RequestInfoError> {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    RequestInfo::parse(&method, path, &Query::parse(query))
}

/// Returns `verb prefix group/version/resource namespace name subresource`,
/// with `-` for an empty value.
fn summary(info: &RequestInfo) -> String {
    let dash = |s: &str| {
        if s.is_empty() {
            "-".to_owned()
        } else {
            s.to_owned()
        }
    };
    if !info.is_resource_request {
        return format!("{} nonresource", info.verb);
    }
    [
        info.verb.as_str(),
        info.api_prefix,
        &info.gvr.group,
        &info.gvr.version,
        &info.gvr.resource,
        &info.namespace,
        &info.name,
        &info.subresource,
    ]
    .map(dash)
    .join(" ")
}

#[test]
fn paths_name_resources() {
    for (method, url, expected) in [
        (
            "GET",
            "/api/v1/namespaces",
            "list api - v1 namespaces - - -",
        ),
        (
            "GET",
            "/api/v1/namespaces/other",
            "get api - v1 namespaces other other -",
        ),
        (
            "GET",
            "/api/v1/namespaces/other/pods",
            "list api - v1 pods other - -",
        ),
        (
            "GET",
            "/api/v1/namespaces/other/pods/foo",
            "get api - v1 pods other foo -",
        ),
        (
            "HEAD",
            "/api/v1/namespaces/other/pods/foo",
            "get api - v1 pods other foo -",
        ),
        ("HEAD", "/api/v1/pods", "list api - v1 pods - - -"),
        ("GET", "/api/v1/pods/", "list api - v1 pods - - -"),
        ("GET", "/api/v1//pods", "get api - v1 - - pods -"),
        (
            "GET",
            "/api/v1/namespaces//pods",
            "list api - v1 pods - - -",
        ),
        // verbs in the path
        (
            "GET",
            "/api/v1/proxy/namespaces/other/pods/foo",
            "proxy api - v1 pods other foo -",
        ),
        (
            "GET",
            "/api/v1/proxy/namespaces/other/pods/foo/a/b",
            "proxy api - v1 pods other foo -",
        ),
        ("GET", "/api/v1/watch/pods", "watch api - v1 pods - - -"),
        (
            "GET",
            "/api/v1/watch/namespaces/other/pods",
            "watch api - v1 pods other - -",
        ),
        (
            "GET",
            "/api/v1/watch/namespaces/other/pods/x",
            "watch api - v1 pods other x -",
        ),
        // verbs of the query
        (
            "GET",
            "/api/v1/pods?watch=true",
            "watch api - v1 pods - - -",
        ),
        ("GET", "/api/v1/pods?watch", "watch api - v1 pods - - -"),
        (
            "GET",
            "/api/v1/pods?watch=False",
            "list api - v1 pods - - -",
        ),
        (
            "GET",
            "/api/v1/namespaces/other/pods?watch=0",
            "list api - v1 pods other - -",
        ),
        (
            "GET",
            "/api/v1/namespaces/other/pods/x?watch=1",
            "get api - v1 pods other x -",
        ),
        // subresources
        (
            "GET",
            "/api/v1/namespaces/other/pods/foo/status",
            "get api - v1 pods other foo status",
        ),
        (
            "GET",
            "/api/v1/namespaces/other/pods/foo/proxy/sub",
            "get api - v1 pods other foo proxy",
        ),
        (
            "PUT",
            "/api/v1/namespaces/other/finalize",
            "update api - v1 namespaces other other finalize",
        ),
        (
            "PUT",
            "/api/v1/namespaces/other/status",
            "update api - v1 namespaces other other status",
        ),
        // verbs of the method
        (
            "PATCH",
            "/api/v1/namespaces/other/pods/foo",
            "patch api - v1 pods other foo -",
        ),
        (
            "DELETE",
            "/api/v1/namespaces/other/pods/foo",
            "delete api - v1 pods other foo -",
        ),
        (
            "POST",
            "/api/v1/namespaces/other/pods",
            "create api - v1 pods other - -",
        ),
        (
            "OPTIONS",
            "/api/v1/namespaces/other/pods",
            "- api - v1 pods other - -",
        ),
        (
            "DELETE",
            "/api/v1/nodes",
            "deletecollection api - v1 nodes - - -",
        ),
        (
            "DELETE",
            "/api/v1/namespaces",
            "deletecollection api - v1 namespaces - - -",
        ),
        (
            "DELETE",
            "/apis/x/v1/namespaces/other/pods",
            "deletecollection apis x v1 pods other - -",
        ),
        (
            "POST",
            "/apis/x/v1beta3/namespaces/other/pods",
            "create apis x v1beta3 pods other - -",
        ),
        (
            "GET",
            "/apis/batch/v1/job/foo/scale",
            "get apis batch v1 job - foo scale",
        ),
        // not about resources
        ("GET", "/", "get nonresource"),
        ("GET", "", "get nonresource"),
        ("POST", "/api", "post nonresource"),
        ("GET", "/api/v1/", "get nonresource"),
        ("GET", "/apis/group/version/", "get nonresource"),
        ("GET", "/badprefix/version/resource", "get nonresource"),
        ("GET", "/apis/version/resource", "get nonresource"),
        ("OPTIONS", "/healthz", "options nonresource"),
    ] {
        assert_eq!(
            summary(&parse(method, url).unwrap()),
            expected,
            "{method} {url}"
        );
    }
    let info = parse("GET", "/api/v1/proxy/namespaces/other/pods/foo/a/b").unwrap();
    assert_eq!(info.parts, ["pods", "foo", "a", "b"]);
}

#[test]
fn selectors_are_recorded_for_collections() {
    for (method, url, verb, name, field, label) in [
        (
            "GET",
            "?fieldSelector=metadata.name=n",
            "list",
            "n",
            "metadata.name=n",
            "",
        ),
        (
            "GET",
            "?watch=true&fieldSelector=metadata.name%3Dn",
            "watch",
            "n",
            "metadata.name=n",
            "",
        ),
        (
            "GET",
            "?fieldSelector=metadata.name=..",
            "list",
            "",
            "metadata.name=..",
            "",
        ),
        (
            "GET",
            "?fieldSelector=a=b&labelSelector=c=d",
            "list",
            "",
            "a=b",
            "c=d",
        ),
        (
            "GET",
            "?fieldSelector=metadata.name=n,foo",
            "list",
            "",
            "metadata.name=n,foo",
            "",
        ),
        (
            "GET",
            "?fieldSelector=metadata.name=n,foo&watch=true",
            "watch",
            "",
            "metadata.name=n,foo",
            "",
        ),
        (
            "GET",
            "?fieldSelector=metadata.name=n&limit=x",
            "list",
            "",
            "metadata.name=n",
            "",
        ),
        (
            "DELETE",
            "?fieldSelector=a=b&labelSelector=c=d",
            "deletecollection",
            "",
            "a=b",
            "c=d",
        ),
        (
            "GET",
            "?fieldSelector=metadata.name=a&fieldSelector=metadata.name=b",
            "list",
            "a",
            "metadata.name=a",
            "",
        ),
        (
            "GET",
            "/name?fieldSelector=a=b&labelSelector=c=d",
            "get",
            "name",
            "",
            "",
        ),
    ] {
        let info = parse(method, &format!("/apis/group/version/resource{url}")).unwrap();
        assert_eq!(
            (
                info.verb.as_str(),
                info.name.as_str(),
                info.field_selector.as_str(),
                info.label_selector.as_str()
            ),
            (verb, name, field, label),
            "{url}"
        );
    }
    let legacy = parse("GET", "/apis/g/v/watch/r?fieldSelector=metadata.name=foo").unwrap();
    assert_eq!(
        (legacy.name.as_str(), legacy.field_selector.as_str()),
        ("", "")
    );
}

#[test]
fn classes_and_labels() {
    for (method, url, long, mutating, scope, verb) in [
        ("GET", "/api/v1/pods", false, false, "cluster", "LIST"),
        (
            "HEAD",
            "/api/v1/namespaces/a/pods",
            false,
            false,
            "namespace",
            "LIST",
        ),
        (
            "GET",
            "/api/v1/namespaces/a/pods/b",
            false,
            false,
            "resource",
            "GET",
        ),
        (
            "GET",
            "/api/v1/pods?fieldSelector=metadata.name=b",
            false,
            false,
            "resource",
            "GET",
        ),
        (
            "GET",
            "/api/v1/pods?watch=1",
            true,
            false,
            "cluster",
            "WATCH",
        ),
        ("GET", "/api/v1/watch/pods", true, false, "cluster", "WATCH"),
        (
            "GET",
            "/api/v1/namespaces/a/pods/b/log",
            true,
            false,
            "resource",
            "CONNECT",
        ),
        (
            "POST",
            "/api/v1/namespaces/a/pods/b/exec",
            true,
            true,
            "resource",
            "CONNECT",
        ),
        (
            "POST",
            "/api/v1/namespaces/a/pods",
            false,
            true,
            "resource",
            "POST",
        ),
        (
            "DELETE",
            "/api/v1/namespaces/a/pods",
            false,
            true,
            "namespace",
            "DELETE",
        ),
        (
            "PATCH",
            "/api/v1/namespaces/a/pods/b",
            false,
            true,
            "resource",
            "APPLY",
        ),
        ("TRACE", "/api/v1/pods", false, true, "cluster", "other"),
        ("GET", "/healthz", false, false, "", "GET"),
        ("GET", "/debug/pprof/heap", true, false, "", "GET"),
        ("POST", "/healthz", false, true, "", "POST"),
    ] {
        let info = parse(method, url).unwrap();
        assert_eq!(
            (
                info.is_long_running(),
                info.is_mutating(),
                info.scope().as_str(),
                info.metric_verb(Some(b"application/apply-patch+yaml"))
                    .as_str()
            ),
            (long, mutating, scope, verb),
            "{method} {url}"
        );
    }
}

#[test]
fn connections_are_handed_over_where_streams_are_not_written_here() {
    let pods = "/api/v1/namespaces/n/pods";
    for (url, takes) in [
        (format!("{pods}/p/exec"), true),
        (format!("{pods}/p/attach"), true),
        (format!("{pods}/p/portforward"), true),
        (format!("{pods}/p/proxy/x"), true),
        ("/api/v1/nodes/n/proxy/".to_owned(), true),
        (format!("{pods}/p/log"), false),
        (format!("{pods}/p"), false),
        (format!("{pods}?watch=1"), false),
        ("/exec".to_owned(), false),
    ] {
        let info = parse("GET", &url).unwrap();
        assert_eq!(info.takes_upgrades(), takes, "{url}");
    }
}

#[test]
fn errors() {
    assert_eq!(parse("GET", "/api/v1/watch"), Err(RequestInfoError::NoKind));
    assert_eq!(
        parse("GET", "/apis/g/v/proxy/"),
        Err(RequestInfoError::NoKind)
    );
    assert_eq!(
        parse("GET", "/api/v1/pods%zz"),
        Err(RequestInfoError::BadEscape)
    );
    assert!(!parse("GET", "/api/v1/pods%2fx").unwrap().is_canonical());
}

proptest! {
    #[test]
    fn any_path_is_read_without_panic(path in "(/|api|apis|v1|watch|proxy|namespaces|%2[0-9a-z]|.){0,12}", query in ".{0,20}") {
        for method in [Method::GET, Method::DELETE, Method::POST] {
            if let Ok(info) = RequestInfo::parse(&method, &path, &Query::parse(&query)) {
                prop_assert_eq!(info.is_resource_request, !info.gvr.resource.is_empty() || !info.parts.is_empty());
                let _ = (info.attributes(), info.scope(), info.metric_verb(None));
            }
        }
    }
}
