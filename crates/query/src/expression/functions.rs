//! The functions that expressions may call: CEL's standard library, and the libraries of
//! Kubernetes.

use std::sync::LazyLock;

use cel::{Env, extensions};

use super::internal;
use super::libraries::{self, Declarations};

/// The functions that the `cel` crate declares and that are written as calls, some of
/// which expressions are rewritten not to call. Macros (`has`, `all`, …) are no functions.
const DECLARED_BEFORE: [&str; 49] = [
    "bool",
    "bytes",
    "charAt",
    "contains",
    "distinct",
    "double",
    "duration",
    "dyn",
    "endsWith",
    "flatten",
    "format",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
    "hasValue",
    "indexOf",
    "int",
    "join",
    "lastIndexOf",
    "lists.range",
    "lowerAscii",
    "optional.none",
    "optional.of",
    "optional.ofNonZeroValue",
    "or",
    "orValue",
    "replace",
    "reverse",
    "size",
    "slice",
    "sort",
    "split",
    "startsWith",
    "string",
    "strings.quote",
    "substring",
    "timestamp",
    "trim",
    "type",
    "uint",
    "upperAscii",
    "value",
];

/// The functions that are written as operators, or that macros call.
const OPERATORS: [&str; 22] = [
    "!_",
    "-_",
    "@in",
    "@not_strictly_false",
    "@sortByAssociatedKeys",
    "_!=_",
    "_%_",
    "_&&_",
    "_*_",
    "_+_",
    "_-_",
    "_/_",
    "_<=_",
    "_<_",
    "_==_",
    "_>=_",
    "_>_",
    "_?._",
    "_?_:_",
    "_[?_]",
    "_[_]",
    "_||_",
];

/// The environment of expressions, and the names of the functions that libraries declare.
pub(super) static DECLARED: LazyLock<Declarations> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    // None of them is declared twice.
    let extended = env.add_extension(extensions::strings);
    debug_assert!(extended.is_ok());
    let extended = env.add_extension(extensions::lists);
    debug_assert!(extended.is_ok());
    let mut declarations = Declarations::new(env);
    internal::declare(&mut declarations);
    libraries::declare(&mut declarations);
    declarations
});

/// Tells whether an expression may call a function of this name.
pub(super) fn is_known(name: &str) -> bool {
    DECLARED_BEFORE.contains(&name) || OPERATORS.contains(&name) || DECLARED.has(name)
}

/// Loops. With another number of arguments they are unknown functions.
const LOOPS: [&str; 9] = [
    "all",
    "exists",
    "existsOne",
    "exists_one",
    "filter",
    "map",
    "transformList",
    "transformMap",
    "transformMapEntry",
];

/// Says what to write in place of an unknown function.
pub(super) fn hint(unknown: &str) -> String {
    if LOOPS.contains(&unknown) {
        return "loops have one variable here: list.all(x, …), .exists, .exists_one, .filter, .map"
            .to_owned();
    }
    let beginning = |name: &str| name.chars().take(3).collect::<String>().to_lowercase();
    let wanted = beginning(unknown);
    let is_alike = |name: &&str| {
        let last = name.rsplit('.').next().unwrap_or_default();
        !name.starts_with('@') && [*name, last].map(beginning).contains(&wanted)
    };
    let known = DECLARED_BEFORE.iter().copied().chain(DECLARED.names());
    let mut alike: Vec<&str> = known.filter(is_alike).collect();
    alike.sort_unstable();
    alike.dedup();
    match alike.as_slice() {
        [] => "this function is not available".to_owned(),
        alike => format!(
            "this function is not available; alike are {}",
            alike.join(", ")
        ),
    }
}
