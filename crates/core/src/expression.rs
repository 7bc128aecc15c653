//! Expressions, paths and edge conditions over the values of a run.

use minijinja::Environment;
use regex::RegexBuilder;
use serde_json::Value;

use callboard_protocol::{ConditionType, EdgeCondition, Failure, Object};

/// Steps that one expression may take; a definition is a stranger's program.
const FUEL: u64 = 10_000;
/// Bytes that one compiled regular expression may take, for the same reason.
const REGEX_SIZE: usize = 1 << 20;

/// Checks that an expression can be parsed, so that a definition is refused rather than a run.
pub(crate) fn check_expression(expression: &str) -> Result<(), String> {
    environment().compile_expression(expression).map(|_| ()).map_err(|error| error.to_string())
}

/// Evaluates an expression over named values.
pub(crate) fn evaluate(expression: &str, names: Object) -> Result<Value, Failure> {
    let environment = environment();
    let outcome = environment
        .compile_expression(expression)
        .and_then(|compiled| compiled.eval(minijinja::value::Serde(Value::Object(names))));
    match outcome {
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
        return Ok(is_true(&evaluate(expression, scope)?));
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

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_fuel(Some(FUEL));
    environment
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
        for expression in ["1 +", "range(1000000)", "a.b.c.d()"] {
            assert!(evaluate(expression, Object::new()).is_err(), "{expression}");
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
}
