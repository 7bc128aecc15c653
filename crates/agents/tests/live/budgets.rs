//! What agents may use: by run, by member and day, by tenant. Derived from what was recorded, asked before each call.

use std::sync::Arc;

use callboard_core::{HostLimits, Resolution, Via, day_of};
use callboard_engine::{
    BudgetAccount, Budgets, Engine, KeyMode, Order, Realm, Recorded, Roster, Store, Target,
};
use callboard_protocol::{
    AgentRosterEntry, EffectiveBudget, RosterAgentRef, RosterOwner, RunId, Timestamp,
};
use serde_json::{Value, json};

use crate::given::{
    AGENT, Script, World, agent_order, calls, kinds, offered, outputs, payload, results, says,
    task, told,
};
use crate::sim::{Fate, doomed_store, ended, scope};

/// Two tools between three turns; each turn uses fifteen tokens.
fn three_turns() -> Script {
    |request| match results(request) {
        done @ 0..2 => Ok(calls(request, &[(&offered(request, "count"), json!({ "n": done }))])),
        _ => Ok(says(r#"{"queue":"fire","_confidence":1}"#)),
    }
}

fn of_budget(log: &[Recorded]) -> Vec<String> {
    let counts = |event: &&Recorded| {
        event.kind.starts_with("budget.") || ["cap.breached", "run.failed"].contains(&&*event.kind)
    };
    let line = |event: &Recorded| {
        let said = payload(event);
        let amount = |key: &str| said.get(key).map(ToString::to_string).unwrap_or_default();
        format!("{} {}/{}", event.kind, amount("consumed"), amount("limit"))
    };
    log.iter().filter(counts).map(line).collect()
}

fn budget(policy: Value) -> Value {
    json!({ "budget": policy })
}

/// RFC 0084: reserved once, consumed with every usage, exhausted, broken, failed, in this order.
#[tokio::test(start_paused = true)]
async fn a_run_that_has_used_its_budget_ends() {
    let world = World::new(three_turns()).await;
    let log = world.run(task(), budget(json!({ "maxTokens": 20, "thresholdPercent": 50 }))).await;
    assert_eq!(
        of_budget(&log),
        [
            "budget.reserved /",
            "budget.consumed 15/20",
            "budget.threshold.crossed 15/20",
            "budget.consumed 30/20",
            "budget.exhausted 30/20",
            "cap.breached /20",
            "run.failed /",
        ]
    );
    assert_eq!(kinds(&log)[..2], ["run.started", "budget.reserved"]);
    let reserved = &told(&log, "budget.reserved")[0];
    assert_eq!(*reserved, json!({ "effectiveBudget": { "maxTokens": 20 }, "scope": "run" }));
    let breach = &told(&log, "cap.breached")[0];
    assert_eq!(*breach, json!({ "kind": "budget-tokens", "limit": 20, "observed": 30 }));
    assert_eq!(told(&log, "run.failed")[0]["error"]["code"], "budget_exhausted");
    assert_eq!(world.asked(), 2, "nobody is asked with nothing left");
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_is_used_to_the_last_token_is_no_failure_until_more_is_wanted() {
    let world = World::new(three_turns()).await;
    let log = world.run(task(), budget(json!({ "maxTokens": 45 }))).await;
    assert_eq!(kinds(&log).last(), Some(&"run.completed"));
    let world = World::new(three_turns()).await;
    let log = world.run(task(), budget(json!({ "maxTokens": 30 }))).await;
    assert_eq!(told(&log, "budget.exhausted")[0]["consumed"], 30);
    assert_eq!((world.asked(), kinds(&log).last()), (2, Some(&"run.failed")));
}

#[tokio::test(start_paused = true)]
async fn tools_and_money_are_counted_too() {
    let world = World::new(three_turns()).await;
    let log = world.run(task(), budget(json!({ "maxToolCalls": 1 }))).await;
    assert_eq!(told(&log, "cap.breached")[0]["kind"], "budget-tool-calls");
    assert_eq!(world.made.lock().unwrap().len(), 1, "the second tool is not used");
    let world = World::new(three_turns()).await;
    let dear = json!({ "budget": { "maxCostUsd": 20.5 }, "ai": { "provider": "puppet", "model": "dear" } });
    let log = world.run(task(), dear).await;
    let breach = &told(&log, "cap.breached")[0];
    assert_eq!(*breach, json!({ "kind": "budget-cost", "limit": 20.5, "observed": 30 }));
}

#[tokio::test(start_paused = true)]
async fn what_has_no_price_is_not_asked_where_money_is_bounded() {
    let world = World::new(three_turns()).await;
    let log = world.run(task(), budget(json!({ "maxCostUsd": 100 }))).await;
    assert_eq!(told(&log, "run.failed")[0]["error"]["code"], "budget_price_unknown");
    assert_eq!(world.asked(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_the_budget_denies_is_never_asked() {
    let world = World::new(three_turns()).await;
    let policy = json!({ "modelAllow": ["*"], "modelDeny": ["puppet/*"] });
    let log = world.run(task(), budget(policy)).await;
    assert_eq!(told(&log, "run.failed")[0]["error"]["code"], "budget_model_denied");
    assert_eq!(world.asked(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_neither_loses_nor_doubles_what_was_used() {
    let policy = || budget(json!({ "maxTokens": 45, "maxToolCalls": 2 }));
    let under = async |fate: Fate| {
        let world = World::new(three_turns()).await;
        let (log, appends) = world.survive(agent_order(task(), policy()), fate).await;
        (of_budget(&log), outputs(&log), appends)
    };
    let (whole, result, appends) = under(Fate::Live).await;
    assert_eq!(whole.last().map(String::as_str), Some("budget.consumed 45/45"), "{whole:?}");
    for at in 1..=appends {
        for fate in [Fate::DieBefore(at), Fate::DieAfter(at)] {
            let (lines, outputs, _) = under(fate).await;
            assert_eq!((lines, outputs), (whole.clone(), result.clone()), "{fate:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_replay_reads_the_budget_that_was_recorded_and_pays_nobody() {
    let world = World::new(three_turns()).await;
    let host = world.host("host", Arc::clone(&world.store) as _);
    let run = host.create(agent_order(task(), budget(json!({ "maxTokens": 20 }))), None).await;
    let run = run.unwrap().run;
    let source = ended(&world.store, &run).await;
    let spent = spent_today(&world, None).await;
    let log = world.replay(&source).await;
    assert_eq!(of_budget(&log), of_budget(&source));
    assert_eq!(kinds(&log), kinds(&source));
    assert_eq!((spent_today(&world, None).await, world.asked()), (spent, 2));
}

/// A run that waits for an answer about money.
async fn waiting(world: &World, host: &Engine, order: Order) -> RunId {
    let run = host.create(order, None).await.unwrap().run;
    world.until_asked().await;
    run
}

async fn answer(host: &Engine, run: &RunId, value: Value) {
    let resolution =
        Resolution { node: "agent".into(), value, via: Via::Key, by: Some("key:k".into()) };
    host.resolve(&scope(), run, resolution, None).await.expect("the answer is taken");
}

/// RFC 0084: the continuation is a second `budget.reserved`.
#[tokio::test(start_paused = true)]
async fn a_person_can_give_a_run_more_and_it_goes_on() {
    let world = World::new(three_turns()).await;
    let host = world.host("host", Arc::clone(&world.store) as _);
    let policy = budget(json!({ "maxTokens": 15, "onExhaustion": "interrupt" }));
    let run = waiting(&world, &host, agent_order(task(), policy)).await;
    let log = world.log(&run).await;
    assert_eq!(world.asked(), 1);
    let asked = &told(&log, "interrupt.requested")[0];
    assert_eq!(asked["kind"], "approval");
    assert_eq!(
        asked["data"]["artifactData"],
        json!({ "scope": "run", "dimension": "tokens", "consumed": 15, "limit": 15 })
    );
    let edit = json!({ "action": "edit-accept", "editedArtifactData": { "limit": 100 } });
    answer(&host, &run, edit).await;
    let log = ended(&world.store, &run).await;
    assert_eq!(kinds(&log).last(), Some(&"run.completed"));
    let reserved = told(&log, "budget.reserved");
    assert_eq!(reserved[1]["effectiveBudget"], json!({ "maxTokens": 100 }));
    assert_eq!((world.asked(), told(&log, "budget.exhausted").len()), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn a_person_who_gives_no_more_ends_the_run() {
    let world = World::new(three_turns()).await;
    let host = world.host("host", Arc::clone(&world.store) as _);
    let policy = budget(json!({ "maxToolCalls": 1, "onExhaustion": "interrupt" }));
    let run = waiting(&world, &host, agent_order(task(), policy)).await;
    assert_eq!(world.made.lock().unwrap().len(), 1, "the second tool waits for the answer");
    answer(&host, &run, json!({ "action": "reject" })).await;
    let log = ended(&world.store, &run).await;
    assert_eq!(told(&log, "cap.breached")[0]["kind"], "budget-tool-calls");
    assert_eq!(told(&log, "run.failed")[0]["error"]["code"], "budget_exhausted");
}

const SALLY: &str = "host:sally-1";

/// A member that may use so many tokens a day, on a host where every other may use the other.
async fn hired(world: &mut World, tokens: Option<u64>, usual: Option<u64>) {
    let entry = AgentRosterEntry {
        roster_id: SALLY.into(),
        persona: "Sally".to_owned(),
        agent_ref: RosterAgentRef { agent_id: AGENT.into(), version: None, channel: None },
        workflows: vec!["desk".into()],
        owner: RosterOwner { tenant_id: "default".into(), workspace_id: None },
        enabled: true,
        label: None,
        description: None,
    };
    Roster::new(world.store.clone())
        .hire(KeyMode::Live, entry, Timestamp::default())
        .await
        .unwrap();
    let allowance = tokens.map(|_| day(tokens));
    let realm = Realm { tenant: "default".into(), mode: KeyMode::Live };
    let budgets = Budgets::new(world.store.clone());
    budgets.set_daily_limit(&realm, &SALLY.into(), allowance).await.unwrap();
    world.limits = HostLimits { member_day: day(usual), ..world.limits };
}

fn day(tokens: Option<u64>) -> EffectiveBudget {
    EffectiveBudget { max_tokens: tokens, ..EffectiveBudget::default() }
}

fn for_sally() -> Order {
    Order { target: Target::Agent(SALLY.to_owned()), ..agent_order(task(), json!({})) }
}

async fn spent_today(world: &World, member: Option<&str>) -> u64 {
    let account = BudgetAccount {
        tenant: "default".into(),
        mode: KeyMode::Live,
        member: member.map(Into::into),
    };
    let today = day_of(callboard_engine::Clock::now(&*world.clock));
    Budgets::new(world.store.clone()).spent_on(&account, today).await.unwrap().tokens()
}

#[tokio::test(start_paused = true)]
async fn a_member_that_has_used_its_day_asks_before_the_next_call() {
    let mut world = World::new(three_turns()).await;
    hired(&mut world, Some(30), Some(1)).await;
    let host = world.host("host", Arc::clone(&world.store) as _);
    let run = waiting(&world, &host, for_sally()).await;
    assert_eq!((world.asked(), spent_today(&world, Some(SALLY)).await), (2, 30));
    let log = world.log(&run).await;
    let subject = &told(&log, "interrupt.requested")[0]["data"]["artifactData"];
    assert_eq!((&subject["scope"], &subject["rosterId"]), (&json!("agent"), &json!(SALLY)));
    assert_eq!(told(&log, "budget.exhausted").len(), 1);
    answer(&host, &run, json!({ "action": "accept" })).await;
    let log = ended(&world.store, &run).await;
    assert_eq!((world.asked(), kinds(&log).last()), (3, Some(&"run.completed")));
    // What was raised holds for the day: the next run begins, and stops where as much again is used.
    let second = waiting(&world, &host, for_sally()).await;
    assert_eq!(spent_today(&world, Some(SALLY)).await, 60);
    answer(&host, &second, json!({ "action": "reject" })).await;
    let log = ended(&world.store, &second).await;
    assert_eq!(told(&log, "run.failed")[0]["error"]["code"], "budget_exhausted");
}

/// One turn of fifteen tokens.
fn one_turn() -> Script {
    |_| Ok(says(r#"{ "queue": "fire", "_confidence": 1 }"#))
}

/// Runs of one member that begin at once, with what they come to; those that ask are given nothing.
async fn crowd(world: &World, count: usize) -> (usize, u64) {
    *world.model.thinks.lock().unwrap() = std::time::Duration::from_secs(5);
    let host = world.host("host", Arc::clone(&world.store) as _);
    let mut runs = Vec::new();
    for _ in 0..count {
        runs.push(host.create(for_sally(), None).await.unwrap().run);
    }
    let open = async || {
        let mut open = 0;
        for run in &runs {
            let page = world.store.read(&scope(), run, 0, usize::MAX).await.unwrap().unwrap();
            let asks = page.events.iter().any(|event| event.kind == "interrupt.requested");
            open += usize::from(!page.status.is_terminal() && !asks);
        }
        open
    };
    while open().await > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    (world.asked(), spent_today(world, Some(SALLY)).await)
}

#[tokio::test(start_paused = true)]
async fn runs_that_ask_at_the_same_moment_go_past_a_ceiling_by_one_call_together() {
    let mut world = World::new(one_turn()).await;
    hired(&mut world, Some(40), None).await;
    // What a call may use is more than all that is left, so that one is made after the other.
    assert_eq!(crowd(&world, 8).await, (3, 45));
    // Where there is room for all of them they do not wait, and nothing of what was set aside is left.
    let mut world = World::new(one_turn()).await;
    hired(&mut world, Some(1_000_000), None).await;
    assert_eq!(crowd(&world, 8).await, (8, 120));
}

/// Whoever takes a run over neither waits for what its lost holder had set aside nor makes others wait for it.
#[tokio::test(start_paused = true)]
async fn what_a_lost_holder_had_reserved_keeps_nobody_for_ever() {
    let mut world = World::new(one_turn()).await;
    hired(&mut world, Some(40), None).await;
    let doomed = doomed_store(Arc::clone(&world.store), Fate::DieAfter(4));
    let first = world.host("first", Arc::clone(&doomed) as _);
    let lost = first.create(for_sally(), None).await.unwrap().run;
    doomed.died.notified().await;
    first.kill();
    let second = world.host("second", Arc::clone(&world.store) as _);
    let other = second.create(for_sally(), None).await.unwrap().run;
    for run in [lost, other] {
        assert_eq!(kinds(&ended(&world.store, &run).await).last(), Some(&"run.completed"));
    }
    assert_eq!(spent_today(&world, Some(SALLY)).await, 30);
}

#[tokio::test(start_paused = true)]
async fn a_new_day_begins_with_nothing_used() {
    let mut world = World::new(three_turns()).await;
    hired(&mut world, None, Some(45)).await;
    let host = world.host("host", Arc::clone(&world.store) as _);
    let run = host.create(for_sally(), None).await.unwrap().run;
    assert_eq!(kinds(&ended(&world.store, &run).await).last(), Some(&"run.completed"));
    assert_eq!(spent_today(&world, Some(SALLY)).await, 45);
    tokio::time::sleep(std::time::Duration::from_secs(86_400)).await;
    assert_eq!(spent_today(&world, Some(SALLY)).await, 0);
    let run = host.create(for_sally(), None).await.unwrap().run;
    assert_eq!(kinds(&ended(&world.store, &run).await).last(), Some(&"run.completed"));
}

#[tokio::test(start_paused = true)]
async fn a_tenant_has_a_day_too_whoever_works_for_it() {
    let mut world = World::new(three_turns()).await;
    world.limits = HostLimits { tenant_day: day(Some(15)), ..world.limits };
    let host = world.host("host", Arc::clone(&world.store) as _);
    let run = waiting(&world, &host, agent_order(task(), json!({}))).await;
    assert_eq!(world.asked(), 1);
    let subject = &told(&world.log(&run).await, "interrupt.requested")[0]["data"]["artifactData"];
    assert_eq!((&subject["scope"], &subject["limit"]), (&json!("project"), &json!(15)));
}

#[tokio::test(start_paused = true)]
async fn a_crash_around_the_question_asks_it_once_and_takes_the_answer_once() {
    let under = async |fate: Fate| {
        let mut world = World::new(three_turns()).await;
        hired(&mut world, Some(30), None).await;
        let doomed = doomed_store(Arc::clone(&world.store), fate);
        let first = world.host("first", Arc::clone(&doomed) as _);
        let run = first.create(for_sally(), None).await.unwrap().run;
        tokio::select! {
            () = doomed.died.notified() => first.kill(),
            () = world.until_asked() => {}
        }
        let host = world.host("second", Arc::clone(&world.store) as _);
        world.until_asked().await;
        answer(&host, &run, json!({ "action": "accept" })).await;
        let log = ended(&world.store, &run).await;
        let used = spent_today(&world, Some(SALLY)).await;
        (of_budget(&log), outputs(&log), used, doomed.appends())
    };
    let (whole, result, used, appends) = under(Fate::Live).await;
    assert_eq!((whole.len(), used), (1, 45), "{whole:?}");
    for at in 1..=appends {
        for fate in [Fate::DieBefore(at), Fate::DieAfter(at)] {
            let (lines, outputs, again, _) = under(fate).await;
            assert_eq!((lines, outputs, again), (whole.clone(), result.clone(), used), "{fate:?}");
        }
    }
}
