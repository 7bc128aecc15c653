//! How much work checking a value can become: rules that look at one value, level by level.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::survey::{Fields, Survey, address};

/// How many subschemas may look at one and the same value. Shared definitions could double this with each
/// reference, so that a small schema would check for ever.
const MOST_AT_ONE_VALUE: usize = 1_000;
/// The same where a schema refers to itself from below: each level of the value may multiply it.
const MOST_BELOW: usize = 100_000;
/// JSON is never read deeper than this.
const DEEPEST_JSON: usize = 128;
/// A schema with more ways from value to value than this is not worth following.
const MOST_STEPS: usize = 100_000;

/// Refuses a schema that never ends or looks too often at one value; answers how deep a value may be before
/// that happens further down. None is any depth.
pub(super) fn deepest(schema: &Value, survey: &Survey<'_>) -> Result<Option<usize>, String> {
    let mut costs = Costs { root: schema, survey, known: BTreeMap::new() };
    costs.check(schema, Fields::Keywords)?;
    let steps = costs.steps(schema)?;
    let mut visits: BTreeMap<usize, usize> = costs
        .known
        .iter()
        .filter(|(place, _)| steps.contains_key(place))
        .filter_map(|(place, count)| Some((*place, (*count)?)))
        .collect();
    let root = address(schema);
    for level in 1..=DEEPEST_JSON {
        let below = |group: &Vec<usize>| {
            let each = group.iter().map(|place| visits.get(place).copied().unwrap_or(1));
            each.fold(0, usize::saturating_add)
        };
        let next = steps
            .iter()
            .map(|(place, groups)| (*place, groups.iter().map(below).max().unwrap_or(0)));
        visits = next.collect();
        match visits.get(&root).copied().unwrap_or(0) {
            0 => return Ok(None),
            many if many > MOST_BELOW => return Ok(Some(level - 1)),
            _ => {}
        }
    }
    Ok(None)
}

/// By place of a schema: the groups of schemas that may together look at one value below its own.
type Steps = BTreeMap<usize, Vec<Vec<usize>>>;

/// How many subschemas look at the value that a schema looks at.
struct Costs<'s> {
    root: &'s Value,
    survey: &'s Survey<'s>,
    /// By the place of the subschema in memory; none while it is being counted.
    known: BTreeMap<usize, Option<usize>>,
}

impl<'s> Costs<'s> {
    /// Counts from every place, because a value of any depth can start there.
    fn check(&mut self, value: &'s Value, fields: Fields) -> Result<(), String> {
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.check(item, fields)),
            Value::Object(inner) => {
                self.count(value, 1)?;
                inner
                    .iter()
                    .filter_map(|(name, value)| Some((value, fields.below(name)?)))
                    .try_for_each(|(value, fields)| self.check(value, fields))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    /// `nth` schema in a row that looks at the value: a chain that is too long is not followed to its end.
    fn count(&mut self, schema: &'s Value, nth: usize) -> Result<usize, String> {
        let place = address(schema);
        match self.known.get(&place) {
            Some(Some(count)) => return Ok(*count),
            Some(None) => return Err("a schema refers to itself without end".to_owned()),
            None => {}
        }
        self.known.insert(place, None);
        let mut total: usize = 1;
        for next in self.same_value(schema)? {
            if nth < MOST_AT_ONE_VALUE {
                total = total.saturating_add(self.count(next, nth + 1)?);
            }
            if total > MOST_AT_ONE_VALUE || nth == MOST_AT_ONE_VALUE {
                return Err(format!("more than {MOST_AT_ONE_VALUE} rules look at one value"));
            }
        }
        self.known.insert(place, Some(total));
        Ok(total)
    }

    /// The subschemas that look at the same value as this one.
    fn same_value(&self, schema: &'s Value) -> Result<Vec<&'s Value>, String> {
        let Some(fields) = schema.as_object() else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for (name, value) in fields {
            match name.as_str() {
                "allOf" | "anyOf" | "oneOf" => found.extend(value.as_array().into_iter().flatten()),
                "not" | "if" | "then" | "else" => found.push(value),
                // The validator still takes the older word.
                "dependentSchemas" | "dependencies" => {
                    found.extend(value.as_object().into_iter().flat_map(|all| all.values()));
                }
                "$ref" | "$dynamicRef" => {
                    if let Some(reference) = value.as_str() {
                        found.extend(self.survey.targets(self.root, reference)?);
                    }
                }
                _ => {}
            }
        }
        Ok(found)
    }
}

impl<'s> Costs<'s> {
    fn steps(&mut self, root: &'s Value) -> Result<Steps, String> {
        let mut steps = Steps::new();
        let mut open = vec![root];
        let mut seen = BTreeSet::from([address(root)]);
        let mut total = 0;
        while let Some(schema) = open.pop() {
            self.count(schema, 1)?;
            let groups = self.below(schema)?;
            for below in groups.iter().flatten() {
                total += 1;
                if total > MOST_STEPS {
                    return Err("a schema has too many ways through it".to_owned());
                }
                if seen.insert(address(below)) {
                    open.push(below);
                }
            }
            let groups = groups.into_iter().map(|group| group.into_iter().map(address).collect());
            steps.insert(address(schema), groups.collect());
        }
        Ok(steps)
    }

    /// The schemas for values below, grouped by those that may meet at one of them. A name or an index has a
    /// group of its own; rules for all names or all items are in every group.
    fn below(&self, schema: &'s Value) -> Result<Vec<Vec<&'s Value>>, String> {
        let mut named: BTreeMap<String, Vec<&'s Value>> = BTreeMap::new();
        let mut common = Vec::new();
        let mut open = vec![schema];
        while let Some(schema) = open.pop() {
            open.extend(self.same_value(schema)?);
            for (keyword, value) in schema.as_object().into_iter().flatten() {
                match keyword.as_str() {
                    "properties" => {
                        for (name, value) in value.as_object().into_iter().flatten() {
                            named.entry(name.clone()).or_default().push(value);
                        }
                    }
                    "prefixItems" => {
                        for (index, value) in value.as_array().into_iter().flatten().enumerate() {
                            named.entry(format!("[{index}]")).or_default().push(value);
                        }
                    }
                    "patternProperties" => {
                        common.extend(value.as_object().into_iter().flat_map(|all| all.values()));
                    }
                    "items"
                    | "contains"
                    | "additionalItems"
                    | "additionalProperties"
                    | "propertyNames"
                    | "unevaluatedItems"
                    | "unevaluatedProperties" => common.push(value),
                    _ => {}
                }
            }
        }
        let mut groups: Vec<Vec<&'s Value>> = named
            .into_values()
            .map(|group| group.into_iter().chain(common.iter().copied()).collect())
            .collect();
        groups.push(common);
        Ok(groups)
    }
}
