//! How much work checking a value can become: the rules that look at one value, level by level.

use std::collections::BTreeMap;

use serde_json::Value;

use super::survey::{Fields, Survey, address};
use crate::pattern::units_per_byte;
use crate::work::EACH;

/// How many rules may look at one and the same value. Shared definitions could double this with each reference, so
/// that a small schema would check for ever.
const MOST_AT_ONE_VALUE: u64 = 1_000;
/// A row of schemas, each within the one before it, that all look at one value.
const LONGEST_ROW: usize = 1_000;
/// JSON is never read deeper than this.
const DEEPEST_JSON: usize = 128;
/// A schema with more ways from value to value than this is not worth following. Published ones have some hundreds.
const MOST_STEPS: usize = 20_000;
/// Few items are compared each with each, many are hashed.
const COMPARISONS: u64 = 16;

/// What it costs that a schema looks at a value, with all that look at the same value because of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) rules: u64,
    /// Units of work whatever the value is.
    fixed: u64,
    /// For each byte of a text and of the names of fields.
    per_byte: u64,
    /// How often all that lies below is compared.
    comparisons: u64,
}

impl Cost {
    fn plus(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    fn times(self, times: u64) -> Self {
        self.with(
            Self { rules: times, fixed: times, per_byte: times, comparisons: times },
            u64::saturating_mul,
        )
    }

    fn with(self, other: Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            rules: combine(self.rules, other.rules),
            fixed: combine(self.fixed, other.fixed),
            per_byte: combine(self.per_byte, other.per_byte),
            comparisons: combine(self.comparisons, other.comparisons),
        }
    }

    /// Of one schema by itself.
    fn of(schema: &Value) -> Self {
        let mut cost = Self { rules: 1, fixed: EACH, ..Self::default() };
        for (name, value) in schema.as_object().into_iter().flatten() {
            match name.as_str() {
                // Compared with the value, or looked up in it, one by one.
                "enum" | "const" | "required" | "type" | "dependentRequired" => {
                    cost.fixed += crate::bounds::weight(value) as u64 / 4;
                }
                "properties" | "dependentSchemas" | "dependencies" => {
                    cost.fixed += value.as_object().map_or(0, |all| all.len() as u64) * EACH / 4;
                }
                "pattern" => {
                    let pattern = value.as_str().unwrap_or_default();
                    cost.per_byte = cost.per_byte.saturating_add(units_per_byte(pattern));
                }
                "patternProperties" => {
                    for pattern in value.as_object().into_iter().flat_map(|all| all.keys()) {
                        cost.fixed += EACH;
                        cost.per_byte = cost.per_byte.saturating_add(units_per_byte(pattern));
                    }
                }
                "minLength" | "maxLength" => cost.per_byte = cost.per_byte.saturating_add(1),
                "uniqueItems" => cost.comparisons = COMPARISONS,
                _ => {}
            }
        }
        cost
    }
}

/// What a whole value costs to check: what one on each level does.
#[derive(Debug)]
pub(super) struct Costs {
    by_level: Vec<Cost>,
    /// Whether the deeper levels are all like the last.
    repeats: bool,
}

impl Costs {
    /// Refuses a schema that never ends or looks too often at one value.
    pub(super) fn of(schema: &Value, survey: &Survey<'_>) -> Result<Self, String> {
        let mut counts = Counts { root: schema, survey, known: BTreeMap::new() };
        counts.check(schema, Fields::Keywords)?;
        counts.levels()
    }

    /// Units of work that checking a value is at most.
    pub(super) fn work(&self, value: &Value) -> u64 {
        let mut levels = Vec::new();
        measure(value, 0, &mut levels);
        let (mut work, mut below) = (0, 0);
        for (level, size) in levels.iter().enumerate().rev() {
            below += size.values * EACH + size.bytes;
            let last = self.by_level.last().filter(|_| self.repeats);
            let Some(cost) = self.by_level.get(level).or(last) else { continue };
            let parts =
                [(size.values, cost.fixed), (size.bytes, cost.per_byte), (below, cost.comparisons)];
            let parts = parts.map(|(size, cost)| size.saturating_mul(cost));
            work = parts.into_iter().fold(work, u64::saturating_add);
        }
        work
    }
}

/// What a value has on one level.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    values: u64,
    bytes: u64,
}

fn measure(value: &Value, level: usize, levels: &mut Vec<Size>) {
    if levels.len() == level {
        levels.push(Size::default());
    }
    levels[level].values += 1;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => levels[level].bytes += text.len() as u64,
        Value::Array(items) => items.iter().for_each(|item| measure(item, level + 1, levels)),
        Value::Object(fields) => {
            for (name, field) in fields {
                measure(field, level + 1, levels);
                // A name is looked at with its object, and as a value of its own.
                levels[level].bytes += name.len() as u64;
                levels[level + 1].bytes += name.len() as u64;
            }
        }
    }
}

/// A schema with all that look at the same value because of it.
#[derive(Debug, Clone, Copy)]
struct Count {
    cost: Cost,
    /// How many stand within one another.
    height: u64,
    /// How often what is within it is gone through.
    rounds: u64,
}

struct Counts<'s> {
    root: &'s Value,
    survey: &'s Survey<'s>,
    /// By the place of the subschema in memory; none while it is being counted.
    known: BTreeMap<usize, Option<Count>>,
}

