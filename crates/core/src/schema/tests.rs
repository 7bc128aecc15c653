//! What a schema of a stranger may cost, as it is compiled and as values are checked.

use serde_json::{Value, json};

use super::*;

fn compiled(schema: &Value) -> Result<Schema, String> {
    Schema::compile(schema.to_string().as_bytes())
}

/// A schema whose `count` definitions each use the next, as `link` says.
fn chain(count: usize, link: impl Fn(&Value) -> Value) -> Value {
    let mut defs = Object::new();
    for place in 0..count {
        let next = json!({ "$ref": format!("#/$defs/d{}", place + 1) });
        defs.insert(format!("d{place}"), link(&next));
    }
    defs.insert(format!("d{count}"), json!({ "type": "object" }));
    json!({ "$ref": "#/$defs/d0", "$defs": defs })
}

#[test]
fn a_schema_that_doubles_is_refused_with_its_cost() {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let why = compiled(&chain(60, |next| json!({ keyword: [next, next] }))).unwrap_err();
        // Sixty times doubled, and the references to it.
        assert!(why.contains("4611686018427387902 rules would look at one value"), "{why}");
        assert!(why.contains("at most 1000"), "{why}");
    }
    let twice = chain(60, |next| json!({ "if": next, "then": next, "else": next, "not": next }));
    assert!(compiled(&twice).unwrap_err().contains("18446744073709551615 rules"));
    let again = chain(30, |next| json!({ "allOf": [next], "unevaluatedProperties": false }));
    assert!(compiled(&again).unwrap_err().contains("is too costly"));
    let dynamic = json!({ "$defs": {
        "a": { "$dynamicAnchor": "n", "allOf": [{ "$dynamicRef": "#m" }, { "$dynamicRef": "#m" }] },
        "b": { "$dynamicAnchor": "m", "allOf": [{ "$dynamicRef": "#n" }, { "$dynamicRef": "#n" }] },
    }, "$dynamicRef": "#n" });
    assert_eq!(compiled(&dynamic).unwrap_err(), "a schema refers to itself without end");
}

#[test]
fn what_is_too_much_to_compile_is_refused() {
    let patterns: Object =
        (0..101).map(|at| (format!("p{at}"), json!({ "pattern": format!("{at}") }))).collect();
    let enumeration: Vec<String> = (0..30_000).map(|at| format!("option {at}")).collect();
    let properties =
        |count: usize| -> Object { (0..count).map(|at| (format!("p{at}"), json!({}))).collect() };
    let patterned: Object = (0..90).map(|at| (format!("^{at}"), json!({}))).collect();
    for (schema, why) in [
        (json!({ "properties": patterns }), "more than 100 patterns"),
        (json!({ "enum": enumeration }), "at most 262144 bytes"),
        (json!({ "properties": properties(10_001) }), "at most 10000 values"),
        (
            json!({ "properties": properties(1_000), "patternProperties": patterned }),
            "ways through it",
        ),
        (json!({ "pattern": r"(\p{L}{100}){100}" }), "pattern"),
        (json!({ "pattern": "(a)\\1" }), "pattern"),
        ((0..70).fold(json!({}), |inner, _| json!({ "not": inner })), "64 levels deep"),
        (json!({ "$ref": "https://example.com/other.json" }), "same file"),
    ] {
        let refused = compiled(&schema).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn schemas_that_come_together_share_a_limit() {
    let mut compiler = Compiler::default();
    let text = "x".repeat(200_000);
    let large = json!({ "const": text });
    let results: Vec<bool> = (0..7).map(|_| compiler.compile(large.clone()).is_ok()).collect();
    assert_eq!(results, [true, true, true, true, true, false, false]);
}

#[test]
fn a_check_that_would_take_too_long_is_not_made() {
    let numbers = json!((0..600_000).collect::<Vec<u32>>());
    let plain = compiled(&json!({ "items": { "type": "integer" } })).unwrap();
    assert_eq!(plain.violations(&numbers), [""; 0]);

    let many: Vec<Value> = (0..900).map(|_| json!({ "minimum": 0 })).collect();
    let costly = compiled(&json!({ "items": { "allOf": many } })).unwrap();
    assert!(costly.violations(&numbers)[0].starts_with("is too large for its schema"));
    assert_eq!(costly.violations(&json!([1, 2, 3])), [""; 0]);
    assert_eq!(costly.violations(&json!([-1])).len(), MOST_VIOLATIONS);

    let pattern = compiled(&json!({ "pattern": "[ab]*a[ab]{1500}c" })).unwrap();
    assert!(pattern.violations(&json!("ab".repeat(1 << 20)))[0].contains("too large"));
    assert_eq!(pattern.violations(&json!(format!("a{}c", "b".repeat(1_500)))), [""; 0]);

    let options: Vec<u32> = (0..9_000).collect();
    let enumeration = compiled(&json!({ "items": { "enum": options } })).unwrap();
    assert!(enumeration.violations(&numbers)[0].contains("too large"));
}

/// Twice as many rules for each level: forty levels would take a million million.
#[test]
fn a_schema_that_doubles_with_depth_takes_only_what_is_flat_enough() {
    let node = json!({ "$defs": { "n": { "allOf": [
        { "properties": { "x": { "$ref": "#/$defs/n" } } },
        { "properties": { "x": { "$ref": "#/$defs/n" } } } ] } }, "$ref": "#/$defs/n" });
    let schema = compiled(&node).unwrap();
    let nested = |levels| (0..levels).fold(json!({}), |inner, _| json!({ "x": inner }));
    assert_eq!(schema.violations(&nested(8)), [""; 0]);
    assert!(schema.violations(&nested(40))[0].contains("too large"));

    let again = json!({ "unevaluatedProperties": { "$ref": "#" } });
    let schema = compiled(&again).unwrap();
    assert_eq!(schema.violations(&nested(8)), [""; 0]);
    assert!(schema.violations(&nested(40))[0].contains("too large"));
}

#[test]
fn what_is_wrong_with_a_large_value_is_not_gathered() {
    let schema = compiled(&json!({ "items": { "type": "string" } })).unwrap();
    let numbers = json!((0..600_000).collect::<Vec<u32>>());
    assert_eq!(
        schema.violations(&numbers),
        ["does not match its schema, and is too large to say where"]
    );
    assert_eq!(schema.violations(&json!([1]))[0], "/0: value is not of type \"string\"");
}

#[test]
fn an_unusable_schema_lets_nothing_through() {
    let schema = Schema::unusable(&Object::new(), "is too costly");
    assert_eq!(
        schema.violation(&Value::Null).unwrap().to_string(),
        "cannot be checked, because its schema is too costly"
    );
}
