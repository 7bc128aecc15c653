//! What the definition marks sensitive stays out of readers' sight (F14).

use callboard_core::Command;
use callboard_protocol::DrainPolicy;
use serde_json::{Value, json};

use crate::given::{Do, Given, at, given};
use crate::story::{Played, play};

const SECRET: &str = "hunter2-hunter2";

/// A secret variable that travels: into an output, a text, a variable, a channel and an error.
fn travels(mode: &str) -> Given {
    given("echo:identity say:identity set:setVariable w:channelWrite f:ai")
        .edges("echo>say say>set set>w w>f")
        .top(json!({
            "variables": [{ "name": "token", "type": "string", "sensitive": true }],
            "metadata": { "complianceConfig": { "maskingMode": mode } },
        }))
        .ports("echo", json!({ "copy": { "type": "variable", "variableName": "token" } }))
        .ports(
            "say",
            json!({ "text": { "type": "expression", "expression": "'Bearer ' ~ token" } }),
        )
        .config("set", json!({ "name": "plain" }))
        .ports("set", json!({ "value": { "type": "variable", "variableName": "token" } }))
        .config("w", json!({ "channelName": "log" }))
        .ports("w", json!({ "value": { "type": "expression", "expression": "[token]" } }))
        .inputs(json!({ "token": SECRET }))
}

/// Everything that a reader may see of a run.
fn public(played: &Played) -> String {
    let mut seen = serde_json::to_string(&played.snapshot()).expect("a snapshot");
    for entry in &played.log {
        let payload = played.run.masked(&entry.event).unwrap_or_else(|| entry.event.payload());
        seen.push_str(&payload.to_string());
    }
    seen.push_str(&json!(played.run.masked_inputs()).to_string());
    seen
}

fn public_payload(played: &Played, kind: &str) -> Value {
    let entry = played.log.iter().find(|entry| entry.event.kind() == kind).expect(kind);
    played.run.masked(&entry.event).unwrap_or_else(|| entry.event.payload())
}

/// F14: in no mode but passthrough does the secret show, wherever it went.
#[test]
fn f14_a_secret_is_masked_wherever_it_travelled() {
    for (mode, shows) in [("mask", false), ("omit", false), ("hash", false), ("passthrough", true)]
    {
        let mut played = play(&travels(mode), &[(0, Do::Start)]);
        let task = played.run.tasks().next().expect("f is owed");
        let attempt = task.attempt;
        let failure =
            callboard_protocol::Failure::new("boom", format!("cannot log in with {SECRET}"));
        let outcome =
            callboard_core::Outcome::Failed { failure, class: callboard_core::RetryClass::Final };
        let finish = callboard_core::Command::Finish { attempt, outcome };
        let entries = played.run.decide(&finish, crate::given::at(1)).expect("current");
        played.log.extend(entries);
        let seen = public(&played);
        assert_eq!(seen.contains(SECRET), shows, "{mode}: {seen}");
    }
}

/// F14: the executor and the fold see the value itself.
#[test]
fn f14_executors_see_the_value() {
    let played = play(&travels("mask"), &[(0, Do::Start)]);
    let started = played.log[0].event.payload();
    assert_eq!(started["inputs"]["token"], SECRET);
    let flow = given("t:ai")
        .top(json!({ "variables": [{ "name": "token", "type": "string", "sensitive": true }] }))
        .ports("t", json!({ "p": { "type": "variable", "variableName": "token" } }))
        .inputs(json!({ "token": SECRET }));
    let played = play(&flow, &[(0, Do::Start)]);
    assert_eq!(played.run.tasks().next().expect("t is owed").inputs["p"], SECRET);
}

/// F14: what each mode puts in the value's place.
#[test]
fn f14_each_mode_masks_in_its_way() {
    let shown = |mode: &str| {
        play(&travels(mode), &[(0, Do::Start)]).snapshot().variables.get("token").cloned()
    };
    assert_eq!(shown("mask"), Some(json!("[REDACTED]")));
    assert_eq!(shown("omit"), None);
    assert_eq!(shown("passthrough"), Some(json!(SECRET)));
    let hashed = shown("hash").expect("a hash");
    let hashed =
        hashed.as_str().expect("a text").strip_prefix("sha256:").expect("its kind").to_owned();
    assert!(hashed.len() == 64 && hashed.chars().all(|c| c.is_ascii_hexdigit()), "{hashed}");
    let text = play(&travels("mask"), &[(0, Do::Start)]).variable("text");
    assert_eq!(text, "Bearer [REDACTED]");
    assert!(
        given("n:noop")
            .top(json!({ "metadata": { "complianceConfig": { "maskingMode": "blur" } } }))
            .plan()
            .is_err()
    );
}

/// F14: a sensitive channel is masked in its events and in the snapshot, whatever its values are.
#[test]
fn f14_a_sensitive_channel_is_masked() {
    let flow = given("w:channelWrite")
        .config("w", json!({ "channelName": "c", "value": 42 }))
        .top(json!({ "channels": { "c": { "reducer": "replace", "sensitive": true } } }));
    let played = play(&flow, &[(0, Do::Start)]);
    assert_eq!(played.channel("c"), "[REDACTED]");
    assert_eq!(public_payload(&played, "channel.written")["value"], "[REDACTED]");
}

