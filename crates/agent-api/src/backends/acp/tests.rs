//! Both sides of an ACP conversation, without an agent.

use serde_json::{Value, json};

use super::dialogue::Dialogue;
use crate::backends::rpc::rehearsal::{answers, failure, tell};
use crate::error::FailureClass;
use crate::grant::Grant;
use crate::options::{Origin, Selector};
use crate::permission::{Decision, Permission};
use crate::transcript::{Fact, Mapper};

fn dialogue(origin: Origin) -> Dialogue {
    Dialogue::new("do it".into(), "/w".into(), origin, [Grant::Shell].into())
}

fn id(id: &str) -> Selector {
    Selector::Id(id.into())
}

#[test]
fn a_new_session_is_opened_and_prompted() {
    let mut ours = dialogue(Origin::New);
    let opened = answers(&tell(&mut ours, &json!({ "id": 1, "result": {} })));
    assert_eq!(opened[0]["method"], "session/new");
    assert_eq!(opened[0]["params"]["cwd"], "/w");
    let prompted = tell(&mut ours, &json!({ "id": 2, "result": { "sessionId": "s-1" } }));
    assert_eq!(prompted[0], Fact::Session("s-1".into()));
    let prompt = &answers(&prompted)[0];
    assert_eq!(prompt["method"], "session/prompt");
    assert_eq!(prompt["params"]["prompt"], json!([{ "type": "text", "text": "do it" }]));
    let ended = tell(&mut ours, &json!({ "id": 3, "result": { "stopReason": "end_turn" } }));
    assert!(ended.contains(&Fact::HangUp));
    assert_eq!(failure(&ended), None);
}

// T50
#[test]
fn a_session_is_continued_in_the_way_that_the_agent_offers() {
    let resumes =
        json!({ "sessionCapabilities": { "resume": {}, "fork": {} }, "loadSession": true });
    let loads = json!({ "loadSession": true });
    for (origin, offered, method) in [
        (Origin::Resume(id("s-1")), &resumes, "session/resume"),
        (Origin::Resume(id("s-1")), &loads, "session/load"),
        (Origin::Fork(id("s-1")), &resumes, "session/fork"),
    ] {
        let result = json!({ "id": 1, "result": { "agentCapabilities": offered } });
        let opened = answers(&tell(&mut dialogue(origin), &result));
        assert_eq!(opened[0]["method"], method);
        assert_eq!(opened[0]["params"]["sessionId"], "s-1");
    }
}

// T18
#[test]
fn what_the_agent_turns_out_not_to_offer_ends_the_run() {
    for origin in [Origin::Resume(id("s-1")), Origin::Fork(id("s-1"))] {
        let facts = tell(&mut dialogue(origin), &json!({ "id": 1, "result": {} }));
        assert_eq!(failure(&facts).unwrap().class, FailureClass::InvalidRequest);
        assert_eq!(answers(&facts), Vec::<Value>::new());
        assert!(facts.contains(&Fact::HangUp));
    }
}

// T51, T52, T53
#[test]
fn only_a_missing_session_is_a_missing_session() {
    let mut ours = dialogue(Origin::Resume(id("s-1")));
    let refused = |code: i64, message: &str| json!({ "id": 2, "error": { "code": code, "message": message } });
    let class = |facts: Vec<Fact>| failure(&facts).unwrap().class;
    let missing = tell(&mut ours, &refused(-32602, "Session not found: s-1"));
    assert_eq!(failure(&missing).unwrap().message, "session not found");
    assert_eq!(class(tell(&mut ours, &refused(-32603, "Internal"))), FailureClass::Crashed);
    assert_eq!(class(tell(&mut ours, &refused(-32000, "x"))), FailureClass::Auth);
    // A fork that does not name its own session has none.
    let mut fork = dialogue(Origin::Fork(id("s-1")));
    let unnamed = tell(&mut fork, &json!({ "id": 2, "result": {} }));
    assert_eq!(class(unnamed), FailureClass::Protocol);
}

