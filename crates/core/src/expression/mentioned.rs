//! The names that an expression mentions, for those who check a definition before anything runs.

use minijinja::machinery::ast::{CallArg, Expr};

use super::evaluation;

/// Each name with the fields that are read below it, as in `["nodes", "write", "answer"]`, or why it does not parse.
/// A field that is itself computed ends the path.
pub fn mentioned_names(expression: &str) -> Result<Vec<Vec<String>>, String> {
    let parsed = evaluation::parse(expression).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    visit(&parsed, &mut found);
    Ok(found)
}

fn visit(expr: &Expr<'_>, found: &mut Vec<Vec<String>>) {
    if let Some(path) = path_of(expr) {
        found.push(path);
        return;
    }
    match expr {
        Expr::Var(_) | Expr::Const(_) => {}
        Expr::Slice(it) => {
            visit(&it.expr, found);
            for bound in [&it.start, &it.stop, &it.step].into_iter().flatten() {
                visit(bound, found);
            }
        }
        Expr::UnaryOp(it) => visit(&it.expr, found),
        Expr::BinOp(it) => {
            visit(&it.left, found);
            visit(&it.right, found);
        }
        Expr::Compare(it) => {
            visit(&it.expr, found);
            it.ops.iter().for_each(|next| visit(&next.expr, found));
        }
        Expr::IfExpr(it) => {
            visit(&it.test_expr, found);
            visit(&it.true_expr, found);
            it.false_expr.iter().for_each(|other| visit(other, found));
        }
        Expr::Filter(it) => {
            it.expr.iter().for_each(|value| visit(value, found));
            visit_arguments(&it.args, found);
        }
        Expr::Test(it) => {
            // What is asked whether it is there need not be.
            if !matches!(it.name, "defined" | "undefined") {
                visit(&it.expr, found);
            }
            visit_arguments(&it.args, found);
        }
        Expr::GetAttr(it) => visit(&it.expr, found),
        Expr::GetItem(it) => {
            visit(&it.expr, found);
            visit(&it.subscript_expr, found);
        }
        Expr::Call(it) => {
            // The name of a function is no name of a value.
            if !matches!(it.expr, Expr::Var(_)) {
                visit(&it.expr, found);
            }
            visit_arguments(&it.args, found);
        }
        Expr::List(it) => it.items.iter().for_each(|item| visit(item, found)),
        Expr::Tuple(it) => it.items.iter().for_each(|item| visit(item, found)),
        Expr::Map(it) => it.keys.iter().chain(&it.values).for_each(|part| visit(part, found)),
    }
}

fn visit_arguments(arguments: &[CallArg<'_>], found: &mut Vec<Vec<String>>) {
    for argument in arguments {
        match argument {
            CallArg::Pos(value)
            | CallArg::Kwarg(_, value)
            | CallArg::PosSplat(value)
            | CallArg::KwargSplat(value) => visit(value, found),
        }
    }
}

/// A name and fields of constant names below it.
fn path_of(expr: &Expr<'_>) -> Option<Vec<String>> {
    match expr {
        Expr::Var(it) => Some(vec![it.id.to_owned()]),
        Expr::GetAttr(it) => {
            let mut path = path_of(&it.expr)?;
            path.push(it.name.to_owned());
            Some(path)
        }
        Expr::GetItem(it) => {
            let Expr::Const(key) = &it.subscript_expr else { return None };
            let mut path = path_of(&it.expr)?;
            path.push(key.value.to_string());
            Some(path)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::mentioned_names;

    #[test]
    fn names_are_found_wherever_they_stand() {
        let found = mentioned_names(
            "vars.a + nodes['write-it'].answer[0] if flag and not (x is defined) else range(count)|join(sep) ~ {'k': v}.k",
        );
        let found: Vec<String> = found.unwrap().iter().map(|path| path.join("/")).collect();
        assert_eq!(found, ["flag", "vars/a", "nodes/write-it/answer/0", "count", "sep", "v"]);
    }

    #[test]
    fn what_does_not_parse_says_why() {
        assert!(mentioned_names("1 +").is_err());
    }
}
