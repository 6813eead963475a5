//! Rewrites an expression so that it counts its cost while it runs, and has the values
//! that cel-go finds.

use cel::IdedExpr;
use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, operators,
};

use super::internal::{ADD, DOUBLE_TEXT, DURATION_TEXT, HELD, OWNER, SPEND};
use super::libraries::{
    DISTINCT_OF, FORMAT, INDEX_OF, JOIN, LAST_INDEX_OF, RANGE_OF, REPLACE, SPLIT,
};

/// The expansion of `sortBy`.
const SORT_BY_KEYS: &str = "@sortByAssociatedKeys";

/// Returns the cost of one evaluation, with one turn of each loop.
pub(super) fn cost(expression: &IdedExpr) -> u64 {
    let own = match &expression.expr {
        Expr::Literal(LiteralValue::String(text)) => {
            u64::try_from(text.inner().len()).unwrap_or(u64::MAX) / 64
        }
        _ => 0,
    };
    let parts = parts(&expression.expr).into_iter().map(cost);
    parts.fold(own.saturating_add(1), u64::saturating_add)
}

fn parts(expression: &Expr) -> Vec<&IdedExpr> {
    match expression {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) | Expr::Struct(_) => Vec::new(),
        Expr::Select(select) => vec![&select.operand],
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => {
            let entries = map.entries.iter().filter_map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => Some([&entry.key, &entry.value]),
                EntryExpr::StructField(_) => None,
            });
            entries.flatten().collect()
        }
        Expr::Call(call) => call
            .target
            .as_deref()
            .into_iter()
            .chain(&call.args)
            .collect(),
        Expr::Comprehension(loop_) => vec![
            &loop_.iter_range,
            &loop_.accu_init,
            &loop_.loop_cond,
            &loop_.loop_step,
            &loop_.result,
        ],
    }
}

pub(super) fn metered(expression: IdedExpr) -> IdedExpr {
    let IdedExpr { id, expr } = expression;
    let expr = match expr {
        Expr::Select(mut select) => {
            let operand = metered(std::mem::take(&mut *select.operand));
            *select.operand = match select.test {
                true => called(OWNER, operand),
                false => operand,
            };
            Expr::Select(select)
        }
        Expr::List(mut list) => {
            list.elements = list.elements.into_iter().map(held).collect();
            Expr::List(list)
        }
        Expr::Map(mut map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    entry.key = held(std::mem::take(&mut entry.key));
                    entry.value = held(std::mem::take(&mut entry.value));
                }
            }
            Expr::Map(map)
        }
        Expr::Call(mut call) => {
            call.target = call.target.map(|target| Box::new(metered(*target)));
            call.args = call.args.into_iter().map(metered).collect();
            call.func_name = call.func_name.trim_start_matches('.').to_owned();
            Expr::Call(guarded(call))
        }
        Expr::Comprehension(comprehension) => {
            Expr::Comprehension(Box::new(metered_loop(*comprehension)))
        }
        other => other,
    };
    IdedExpr { id, expr }
}

/// Makes a part of a list or map, which is a copy.
fn held(part: IdedExpr) -> IdedExpr {
    match &part.expr {
        Expr::Literal(_) => part,
        _ => called(HELD, metered(part)),
    }
}

/// Makes a call of a function that has bounds, or whose arguments have.
fn guarded(mut call: CallExpr) -> CallExpr {
    let is_method = call.target.is_some();
    let replaced = match call.func_name.as_str() {
        operators::ADD => Some(ADD),
        "format" if is_method => Some(FORMAT),
        "indexOf" if is_method => Some(INDEX_OF),
        "join" if is_method => Some(JOIN),
        "lastIndexOf" if is_method => Some(LAST_INDEX_OF),
        "replace" if is_method => Some(REPLACE),
        "split" if is_method => Some(SPLIT),
        _ => None,
    };
    if let Some(function) = replaced {
        function.clone_into(&mut call.func_name);
        let args = call.target.take().into_iter().map(|target| *target);
        call.args = args.chain(call.args).collect();
        return call;
    }
    let [of_target, of_args] = match call.func_name.as_str() {
        "distinct" => [Some(DISTINCT_OF), None],
        "duration" => [None, Some(DURATION_TEXT)],
        "flatten" | "reverse" | "slice" | "sort" | SORT_BY_KEYS => [Some(HELD), None],
        "quote" => [None, Some(HELD)],
        "range" => [None, Some(RANGE_OF)],
        "string" => [None, Some(DOUBLE_TEXT)],
        _ => [None, None],
    };
    if let Some(function) = of_target {
        let target = call.target.map(|target| called(function, *target));
        call.target = target.map(Box::new);
    }
    if let Some(function) = of_args {
        let args = call.args.into_iter();
        call.args = args.map(|arg| called(function, arg)).collect();
    }
    call
}

