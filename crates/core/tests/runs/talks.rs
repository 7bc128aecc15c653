//! Conversations, turn by turn, and decisions that an agent was not sure of (§7.1).

use std::sync::Arc;

use callboard_core::{Birth, Command, Entry, Fork, Refusal, Resolution, Run, Via};
use callboard_protocol::{Event, ForkMode, RunStatus};
use serde_json::{Value, json};

use crate::given::{Do, Given, at, given};
use crate::story::{Played, check, check_within, line, play};

fn talk(config: Value) -> Given {
    given("talk:conversationGate").config("talk", config)
}

fn say(text: &str) -> Do {
    Do::Answer("talk", json!(text))
}

fn payloads(played: &Played, kind: &str) -> Vec<Value> {
    let of_kind = played.log.iter().filter(|entry| entry.event.kind() == kind);
    of_kind.map(|entry| entry.event.payload()).collect()
}

/// It opens by itself, waits for each answer, and closes by itself.
#[test]
fn a_conversation_opens_exchanges_and_closes() {
    let flow = talk(json!({ "title": "Colours", "prompts": ["Which?", "Sure?"] }));
    let asked = ["interrupt.requested talk", "node.suspended talk"];
    let settled = ["interrupt.resolved talk", "node.resumed talk"];
    let mut expected = vec!["run.started", "node.started talk"];
    expected.extend(asked.into_iter().chain(["conversation.opened talk"]).chain(settled));
    for _ in 0..2 {
        expected.extend(asked.into_iter().chain(["conversation.exchanged talk"]).chain(settled));
    }
    expected.extend(asked.into_iter().chain(["conversation.closed talk"]).chain(settled));
    expected.extend(["node.completed talk", "run.completed"]);
    let waiting = play(&flow, &[(0, Do::Start)]);
    assert_eq!(waiting.run.status(), RunStatus::WaitingApproval);
    assert_eq!(waiting.snapshot().current_node_id, Some("talk".into()));
    assert_eq!(waiting.run.attempts().count(), 0, "nobody is held while it waits");
    let played = check(&flow, &[(0, Do::Start), (1, say("blue")), (2, say("yes"))], &expected);
    let outputs = json!({ "conversationId": "run-1:talk:0", "turnCount": 2,
        "answers": ["blue", "yes"], "outcome": "yes" });
    assert_eq!(played.variable("talk"), outputs);
}

/// All its events are of one conversation, and turns count upwards.
#[test]
fn a_conversation_has_one_id_and_rising_turns() {
    let flow = talk(json!({ "turnCount": 2, "initialPrompt": "Hello", "agentId": "core.host" }));
    let played = play(&flow, &[(0, Do::Start), (1, say("a")), (2, say("b"))]);
    let opened = played.payload("conversation.opened");
    let first = json!({ "messageId": "run-1:talk:0:0:agent", "from": "core.host", "content": "Hello",
        "ts": at(0).as_millis(), "role": "agent", "turnIndex": 0, "speakerId": "core.host" });
    assert_eq!(opened["initialTurn"], first);
    let turns = payloads(&played, "conversation.exchanged");
    let said = json!({ "messageId": "run-1:talk:0:2:user", "from": "user", "content": "b",
        "ts": at(2).as_millis(), "role": "user", "turnIndex": 2, "speakerId": "user:1" });
    assert_eq!((&turns[1]["turn"], &turns[1]["turnIndex"]), (&said, &json!(2)));
    let closed = played.payload("conversation.closed");
    assert_eq!((&closed["turnIndex"], &closed["outcome"]), (&json!(3), &json!("b")));
    for payload in turns.iter().chain([&opened, &closed]) {
        assert_eq!(payload["conversationId"], "run-1:talk:0");
    }
}

/// Each kind carries what its schema asks for, and only the exchange is a question to anybody.
#[test]
fn only_the_exchange_is_a_question() {
    let flow = talk(json!({ "prompts": ["Which?"], "outcomeSchema": { "type": "string" } }));
    let mut played = play(&flow, &[(0, Do::Start)]);
    let open: Vec<_> = played.run.interrupts().collect();
    assert_eq!(open.len(), 1);
    assert_eq!(open[0].kind.as_str(), "conversation.exchange");
    let data = json!({ "conversationId": "run-1:talk:0", "prompt": "Which?", "turnIndex": 1,
        "outcomeSchema": { "type": "string" } });
    assert_eq!(open[0].data, data);
    let suspended = payloads(&played, "node.suspended");
    assert_eq!(suspended[1]["reason"], "conversation-input");
    played.step(1, &say("blue"));
    let asked: Vec<Value> = payloads(&played, "interrupt.requested")
        .iter()
        .map(|asked| asked["data"].clone())
        .collect();
    assert_eq!(asked[0], json!({ "conversationId": "run-1:talk:0", "title": "talk" }));
    assert_eq!(asked[2], json!({ "conversationId": "run-1:talk:0", "reason": "max-turns" }));
    let keys: std::collections::BTreeSet<String> = payloads(&played, "interrupt.requested")
        .iter()
        .map(|asked| asked["key"].to_string())
        .collect();
    assert_eq!(keys.len(), 3, "every suspension has a key of its own");
}

