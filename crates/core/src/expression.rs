//! Expressions, paths and edge conditions over the values of a run.

mod evaluation;
mod purse;

use regex::RegexBuilder;
use serde_json::Value;

use callboard_protocol::{ConditionType, EdgeCondition, Failure, Object};

/// Bytes that one compiled regular expression may take; a definition is a stranger's program.
const REGEX_SIZE: usize = 1 << 20;

/// Checks that an expression can be parsed, so that a definition is refused rather than a run.
pub(crate) fn check_expression(expression: &str) -> Result<(), String> {
    evaluation::parse(expression).map(|_| ()).map_err(|error| error.to_string())
}

/// Evaluates an expression over named values.
pub(crate) fn evaluate(expression: &str, names: &Object) -> Result<Value, Failure> {
    match evaluation::value_of(expression, names) {
        Ok(value) if value.is_undefined() => Ok(Value::Null),
        Ok(value) => serde_json::to_value(value).map_err(|error| {
            Failure::new("expression_error", format!("{expression:?} has no JSON value: {error}"))
        }),
        Err(error) => Err(Failure::new("expression_error", format!("{expression:?}: {error}"))),
    }
}

/// Whether an edge may be followed, judged by its source's outputs.
pub(crate) fn holds(
    condition: &EdgeCondition,
    outputs: &Object,
    names: impl FnOnce() -> Object,
) -> Result<bool, Failure> {
    let kind = condition.kind.unwrap_or(if condition.expression.is_some() {
        ConditionType::Expression
    } else {
        ConditionType::Equals
    });
    if kind == ConditionType::Expression {
        let Some(expression) = &condition.expression else { return Ok(true) };
        let mut scope = names();
        scope.extend(outputs.clone());
        scope.insert("output".into(), Value::Object(outputs.clone()));
        return Ok(is_true(&evaluate(expression, &scope)?));
    }
    let left = condition
        .left
        .as_deref()
        .map_or(Value::Null, |path| find(outputs, path).cloned().unwrap_or(Value::Null));
    let right = condition.right.as_ref().unwrap_or(&Value::Null);
    match kind {
        ConditionType::Equals => Ok(same(&left, right)),
        ConditionType::NotEquals => Ok(!same(&left, right)),
        ConditionType::Contains => Ok(contains(&left, right)),
        ConditionType::Regex => matches_regex(&left, right),
        ConditionType::Expression => Ok(false),
    }
}

/// What counts as true: as in the templates that people know, empty things do not.
pub(crate) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(truth) => *truth,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

/// Follows a dotted path such as `output.items.0.name`; `output` alone names the outputs themselves.
pub(crate) fn find<'a>(outputs: &'a Object, path: &str) -> Option<&'a Value> {
    let mut steps = path.split('.').peekable();
    if steps.peek() == Some(&"output") && !outputs.contains_key("output") {
        steps.next();
    }
    let mut value = outputs.get(steps.next()?)?;
    for step in steps {
        value = match value {
            Value::Object(fields) => fields.get(step)?,
            Value::Array(items) => items.get(step.parse::<usize>().ok()?)?,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
        };
    }
    Some(value)
}

/// Equality in which `1` and `1.0` are one number.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            left == right || left.as_f64() == right.as_f64()
        }
        _ => left == right,
    }
}

