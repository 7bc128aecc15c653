//! Answers that cannot be taken as they are.

use callboard_agents::{ModelError, StopReason, Turn};
use serde_json::{Value, json};

use crate::given::{Script, World, kinds, outputs, says, task, told};

async fn play(script: Script) -> (World, Vec<callboard_engine::Recorded>) {
    let world = World::new(script).await;
    let log = world.run(task(), json!({})).await;
    (world, log)
}

/// A-46.
#[tokio::test(start_paused = true)]
async fn a_refusal_ends_the_run_and_nobody_asks_again() {
    let (world, log) =
        play(|_| Ok(Turn { stop: StopReason::Refusal, ..says("I will not.") })).await;
    assert_eq!(world.asked(), 1);
    assert_eq!(told(&log, "envelope.refusal").len(), 1);
    assert_eq!(told(&log, "agent.invocation.completed")[0]["outcome"], "refused");
    let error = &told(&log, "run.failed")[0]["error"];
    assert_eq!(error["code"], "envelope_refusal");
    assert!(!error.to_string().contains("I will not"), "{error}");
}

/// A-45, A-77.
#[tokio::test(start_paused = true)]
async fn a_result_that_breaks_its_schema_is_repaired_once_and_never_shipped() {
    let (world, log) = play(|_| Ok(says(r#"{"colour":"red"}"#))).await;
    assert_eq!(world.asked(), 2);
    assert_eq!(told(&log, "envelope.retry.attempted")[0]["reason"], "schema-violation");
    assert_eq!(told(&log, "envelope.retry.exhausted")[0]["totalAttempts"], 2);
    let breached = &told(&log, "cap.breached")[0];
    assert_eq!((&breached["kind"], &breached["limit"]), (&json!("schema"), &json!(2)));
    let completed = &told(&log, "agent.invocation.completed")[0];
    assert_eq!(
        (&completed["outcome"], &completed["schemaValidated"]),
        (&json!("failed"), &json!(false))
    );
    assert_eq!(told(&log, "run.failed")[0]["error"]["code"], "handoff_return_schema_violation");
    let asked = world.model.asked.lock().unwrap();
    assert_eq!(asked[0].max_output_tokens, asked[1].max_output_tokens);
    assert!(!asked[1].system.as_deref().unwrap().contains("colour"), "nothing of the answer");
}

/// A-76, A-78.
#[tokio::test(start_paused = true)]
async fn an_answer_that_was_cut_off_is_asked_for_with_a_larger_budget_and_no_other_word() {
    let (world, log) = play(|request| {
        let is_cut = request.max_output_tokens <= 8_192;
        let stop = if is_cut { StopReason::Length } else { StopReason::Stop };
        Ok(Turn { stop, ..says(if is_cut { "{\"qu" } else { r#"{"queue":"fire"}"# }) })
    })
    .await;
    assert_eq!(Value::from(outputs(&log)), json!({ "queue": "fire" }));
    assert_eq!(told(&log, "envelope.truncated").len(), 1);
    assert_eq!(told(&log, "envelope.retry.attempted")[0]["reason"], "truncation");
    let asked = world.model.asked.lock().unwrap();
    assert!(asked[1].max_output_tokens > asked[0].max_output_tokens);
    assert_eq!((&asked[1].system, &asked[1].messages), (&asked[0].system, &asked[0].messages));
}

/// A-79.
#[tokio::test(start_paused = true)]
async fn an_answer_in_a_code_fence_is_found_without_asking_again() {
    let (world, log) = play(|_| Ok(says("Here:\n```json\n{\"queue\":\"fire\"}\n```\n"))).await;
    assert_eq!(world.asked(), 1);
    assert_eq!(told(&log, "envelope.recovery.applied")[0]["path"], "markdown-fence");
    assert_eq!(told(&log, "envelope.retry.attempted").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_provider_in_trouble_is_called_three_times_and_one_that_says_no_once() {
    for (status, asked) in [(500, 3), (429, 3), (503, 3), (529, 3), (400, 1), (401, 1), (404, 1)] {
        let script: Script = match status {
            500 => |_| Err(ModelError::of_status("puppet", 500, None)),
            429 => |_| Err(ModelError::of_status("puppet", 429, None)),
            503 => |_| Err(ModelError::of_status("puppet", 503, None)),
            529 => |_| Err(ModelError::of_status("puppet", 529, None)),
            400 => |_| Err(ModelError::of_status("puppet", 400, None)),
            401 => |_| Err(ModelError::of_status("puppet", 401, None)),
            _ => |_| Err(ModelError::of_status("puppet", 404, None)),
        };
        let (world, log) = play(script).await;
        assert_eq!(world.asked(), asked, "{status}");
        assert_eq!(told(&log, "agent.invocation.completed")[0]["outcome"], "failed", "{status}");
        assert_eq!(kinds(&log).last(), Some(&"run.failed"), "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_wait_that_a_provider_asks_for_is_kept_without_letting_go() {
    static ASKED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let began = tokio::time::Instant::now();
    let (world, log) = play(|_| match ASKED.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
        0 => {
            let wait = std::time::Duration::from_secs(40);
            Err(ModelError::of_status("puppet", 429, Some(wait)))
        }
        _ => Ok(says(r#"{"queue":"fire"}"#)),
    })
    .await;
    assert_eq!((world.asked(), told(&log, "node.retried").len()), (2, 0));
    assert_eq!(began.elapsed().as_secs(), 40, "the clock is simulated");
    assert_eq!(kinds(&log).last(), Some(&"run.completed"));
}

/// Issue: waits over a minute are durable timers, and the invocation stays open over them.
#[tokio::test(start_paused = true)]
async fn a_long_wait_is_slept_through_without_a_driver() {
    static ASKED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let (world, log) = play(|_| match ASKED.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
        0 => {
            let wait = std::time::Duration::from_secs(600);
            Err(ModelError::of_status("puppet", 429, Some(wait)))
        }
        _ => Ok(says(r#"{"queue":"fire"}"#)),
    })
    .await;
    assert_eq!(world.asked(), 2);
    let retried = &told(&log, "node.retried")[0];
    assert_eq!(retried["postponed"], true);
    assert!(retried["delayMs"].as_u64() >= Some(599_000), "{retried}");
    assert_eq!(told(&log, "agent.invocation.started").len(), 1);
    assert_eq!(told(&log, "agent.invocation.completed").len(), 1);
    assert_eq!(kinds(&log).last(), Some(&"run.completed"));
}
