//! Schemas of strangers: compiled, and only if checking against them is sure to end.

use serde_json::{Value, json};

use crate::given::good;

fn compile(schema: &Value) -> Result<(), String> {
    let mut draft = good();
    draft.file("schemas/task.json", schema.to_string());
    draft.vet().map(|_| ()).map_err(|error| {
        assert_eq!(error.code(), "pack_load_failure");
        error.to_string()
    })
}

fn refused(schema: &Value, why: &str) {
    let error = compile(schema).unwrap_err();
    assert!(error.contains(why), "{error}");
}

#[test]
fn only_the_dialect_of_2020_12_is_accepted() {
    let dialect = |text: &str| json!({ "$schema": text, "type": "object" });
    assert_eq!(compile(&dialect("https://json-schema.org/draft/2020-12/schema")), Ok(()));
    for old in [
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "https://example.org/own",
    ] {
        refused(&dialect(old), "is not the dialect 2020-12");
    }
}

#[test]
fn references_stay_in_the_file() {
    let reference =
        |to: &str| json!({ "properties": { "a": { "$ref": to } }, "$defs": { "b": true } });
    assert_eq!(compile(&reference("#/$defs/b")), Ok(()));
    assert_eq!(compile(&reference("#")), Ok(()), "a tree may hold trees");
    for to in ["https://example.org/a.json", "other.json", "file:///etc/passwd", "../task.json"] {
        refused(&reference(to), "must refer to a place in the same file");
    }
    let inner = json!({ "allOf": [{ "$ref": "#/$defs/gone" }] });
    refused(&inner, "leads nowhere");
}

#[test]
fn a_schema_without_end_is_refused() {
    refused(&json!({ "$ref": "#" }), "refers to itself without end");
    refused(&json!({ "allOf": [{ "$ref": "#" }] }), "refers to itself without end");
    let ring = json!({
        "properties": { "a": { "$ref": "#/$defs/x" } },
        "$defs": { "x": { "anyOf": [{ "$ref": "#/$defs/y" }] }, "y": { "not": { "$ref": "#/$defs/x" } } }
    });
    refused(&ring, "refers to itself without end");
    let anchors = json!({ "$anchor": "me", "if": { "$ref": "#me" } });
    refused(&anchors, "refers to itself without end");
}

#[test]
fn a_property_may_be_called_like_a_keyword_of_data_and_is_a_schema_all_the_same() {
    for name in ["const", "default", "enum", "examples"] {
        let named = |schema: Value| json!({ "properties": { name: schema } });
        assert_eq!(compile(&named(json!({ "type": "string" }))), Ok(()), "{name}");
        let itself = json!({ "$ref": format!("#/properties/{name}") });
        refused(&named(itself.clone()), "refers to itself without end");
        refused(&named(json!({ "allOf": [itself, itself] })), "refers to itself without end");
        refused(&named(json!({ "$ref": "https://example.org/a" })), "in the same file");
        refused(&named(json!({ "required": vec!["a"; 20_000] })), "values");
        assert_eq!(compile(&json!({ name: [{ "$ref": "https://example.org/a" }] })), Ok(()));
    }
}

#[test]
fn no_reference_leads_into_data() {
    let data = json!({ "$ref": "#/default", "default": { "$ref": "#/default" } });
    refused(&data, "leads nowhere");
}

#[test]
fn each_schema_with_an_anchors_name_may_be_the_one_that_is_meant() {
    let twice = json!({
        "comment": { "$anchor": "me" },
        "$defs": { "a": { "$anchor": "me", "allOf": [{ "$ref": "#me" }] } },
        "properties": { "a": { "$ref": "#me" } }
    });
    refused(&twice, "refers to itself without end");
}

#[test]
fn the_older_word_for_dependent_schemas_hides_nothing() {
    refused(&json!({ "dependencies": { "a": { "$ref": "#" } } }), "refers to itself without end");
    assert_eq!(compile(&json!({ "dependencies": { "a": ["b"] } })), Ok(()));
}

#[test]
fn a_long_chain_of_schemas_is_not_followed_to_its_end() {
    let link = |to: usize| {
        let next = json!({ "$ref": format!("#/$defs/l{to}") });
        (0..28).fold(next, |inner, _| json!({ "allOf": [inner] }))
    };
    let mut links: serde_json::Map<String, Value> =
        (0..150).map(|at| (format!("l{at}"), link(at + 1))).collect();
    links.insert("l150".to_owned(), json!(true));
    refused(&json!({ "$ref": "#/$defs/l0", "$defs": links }), "a row of more than 1000 schemas");
}

