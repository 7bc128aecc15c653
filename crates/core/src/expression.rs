//! Expressions, paths and edge conditions over the values of a run.

mod byte_budget;
mod evaluation;
mod mentioned;
mod names;
#[cfg(test)]
mod tests;

use serde_json::Value;

use callboard_protocol::{ConditionType, EdgeCondition, Failure, Object};

pub use mentioned::mentioned_names;
pub(crate) use names::{Names, Place};

use crate::bounds::weight;
use crate::pattern;
use crate::work::{WORK_LIMIT_EXCEEDED, Work};

/// Units of work for compiling a regular expression, and for each place in it.
const REGEX: u64 = 1 << 17;
const REGEX_PLACE: u64 = 1 << 10;

/// Checks that an expression can be parsed, so that a definition is refused rather than a run.
pub(crate) fn check_expression(expression: &str) -> Result<(), String> {
    evaluation::parse(expression).map(|_| ()).map_err(|error| error.to_string())
}

/// Evaluates an expression over named values.
pub(crate) fn evaluate(
    expression: &str,
    names: &Names<'_>,
    work: &mut Work,
) -> Result<Value, Failure> {
    evaluation::value_of(expression, names, work).map_err(|error| {
        let code = if work.is_used_up() { WORK_LIMIT_EXCEEDED } else { "expression_error" };
        Failure::new(code, format!("{expression:?}: {error}"))
    })
}

/// Units of work that asking whether something holds of a thing from outside may take: strangers choose the thing.
const OF_STRANGERS: u64 = 1 << 24;

/// Whether an expression holds of named values, within much less work than a run may take.
pub fn holds_of<'a>(
    expression: &str,
    named: impl IntoIterator<Item = (&'a str, &'a Value)>,
) -> Result<bool, Failure> {
    let mut names = Names::default();
    for (name, value) in named {
        names.insert(name, Place::Value(value));
    }
    Ok(is_true(&evaluate(expression, &names, &mut Work::of(OF_STRANGERS))?))
}

/// Whether an edge may be followed, judged by its source's outputs.
pub(crate) fn holds<'a>(
    condition: &EdgeCondition,
    outputs: &'a Object,
    names: impl FnOnce() -> Names<'a>,
    work: &mut Work,
) -> Result<bool, Failure> {
    let kind = condition.kind.unwrap_or(if condition.expression.is_some() {
        ConditionType::Expression
    } else {
        ConditionType::Equals
    });
    if kind == ConditionType::Expression {
        let Some(expression) = &condition.expression else { return Ok(true) };
        let mut scope = names();
        scope.extend(outputs);
        scope.insert("output", Place::Fields(outputs));
        return Ok(is_true(&evaluate(expression, &scope, work)?));
    }
    let left = condition.left.as_deref().and_then(|path| find(outputs, path));
    let left = left.unwrap_or(&Value::Null);
    let right = condition.right.as_ref().unwrap_or(&Value::Null);
    work.spend((weight(left) + weight(right)) as u64)?;
    match kind {
        ConditionType::Equals => Ok(same(left, right)),
        ConditionType::NotEquals => Ok(!same(left, right)),
        ConditionType::Contains => Ok(contains(left, right)),
        ConditionType::Regex => matches_regex(left, right, work),
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

fn matches_regex(left: &Value, right: &Value, work: &mut Work) -> Result<bool, Failure> {
    let (Some(text), Some(pattern)) = (left.as_str(), right.as_str()) else { return Ok(false) };
    work.spend(regex_work(pattern, text.len()))?;
    pattern::compile(pattern)
        .map(|regex| regex.is_match(text))
        .map_err(|error| Failure::new("expression_error", format!("{pattern:?}: {error}")))
}

/// Units of work for compiling a pattern and looking for it in so many bytes.
pub(crate) fn regex_work(pattern: &str, bytes: usize) -> u64 {
    let per_byte = pattern::units_per_byte(pattern);
    let compiling = per_byte.saturating_mul(REGEX_PLACE).min(8 * REGEX).saturating_add(REGEX);
    per_byte.saturating_mul(bytes as u64).saturating_add(compiling)
}
