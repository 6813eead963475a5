//! Finds the parts of the object that an expression reads.

use cel::IdedExpr;
use cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, LiteralValue};
use kubernetes_wire::representation::{PathStep, Projection};

use super::parse::{OBJECT, OUTER_OBJECT};

/// Returns the names of `object.a.b.c`, if the expression is no more than that.
pub(super) fn plain(expression: &IdedExpr) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut expression = expression;
    loop {
        match &expression.expr {
            Expr::Ident(name) if name == OBJECT && !names.is_empty() => {
                names.reverse();
                return Some(names);
            }
            Expr::Select(select) if !select.test => {
                names.push(select.field.clone());
                expression = &select.operand;
            }
            _ => return None,
        }
    }
}

pub(super) fn read_by(expression: &IdedExpr) -> Projection {
    let mut reads = Reads {
        projection: Projection::nothing(),
        variables: Vec::new(),
    };
    let value = reads.expression(expression);
    reads.used(value);
    reads.projection
}

/// A part of the object: the steps to it.
type Path = Vec<PathStep>;

struct Reads {
    projection: Projection,
    /// The variables of the loops around, and the parts of the object that they are.
    variables: Vec<(String, Option<Path>)>,
}

impl Reads {
    /// Notes that all of this part is read.
    fn used(&mut self, path: Option<Path>) {
        if let Some(path) = path {
            self.projection.add_steps(&path);
        }
    }

    fn use_all(&mut self, expression: &IdedExpr) {
        let value = self.expression(expression);
        self.used(value);
    }

    /// Returns the part of the object that the expression's value is. The caller reads
    /// it, or a part of it. Returns `None` for other values.
    fn expression(&mut self, expression: &IdedExpr) -> Option<Path> {
        match &expression.expr {
            Expr::Ident(name) if name == OUTER_OBJECT => Some(Vec::new()),
            Expr::Ident(name) => {
                let variable = self.variables.iter().rev().find(|(known, _)| known == name);
                match variable {
                    Some((_, path)) => path.clone(),
                    None => (name == OBJECT).then(Vec::new),
                }
            }
            Expr::Select(select) => {
                let of = self.expression(&select.operand)?;
                Some(member(of, &select.field))
            }
            Expr::Call(call) => {
                let is_index = matches!(call.func_name.as_str(), "_[_]" | "_[?_]" | "_?._");
                if is_index && let [of, index] = call.args.as_slice() {
                    return self.index(of, index);
                }
                call.target.iter().for_each(|target| self.use_all(target));
                call.args.iter().for_each(|arg| self.use_all(arg));
                None
            }
            Expr::List(list) => {
                list.elements.iter().for_each(|e| self.use_all(e));
                None
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.use_all(&entry.key);
                        self.use_all(&entry.value);
                    }
                }
                None
            }
            Expr::Comprehension(comprehension) => {
                self.comprehension(comprehension);
                None
            }
            Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => None,
        }
    }

    fn index(&mut self, of: &IdedExpr, index: &IdedExpr) -> Option<Path> {
        let of = self.expression(of);
        match (&index.expr, of) {
            (_, None) => {
                self.use_all(index);
                None
            }
            (Expr::Literal(LiteralValue::String(name)), Some(of)) => Some(member(of, name.inner())),
            (Expr::Literal(LiteralValue::Int(_)), Some(of)) => Some(element(of)),
            (_, of) => {
                self.used(of);
                self.use_all(index);
                None
            }
        }
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr) {
        let range = self.expression(&comprehension.iter_range);
        // The number of the elements counts, even if nothing of them does.
        let range = range.map(element);
        if let Some(range) = &range {
            self.projection.reach(range);
        }
        self.use_all(&comprehension.accu_init);
        let before = self.variables.len();
        self.variables.push((comprehension.accu_var.clone(), None));
        let second = comprehension.iter_var2.as_ref();
        // With two variables, the first is the index.
        let first = if second.is_some() {
            None
        } else {
            range.clone()
        };
        self.variables.push((comprehension.iter_var.clone(), first));
        self.variables
            .extend(second.map(|name| (name.clone(), range)));
        self.use_all(&comprehension.loop_cond);
        self.use_all(&comprehension.loop_step);
        self.use_all(&comprehension.result);
        self.variables.truncate(before);
    }
}

fn member(mut path: Path, name: &str) -> Path {
    path.push(PathStep::Member(name.to_owned()));
    path
}

fn element(mut path: Path) -> Path {
    path.push(PathStep::Elements);
    path
}
