//! Inputs for the targets that are nearly right: what is not even read finds nothing.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Names that expressions use and inputs give.
const NAMES: [&str; 5] = ["l", "t", "m", "n", "rows"];
const FILTERS: [&str; 24] = [
    "length",
    "sort",
    "max",
    "min",
    "sum",
    "unique",
    "list",
    "reverse",
    "string",
    "upper",
    "join(t)",
    "map('string')",
    "select('in', l)",
    "groupby('k')",
    "batch(3)",
    "slice(2)",
    "replace('a', t)",
    "split('a')",
    "trim(t)",
    "items",
    "dictsort",
    "first",
    "zip(l)",
    "indent(4)",
];
const OPERATORS: [&str; 16] =
    ["+", "-", "*", "//", "%", "**", "~", "==", "!=", "<", "<=", "in", "not in", "and", "or", ">"];

pub(crate) fn expressions() -> impl Strategy<Value = Vec<u8>> {
    (expression(), inputs()).prop_map(|(text, inputs)| joined(&text, &inputs))
}

pub(crate) fn schemas() -> impl Strategy<Value = Vec<u8>> {
    (schema(), vec(schema(), 0..5), value()).prop_map(|(mut root, parts, value)| {
        let parts = parts.into_iter().enumerate().map(|(at, part)| (format!("d{at}"), part));
        if let Value::Object(fields) = &mut root {
            fields.insert("$defs".into(), Value::Object(parts.collect()));
        }
        joined(&root.to_string(), &value)
    })
}

/// Definitions of a few nodes in a row, some with loops, and with all kinds of ports.
pub(crate) fn definitions() -> impl Strategy<Value = Vec<u8>> {
    let node = (any::<u8>(), expression(), schema(), value());
    (vec(node, 1..6), any::<u8>(), inputs()).prop_map(|(parts, back, inputs)| {
        let count = parts.len();
        let nodes: Vec<Value> =
            parts.iter().enumerate().map(|(at, part)| node_of(at, part)).collect();
        let mut edges: Vec<Value> =
            (1..count).map(|at| edge(at - 1, at, parts[at].0 % 3 == 0, &parts[at].1)).collect();
        if back % 4 == 0 {
            edges.push(edge(count - 1, 0, false, ""));
        }
        let whole = json!({ "id": "w", "name": "W", "version": "1.0.0", "nodes": nodes,
            "edges": edges, "triggers": [], "variables": [], "metadata": {},
            "channels": { "c": { "reducer": "append", "schema": { "items": parts[0].2 } } },
            "settings": { "timeout": 0, "maxRetries": 0 } });
        joined(&whole.to_string(), &inputs)
    })
}

pub(crate) fn bodies() -> impl Strategy<Value = Vec<u8>> {
    let nested = (0_usize..200, value()).prop_map(|(levels, inner)| {
        let open = "[".repeat(levels);
        let close = "]".repeat(levels);
        format!("{{\"workflowId\":\"w\",\"inputs\":{{\"v\":{open}{inner}{close}}}}}").into_bytes()
    });
    let plain = value().prop_map(|value| value.to_string().into_bytes());
    prop_oneof![nested, plain, vec(any::<u8>(), 0..400)]
}

/// One of the corpus with a few bytes changed, left out or doubled.
pub(crate) fn mutated(corpus: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let change = (any::<prop::sample::Index>(), any::<u8>(), 0_usize..40);
    (prop::sample::select(corpus), vec(change, 1..8)).prop_map(|(mut bytes, changes)| {
        for (place, byte, length) in changes {
            if bytes.is_empty() {
                break;
            }
            let at = place.index(bytes.len());
            let end = bytes.len().min(at + length);
            match byte % 3 {
                0 => bytes[at] = byte,
                1 => drop(bytes.drain(at..end)),
                _ => {
                    let part = bytes[at..end].to_vec();
                    bytes.splice(at..at, part);
                }
            }
        }
        bytes
    })
}

fn joined(text: &str, value: &Value) -> Vec<u8> {
    format!("{text}\n---\n{value}").into_bytes()
}

fn node_of(at: usize, (kind, text, schema, value): &(u8, String, Value, Value)) -> Value {
    let kinds = [
        "core.identity",
        "core.conditional",
        "core.channelWrite",
        "core.setVariable",
        "core.loop",
        "core.interrupt",
        "core.noop",
        "core.clarificationGate",
    ];
    let config = json!({ "condition": text, "channelName": "c", "name": "v", "value": value,
        "count": kind, "kind": "custom", "data": { "customKind": "k" }, "resumeSchema": schema,
        "questions": [{ "id": "q", "question": "?", "schema": schema }] });
    json!({ "id": format!("n{at}"), "typeId": kinds[usize::from(*kind) % kinds.len()],
        "name": "N", "position": { "x": 0, "y": 0 }, "config": config,
        "inputs": { "v": { "type": "expression", "expression": text } } })
}

