//! `core.hitl.*`: what is asked, and what an answer comes to under the pack's schemas.

use callboard_core::{Schema, published_type};
use callboard_protocol::RunStatus;
use serde_json::{Value, json};

use crate::given::{Do, Given, given};
use crate::story::{Played, play};

fn asks(type_id: &str, config: Value, inputs: &[(&str, Value)]) -> Given {
    let ports: serde_json::Map<String, Value> = inputs
        .iter()
        .map(|(port, value)| ((*port).to_owned(), json!({ "type": "static", "value": value })))
        .collect();
    given(&format!("n:{type_id}")).config("n", config).ports("n", Value::Object(ports))
}

fn answered(flow: &Given, answer: Value) -> Played {
    play(flow, &[(0, Do::Start), (1_000, Do::Answer("n", answer))])
}

/// What came of it, which the pack's schema allows.
fn outputs(type_id: &str, played: &Played) -> Value {
    let outputs = played.payload("node.completed")["outputs"].clone();
    let schema = &published_type(type_id).expect("it is published").outputs;
    let schema = Schema::compile(schema.to_string().as_bytes()).expect("a schema");
    assert_eq!(schema.violations(&outputs), Vec::<String>::new(), "{outputs}");
    outputs
}

#[test]
fn an_approval_comes_to_its_decision_also_where_it_is_a_rejection() {
    let type_id = "core.hitl.approval-request";
    let config = json!({ "deadlineSeconds": 60 });
    let shown = json!({ "draft": "Dear Ann" });
    let flow = asks(type_id, config, &[("prompt", json!("Send it?")), ("metadata", shown.clone())]);
    let played = play(&flow, &[(0, Do::Start)]);
    assert_eq!(played.run.status(), RunStatus::WaitingApproval);
    let asked = played.payload("interrupt.requested");
    assert_eq!(
        (&asked["data"]["title"], &asked["data"]["artifactData"]),
        (&json!("Send it?"), &shown)
    );
    for (action, decision) in [("accept", "approve"), ("reject", "reject")] {
        let played = answered(&flow, json!({ "action": action, "feedback": "because" }));
        let outputs = outputs(type_id, &played);
        assert_eq!(
            (&outputs["decision"], &outputs["comment"]),
            (&json!(decision), &json!("because"))
        );
        assert!(outputs["decidedAt"].is_string() && outputs["decidedBy"].is_string(), "{outputs}");
        assert_eq!(played.run.status(), RunStatus::Completed);
    }
    let late = play(&flow, &[(0, Do::Start), (60_000, Do::Continue)]);
    assert_eq!(late.payload("node.failed")["error"]["code"], "approval_rejected");
}

#[test]
fn a_quorum_takes_as_many_as_it_says() {
    let config = json!({ "quorum": 2, "approvers": ["ann", "bob"] });
    let flow = asks("core.hitl.approval-request", config, &[("prompt", json!("Send it?"))]);
    let asked = play(&flow, &[(0, Do::Start)]).payload("interrupt.requested");
    assert_eq!(asked["data"]["requiredApprovals"], 2);
    assert_eq!(asked["data"]["approversList"], json!(["ann", "bob"]));
}

#[test]
fn a_question_comes_to_its_answer() {
    let flow = asks("core.hitl.ask-user", json!({}), &[("prompt", json!("Which colour?"))]);
    let played = answered(&flow, json!({ "answers": { "answer": "blue" } }));
    assert_eq!(outputs("core.hitl.ask-user", &played)["answer"], "blue");
}

#[test]
fn a_form_is_filled_in_declined_or_refused() {
    let type_id = "core.hitl.form-request";
    let form = json!({ "type": "object", "required": ["age"], "properties": { "age": { "type": "integer" } } });
    let flow = asks(type_id, json!({ "formSchema": form }), &[("prompt", json!("Your age?"))]);
    let filled = json!({ "action": "accept", "payload": { "age": 7 } });
    let answer = outputs(type_id, &answered(&flow, filled));
    assert_eq!((&answer["action"], &answer["payload"]["age"]), (&json!("accept"), &json!(7)));
    let answer = outputs(type_id, &answered(&flow, json!({ "action": "decline" })));
    assert_eq!(answer["action"], "decline");
    let asked = play(&flow, &[(0, Do::Start)]).payload("interrupt.requested");
    let schema = Schema::compile(asked["resumeSchema"].to_string().as_bytes()).expect("a schema");
    for wrong in
        [json!({ "action": "accept" }), json!({ "action": "accept", "payload": { "age": "x" } })]
    {
        assert!(!schema.violations(&wrong).is_empty(), "{wrong}");
    }
}

#[test]
fn a_prompt_of_the_wrong_kind_is_refused_in_words() {
    for type_id in ["core.hitl.approval-request", "core.hitl.ask-user", "core.hitl.form-request"] {
        let config = match type_id {
            "core.hitl.form-request" => json!({ "formSchema": {} }),
            _ => json!({}),
        };
        let played = play(&asks(type_id, config, &[("prompt", json!(7))]), &[(0, Do::Start)]);
        let error = played.payload("node.failed")["error"].clone();
        assert_eq!(error["message"], "the input prompt must be a text", "{type_id}");
    }
}
