//! Both sides of a conversation with `codex app-server`, without Codex.

use serde_json::{Value, json};

use super::dialogue::{Dialogue, Terms};
use super::*;
use crate::backends::rpc::rehearsal::{answers, failure, tell};
use crate::cli::rehearsal::{line, line_with_hidden, rehearse};
use crate::error::FailureClass;
use crate::options::{RunOptions, Selector};
use crate::permission::{Decision, Permission};
use crate::transcript::{Fact, Mapper, Terminal};

fn dialogue(origin: Origin, approval: &'static str) -> Dialogue {
    let terms = Terms {
        working_dir: "/w".into(),
        approval,
        sandbox: "read-only".into(),
        has_profile: false,
        may_fetch: false,
        model: Some("m".into()),
    };
    Dialogue::new("do it".into(), origin, terms)
}

fn opened(approval: &str) -> Value {
    json!({ "id": 2, "result": {
        "thread": { "id": "t-1" }, "approvalPolicy": approval, "approvalsReviewer": "user",
        "sandbox": { "type": "readOnly" },
    } })
}

/// A conversation whose turn has begun.
fn begun(approval: &'static str) -> Dialogue {
    let mut ours = dialogue(Origin::New, approval);
    tell(&mut ours, &json!({ "id": 1, "result": {} }));
    assert_eq!(failure(&tell(&mut ours, &opened(approval))), None);
    ours
}

fn item(moment: &str, item: &Value) -> Value {
    json!({ "method": format!("item/{moment}"), "params": { "threadId": "t-1", "item": item } })
}

fn run(status: &str) -> Value {
    json!({ "type": "commandExecution", "id": "c", "command": "canary", "status": status })
}

fn asks() -> Value {
    json!({ "id": 0, "method": "item/commandExecution/requestApproval", "params": {
        "threadId": "t-1", "itemId": "c", "command": "touch /x", "cwd": "/w", "reason": "why",
    } })
}

#[test]
fn it_is_held_to_its_grants_and_needs_a_shell() {
    assert!(rehearse(&AppServer, &RunOptions::default(), &[Grant::WriteFiles]).is_err());
    assert_eq!(line(&AppServer, &RunOptions::default(), &[Grant::Shell]), "app-server");
}

/// A thread that is not held to the profile which hides paths gets no task.
#[test]
fn a_profile_stands_for_the_sandbox_and_must_be_in_force() {
    let hidden = ["/data".into()];
    let line = line_with_hidden(&AppServer, &[Grant::Shell], &hidden);
    assert!(line.starts_with("app-server -c default_permissions="), "{line}");
    let mut active = opened("never");
    active["result"]["activePermissionProfile"] = json!({ "id": "callboard" });
    for (answer, is_kept) in [(active, true), (opened("never"), false)] {
        let mut ours = dialogue(Origin::New, "never");
        ours.terms.has_profile = true;
        let told = answers(&tell(&mut ours, &json!({ "id": 1, "result": {} })));
        assert_eq!(told[1]["params"].get("sandbox"), None);
        assert_eq!(failure(&tell(&mut ours, &answer)).is_none(), is_kept);
    }
}

// T50
#[test]
fn a_thread_is_opened_on_our_terms_and_given_one_turn() {
    let resume = Origin::Resume(Selector::Id("t-1".into()));
    for (origin, method) in [(Origin::New, "thread/start"), (resume, "thread/resume")] {
        let mut ours = dialogue(origin, "on-request");
        let told = answers(&tell(&mut ours, &json!({ "id": 1, "result": {} })));
        assert_eq!(told[0]["method"], "initialized");
        let params = &told[1]["params"];
        assert_eq!(told[1]["method"], method);
        assert_eq!(params["threadId"] == "t-1", method == "thread/resume");
        let terms = ["cwd", "approvalPolicy", "approvalsReviewer", "sandbox", "model"];
        let terms = terms.map(|name| params[name].as_str().unwrap_or_default());
        assert_eq!(terms, ["/w", "on-request", "user", "read-only", "m"]);
        let facts = tell(&mut ours, &opened("on-request"));
        assert_eq!(facts[0], Fact::Session("t-1".into()));
        let turn = &answers(&facts)[0];
        assert_eq!(
            (&turn["method"], &turn["params"]["threadId"]),
            (&json!("turn/start"), &json!("t-1"))
        );
        assert_eq!(turn["params"]["input"][0]["text"], "do it");
    }
}

#[test]
fn a_thread_on_other_terms_gets_no_turn() {
    for (field, value) in [
        ("approvalPolicy", json!("never")),
        ("approvalsReviewer", json!("auto_review")),
        ("sandbox", json!({ "type": "dangerFullAccess" })),
        ("sandbox", json!({ "type": "readOnly", "networkAccess": true })),
    ] {
        let mut other = opened("on-request");
        other["result"][field] = value;
        let facts = tell(&mut dialogue(Origin::New, "on-request"), &other);
        assert_eq!(failure(&facts).unwrap().class, FailureClass::Permission, "{field}");
        assert_eq!(answers(&facts), Vec::<Value>::new(), "{field}");
    }
}

// T51, T52
#[test]
fn only_a_missing_thread_is_a_missing_session() {
    let refused =
        |message: &str| json!({ "id": 2, "error": { "code": -32600, "message": message } });
    let mut ours = dialogue(Origin::Resume(Selector::Id("t-1".into())), "never");
    let missing = tell(&mut ours, &refused("no rollout found for thread id t-1"));
    assert_eq!(failure(&missing).unwrap().class, FailureClass::SessionMissing);
    let other = tell(&mut ours, &refused("something else"));
    assert_eq!(failure(&other).unwrap().class, FailureClass::Crashed);
}