fn edge(from: usize, to: usize, is_conditional: bool, text: &str) -> Value {
    let mut edge = json!({ "id": format!("e{from}-{to}"), "sourceNodeId": format!("n{from}"),
        "targetNodeId": format!("n{to}") });
    if is_conditional {
        edge["condition"] = json!({ "type": "expression", "expression": text });
    }
    edge
}

fn expression() -> impl Strategy<Value = String> {
    let name = prop::sample::select(NAMES.to_vec()).prop_map(str::to_owned);
    let other = prop::sample::select(vec![
        "1",
        "'a'",
        "none",
        "range(999)",
        "[]",
        "nodes",
        "inputs",
        "l[0]",
        "m.a",
    ]);
    let leaf = prop_oneof![3 => name, 2 => other.prop_map(str::to_owned)];
    leaf.prop_recursive(6, 60, 8, |inner| {
        let operator = prop::sample::select(OPERATORS.to_vec());
        let filter = prop::sample::select(FILTERS.to_vec());
        prop_oneof![
            (inner.clone(), operator, inner.clone())
                .prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            (inner.clone(), filter).prop_map(|(a, filter)| format!("({a}|{filter})")),
            // The same thing again and again is what bytes alone do not pay for.
            (inner.clone(), 1_usize..40)
                .prop_map(|(a, times)| format!("[{}]", vec![a; times].join(", "))),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} is in({b}))")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} if {b} else {b})")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("({a}[{b}:])")),
        ]
    })
}

fn inputs() -> impl Strategy<Value = Value> {
    (0_usize..20_000, 0_usize..100_000, value()).prop_map(|(items, signs, value)| {
        let list: Vec<usize> = (0..items).collect();
        let rows: Vec<Value> = (0..items / 50).map(|at| json!({ "k": at % 7, "v": value })).collect();
        json!({ "l": list, "t": "ab".repeat(signs / 2), "m": { "a": value }, "n": items, "rows": rows })
    })
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-c]{0,12}".prop_map(Value::from),
        (0_usize..5_000).prop_map(|signs| Value::from("ab".repeat(signs))),
        (0_usize..3_000).prop_map(|items| json!((0..items).collect::<Vec<usize>>())),
    ];
    leaf.prop_recursive(6, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            vec(("[a-d]", inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        prop::sample::select(vec!["object", "array", "string", "integer"])
            .prop_map(|kind| json!({ "type": kind })),
        (0_usize..6).prop_map(|at| json!({ "$ref": format!("#/$defs/d{at}") })),
        Just(json!({ "$ref": "#" })),
        Just(json!({ "$dynamicRef": "#n" })),
        Just(json!({ "$dynamicAnchor": "n", "type": "object" })),
        Just(json!({ "uniqueItems": true })),
        (1_usize..2_000).prop_map(|times| json!({ "pattern": format!("[ab]*a[ab]{{{times}}}") })),
        (0_usize..500).prop_map(|count| json!({ "enum": (0..count).collect::<Vec<usize>>() })),
    ];
    leaf.prop_recursive(5, 50, 6, |inner| {
        let all = prop::sample::select(vec!["allOf", "anyOf", "oneOf", "prefixItems"]);
        let one = prop::sample::select(vec![
            "not",
            "if",
            "then",
            "else",
            "items",
            "contains",
            "additionalProperties",
            "propertyNames",
            "unevaluatedProperties",
            "unevaluatedItems",
        ]);
        let named =
            prop::sample::select(vec!["properties", "patternProperties", "dependentSchemas"]);
        prop_oneof![
            (all, vec(inner.clone(), 1..6)).prop_map(|(name, parts)| json!({ name: parts })),
            vec((one, inner.clone()), 1..4).prop_map(|parts| {
                Value::Object(
                    parts
                        .into_iter()
                        .map(|(name, part)| (name.to_owned(), part))
                        .collect::<Map<_, _>>(),
                )
            }),
            (named, vec(("[a-d]", inner), 1..5)).prop_map(|(name, parts)| {
                json!({ name: parts.into_iter().collect::<Map<_, _>>() })
            }),
        ]
    })
}