/// Makes an expression the argument of an internal function.
fn called(function: &str, argument: IdedExpr) -> IdedExpr {
    IdedExpr {
        id: argument.id,
        expr: Expr::Call(CallExpr {
            func_name: function.to_owned(),
            target: None,
            args: vec![argument],
        }),
    }
}

/// Makes each turn of a loop spend the cost of the turn first. The step keeps the form by
/// which the interpreter recognizes it: it appends to lists in place, and lets an element
/// decide `all` and `exists` although others failed.
fn metered_loop(comprehension: ComprehensionExpr) -> ComprehensionExpr {
    let cost = cost(&comprehension.loop_cond).saturating_add(cost(&comprehension.loop_step));
    let accu = comprehension.accu_var;
    ComprehensionExpr {
        iter_range: metered(comprehension.iter_range),
        accu_init: metered(comprehension.accu_init),
        loop_cond: metered(comprehension.loop_cond),
        loop_step: metered_step(comprehension.loop_step, &accu, cost),
        result: metered(comprehension.result),
        accu_var: accu,
        iter_var: comprehension.iter_var,
        iter_var2: comprehension.iter_var2,
    }
}

fn metered_step(step: IdedExpr, accu: &str, cost: u64) -> IdedExpr {
    let IdedExpr { id, expr } = step;
    let is_accu = |e: &IdedExpr| matches!(&e.expr, Expr::Ident(name) if name == accu);
    let call = match expr {
        Expr::Call(call) if call.target.is_none() => call,
        expr => return spending(metered(IdedExpr { id, expr }), cost),
    };
    let CallExpr {
        func_name, args, ..
    } = call;
    let name = func_name.as_str();
    let args = match <[IdedExpr; 3]>::try_from(args) {
        // `filter`, `exists_one` and `map` with a condition.
        Ok([condition, then, otherwise]) if name == operators::CONDITIONAL => {
            let then = match appended(then, &is_accu) {
                Ok(then) => then,
                Err(then) => metered(then),
            };
            vec![spending(metered(condition), cost), then, otherwise]
        }
        Ok(args) => args.into_iter().map(metered).collect(),
        Err(args) => match <[IdedExpr; 2]>::try_from(args) {
            // `all` and `exists`.
            Ok([first, second])
                if is_accu(&first)
                    && matches!(name, operators::LOGICAL_AND | operators::LOGICAL_OR) =>
            {
                vec![first, spending(metered(second), cost)]
            }
            // `map`.
            Ok([first, second])
                if is_accu(&first)
                    && name == operators::ADD
                    && matches!(second.expr, Expr::List(_)) =>
            {
                let id = second.id;
                let elements = match second.expr {
                    Expr::List(list) => list.elements,
                    _ => Vec::new(),
                };
                let elements = elements.into_iter();
                let elements = elements.map(|e| called(HELD, spending(metered(e), cost)));
                let expr = Expr::List(ListExpr::new(elements.collect()));
                vec![first, IdedExpr { id, expr }]
            }
            Ok(args) => args.into_iter().map(metered).collect(),
            Err(args) => args.into_iter().map(metered).collect(),
        },
    };
    let expr = Expr::Call(CallExpr {
        func_name,
        target: None,
        args,
    });
    IdedExpr { id, expr }
}

/// Keeps `accu + x`, by which loops append and count, and which is not the user's.
fn appended(step: IdedExpr, is_accu: &impl Fn(&IdedExpr) -> bool) -> Result<IdedExpr, IdedExpr> {
    let IdedExpr { id, expr } = step;
    match expr {
        Expr::Call(mut call)
            if call.func_name == operators::ADD && call.args.first().is_some_and(is_accu) =>
        {
            let args = call.args.into_iter().map(metered);
            call.args = args.collect();
            let expr = Expr::Call(call);
            Ok(IdedExpr { id, expr })
        }
        expr => Err(IdedExpr { id, expr }),
    }
}

/// Makes an expression spend a cost before it is evaluated: `@spend(cost) ? e : false`.
fn spending(expression: IdedExpr, cost: u64) -> IdedExpr {
    let id = expression.id;
    let node = |expr| IdedExpr { id, expr };
    let cost = i64::try_from(cost).unwrap_or(i64::MAX);
    let spend = node(Expr::Call(CallExpr {
        func_name: SPEND.to_owned(),
        target: None,
        args: vec![node(Expr::Literal(LiteralValue::Int(cost.into())))],
    }));
    let never = node(Expr::Literal(LiteralValue::Boolean(false.into())));
    node(Expr::Call(CallExpr {
        func_name: operators::CONDITIONAL.to_owned(),
        target: None,
        args: vec![spend, expression, never],
    }))
}