#[test]
fn history_is_not_told_again() {
    let mut ours = dialogue(Origin::Resume(id("s-1")));
    let chunk = json!({ "method": "session/update", "params": { "update": {
        "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "old" } } } });
    assert_eq!(tell(&mut ours, &chunk), []);
    tell(&mut ours, &json!({ "id": 2, "result": {} }));
    assert_eq!(tell(&mut ours, &chunk), [Fact::Text("old".into())]);
}

#[test]
fn permission_is_given_for_what_was_granted_only() {
    let ask = |kind: &str| {
        json!({ "id": 9, "method": "session/request_permission", "params": {
            "toolCall": { "kind": kind },
            "options": [
                { "optionId": "always", "kind": "allow_always" },
                { "optionId": "yes", "kind": "allow_once" },
                { "optionId": "no", "kind": "reject_once" },
            ] } })
    };
    let mut ours = dialogue(Origin::New);
    let granted = tell(&mut ours, &ask("execute"));
    assert_eq!(answers(&granted)[0]["result"]["outcome"]["optionId"], "yes");
    for kind in ["edit", "fetch", "think", ""] {
        let denied = tell(&mut ours, &ask(kind));
        assert_eq!(denied[0], Fact::Denied);
        assert_eq!(answers(&denied)[0]["result"]["outcome"]["optionId"], "no", "{kind}");
    }
}

#[test]
fn what_was_not_granted_waits_for_whoever_attends() {
    let ask = |id: &str, kind: &str| {
        json!({ "id": id, "method": "session/request_permission", "params": {
            "toolCall": { "toolCallId": id, "kind": kind, "title": "notes.md", "rawInput": { "n": 1 } },
            "options": [
                { "optionId": "yes", "kind": "allow_once" },
                { "optionId": "no", "kind": "reject_once" },
            ] } })
    };
    let chosen = |facts: &[Fact]| answers(facts)[0]["result"]["outcome"]["optionId"].clone();
    let mut ours = dialogue(Origin::New);
    ours.is_attended = true;
    assert_eq!(chosen(&tell(&mut ours, &ask("a", "execute"))), "yes");
    assert!(!ours.asks());
    for (id, permission, option) in
        [("b", Permission::Granted, "yes"), ("c", Permission::Denied, "no")]
    {
        let asked = tell(&mut ours, &ask(id, "edit"));
        let [Fact::Asked(request)] = &asked[..] else { panic!("{asked:?}") };
        assert_eq!((request.tool.as_str(), request.title.as_str()), ("edit", "notes.md"));
        assert_eq!(request.input.as_deref(), Some(r#"{"rawInput":{"n":1}}"#));
        assert!(request.is_whole && ours.asks());
        let mut facts = Vec::new();
        ours.decide(
            &Decision { id: "another".into(), permission: Permission::Granted },
            &mut facts,
        );
        assert_eq!(facts, [], "what nobody asked for is not answered");
        ours.decide(&Decision { id: request.id.clone(), permission }, &mut facts);
        assert_eq!(chosen(&facts), option);
        assert_eq!(facts.contains(&Fact::Denied), permission == Permission::Denied);
        assert!(!ours.asks());
    }
    // Nothing tells of a tool that was denied.
    let used = |id: &str| {
        json!({ "method": "session/update", "params": { "update": {
            "sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed" } } })
    };
    tell(&mut ours, &json!({ "id": 2, "result": { "sessionId": "s" } }));
    assert_eq!(tell(&mut ours, &used("b")).len(), 2);
    assert_eq!(tell(&mut ours, &used("c")), []);
}

#[test]
fn nothing_of_the_host_is_offered() {
    let opening = Dialogue::opening();
    assert_eq!(opening["params"]["clientCapabilities"]["terminal"], false);
    let mut ours = dialogue(Origin::New);
    for method in ["fs/read_text_file", "terminal/create", "anything"] {
        let facts = tell(&mut ours, &json!({ "id": "x", "method": method, "params": {} }));
        assert_eq!(answers(&facts)[0]["error"]["code"], -32601);
    }
}