/// An answer must match; one in the form of the conversation's own document counts for its turn alone.
#[test]
fn an_answer_is_judged_and_may_end_the_conversation() {
    let flow = talk(json!({ "turnCount": 5, "outcomeSchema": { "type": "integer" } }));
    let mut played = play(&flow, &[(0, Do::Start)]);
    let turn = |index: u32, content: Value| json!({ "operation": "exchange", "turn": { "turnIndex": index, "content": content } });
    for wrong in
        [json!("one"), turn(2, json!(1)), turn(1, json!("x")), json!({ "operation": "exchange" })]
    {
        let refused = played.run.decide(&answer(wrong.clone()), at(1));
        assert!(matches!(refused, Err(Refusal::InvalidAnswer { .. })), "{wrong}: {refused:?}");
    }
    played.step(2, &Do::Answer("talk", turn(1, json!(7))));
    let late = played.run.decide(&answer(turn(1, json!(7))), at(3));
    assert!(matches!(late, Err(Refusal::InvalidAnswer { .. })), "the turn is over: {late:?}");
    played.step(4, &Do::Answer("talk", json!({ "operation": "close", "outcome": { "total": 7 } })));
    assert_eq!(played.lines.last().expect("lines"), "run.completed");
    assert_eq!(played.variable("talk")["outcome"], json!({ "total": 7 }));
    assert_eq!(payloads(&played, "conversation.exchanged").len(), 1);
    let ended = play(&flow, &[(0, Do::Start), (1, Do::Cancel)]);
    assert_eq!(ended.run.interrupts().count(), 0);
}

fn answer(value: Value) -> Command {
    let (node, by) = ("talk".into(), None);
    Command::Resolve(Resolution { node, value, by, via: Via::Key })
}

/// The deadline is the whole conversation's: silence closes it, says so, and fails the node.
#[test]
fn silence_closes_the_conversation() {
    let flow = talk(json!({ "turnCount": 3, "timeoutMs": 1_000 }));
    let played = play(&flow, &[(0, Do::Start), (900, say("a"))]);
    assert_eq!(played.run.wakes_at(), Some(at(1_000)), "the first answer gave no new time");
    let expected = [
        "conversation.exchanged talk",
        "conversation.closed talk",
        "interrupt.resolved talk",
        "node.failed talk interrupt_timeout",
        "run.failed interrupt_timeout",
    ];
    let steps = [(0, Do::Start), (900, say("a")), (1_000, Do::Continue)];
    let played = check_within(&flow, &steps, &expected);
    let closed = played.payload("conversation.closed");
    assert_eq!(
        (&closed["outcome"], &closed["finalTurn"]["role"]),
        (&Value::Null, &json!("system"))
    );
}

/// Turns fold into the channel that is there for them, once each.
#[test]
fn turns_are_messages_of_a_channel() {
    let channels = json!({ "channels": { "conversation": { "reducer": "message" } } });
    let flow = talk(json!({ "turnCount": 2 })).top(channels);
    let steps = [(0, Do::Start), (1, say("a")), (2, say("b"))];
    let played = play(&flow, &steps);
    let held = played.channel("conversation");
    let said: Vec<&Value> =
        held.as_array().expect("a list").iter().map(|turn| &turn["content"]).collect();
    assert_eq!(said, ["talk", "a", "b", "max-turns"]);
    let named = talk(json!({ "channel": "log" }))
        .top(json!({ "channels": { "log": { "reducer": "message" } } }));
    assert_eq!(play(&named, &[(0, Do::Start)]).channel("log").as_array().map(Vec::len), Some(1));
    let shut = talk(json!({})).top(
        json!({ "channels": { "conversation": { "reducer": "message", "access": "private" } } }),
    );
    let played =
        check_within(&shut, &[(0, Do::Start)], &["node.failed talk channel_access_denied"]);
    assert_eq!(played.run.interrupts().count(), 0);
}