/// F14: a marked output port is masked in the event, the variables and the run's outputs.
#[test]
fn f14_a_sensitive_output_is_masked() {
    let flow =
        given("a:ai").node("a", json!({ "outputSensitivity": { "pin": true, "open": false } }));
    let played =
        play(&flow, &[(0, Do::Start), (1, Do::Done("a", json!({ "pin": 1234, "open": 5 })))]);
    let masked = json!({ "pin": "[REDACTED]", "open": 5 });
    assert_eq!(public_payload(&played, "node.completed")["outputs"], masked);
    assert_eq!(public_payload(&played, "run.completed")["outputs"], masked);
    assert_eq!(played.variable("a"), masked);
    assert!(!public(&played).contains("1234"));
}

/// F14: a sensitive variable of any kind does not show through the nodes that set and get it.
#[test]
fn f14_setting_and_getting_does_not_show_what_is_no_text() {
    let flow = given("s:setVariable g:getVariable")
        .edges("s>g")
        .top(json!({ "variables": [{ "name": "pin", "type": "number", "sensitive": true }] }))
        .config("s", json!({ "name": "pin", "value": 987_654 }))
        .config("g", json!({ "name": "pin" }));
    let played = play(&flow, &[(0, Do::Start)]);
    assert_eq!(played.lines.last().expect("lines"), "run.completed");
    assert!(!public(&played).contains("987654"), "{}", public(&played));
    let channel = given("w:channelWrite g:getVariable")
        .edges("w>g")
        .top(json!({ "channels": { "pin": { "reducer": "replace", "sensitive": true } } }))
        .config("w", json!({ "channelName": "pin", "value": 987_654 }))
        .config("g", json!({ "name": "pin" }));
    let played = play(&channel, &[(0, Do::Start)]);
    assert!(!public(&played).contains("987654"), "{}", public(&played));
}

/// A run without marks pays nothing and hides nothing.
#[test]
fn f14_without_marks_nothing_is_masked() {
    let played = play(&given("a:ai").inputs(json!({ "token": SECRET })), &[(0, Do::Start)]);
    assert!(played.log.iter().all(|entry| played.run.masked(&entry.event).is_none()));
    assert_eq!(played.run.masked_inputs(), None);
    assert_eq!(played.variable("token"), SECRET);
}

#[test]
fn f14_the_inputs_of_a_run_are_masked_for_the_list_too() {
    let played = play(&travels("mask"), &[(0, Do::Start)]);
    assert_eq!(json!(played.run.masked_inputs()), json!({ "token": "[REDACTED]" }));
}

/// `secret-leakage-eventlog-payload`: what looks like a credential in the inputs is told by no event, marked or not;
/// the run itself works with it (F4).
#[test]
fn no_event_repeats_a_credential_of_the_inputs() {
    let credential = format!("sk-{}", "CANARY-NEVER-SECRET-0aB8mYjPpQe7");
    let given = given("echo:identity say:identity set:setVariable w:channelWrite")
        .edges("echo>say say>set set>w")
        .ports("echo", json!({ "copy": { "type": "variable", "variableName": "note" } }))
        .ports("say", json!({ "text": { "type": "expression", "expression": "'x' ~ note" } }))
        .config("set", json!({ "name": "plain" }))
        .ports("set", json!({ "value": { "type": "variable", "variableName": "note" } }))
        .config("w", json!({ "channelName": "log" }))
        .ports("w", json!({ "value": { "type": "expression", "expression": "[note]" } }))
        .inputs(json!({ "note": format!("call it with {credential} please"), "plain": 1 }));
    let played = play(&given, &[(0, Do::Start)]);
    for entry in &played.log {
        let payload = played.run.masked(&entry.event).unwrap_or_else(|| entry.event.payload());
        assert!(!payload.to_string().contains("CANARY"), "{payload}");
    }
    assert_eq!(
        public_payload(&played, "run.started")["inputs"],
        json!({ "note": "call it with [REDACTED] please", "plain": 1 })
    );
    assert_eq!(
        json!(played.run.masked_inputs())["note"],
        "call it with [REDACTED] please",
        "the birth record of a reader"
    );
    let shown = serde_json::to_value(played.snapshot()).expect("a snapshot");
    assert_eq!(shown["variables"]["note"], "call it with [REDACTED] please");
    assert!(!shown.to_string().contains("CANARY"), "{shown}");
    // The run itself works with what it was given (F4).
    assert_eq!(played.run.birth().inputs["note"], format!("call it with {credential} please"));
}

/// Nobody needs them there, and the log is read by many.
#[test]
fn credentials_in_a_reason_or_in_feedback_never_reach_the_log() {
    const KEY: &str = "sk-CANARY-openwop-CONFORMANCE-NEVER-SECRET-oai9Lt7Nw2QrZ0aB8mYjPpQe";
    let said = format!("because of {KEY}");
    let reason = || Some(said.clone());
    let drain = DrainPolicy::DrainCurrentNode;
    for command in [
        Command::Cancel { reason: reason(), by: None, parent: None },
        Command::Pause { drain, reason: reason() },
    ] {
        let mut run = given("a:ai").run();
        run.decide(&Command::Start, at(0)).expect("a start");
        let mut log = run.decide(&command, at(1)).expect("a command");
        log.extend(run.decide(&Command::Resume { reason: reason() }, at(2)).unwrap_or_default());
        let told = format!("{log:?}");
        assert!(told.contains("because of [REDACTED]") && !told.contains(KEY), "{told}");
    }
    let answer = json!({ "action": "reject", "feedback": said });
    let played = play(&given("g:approvalGate"), &[(0, Do::Start), (1, Do::Answer("g", answer))]);
    assert_eq!(played.payload("approval.received")["feedback"], "because of [REDACTED]");
    assert!(!format!("{:?}", played.log).contains(KEY));
}