#[test]
fn a_small_schema_cannot_check_for_ever() {
    // Each level doubles how often the next one looks at the same value.
    let mut levels = serde_json::Map::new();
    for level in 0..30 {
        let next = json!({ "$ref": format!("#/$defs/l{}", level + 1) });
        levels.insert(format!("l{level}"), json!({ "allOf": [next, next] }));
    }
    levels.insert("l30".to_owned(), json!({ "type": "object" }));
    refused(
        &json!({ "$ref": "#/$defs/l0", "$defs": levels }),
        "4294967294 rules would look at one value",
    );
}

#[test]
fn a_schema_that_doubles_with_each_level_is_checked_only_so_deep() {
    let nested = |depth: usize| (0..depth).fold(json!({}), |inner, _| json!({ "a": inner }));
    let task = |schema: Value| {
        let mut draft = good();
        draft.file("schemas/task.json", schema.to_string());
        draft.vet().unwrap().pack.agents[0].task.clone().unwrap()
    };
    let twice = json!([{ "$ref": "#" }, { "$ref": "#" }]);
    for doubling in [
        json!({ "properties": { "a": { "allOf": twice } } }),
        json!({ "anyOf": [{ "properties": { "a": { "$ref": "#" } } }, { "additionalProperties": { "$ref": "#" } }] }),
        json!({ "patternProperties": { "a": { "$ref": "#" }, "^a$": { "$ref": "#" } } }),
    ] {
        let task = task(doubling);
        assert_eq!(task.violations(&nested(8)), [""; 0]);
        let refused = task.violations(&nested(120));
        assert!(refused[0].starts_with("is too large for its schema"), "{refused:?}");
    }
    // Trees and chains may be as deep as JSON can be read.
    for plain in [
        json!({ "properties": { "a": { "$ref": "#" }, "b": { "$ref": "#" } } }),
        json!({ "additionalProperties": { "$ref": "#" } }),
        json!({ "type": "object" }),
    ] {
        assert_eq!(task(plain).violations(&nested(120)), [""; 0]);
    }
}

#[test]
fn size_depth_and_references_are_bounded() {
    refused(&json!({ "description": "x".repeat(300 << 10) }), "bytes");
    refused(&json!({ "enum": [], "required": vec!["a"; 20_000] }), "values");
    let deep = (0..70).fold(json!(true), |inner, _| json!({ "not": inner }));
    refused(&deep, "levels deep");
    let many: Vec<Value> = vec![json!({ "$ref": "#/$defs/a" }); 300];
    refused(&json!({ "prefixItems": many, "$defs": { "a": true } }), "references");
}

#[test]
fn patterns_are_linear() {
    assert_eq!(compile(&json!({ "pattern": "^(a+)+$" })), Ok(()));
    let schema = json!({ "type": "string", "pattern": "^(a+)+$" });
    let mut draft = good();
    draft.file("schemas/task.json", schema.to_string());
    let vetted = draft.vet().unwrap();
    let task = vetted.pack.agents[0].task.as_ref().unwrap();
    assert_eq!(task.violations(&json!(format!("{}b", "a".repeat(50_000)))).len(), 1);
    refused(&json!({ "pattern": "(a{1000}){1000}" }), "schemas/task.json");
    refused(&json!({ "pattern": "(?=a)b" }), "schemas/task.json");
}

#[test]
fn violations_name_the_place_and_never_the_value() {
    let schema = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["text"],
        "properties": { "text": { "type": "string", "maxLength": 3 } }
    });
    let mut draft = good();
    draft.file("schemas/task.json", schema.to_string());
    let vetted = draft.vet().unwrap();
    let task = vetted.pack.agents[0].task.as_ref().unwrap();
    assert_eq!(task.violations(&json!({ "text": "abc" })), [""; 0]);
    let found = task.violations(&json!({ "text": "hunter2" }));
    assert!(found[0].starts_with("/text: ") && !found[0].contains("hunter2"), "{found:?}");
    assert_eq!(task.violations(&json!({})).len(), 1);
}
