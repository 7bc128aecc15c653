//! Providers that say no, are in trouble, break off, stall, or write what cannot be read.

use std::sync::Arc;
use std::time::Duration;

use callboard_agents::{ModelTable, Models};
use callboard_backends::{ProviderKind, Timeouts};
use callboard_engine::{Recorded, Store as _};
use serde_json::{Value, json};

use crate::given::{World, agent_order, kinds, outputs, task, told};
use crate::provider::{End, Provider, Reply};
use crate::sim::scope;
use crate::speech::{begins, calls, garbage, huge, says};

const COUNT: &str = "openwop_test_count";

/// A world whose agent asks the provider, and does not wait between two calls.
pub(crate) async fn world(provider: &Provider, timeouts: Timeouts) -> World {
    let mut world = World::new(|_| panic!("nobody asks the puppet")).await;
    ask(&mut world, provider, timeouts);
    world
}

pub(crate) fn ask(world: &mut World, provider: &Provider, timeouts: Timeouts) {
    let model = provider.model_with(ProviderKind::Anthropic, timeouts);
    world.models = Some(Arc::new(Models::default().with("acme", Arc::new(model))));
    world.table = ModelTable {
        default: Some("acme/m-1".parse().unwrap()),
        providers: ["acme".to_owned()].into(),
        ..ModelTable::default()
    };
    world.settings.retry_pause = Duration::ZERO;
}

struct Played {
    world: World,
    log: Vec<Recorded>,
    /// How often the provider was asked.
    asked: usize,
}

async fn play(replies: Vec<Reply>) -> Played {
    play_within(Timeouts::default(), replies).await
}

async fn play_within(timeouts: Timeouts, replies: Vec<Reply>) -> Played {
    let provider = Provider::start().await;
    let world = world(&provider, timeouts).await;
    let log = tokio::select! {
        log = world.run(task(), json!({})) => log,
        _ = provider.answer_all(&replies) => unreachable!(),
    };
    Played { asked: provider.asked(), world, log }
}

