//! What the scripted model answers.

use std::sync::Arc;

use super::super::{RetryAdvice, Tries, Verdict, judge};
use super::*;
use crate::pack::Schema;

fn request(task: &str, schema: Option<Value>) -> ModelRequest {
    ModelRequest {
        model: super::super::ModelRef::scripted(),
        system: None,
        messages: vec![Message::User { text: task.to_owned() }],
        tools: Vec::new(),
        response_schema: schema.map(Arc::new),
        max_output_tokens: 1000,
        temperature: None,
        seed: None,
        idempotency_key: "e".to_owned(),
        key: None,
        call_prefix: "inv-0".to_owned(),
        run: None,
    }
}

async fn asked(request: &ModelRequest) -> Turn {
    Scripted.turn(request, &mut ()).await.unwrap()
}

async fn answered(task: &str, schema: Value) -> Value {
    let turn = asked(&request(task, Some(schema))).await;
    serde_json::from_str(&turn.text).unwrap()
}

#[tokio::test]
async fn the_markers_of_untrusted_text_are_no_part_of_the_task() {
    let task = crate::tool::untrusted("Sort the mail");
    let turn = asked(&request(&task, None)).await;
    assert_eq!(turn.text, "[scripted] No model was asked. The task was: Sort the mail");
}

#[tokio::test]
async fn the_answer_says_that_it_is_scripted_and_what_the_task_was() {
    let request = request("Sort   the\nmail", None);
    let mut deltas = Vec::new();
    let turn = Scripted.turn(&request, &mut deltas).await.unwrap();
    assert_eq!(turn.text, "[scripted] No model was asked. The task was: Sort the mail");
    let told = deltas.iter().map(|delta| match delta {
        Delta::Text(text) => text.as_str(),
        other @ Delta::Thinking(_) => panic!("{other:?}"),
    });
    assert_eq!(told.collect::<String>(), turn.text);
    assert_eq!(turn, asked(&request).await, "the same question has the same answer");
    assert!(turn.usage.is_some_and(|usage| usage.input > 0 && usage.output > 0));
}

#[tokio::test]
async fn a_schema_is_satisfied_with_the_least_that_says_something() {
    let schema = json!({
        "type": "object",
        "required": ["kind", "title", "count", "list", "when", "code", "choice", "inner", "pair"],
        "properties": {
            "kind": { "const": "triage" },
            "title": { "type": "string", "maxLength": 20 },
            "count": { "type": "integer", "minimum": 2, "maximum": 5 },
            "list": { "type": "array", "minItems": 2, "uniqueItems": true, "items": { "type": "string" } },
            "when": { "type": "string", "format": "date-time" },
            "code": { "type": "string", "pattern": "^[a-z]+$" },
            "choice": { "enum": ["low", "high"] },
            "inner": { "$ref": "#/$defs/inner" },
            "pair": { "anyOf": [{ "type": "number", "exclusiveMinimum": 0 }, { "type": "null" }] },
            "confidence": { "type": "number", "minimum": 0, "maximum": 1 },
            "optional": { "type": "string" }
        },
        "$defs": { "inner": { "allOf": [
            { "type": "object", "required": ["a"], "properties": { "a": { "default": 7 } } },
            { "type": "object", "required": ["b"], "properties": { "b": { "type": "boolean" } } }
        ] } }
    });
    let answer = answered("Sort the mail", schema.clone()).await;
    let violations = Schema::compile(schema.to_string().as_bytes()).unwrap().violations(&answer);
    assert_eq!(violations, [""; 0], "{answer:#}");
    assert_eq!(answer["title"], "[scripted] Sort the ");
    assert_eq!(answer["inner"], json!({ "a": 7, "b": true }));
    assert_eq!((&answer["confidence"], answer.get("optional")), (&json!(0.9), None));
}

#[test]
fn an_answer_without_a_task_matches_its_schema_too() {
    let schemas = [
        json!({ "type": "object", "required": ["a", "b"], "properties": {
            "a": { "type": "string", "minLength": 60, "maxLength": 80 },
            "b": { "type": "array", "minItems": 2, "items": { "$ref": "#/$defs/item" } },
            "confidence": { "type": "number", "minimum": 0, "maximum": 1 } },
            "additionalProperties": false,
            "$defs": { "item": { "type": "integer", "minimum": 3 } } }),
        json!({ "oneOf": [
            { "type": "object", "required": ["ok"], "properties": { "ok": { "const": true } } },
            { "type": "object", "required": ["error"] } ] }),
        json!({ "type": "string", "enum": ["low", "high"] }),
        json!({ "allOf": [{ "type": "object", "required": ["x"] },
            { "required": ["y"], "properties": { "y": { "type": "boolean" } } }] }),
    ];
    for schema in schemas {
        let given = scripted_answer(Some(&schema), "Ann");
        assert!(jsonschema::is_valid(&schema, &given), "{schema}: {given}");
        assert_eq!(given, scripted_answer(Some(&schema), "Ann"));
    }
    assert_eq!(scripted_answer(None, "Ann"), json!({ "text": "[scripted] answer of Ann" }));
}