impl<'s> Counts<'s> {
    /// Counts from every place, because a value of any depth can start there.
    fn check(&mut self, value: &'s Value, fields: Fields) -> Result<(), String> {
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.check(item, fields)),
            Value::Object(inner) => {
                let Cost { rules, .. } = self.count(value, 1)?.cost;
                if rules > MOST_AT_ONE_VALUE {
                    return Err(format!(
                        "is too costly: {rules} rules would look at one value, and at most {MOST_AT_ONE_VALUE} may; share \
                         fewer definitions, or nest them less"
                    ));
                }
                inner
                    .iter()
                    .filter_map(|(name, value)| Some((value, fields.below(name)?)))
                    .try_for_each(|(value, fields)| self.check(value, fields))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    /// `nth` schema in a row that looks at the value.
    fn count(&mut self, schema: &'s Value, nth: usize) -> Result<Count, String> {
        let place = address(schema);
        match self.known.get(&place) {
            Some(Some(count)) => return Ok(*count),
            Some(None) => return Err("a schema refers to itself without end".to_owned()),
            None => {}
        }
        if nth > LONGEST_ROW {
            return Err(format!(
                "is too costly: a row of more than {LONGEST_ROW} schemas looks at one value"
            ));
        }
        self.known.insert(place, None);
        let (mut cost, mut height) = (Cost::of(schema), 0);
        for next in self.same_value(schema)? {
            let inner = self.count(next, nth + 1)?;
            cost = cost.plus(inner.cost);
            height = height.max(inner.height + 1);
        }
        // To know what was not evaluated, each schema within is asked again by each that it is within.
        let rounds = if asks_again(schema) { 2 + 2 * height } else { 1 };
        let count = Count { cost: cost.times(rounds), height, rounds };
        self.known.insert(place, Some(count));
        Ok(count)
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

fn asks_again(schema: &Value) -> bool {
    ["unevaluatedProperties", "unevaluatedItems"].iter().any(|name| schema.get(name).is_some())
}

/// Schemas that may together look at one value below another, each with how often.
type Group<T> = Vec<(T, u64)>;

impl<'s> Counts<'s> {
    fn levels(&mut self) -> Result<Costs, String> {
        let (costs, steps) = self.steps()?;
        let mut level: Vec<Cost> = costs;
        let mut by_level = vec![level[0]];
        for _ in 1..=DEEPEST_JSON {
            let below = |group: &Group<usize>| {
                let each = group.iter().map(|(place, times)| level[*place].times(*times));
                each.fold(Cost::default(), Cost::plus)
            };
            let worst = |groups: &Vec<Group<usize>>| {
                groups.iter().map(below).fold(Cost::default(), |a, b| a.with(b, u64::max))
            };
            let next: Vec<Cost> = steps.iter().map(worst).collect();
            if next[0] == Cost::default() {
                return Ok(Costs { by_level, repeats: false });
            }
            by_level.push(next[0]);
            if next == level {
                return Ok(Costs { by_level, repeats: true });
            }
            level = next;
        }
        Ok(Costs { by_level, repeats: true })
    }

    /// Every schema that a value can start at, the root first, with what it costs and where it leads.
    #[expect(clippy::type_complexity, reason = "two lists of the same length")]
    fn steps(&mut self) -> Result<(Vec<Cost>, Vec<Vec<Group<usize>>>), String> {
        let mut starts = vec![self.root];
        let mut places = BTreeMap::from([(address(self.root), 0)]);
        let (mut costs, mut steps) = (Vec::new(), Vec::new());
        let mut total = 0;
        while let Some(schema) = starts.get(costs.len()).copied() {
            costs.push(self.count(schema, 1)?.cost);
            let mut groups = Vec::new();
            for group in self.below(schema, &mut total)? {
                let place = |(schema, times): (&'s Value, u64)| {
                    let place = *places.entry(address(schema)).or_insert_with(|| {
                        starts.push(schema);
                        starts.len() - 1
                    });
                    (place, times)
                };
                groups.push(group.into_iter().map(place).collect());
            }
            steps.push(groups);
        }
        Ok((costs, steps))
    }

    /// The schemas for values below, grouped by those that may meet at one of them. A name or an index has a group of
    /// its own; rules for all names or all items are in every group. `total` counts the steps of the whole schema.
    fn below(
        &mut self,
        schema: &'s Value,
        total: &mut usize,
    ) -> Result<Vec<Group<&'s Value>>, String> {
        let mut named: BTreeMap<(&str, usize), Group<&'s Value>> = BTreeMap::new();
        let mut common = Vec::new();
        let mut open = vec![(schema, 1)];
        while let Some((schema, times)) = open.pop() {
            let times = self.count(schema, 1)?.rounds.saturating_mul(times);
            open.extend(self.same_value(schema)?.into_iter().map(|next| (next, times)));
            for (keyword, value) in schema.as_object().into_iter().flatten() {
                let fields = value.as_object().into_iter().flatten();
                match keyword.as_str() {
                    "properties" => fields.for_each(|(name, value)| {
                        named.entry((name, 0)).or_default().push((value, times));
                    }),
                    "prefixItems" => {
                        for (index, value) in value.as_array().into_iter().flatten().enumerate() {
                            named.entry(("", index + 1)).or_default().push((value, times));
                        }
                    }
                    "patternProperties" => common.extend(fields.map(|(_, value)| (value, times))),
                    "items"
                    | "contains"
                    | "additionalItems"
                    | "additionalProperties"
                    | "propertyNames"
                    | "unevaluatedItems"
                    | "unevaluatedProperties" => common.push((value, times)),
                    _ => {}
                }
            }
        }
        *total +=
            named.values().map(|group| group.len() + common.len()).sum::<usize>() + common.len();
        if *total > MOST_STEPS {
            return Err(format!("is too costly: there are more than {MOST_STEPS} ways through it"));
        }
        let mut groups: Vec<Group<&'s Value>> = named
            .into_values()
            .map(|group| group.into_iter().chain(common.iter().copied()).collect())
            .collect();
        groups.push(common);
        Ok(groups)
    }
}
