//! Kubernetes' library of URLs: `url('https://example.com:80/').getHost()`.

use std::collections::HashMap;
use std::sync::Arc;

use cel::common::types::{STRING_TYPE, Type};
use cel::common::value::CowVal;
use kubernetes_wire::api::Query;

use super::super::meter;
use super::opaque::{self, OpaqueType};
use super::values::{self, Arguments, failed};
use super::{Called, Declarations};
use crate::go_url::GoUrl;

/// The most pairs of a query. If it has more, Go finds none.
const MAX_PAIRS: usize = 10_000;

/// A URL, which is not copied with the values that hold it.
#[derive(Clone, Debug)]
struct Url(Arc<Parsed>);

#[derive(Debug)]
struct Parsed {
    url: GoUrl,
    /// By which URLs are equal.
    text: String,
}

impl PartialEq for Url {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text
    }
}

impl OpaqueType for Url {
    fn type_of() -> &'static Type {
        static TYPE: Type = Type::new_unspecified_type("kubernetes.URL");
        &TYPE
    }
}

pub(super) fn declare(declarations: &mut Declarations) {
    let of = Url::type_of();
    declarations.function("url", &[&STRING_TYPE], url);
    declarations.function("isURL", &[&STRING_TYPE], is_url);
    declarations.method(of, "getScheme", &[], get_scheme);
    declarations.method(of, "getHost", &[], get_host);
    declarations.method(of, "getHostname", &[], get_hostname);
    declarations.method(of, "getPort", &[], get_port);
    declarations.method(of, "getEscapedPath", &[], get_escaped_path);
    declarations.method(of, "getQuery", &[], get_query);
}

fn url<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let text = Arguments::of("url", &args).parsed_text(0)?;
    // An escape has three octets, and both the parts and the whole are kept.
    values::hold_texts(text.len().saturating_mul(6), 1)?;
    // As in kube-apiserver, it is absolute and may have a fragment.
    let url = GoUrl::parse_absolute(text).and_then(|_| GoUrl::parse(text));
    let url = url.map_err(|error| {
        let error = format!("URL parse error during conversion from string: {error}");
        failed("url", error)
    })?;
    let text = url.to_text();
    opaque::value(Url(Arc::new(Parsed { url, text })))
}

fn is_url<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let text = Arguments::of("isURL", &args).parsed_text(0)?;
    values::bool(GoUrl::is_absolute(text))
}

/// Makes a text of a part of the first argument.
fn part<'b, 'v>(
    function: &'static str,
    args: &[CowVal<'b, 'v>],
    part: impl FnOnce(&GoUrl) -> String,
) -> Called<'b, 'v> {
    let parsed = &Arguments::of(function, args).opaque::<Url>(0)?.0;
    values::make(parsed.text.len())?;
    values::text(part(&parsed.url))
}

fn get_scheme<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    part("getScheme", &args, |url| url.scheme.clone())
}

fn get_host<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    part("getHost", &args, GoUrl::host)
}

fn get_hostname<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    part("getHostname", &args, GoUrl::hostname)
}

fn get_port<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    part("getPort", &args, GoUrl::port)
}

fn get_escaped_path<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    part("getEscapedPath", &args, |url| url.path.clone())
}

/// Returns the values of each key, in their order.
fn get_query<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let url = &Arguments::of("getQuery", &args).opaque::<Url>(0)?.0.url;
    let raw = url.query();
    meter::read(raw.len())?;
    let pairs = raw.split('&').count();
    if pairs > MAX_PAIRS {
        return values::map_held(HashMap::new());
    }
    // A key, a list and its value for each.
    values::hold_texts(raw.len(), pairs.saturating_mul(3))?;
    let query = Query::parse(raw);
    let mut lists: HashMap<&str, Vec<&str>> = HashMap::new();
    for (key, value) in query.pairs() {
        lists.entry(key).or_default().push(value);
    }
    values::map_held(lists)
}
