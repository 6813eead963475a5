//! Kubernetes' library of formats: `format.dns1123Label().validate('a.b').value()`.

use std::borrow::Cow;

use cel::common::types::{STRING_TYPE, Type};
use cel::common::value::CowVal;
use kubernetes_wire::api::dns_name::{self, LABEL_RULE, MAX_LABEL, MAX_SUBDOMAIN, SUBDOMAIN_RULE};
use kubernetes_wire::api::formats;
use kubernetes_wire::api::label_name;

use super::opaque::{self, OpaqueType};
use super::values::{self, Arguments};
use super::{Called, Declarations, Function};
use crate::go_url::GoUrl;

/// A format of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Byte,
    Date,
    Datetime,
    Dns1035Label,
    Dns1035LabelPrefix,
    Dns1123Label,
    Dns1123LabelPrefix,
    Dns1123Subdomain,
    Dns1123SubdomainPrefix,
    LabelValue,
    QualifiedName,
    Uri,
    Uuid,
}

impl OpaqueType for Format {
    fn type_of() -> &'static Type {
        static TYPE: Type = Type::new_unspecified_type("kubernetes.NamedFormat");
        &TYPE
    }
}

/// The functions that return each format.
static FORMATS: [(&str, Format, Function); 13] = [
    ("format.byte", Format::Byte, |_| opaque::value(Format::Byte)),
    ("format.date", Format::Date, |_| opaque::value(Format::Date)),
    ("format.datetime", Format::Datetime, |_| {
        opaque::value(Format::Datetime)
    }),
    ("format.dns1035Label", Format::Dns1035Label, |_| {
        opaque::value(Format::Dns1035Label)
    }),
    (
        "format.dns1035LabelPrefix",
        Format::Dns1035LabelPrefix,
        |_| opaque::value(Format::Dns1035LabelPrefix),
    ),
    ("format.dns1123Label", Format::Dns1123Label, |_| {
        opaque::value(Format::Dns1123Label)
    }),
    (
        "format.dns1123LabelPrefix",
        Format::Dns1123LabelPrefix,
        |_| opaque::value(Format::Dns1123LabelPrefix),
    ),
    ("format.dns1123Subdomain", Format::Dns1123Subdomain, |_| {
        opaque::value(Format::Dns1123Subdomain)
    }),
    (
        "format.dns1123SubdomainPrefix",
        Format::Dns1123SubdomainPrefix,
        |_| opaque::value(Format::Dns1123SubdomainPrefix),
    ),
    ("format.labelValue", Format::LabelValue, |_| {
        opaque::value(Format::LabelValue)
    }),
    ("format.qualifiedName", Format::QualifiedName, |_| {
        opaque::value(Format::QualifiedName)
    }),
    ("format.uri", Format::Uri, |_| opaque::value(Format::Uri)),
    ("format.uuid", Format::Uuid, |_| opaque::value(Format::Uuid)),
];

pub(super) fn declare(declarations: &mut Declarations) {
    let of = Format::type_of();
    declarations.method(of, "validate", &[&STRING_TYPE], validate);
    declarations.function("format.named", &[&STRING_TYPE], named);
    for (name, _, function) in FORMATS {
        declarations.function(name, &[], function);
    }
}

impl Format {
    fn named(name: &str) -> Option<Self> {
        let mut formats = FORMATS.iter();
        let found = formats.find(|(of, ..)| of.strip_prefix("format.") == Some(name));
        found.map(|(_, format, _)| *format)
    }

    /// Returns what is wrong with a text, in the words of apimachinery.
    fn errors(self, text: &str) -> Vec<String> {
        let unless = |is_valid, error: &str| match is_valid {
            true => Vec::new(),
            false => vec![error.to_owned()],
        };
        match self {
            Self::Byte => unless(formats::is_base64(text), "invalid base64"),
            Self::Date => unless(formats::is_date(text), "invalid date"),
            Self::Datetime => unless(formats::is_datetime(text), "invalid datetime"),
            Self::Dns1035Label => dns_1035_label_errors(text),
            Self::Dns1035LabelPrefix => dns_1035_label_errors(&completed(text)),
            Self::Dns1123Label => label_errors(text),
            Self::Dns1123LabelPrefix => label_errors(&completed(text)),
            Self::Dns1123Subdomain => subdomain_errors(text),
            Self::Dns1123SubdomainPrefix => subdomain_errors(&completed(text)),
            Self::LabelValue => label_name::value_errors(text),
            Self::QualifiedName => label_name::key_errors(text),
            Self::Uri => GoUrl::parse_absolute(text).err().into_iter().collect(),
            Self::Uuid => unless(formats::is_uuid(text), "does not match the UUID format"),
        }
    }
}

const DNS_1035_RULE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters \
    or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. \
    'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

fn label_errors(text: &str) -> Vec<String> {
    let is_label = dns_name::is_label_of_any_length(text);
    let rule = match dns_name::is_subdomain_of_any_length(text) {
        true => "must not contain dots",
        false => LABEL_RULE,
    };
    name_errors(text, MAX_LABEL, is_label, rule)
}

fn dns_1035_label_errors(text: &str) -> Vec<String> {
    let begins = text.starts_with(|c: char| c.is_ascii_lowercase());
    let is_label = begins && dns_name::is_label_of_any_length(text);
    name_errors(text, MAX_LABEL, is_label, DNS_1035_RULE)
}

fn subdomain_errors(text: &str) -> Vec<String> {
    let is_subdomain = dns_name::is_subdomain_of_any_length(text);
    name_errors(text, MAX_SUBDOMAIN, is_subdomain, SUBDOMAIN_RULE)
}

fn name_errors(text: &str, most: usize, is_valid: bool, rule: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > most {
        errors.push(format!("must be no more than {most} characters"));
    }
    if !is_valid {
        errors.push(rule.to_owned());
    }
    errors
}

/// Returns a name with this prefix. If the prefix ends with a dash, its last two octets
/// become a letter, as in apimachinery.
fn completed(text: &str) -> Cow<'_, str> {
    let before = text.strip_suffix('-').unwrap_or_default();
    let Some(kept) = before.len().checked_sub(1) else {
        return text.into();
    };
    // What is not ASCII is in no name.
    let characters = text.bytes().map(|octet| match octet.is_ascii() {
        true => char::from(octet),
        false => '?',
    });
    characters.take(kept).chain(['a']).collect()
}

fn named<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let name = Arguments::of("format.named", &args).text(0)?;
    let format = Format::named(name).map(opaque::value).transpose()?;
    values::optional(format)
}

fn validate<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let args = Arguments::of("validate", &args);
    let errors = args.opaque::<Format>(0)?.errors(args.parsed_text(1)?);
    let errors: Vec<&str> = errors.iter().map(String::as_str).collect();
    values::optional(match errors.is_empty() {
        true => None,
        false => Some(values::texts(&errors)?),
    })
}