/// F14: what is said into a sensitive channel stands nowhere else either.
#[test]
fn a_confidential_conversation_is_nobodys_business() {
    let flow = talk(json!({})).top(
        json!({ "channels": { "conversation": { "reducer": "message", "sensitive": true } } }),
    );
    let played = play(&flow, &[(0, Do::Start), (1, say("4711"))]);
    assert_eq!(played.lines.last().expect("lines"), "run.completed");
    let told = |entry: &Entry| played.run.masked(&entry.event).unwrap_or(entry.event.payload());
    let log: Vec<Value> = played.log.iter().map(told).collect();
    assert!(!json!(log).to_string().contains("4711"), "{log:#?}");
    let shown = serde_json::to_string(&played.snapshot()).expect("JSON");
    assert!(!shown.contains("4711"), "{shown}");
}

fn conformance() -> Given {
    let config =
        json!({ "lifecycle": "open-exchange-close", "mockAutoResume": true, "turnCount": 3 });
    talk(config).top(json!({
        "id": "conformance-conversation-replay",
        "channels": { "conversation": { "schema": { "type": "array" }, "reducer": "message" } },
    }))
}

/// The suite's workflows answer themselves; nobody else's may, and what makes no sense is refused when it is read.
#[test]
fn the_suites_conversations_answer_themselves() {
    let played = play(&conformance(), &[(0, Do::Start)]);
    assert_eq!(played.lines.last().expect("lines"), "run.completed");
    assert_eq!(played.count("conversation.exchanged"), 3);
    assert_eq!(played.count("clarification.requested"), 0);
    for config in [
        json!({ "mockAutoResume": true }),
        json!({ "lifecycle": "open" }),
        json!({ "turnCount": 0 }),
        json!({ "turnCount": 101 }),
        json!({ "prompts": [""] }),
        json!({ "channel": "nowhere" }),
        json!({ "agentId": "" }),
        json!({ "outcomeSchema": { "type": "colour" } }),
    ] {
        let error = talk(config.clone()).plan().expect_err("refused");
        assert!(error.path.starts_with("nodes.talk.config"), "{config}: {error}");
    }
}

fn replayed(source: &Played) -> Vec<Entry> {
    let birth = Birth {
        run_id: "run-2".into(),
        fork: Some(Fork {
            earlier: Vec::new(),
            refusal: None,
            prompts: Vec::new(),
            retry: None,
            evaluated: Default::default(),
            source: "run-1".into(),
            from: 0,
            until: source.log.len() as u64,
            mode: ForkMode::Replay,
            origin: "run-1".into(),
        }),
        ..Birth::clone(source.run.birth())
    };
    let run = Run::new(Arc::new(birth), Arc::clone(source.run.plan()));
    let mut run = run.with_source(&source.log);
    let log = run.decide(&Command::Continue, at(9_000_000)).expect("a replay goes on");
    assert_eq!(run.snapshot().channels, source.snapshot().channels);
    log
}

/// A replay asks nobody again, whoever answered: a mock, a person, or nobody in time.
#[test]
fn a_conversation_is_replayed_word_for_word() {
    let channels = json!({ "channels": { "conversation": { "reducer": "message" } } });
    let flow = talk(json!({ "turnCount": 2, "timeoutMs": 60_000 })).top(channels);
    let left = Do::Answer("talk", json!({ "operation": "close", "outcome": 1 }));
    for source in [
        play(&conformance(), &[(0, Do::Start)]),
        play(&flow, &[(0, Do::Start), (1, say("a")), (2, say("b"))]),
        play(&flow, &[(0, Do::Start), (1, say("a")), (2, left)]),
        play(&flow, &[(0, Do::Start), (1, say("a")), (60_000, Do::Continue)]),
    ] {
        let tell = |log: &[Entry]| -> Vec<String> {
            log.iter().map(|entry| entry.event.payload_text()).collect()
        };
        assert_eq!(tell(&replayed(&source)), tell(&source.log));
    }
}

/// A log cut anywhere is finished without saying anything twice.
#[test]
fn any_cut_of_a_conversation_goes_on() {
    let source = play(&conformance(), &[(0, Do::Start)]);
    for cut in 1..source.log.len() {
        let (birth, plan) = (source.run.birth().clone(), source.run.plan().clone());
        let mut again = Run::replay(birth, plan, &source.log[..cut]);
        let mut whole = source.log[..cut].to_vec();
        whole.extend(again.decide(&Command::Continue, at(0)).expect("it goes on"));
        assert_eq!(whole, source.log, "cut at {cut}");
    }
}

