//! Kubernetes' library of versions: `semver('1.2.3').isLessThan(semver('2.0.0'))`.

use std::cmp::Ordering;

use cel::common::types::{BOOL_TYPE, STRING_TYPE, Type};
use cel::common::value::CowVal;

use super::opaque::{self, OpaqueType};
use super::values::{self, Arguments, failed};
use super::{Called, Declarations};

/// A semantic version. Its order does not look at what follows a `+`.
#[derive(Clone, Debug)]
struct Semver(semver::Version);

impl Ord for Semver {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp_precedence(&other.0)
    }
}

impl PartialOrd for Semver {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Semver {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Semver {}

impl OpaqueType for Semver {
    fn type_of() -> &'static Type {
        static TYPE: Type = Type::new_unspecified_type("kubernetes.Semver");
        &TYPE
    }
}

pub(super) fn declare(declarations: &mut Declarations) {
    let of = Semver::type_of();
    declarations.function("semver", &[&STRING_TYPE], semver);
    declarations.function("semver", &[&STRING_TYPE, &BOOL_TYPE], semver);
    declarations.function("isSemver", &[&STRING_TYPE], is_semver);
    declarations.function("isSemver", &[&STRING_TYPE, &BOOL_TYPE], is_semver);
    opaque::declare_order::<Semver>(declarations);
    declarations.method(of, "major", &[], major);
    declarations.method(of, "minor", &[], minor);
    declarations.method(of, "patch", &[], patch);
}

/// Reads the arguments of `semver` and `isSemver`. The second says whether `v1.2` is a
/// version, too.
fn read(args: &Arguments<'_, '_, '_>) -> Result<Result<Semver, String>, cel::ExecutionError> {
    let text = args.text(0)?;
    let text = match args.has(1) && args.bool(1)? {
        true => normalized(text),
        false => Ok(text.to_owned()),
    };
    Ok(text.and_then(|text| {
        let version = semver::Version::parse(&text);
        version.map(Semver).map_err(|error| error.to_string())
    }))
}

/// Returns the version without a `v` in front and without zeros before its numbers, and
/// with three numbers.
fn normalized(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
        return Err("a short version cannot have a pre-release or build".to_owned());
    }
    parts.resize(3, "0".to_owned());
    Ok(parts.join("."))
}

fn without_zeros(number: &str) -> String {
    if number.len() < 2 {
        return number.to_owned();
    }
    let rest = number.trim_start_matches('0');
    match rest.starts_with(|c: char| c.is_ascii_digit()) {
        true => rest.to_owned(),
        false => format!("0{rest}"),
    }
}

fn semver<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let version = read(&Arguments::of("semver", &args))?;
    opaque::value(version.map_err(|error| failed("semver", error))?)
}

fn is_semver<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    values::bool(read(&Arguments::of("isSemver", &args))?.is_ok())
}

fn major<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    number(Arguments::of("major", &args).opaque::<Semver>(0)?.0.major)
}

fn minor<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    number(Arguments::of("minor", &args).opaque::<Semver>(0)?.0.minor)
}

fn patch<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    number(Arguments::of("patch", &args).opaque::<Semver>(0)?.0.patch)
}

fn number<'b, 'v>(number: u64) -> Called<'b, 'v> {
    values::int(number.cast_signed())
}