fn contains(left: &Value, right: &Value) -> bool {
    match left {
        Value::String(text) => right.as_str().is_some_and(|part| text.contains(part)),
        Value::Array(items) => items.iter().any(|item| same(item, right)),
        Value::Object(fields) => right.as_str().is_some_and(|key| fields.contains_key(key)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn matches_regex(left: &Value, right: &Value) -> Result<bool, Failure> {
    let (Some(text), Some(pattern)) = (left.as_str(), right.as_str()) else { return Ok(false) };
    RegexBuilder::new(pattern)
        .size_limit(REGEX_SIZE)
        .build()
        .map(|regex| regex.is_match(text))
        .map_err(|error| Failure::new("expression_error", format!("{pattern:?}: {error}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(condition: Value, outputs: Value, expected: bool) {
        let condition: EdgeCondition =
            serde_json::from_value(condition).unwrap_or_else(|error| panic!("{error}"));
        let Value::Object(outputs) = outputs else { panic!("outputs are an object") };
        assert_eq!(
            holds(&condition, &outputs, Object::new),
            Ok(expected),
            "{condition:?} over {outputs:?}"
        );
    }

    #[test]
    fn each_condition_type_judges_the_sources_outputs() {
        let outputs =
            json!({ "status": "ok", "n": 3, "tags": ["a", "b"], "deep": { "x": [{ "y": true }] } });
        for (condition, expected) in [
            (json!({ "type": "equals", "left": "status", "right": "ok" }), true),
            (json!({ "type": "equals", "left": "output.status", "right": "ok" }), true),
            (json!({ "type": "equals", "left": "n", "right": 3.0 }), true),
            (json!({ "type": "equals", "left": "deep.x.0.y", "right": true }), true),
            (json!({ "type": "equals", "left": "nowhere", "right": "ok" }), false),
            (json!({ "type": "notEquals", "left": "status", "right": "ok" }), false),
            (json!({ "type": "notEquals", "left": "nowhere", "right": "ok" }), true),
            (json!({ "type": "contains", "left": "tags", "right": "b" }), true),
            (json!({ "type": "contains", "left": "status", "right": "o" }), true),
            (json!({ "type": "contains", "left": "deep", "right": "x" }), true),
            (json!({ "type": "contains", "left": "n", "right": 3 }), false),
            (json!({ "type": "regex", "left": "status", "right": "^o.$" }), true),
            (json!({ "type": "regex", "left": "n", "right": "3" }), false),
            (
                json!({ "type": "expression", "expression": "n > 2 and output.status == 'ok'" }),
                true,
            ),
            (json!({ "type": "expression", "expression": "missing" }), false),
        ] {
            check(condition, outputs.clone(), expected);
        }
    }

    #[test]
    fn a_broken_or_greedy_expression_is_a_failure_and_not_a_panic() {
        for expression in ["a.b.c.d()", "range(1000000)", "1 +", "x|nothing", "x is nothing"] {
            assert!(evaluate(expression, &Object::new()).is_err(), "{expression}");
        }
        let condition = EdgeCondition {
            kind: Some(ConditionType::Regex),
            left: Some("s".into()),
            right: Some("(".into()),
            expression: None,
        };
        let outputs = Object::from_iter([("s".to_owned(), json!("x"))]);
        assert!(holds(&condition, &outputs, Object::new).is_err());
    }

    const MEANT: &[&str] = &[
        "n + 1",
        "n - 1",
        "n * 2",
        "n / 2",
        "n // 2",
        "n % 2",
        "n ** 2",
        "-n",
        "not n",
        "1 < n < 5",
        "n == 3 and t",
        "none or 'x'",
        "n in list",
        "n not in list",
        "'a' in t",
        "t ~ n ~ list",
        "'a' + t",
        "list + [9]",
        "[1] * 3",
        "'ab' * 2",
        "3 * 'x'",
        "list[0]",
        "list[-1]",
        "list[1:]",
        "list[::-1]",
        "t[:2]",
        "map['a']",
        "map.b.1",
        "rows[0].k",
        "missing",
        "map.missing",
        "'x' if n > 2 else 'y'",
        "'x' if n > 5",
        "{'a': n, 'b': [t]}",
        "(1, 2)",
        "range(3)",
        "dict(a=1)",
        "t|upper|length",
        "list|sort|join('-')",
        "list|sort(reverse=true)|first",
        "rows|map(attribute='k')|list",
        "list|map('string')|join",
        "t|split(',')|list",
        "t|lines|list",
        "t|replace('a', 'z')",
        "t|indent(2)",
        "t|indent(width=2, first=true)",
        "'%.2f|%s'|format(1.5, n)",
        "list|batch(2, 0)|list",
        "list|slice(2)|list",
        "map|items|list",
        "map|dictsort",
        "rows|selectattr('v')|list",
        "list|select('odd')|list",
        "list|sum",
        "list|max",
        "missing|default('d')",
        "'<a>'|escape",
        "n is odd",
        "n is divisibleby(3)",
        "missing is defined",
        "list|zip(list)|list",
        "rows|groupby('k')",
        "list|reverse|list",
        "list|unique|list",
        "map|string",
        "list|chain([1])|list",
        "'2'|int + 1",
        "t|title",
    ];

    /// What minijinja itself makes of an expression is what it comes to here, one step at a time.
    #[test]
    fn every_kind_of_step_means_what_it_means_to_minijinja() {
        let names = json!({
            "n": 3, "t": "a,b\nc", "list": [3, 1, 2], "rows": [{ "k": "x", "v": 1 }, { "k": "y" }],
            "map": { "a": 1, "b": [1, 2] }, "none": null,
        });
        let Value::Object(names) = names else { panic!("names are an object") };
        for expression in MEANT {
            let whole = minijinja::Environment::new()
                .compile_expression(expression)
                .and_then(|it| it.eval(minijinja::value::Serde(&names)))
                .unwrap_or_else(|error| panic!("{expression}: {error}"));
            let whole = match whole.is_undefined() {
                true => Value::Null,
                false => serde_json::to_value(whole).unwrap_or_else(|error| panic!("{error}")),
            };
            assert_eq!(evaluate(expression, &names), Ok(whole), "{expression}");
        }
    }

    const GREEDY: &[&str] = &[
        "v ~ v",
        "v + v",
        "[v, v]",
        "{'a': v, 'b': v}",
        "'a' * 100000000",
        "l * 1000000",
        "([[l] * 1000] * 1000) * 1000",
        "'a'|indent(20000000000)",
        "'a\nb'|indent(width=20000000000)",
        "['a']|map('indent', 20000000000)|list",
        "v|replace('a', v)",
        "v|replace('', 'abc')",
        "range(100000)|join(l[0])",
        "v|list",
        "range(100000)|join(d=l[0])",
        "[1]|batch(2000000000, 0)",
        "[1]|slice(2000000000)",
        "'%2000000000d'|format(1)",
        "'%*d'|format(2000000000, 1)",
        "v|split('')",
        "v|escape",
        "range(100000)|map('replace', '', l[0])",
        "range(90000)|select('in', range(90000))",
        "[v]|string",
        "debug()",
        "v|pprint",
    ];

    /// Each of these made gigabytes, or ended the process, where steps alone were counted.
    #[test]
    fn no_expression_makes_more_than_a_run_can_keep() {
        let names =
            json!({ "v": "a".repeat(9 << 20), "s": "\\".repeat(64), "l": ["x".repeat(1 << 20)] });
        let Value::Object(names) = names else { panic!("names are an object") };
        let quoted = (0..60).fold("s".to_owned(), |inner, _| format!("([{inner}] ~ '')"));
        let long = [
            quoted,
            "v ~ ".repeat(1_000) + "v",
            "-".repeat(4_000) + "v",
            "not ".repeat(1_000) + "v",
            "v".to_owned() + &"|string".repeat(400),
            "1 ~ ".repeat(500_000) + "v",
        ];
        for expression in GREEDY.iter().copied().chain(long.iter().map(String::as_str)) {
            let shown: String = expression.chars().take(40).collect();
            assert!(evaluate(expression, &names).is_err(), "{shown}");
        }
    }
}