#[test]
fn a_message_is_told_once_however_it_comes() {
    let mut ours = begun("never");
    let delta = json!({ "method": "item/agentMessage/delta",
        "params": { "threadId": "t-1", "itemId": "a", "delta": "he" } });
    assert_eq!(tell(&mut ours, &delta), [Fact::Text("he".into())]);
    let whole =
        |id: &str| item("completed", &json!({ "type": "agentMessage", "id": id, "text": "hello" }));
    assert_eq!(tell(&mut ours, &whole("a")), []);
    assert_eq!(tell(&mut ours, &whole("b")), [Fact::Text("hello".into())]);
    let end = |thread: &str| {
        json!({ "method": "turn/completed",
        "params": { "threadId": thread, "turn": { "status": "completed" } } })
    };
    assert_eq!(tell(&mut ours, &end("another")), [], "others have turns too");
    let facts = tell(&mut ours, &end("t-1"));
    let final_text = Some("hello".to_owned());
    assert!(facts.contains(&Fact::Ended(Terminal::Succeeded { final_text })));
    assert!(facts.contains(&Fact::HangUp));
}

#[test]
fn what_leaves_the_sandbox_waits_for_whoever_attends() {
    for (permission, decision, status) in
        [(Permission::Granted, "accept", "completed"), (Permission::Denied, "decline", "declined")]
    {
        let mut ours = begun("on-request");
        assert_eq!(tell(&mut ours, &item("started", &run("inProgress"))), [], "not yet allowed");
        let asked = tell(&mut ours, &asks());
        let [Fact::Asked(request)] = &asked[..] else { panic!("{asked:?}") };
        assert_eq!(
            (request.tool.as_str(), request.title.as_str()),
            ("command_execution", "touch /x")
        );
        assert_eq!(request.input.as_deref(), Some(r#"{"command":"touch /x","cwd":"/w"}"#));
        assert!(request.is_whole && ours.asks());
        let mut facts = Vec::new();
        ours.decide(&Decision { id: request.id.clone(), permission }, &mut facts);
        assert_eq!(answers(&facts)[0]["result"], json!({ "decision": decision }));
        assert_eq!(answers(&facts)[0]["id"], 0);
        assert!(!ours.asks());
        facts.extend(tell(&mut ours, &item("completed", &run(status))));
        let tools =
            facts.iter().filter(|fact| matches!(fact, Fact::ToolStarted(_) | Fact::ToolEnded(_)));
        let denials = facts.iter().filter(|fact| **fact == Fact::Denied).count();
        let wanted = if permission == Permission::Granted { (2, 0) } else { (0, 1) };
        assert_eq!((tools.count(), denials), wanted, "{decision}");
    }
}

#[test]
fn a_change_is_asked_for_with_what_it_changes() {
    let mut ours = begun("on-request");
    let changes = json!([{ "path": "a", "kind": { "type": "add" }, "diff": "+x" }]);
    let change =
        json!({ "type": "fileChange", "id": "f", "changes": changes, "status": "inProgress" });
    tell(&mut ours, &item("started", &change));
    let asked = tell(
        &mut ours,
        &json!({ "id": 4, "method": "item/fileChange/requestApproval",
        "params": { "threadId": "t-1", "itemId": "f", "grantRoot": null } }),
    );
    let [Fact::Asked(request)] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!((request.tool.as_str(), request.title.as_str()), ("file_change", "a"));
    assert_eq!(request.input, Some(json!({ "changes": changes }).to_string()));
    // The server has settled it itself.
    tell(
        &mut ours,
        &json!({ "method": "serverRequest/resolved",
        "params": { "threadId": "t-1", "requestId": 4 } }),
    );
    assert!(!ours.asks());
}

#[test]
fn nobody_gives_more_than_one_use_and_nothing_of_ours_is_offered() {
    let mut ours = begun("on-request");
    let more = json!({ "id": 5, "method": "item/permissions/requestApproval", "params": {} });
    assert_eq!(answers(&tell(&mut ours, &more))[0]["result"], json!({ "permissions": {} }));
    for method in ["item/tool/call", "mcpServer/elicitation/request", "anything"] {
        let facts = tell(&mut ours, &json!({ "id": 6, "method": method, "params": {} }));
        assert_eq!(answers(&facts)[0]["error"]["code"], -32601, "{method}");
    }
    let mut alone = begun("never");
    tell(&mut alone, &item("started", &run("inProgress")));
    assert_eq!(answers(&tell(&mut alone, &asks()))[0]["result"]["decision"], "decline");
}

#[test]
fn a_failure_has_the_class_of_its_status() {
    for (error, class) in [
        (
            json!({ "codexErrorInfo": { "httpConnectionFailed": { "httpStatusCode": 429 } } }),
            FailureClass::RateLimit,
        ),
        (
            json!({ "message": "unexpected status 400 Bad Request: canary" }),
            FailureClass::InvalidRequest,
        ),
        (json!({ "message": "canary" }), FailureClass::Crashed),
    ] {
        let facts = tell(
            &mut begun("never"),
            &json!({ "method": "turn/completed", "params": {
            "threadId": "t-1", "turn": { "status": "failed", "error": error } } }),
        );
        assert_eq!(failure(&facts).unwrap().class, class);
        assert!(!format!("{facts:?}").contains("canary"));
    }
}