fn answer() -> Reply {
    says(r#"{"queue":"fire"}"#)
}

/// The run failed with this code, behind a closed bracket, and no tool was called.
fn assert_failed(played: &Played, asked: usize, code: &str, what: &str) {
    let log = &played.log;
    assert_eq!(told(log, "run.failed")[0]["error"]["code"], code, "{what}");
    assert_eq!(told(log, "agent.invocation.completed")[0]["outcome"], "failed", "{what}");
    assert_eq!(played.asked, asked, "{what}");
    assert!(played.world.made.lock().unwrap().is_empty(), "{what}");
    assert!(told(log, "agent.toolCalled").is_empty(), "{what}");
}

fn assert_sorted(log: &[Recorded]) {
    assert_eq!(kinds(log).last(), Some(&"run.completed"));
    assert_eq!(Value::from(outputs(log)), json!({ "queue": "fire" }));
}

#[tokio::test]
async fn a_status_ends_the_run_with_its_code_at_once_or_after_three_calls() {
    for (status, asked, code) in [
        (400, 1, "validation_error"),
        (401, 1, "credential_forbidden"),
        (403, 1, "credential_forbidden"),
        (404, 1, "no_model_available"),
        (429, 3, "rate_limited"),
        (500, 3, "service_unavailable"),
        (529, 3, "service_unavailable"),
    ] {
        let played = play(vec![Reply::status(status)]).await;
        assert_failed(&played, asked, code, &status.to_string());
    }
}

#[tokio::test]
async fn trouble_that_passes_is_no_trouble() {
    for first in [
        Reply::status(429),
        Reply::status(500),
        begins("{\"que"),
        begins("{\"que").ending(End::Cut),
        garbage(),
    ] {
        let played = play(vec![first, answer()]).await;
        assert_sorted(&played.log);
        assert_eq!(played.asked, 2);
        let used = told(&played.log, "provider.usage");
        assert_eq!(used.len(), 1, "what broke off is not counted: {used:?}");
        let again = told(&played.log, "log.appended");
        assert_eq!((again.len(), &again[0]["fields"]["waitMs"]), (1, &json!(0)), "{again:?}");
        let is_broken = again[0]["fields"]["reason"] == "service_unavailable"
            && !again[0]["message"].as_str().unwrap().contains("500");
        assert_eq!(again[0]["fields"]["outputReset"], is_broken, "{again:?}");
    }
}

#[tokio::test]
async fn a_stream_that_stops_or_makes_no_sense_is_never_an_answer() {
    for (what, reply, asked) in [
        ("it stops", begins(r#"{"queue":"fire"}"#), 3),
        ("the connection breaks", begins(r#"{"queue":"fire"}"#).ending(End::Cut), 3),
        ("garbage", garbage(), 3),
        ("half a call", calls(COUNT, r#"{"n": "#, 1, "tool_use"), 3),
        ("no measure", huge(9 << 20), 1),
    ] {
        let played = play(vec![reply]).await;
        assert_failed(&played, asked, "service_unavailable", what);
    }
    let cut = play(vec![calls(COUNT, r#"{"n": "#, 1, "max_tokens")]).await;
    assert_failed(&cut, 3, "envelope_truncation_unrecoverable", "half a call, for want of room");
}

#[tokio::test]
async fn a_provider_that_stalls_is_given_up() {
    let soon = Duration::from_millis(100);
    for (what, reply, timeouts) in [
        (
            "in the middle",
            begins("{\"que").ending(End::Silence),
            Timeouts { idle: soon, ..Timeouts::default() },
        ),
        (
            "from the start",
            begins("").ending(End::Nothing),
            Timeouts { first_byte: soon, ..Timeouts::default() },
        ),
    ] {
        let played = play_within(timeouts, vec![reply]).await;
        assert_failed(&played, 3, "service_unavailable", what);
    }
}

/// The run sleeps on disk, and its invocation stays open.
#[tokio::test]
async fn a_provider_that_wants_an_hour_of_peace_gets_it() {
    let provider = Provider::start().await;
    let world = world(&provider, Timeouts::default()).await;
    let mut busy = Reply::status(429);
    busy.headers = vec![("retry-after", "3600")];
    let busy = [busy];
    let postponed = async {
        let host = world.host("host", Arc::clone(&world.store) as _);
        let run = host.create(agent_order(task(), json!({})), None).await.unwrap().run;
        loop {
            let page = world.store.read(&scope(), &run, 0, usize::MAX).await.unwrap().unwrap();
            if let Some(retried) = told(&page.events, "node.retried").pop() {
                return (retried, page.events);
            }
            world.store.changed(&run, page.version).await;
        }
    };
    let (retried, log) = tokio::select! {
        postponed = postponed => postponed,
        _ = provider.answer_all(&busy) => unreachable!(),
    };
    assert_eq!((provider.asked(), &retried["postponed"]), (1, &json!(true)));
    assert!(retried["delayMs"].as_u64() > Some(3_590_000), "{retried}");
    assert_eq!(told(&log, "agent.invocation.completed").len(), 0);
}

/// A-43, and arguments that no tool could understand: the model is told why, and goes on.
#[tokio::test]
async fn a_call_that_cannot_be_made_is_answered_and_not_told() {
    for (what, tool, arguments) in [
        ("not there", "openwop_test_nothing", "{}"),
        ("not on the list", "openwop_test_post", "{}"),
        ("not on the list, by its own name", "openwop:test.post", "{}"),
        ("not a number", COUNT, r#"{"n": "CANARY"}"#),
    ] {
        let provider = Provider::start().await;
        let mut world = World::with(
            |_| panic!("nobody asks the puppet"),
            |agent| agent["toolAllowlist"] = json!(["openwop:test.count"]),
        )
        .await;
        ask(&mut world, &provider, Timeouts::default());
        let replies = [calls(tool, arguments, 1, "tool_use"), answer()];
        let log = tokio::select! {
            log = world.run(task(), json!({})) => log,
            _ = provider.answer_all(&replies) => unreachable!(),
        };
        assert_sorted(&log);
        assert!(told(&log, "agent.toolCalled").is_empty(), "{what}");
        assert!(world.made.lock().unwrap().is_empty(), "{what}");
        let seen = provider.seen().body;
        let offered: Vec<&Value> =
            seen["tools"].as_array().into_iter().flatten().map(|tool| &tool["name"]).collect();
        assert_eq!(offered, [COUNT], "{what}");
        let answered = &seen["messages"][2]["content"][0];
        assert_eq!(answered["type"], "tool_result", "{what}: {seen}");
        assert!(answered["content"].to_string().contains("error: "), "{what}: {answered}");
        assert!(!answered.to_string().contains("CANARY"), "{what}: {answered}");
    }
}

/// A-44, A-45.
#[tokio::test]
async fn a_task_or_a_result_that_does_not_fit_its_schema_goes_nowhere() {
    let provider = Provider::start().await;
    let world = world(&provider, Timeouts::default()).await;
    let log = world.run(json!({ "words": 1 }), json!({})).await;
    assert_eq!(told(&log, "run.failed")[0]["error"]["code"], "handoff_task_schema_violation");
    assert_eq!(provider.asked(), 0, "nobody is asked about it");
    let played = play(vec![says(r#"{"colour":"CANARY"}"#)]).await;
    assert_failed(&played, 2, "handoff_return_schema_violation", "a result without a queue");
    let last = played.log.last().unwrap();
    assert!(!last.payload.contains("CANARY"), "nothing of it is shipped: {}", last.payload);
}

#[tokio::test]
async fn a_model_that_calls_a_tool_a_hundred_times_is_stopped() {
    let played = play(vec![calls(COUNT, r#"{"n": 1}"#, 64, "tool_use"), answer()]).await;
    assert_sorted(&played.log);
    assert_eq!(told(&played.log, "agent.toolReturned").len(), 64);
    let played = play(vec![calls(COUNT, r#"{"n": 1}"#, 100, "tool_use")]).await;
    assert_failed(&played, 1, "service_unavailable", "a hundred in one turn");
    let played = play(vec![calls(COUNT, r#"{"n": 1}"#, 1, "tool_use")]).await;
    assert_eq!(told(&played.log, "run.failed")[0]["error"]["code"], "tool_rounds_exceeded");
    assert_eq!(told(&played.log, "agent.toolReturned").len(), 25);
    assert_eq!(told(&played.log, "agent.invocation.completed")[0]["outcome"], "failed");
}
