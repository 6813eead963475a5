//! Reads an expression within bounds.

use cel::IdedExpr;
use cel::common::ast::{EntryExpr, Expr, LiteralValue, operators};

use super::functions::DECLARED;
use super::{MAX_BYTES, functions, literals};

/// The deepest nesting of an expression. Evaluation takes some kilobytes of stack for
/// each level.
const MAX_DEPTH: usize = 48;

/// The most loops in loops (`all`, `exists`, `exists_one`, `filter`, `map`).
const MAX_LOOPS: usize = 4;

/// The name of the object in expressions.
pub(super) const OBJECT: &str = "object";

/// The same name where a loop has a variable called like it.
pub(super) const OUTER_OBJECT: &str = ".object";

/// Names of types, with which `type(x)` can be compared. Libraries may have more.
const TYPES: [&str; 12] = [
    "bool",
    "bytes",
    "double",
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "type",
    "uint",
];

/// The reason why an expression is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidExpression {
    #[error("must not be empty")]
    Empty,
    #[error("must have at most {MAX_BYTES} bytes")]
    TooLong,
    #[error("is nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
    #[error("has more than {MAX_LOOPS} loops in each other")]
    TooManyLoops,
    #[error("is no CEL expression: {0}")]
    Syntax(String),
    #[error("undeclared reference to {0:?}: the only variable is {OBJECT:?}")]
    UnknownVariable(String),
    #[error("undeclared reference to {0:?}: {hint}", hint = functions::hint(.0))]
    UnknownFunction(String),
    #[error("has a value that {0}")]
    Argument(String),
    #[error("constructs the message {0:?}, which is not available")]
    Message(String),
}

pub(super) fn parse(source: &str) -> Result<IdedExpr, InvalidExpression> {
    if source.trim().is_empty() {
        return Err(InvalidExpression::Empty);
    }
    if source.len() > MAX_BYTES {
        return Err(InvalidExpression::TooLong);
    }
    let parser = DECLARED.env().parser();
    let depth = u16::try_from(MAX_DEPTH).unwrap_or(u16::MAX);
    let parser = parser.max_recursion_depth(depth).error_recovery_limit(4);
    let expression = parser.parse(source).map_err(|errors| {
        let first = errors.errors.first();
        let text = first.map_or_else(|| errors.to_string(), |error| error.msg.clone());
        InvalidExpression::Syntax(text)
    })?;
    let mut check = Check::default();
    check.expression(&expression)?;
    Ok(expression)
}

/// Checks that an expression is within bounds, and uses only what there is.
#[derive(Default)]
struct Check {
    depth: usize,
    loops: usize,
    /// The variables of the loops around.
    variables: Vec<String>,
}

type Checked = Result<(), InvalidExpression>;

impl Check {
    fn expression(&mut self, expression: &IdedExpr) -> Checked {
        self.depth = self.depth.saturating_add(1);
        if self.depth > MAX_DEPTH {
            return Err(InvalidExpression::TooDeep);
        }
        self.parts(&expression.expr)?;
        self.depth = self.depth.saturating_sub(1);
        Ok(())
    }

    fn parts(&mut self, expression: &Expr) -> Checked {
        match expression {
            Expr::Unspecified => Err(InvalidExpression::Syntax("nothing".to_owned())),
            Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => {
                if let Some(name) = qualified(expression)
                    && is_type(&name)
                {
                    return Ok(());
                }
                self.expression(&select.operand)
            }
            Expr::List(list) => list.elements.iter().try_for_each(|e| self.expression(e)),
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => {
                    self.expression(&entry.key)?;
                    self.expression(&entry.value)
                }
                EntryExpr::StructField(field) => {
                    Err(InvalidExpression::Message(field.field.clone()))
                }
            }),
            Expr::Struct(message) => Err(InvalidExpression::Message(message.type_name.clone())),
            Expr::Call(call) => {
                let target = call.target.as_deref();
                let name = call.func_name.trim_start_matches('.');
                // As in cel-go, `ip.isCanonical(…)` is a function, even beside a variable
                // `ip`, and `ip.contains(…)` is not.
                let is_function = |namespace: &String| {
                    let namespace = namespace.trim_start_matches('.');
                    functions::is_known(&format!("{namespace}.{name}"))
                };
                let namespace = target.and_then(|target| qualified(&target.expr));
                let namespace = namespace.filter(is_function);
                if namespace.is_none() && !functions::is_known(name) {
                    return Err(InvalidExpression::UnknownFunction(name.to_owned()));
                }
                let checked = match name {
                    "findAll" => call.args.first(),
                    _ => call.args.last(),
                };
                if let Some(Expr::Literal(LiteralValue::String(text))) =
                    checked.map(|arg| &arg.expr)
                {
                    literals::check(name, text.inner()).map_err(InvalidExpression::Argument)?;
                }
                if let [left, right] = call.args.as_slice()
                    && matches!(name, operators::EQUALS | operators::NOT_EQUALS)
                {
                    check_equality(left, right)?;
                    check_equality(right, left)?;
                }
                if let (Some(target), None) = (target, namespace) {
                    self.expression(target)?;
                }
                call.args.iter().try_for_each(|arg| self.expression(arg))
            }
            Expr::Comprehension(comprehension) => {
                self.expression(&comprehension.iter_range)?;
                self.expression(&comprehension.accu_init)?;
                self.loops = self.loops.saturating_add(1);
                if self.loops > MAX_LOOPS {
                    return Err(InvalidExpression::TooManyLoops);
                }
                let before = self.variables.len();
                self.variables.push(comprehension.accu_var.clone());
                self.variables.push(comprehension.iter_var.clone());
                self.variables.extend(comprehension.iter_var2.clone());
                self.expression(&comprehension.loop_cond)?;
                self.expression(&comprehension.loop_step)?;
                self.expression(&comprehension.result)?;
                self.variables.truncate(before);
                self.loops = self.loops.saturating_sub(1);
                Ok(())
            }
        }
    }

    fn variable(&self, name: &str) -> Checked {
        let is_known = matches!(name, OBJECT | OUTER_OBJECT)
            || is_type(name)
            || self.variables.iter().any(|variable| variable == name);
        match is_known {
            true => Ok(()),
            false => Err(InvalidExpression::UnknownVariable(name.to_owned())),
        }
    }
}

/// Refuses `ip(…) == '10.0.0.1'`, which is never true: a value of a library equals only
/// others of its type.
fn check_equality(left: &IdedExpr, right: &IdedExpr) -> Checked {
    let Expr::Call(call) = &left.expr else {
        return Ok(());
    };
    let function = call.func_name.trim_start_matches('.');
    let is_value = matches!(function, "cidr" | "ip" | "quantity" | "semver" | "url");
    match &right.expr {
        Expr::Literal(LiteralValue::Null) => Ok(()),
        Expr::Literal(_) if is_value && !call.args.is_empty() => {
            let error = format!("is compared with {function}(…): write {function}(…) there, too");
            Err(InvalidExpression::Argument(error))
        }
        _ => Ok(()),
    }
}

fn is_type(name: &str) -> bool {
    let name = name.trim_start_matches('.');
    TYPES.contains(&name) || DECLARED.has_type(name)
}

/// Returns the name that selections from a variable spell: `a.b.c`.
fn qualified(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Ident(name) => Some(name.clone()),
        Expr::Select(select) if !select.test => {
            let before = qualified(&select.operand.expr)?;
            Some(format!("{before}.{}", select.field))
        }
        _ => None,
    }
}
