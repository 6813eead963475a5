//! Paths as Go's `net/url` and kube-apiserver's router see them.

use percent_encoding::percent_decode_str;

use crate::api::query::has_whole_escapes;

/// Returns the path with its escapes decoded, or `None` if an escape is
/// malformed. Bytes that are not UTF-8 become U+FFFD; such a path is not
/// canonical.
pub(crate) fn decode(path: &str) -> Option<String> {
    if !path.contains('%') {
        return Some(path.to_owned());
    }
    if !has_whole_escapes(path.as_bytes()) {
        return None;
    }
    Some(percent_decode_str(path).decode_utf8_lossy().into_owned())
}

/// Returns the segments between the slashes, including empty ones inside the
/// path.
pub(crate) fn split(path: &str) -> Vec<&str> {
    match path.trim_matches('/') {
        "" => Vec::new(),
        trimmed => trimmed.split('/').collect(),
    }
}

/// Tells whether the path, undecoded, is absolute and plain: no escapes, no
/// empty or dot segments, only visible ASCII, no slash at the end.
pub(crate) fn is_canonical(path: &str) -> bool {
    let Some(rest) = path.strip_prefix('/') else {
        return false;
    };
    rest.is_empty()
        || rest.bytes().all(|b| b.is_ascii_graphic() && b != b'%')
            && rest.split('/').all(|s| !matches!(s, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_decode_or_fail() {
        assert_eq!(decode("/a%2Fb+c").as_deref(), Some("/a/b+c"));
        assert_eq!(decode("/%C3%A9").as_deref(), Some("/é"));
        for bad in ["/%", "/%2", "/%zz", "/%%41", "/%é"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_plain_paths_are_canonical() {
        for good in [
            "/",
            "/api/v1/pods",
            "/apis/apps/v1/namespaces/a.b/deployments",
        ] {
            assert!(is_canonical(good), "{good}");
        }
        for odd in [
            "", "a", "//", "/a/", "/a//b", "/a/./b", "/..", "/a%62", "/é", "/a b",
        ] {
            assert!(!is_canonical(odd), "{odd}");
        }
    }
}