/// What was read back from storage folds as what was written, a null answer too (F41).
#[test]
fn f41_a_null_answer_is_an_answer_in_a_stored_log_too() {
    let flow = given("rate:interrupt after:delay").edges("rate>after").config(
        "rate",
        json!({ "kind": "custom", "data": { "customKind": "rating", "payload": { "of": 5 } } }),
    );
    let steps = [(0, Do::Start), (1, Do::Answer("rate", Value::Null))];
    let source = play(&flow.config("after", json!({ "ms": 50 })), &steps);
    let stored: Vec<Entry> = source.log.iter().map(stored).collect();
    for cut in 1..=stored.len() {
        let (birth, plan) = (source.run.birth().clone(), source.run.plan().clone());
        let mut again = Run::replay(birth, plan, &stored[..cut]);
        again.decide(&Command::Continue, at(1)).expect("it goes on");
        let failed =
            again.snapshot().node_states.get(&"rate".into()).and_then(|node| node.error.clone());
        assert_eq!(failed, None, "cut at {cut}");
    }
    assert_eq!(source.variable("rate"), json!({ "value": null }));
    let asked = source.payload("interrupt.requested");
    assert_eq!(asked["data"], json!({ "customKind": "rating", "payload": { "of": 5 } }));
}

/// An entry as the store gives it back.
fn stored(entry: &Entry) -> Entry {
    let payload = serde_json::from_str(&entry.event.payload_text()).expect("JSON");
    let event = Event::read(entry.event.kind(), entry.event.node_id().cloned(), payload);
    Entry { event, ..entry.clone() }
}

fn unsure() -> Given {
    given("ask:interrupt").config(
        "ask",
        json!({ "kind": "low-confidence", "data": { "agentId": "core.judge", "threshold": 0.7,
            "observed": 0.4, "decision": { "next": "ship" } } }),
    )
}

/// Exactly an acceptance ratifies, a rejection fails, anything else replaces the decision.
#[test]
fn an_unsure_decision_is_ratified_rejected_or_replaced() {
    let waiting = play(&unsure(), &[(0, Do::Start)]);
    assert_eq!(waiting.run.status(), RunStatus::WaitingApproval);
    assert_eq!(waiting.payload("node.suspended")["reason"], "low-confidence");
    assert_eq!(waiting.count("approval.requested"), 0);
    for (answer, expected) in [
        (json!({ "action": "accept" }), Ok(json!({ "next": "ship" }))),
        (
            json!({ "action": "accept", "next": "hold" }),
            Ok(json!({ "action": "accept", "next": "hold" })),
        ),
        (json!({ "next": "hold" }), Ok(json!({ "next": "hold" }))),
        (json!("hold"), Ok(json!({ "value": "hold" }))),
        (json!({ "action": "reject" }), Err("low_confidence_rejected")),
        (json!({ "action": "reject", "feedback": "no" }), Err("low_confidence_rejected")),
    ] {
        let played = play(&unsure(), &[(0, Do::Start), (1, Do::Answer("ask", answer.clone()))]);
        match expected {
            Ok(outputs) => assert_eq!(played.variable("ask"), outputs, "{answer}"),
            Err(code) => {
                let last = played.lines.last().expect("lines");
                assert_eq!(*last, format!("run.failed {code}"), "{answer}");
            }
        }
    }
}

/// What is not such a question fails its node, and conversations are not raised one by one.
#[test]
fn a_plain_interrupt_raises_only_what_it_can_answer_for() {
    let data = json!({ "agentId": "core.judge", "threshold": 0.7, "observed": 0.4 });
    for (kind, field, value) in [
        ("low-confidence", "observed", json!(1.5)),
        ("low-confidence", "threshold", json!("high")),
        ("low-confidence", "agentId", json!("x")),
        ("low-confidence", "mood", json!("low")),
        ("conversation.exchange", "prompt", json!("?")),
        ("custom", "customKind", json!("")),
    ] {
        let mut data = data.clone();
        data[field] = value;
        let flow = given("ask:interrupt").config("ask", json!({ "kind": kind, "data": data }));
        let expected = ["node.failed ask validation_error"];
        let played = check_within(&flow, &[(0, Do::Start)], &expected);
        assert_eq!(played.count("interrupt.requested"), 0, "{kind} {field}");
    }
    let told = play(&unsure(), &[(0, Do::Start)]).log;
    assert!(told.iter().any(|entry| line(&entry.event) == "interrupt.requested ask"));
}