#[test]
fn a_schema_that_asks_for_more_than_there_is_gets_less() {
    let endless = json!({ "type": "object", "required": ["next"],
        "properties": { "next": { "$ref": "#" } } });
    assert!(scripted_answer(Some(&endless), "Ann").is_object());
    let twice = json!({ "type": "array", "minItems": 64, "items": { "$ref": "#" } });
    assert!(scripted_answer(Some(&twice), "Ann").to_string().len() < 100_000);
    let long = json!({ "type": "string", "minLength": u64::MAX });
    assert!(scripted_answer(Some(&long), "Ann").to_string().len() < 256 << 10);
}

#[tokio::test]
async fn a_task_sets_the_confidence() {
    let schema = json!({ "type": "object", "properties": { "_confidence": { "type": "number" } } });
    let answer = answered("Go [[scripted: confidence 0.25]]", schema).await;
    assert_eq!(answer, json!({ "_confidence": 0.25 }));
}

#[tokio::test]
async fn a_task_asks_for_a_refusal_or_an_error() {
    let refused = asked(&request("[[scripted: refuse]]", None)).await;
    assert_eq!(refused.stop, StopReason::Refusal);
    let filtered = asked(&request("[[scripted: filter]]", None)).await;
    assert_eq!(filtered.stop, StopReason::ContentFilter);
    let busy = request("[[scripted: error 429]]", None);
    let error = Scripted.turn(&busy, &mut ()).await.unwrap_err();
    assert_eq!(error.advice(), RetryAdvice::Retry { after: None });
    let unknown = request("[[scripted: dance]]", None);
    let error = Scripted.turn(&unknown, &mut ()).await.unwrap_err();
    assert_eq!(error.fault, Fault::Rejected);
}

#[tokio::test]
async fn tools_are_called_one_after_the_other_and_then_it_answers() {
    let task = "Look [[scripted: tool a.b {\"q\":1}]] [[scripted: tool c]]";
    let mut request = request(task, None);
    for (step, name) in ["a.b", "c"].into_iter().enumerate() {
        request.call_prefix = format!("inv-{step}");
        let turn = asked(&request).await;
        assert_eq!(turn.stop, StopReason::ToolCalls);
        assert_eq!(turn.tool_calls[0].name, name);
        assert_eq!(turn.tool_calls[0].id, format!("inv-{step}-0"));
        request.messages.push(Message::Assistant { text: turn.text, calls: turn.tool_calls });
    }
    assert_eq!(asked(&request).await.stop, StopReason::Stop);
}

/// a whole conversation with the judge, until it is satisfied.
async fn settled(task: &str) -> (Verdict, u32) {
    let schema = json!({ "type": "object", "required": ["title"],
        "properties": { "title": { "type": "string" } } });
    let compiled = Schema::compile(schema.to_string().as_bytes()).unwrap();
    let mut request = request(task, Some(schema));
    let mut tries =
        Tries { made: 1, most: 4, may_repair: true, max_output_tokens: 1000, ceiling: 64_000 };
    loop {
        let verdict = judge(&asked(&request).await, Some(&compiled), tries);
        tries.made += 1;
        match verdict {
            Verdict::RetryLonger { max_output_tokens } => {
                request.max_output_tokens = max_output_tokens;
                tries.max_output_tokens = max_output_tokens;
            }
            Verdict::Repair { fragment, .. } => {
                request = request.repaired(&fragment);
                tries.may_repair = false;
            }
            verdict => return (verdict, tries.made - 1),
        }
    }
}

#[tokio::test]
async fn every_way_to_a_good_answer_is_walked() {
    for (task, expected) in [
        ("plain", 1),
        ("[[scripted: truncate below 3000]]", 3),
        ("[[scripted: invalid once]]", 2),
        ("[[scripted: violate once]]", 2),
    ] {
        let (verdict, turns) = settled(task).await;
        assert!(matches!(verdict, Verdict::Accepted { .. }), "{task}: {verdict:?}");
        assert_eq!(turns, expected, "{task}");
    }
    for (task, reason, turns) in [
        ("[[scripted: truncate]]", "truncation", 4),
        ("[[scripted: invalid]]", "parse-error", 2),
        ("[[scripted: violate]]", "schema-violation", 2),
    ] {
        let (verdict, made) = settled(task).await;
        let Verdict::Exhausted(exhausted) = verdict else { panic!("{task}: {verdict:?}") };
        assert_eq!((exhausted.reason.as_str(), made), (reason, turns), "{task}");
    }
}

#[tokio::test]
async fn a_turn_that_was_kept_is_read_as_it_was() {
    let turn = asked(&request("Look [[scripted: tool a.b {\"q\":1}]]", None)).await;
    let kept = serde_json::to_value(&turn).unwrap();
    assert_eq!(serde_json::from_value::<Turn>(kept).unwrap(), turn);
    let least: Turn = serde_json::from_value(json!({ "text": "", "stop": "tool_calls" })).unwrap();
    assert_eq!((least.stop, least.usage), (StopReason::ToolCalls, None));
}
