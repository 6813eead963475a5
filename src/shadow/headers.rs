//! Compares the headers of two answers.

use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, RETRY_AFTER, VARY, WARNING,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue};

use super::difference::Difference;

/// The headers with a meaning for clients. Others name the request or the moment.
const COMPARED: [HeaderName; 7] = [
    CONTENT_TYPE,
    CONTENT_ENCODING,
    VARY,
    WARNING,
    CACHE_CONTROL,
    RETRY_AFTER,
    X_CONTENT_TYPE_OPTIONS,
];

/// Returns the first header whose values differ.
pub fn compare(upstream: &HeaderMap, apifront: &HeaderMap) -> Option<Difference> {
    COMPARED.iter().find_map(|name| {
        let values = |headers: &HeaderMap| {
            let values = headers.get_all(name).iter().map(HeaderValue::as_bytes);
            values.collect::<Vec<_>>().join(&b'\n')
        };
        let (theirs, ours) = (values(upstream), values(apifront));
        let has = |headers: &HeaderMap| headers.contains_key(name);
        (theirs != ours || has(upstream) != has(apifront)).then(|| {
            let side = |value: &[u8], has: bool| has.then(|| value.to_vec());
            let (theirs, ours) = (side(&theirs, has(upstream)), side(&ours, has(apifront)));
            let path = format!("header {name}");
            Difference::of_bytes(&path, theirs.as_deref(), ours.as_deref())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::difference::Side;
    use super::*;

    #[test]
    fn values_count_and_names_that_mean_nothing_do_not() {
        let headers = |pairs: &[(HeaderName, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.append(name.clone(), HeaderValue::from_static(value));
            }
            headers
        };
        let one = headers(&[(WARNING, "a"), (WARNING, "b"), (http::header::DATE, "x")]);
        let other = headers(&[(WARNING, "a"), (WARNING, "b"), (http::header::DATE, "y")]);
        assert_eq!(compare(&one, &other), None);
        let fewer = headers(&[(WARNING, "a")]);
        let found = compare(&one, &fewer).unwrap();
        assert_eq!(found.path, "header warning");
        let none = compare(&headers(&[]), &headers(&[(VARY, "")])).unwrap();
        assert_eq!(none.path, "header vary");
        assert_eq!(none.upstream, Side::Nothing);
    }
}
