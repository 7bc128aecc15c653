//! Questions that show what they ask: from the ports of the node that asks, and on to those behind it.

use callboard_protocol::RunStatus;
use serde_json::{Value, json};

use crate::given::{Do, Given, given};
use crate::story::{Played, play};

fn connection(node: &str, key: &str) -> Value {
    json!({ "type": "connection", "nodeId": node, "outputKey": key })
}

/// A draft, somebody who looks at it, and whoever gets what was agreed on.
fn desk() -> Given {
    given("write:ai look:approvalGate send:identity")
        .edges("write>look look>send")
        .config("look", json!({ "title": "not this", "actions": ["accept", "edit-accept"] }))
        .ports(
            "look",
            json!({
                "title": { "type": "expression", "expression": "'Send to ' ~ nodes.write.to ~ '?'" },
                "description": { "type": "static", "value": { "why": "it is late" } },
                "artifact": connection("write", "draft"),
            }),
        )
        .ports("send", json!({ "letter": connection("look", "artifactData") }))
}

fn asked() -> Played {
    let draft = json!({ "to": "Ada", "draft": { "text": "Dear Ada" } });
    play(&desk(), &[(0, Do::Start), (1, Do::Done("write", draft))])
}

#[test]
fn an_approval_shows_what_its_ports_hold() {
    let played = asked();
    assert_eq!(played.run.status(), RunStatus::WaitingApproval);
    let data = played.run.interrupts().next().expect("a question").data;
    assert_eq!(data["title"], "Send to Ada?");
    assert_eq!(data["description"], "{\"why\":\"it is late\"}", "a description is text");
    assert_eq!(data["artifactData"], json!({ "text": "Dear Ada" }));
    assert_eq!(played.payload("approval.requested")["title"], "Send to Ada?");
}

#[test]
fn what_was_accepted_or_edited_flows_on() {
    let edited = json!({ "text": "Dear Ada Lovelace" });
    for (answer, expected) in [
        (json!({ "action": "accept" }), json!({ "text": "Dear Ada" })),
        (json!({ "action": "edit-accept", "editedArtifactData": edited }), edited.clone()),
    ] {
        let mut played = asked();
        played.step(5, &Do::Answer("look", answer.clone()));
        assert_eq!(played.run.status(), RunStatus::Completed, "{:#?}", played.lines);
        assert_eq!(played.variable("letter"), expected, "{answer}");
        assert_eq!(played.variable("look")["action"], answer["action"]);
    }
    let plain = given("look:approvalGate");
    let steps = [(0, Do::Start), (1, Do::Answer("look", json!({ "action": "accept" })))];
    let shown = play(&plain, &steps).variable("look");
    assert_eq!(shown, json!({ "action": "accept" }), "nothing was shown, so nothing flows on");
}

#[test]
fn questions_and_forms_come_from_ports_too() {
    let ask = json!([{ "id": "colour", "question": "Which colour?" }]);
    let flow = given("ask:clarificationGate")
        .ports("ask", json!({ "questions": { "type": "static", "value": ask } }));
    let played = play(&flow, &[(0, Do::Start)]);
    assert_eq!(played.run.interrupts().next().expect("a question").data["questions"], ask);

    let form = |schema: Value| {
        given("fill:interrupt")
            .config("fill", json!({ "kind": "custom", "data": { "customKind": "order" } }))
            .ports(
                "fill",
                json!({
                    "resumeSchema": { "type": "static", "value": schema },
                    "draft": { "type": "static", "value": { "pieces": 2 } },
                }),
            )
    };
    let wants = json!({ "type": "object", "required": ["pieces"] });
    let mut played = play(&form(wants.clone()), &[(0, Do::Start)]);
    let view = played.run.interrupts().next().expect("a question");
    assert_eq!(view.data, json!({ "customKind": "order", "draft": { "pieces": 2 } }));
    assert_eq!(view.resume_schema.map(Value::Object), Some(wants));
    played.step(1, &Do::Answer("fill", json!({})));
    assert!(played.lines.last().is_some_and(|line| line.starts_with("refused")), "no pieces");
    played.step(2, &Do::Answer("fill", json!({ "pieces": 3 })));
    assert_eq!(played.variable("fill"), json!({ "pieces": 3 }));
    let broken = play(&form(json!({ "type": 7 })), &[(0, Do::Start)]);
    assert!(broken.lines.contains(&"node.failed fill validation_error".to_owned()));
}
