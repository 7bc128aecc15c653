//! What a run may use: told where it begins, counted with what its children use, and the end of it.

use std::sync::Arc;

use callboard_core::{
    AgentFact, Birth, Cause, ChildUpdate, Command, Delivered, Entry, Fact, HostLimits,
    OnExhaustion, Outcome, Question, Resolution, Run, RunBudget, Via,
};
use callboard_protocol::{
    BudgetScope, Consumption, EffectiveBudget, InterruptKind, Object, ProviderUsage,
    RosterRunInitiated, RunStatus,
};
use serde_json::json;

use crate::given::{Given, at, given};
use crate::story::line;

fn tokens(most: u64) -> RunBudget {
    RunBudget {
        limits: EffectiveBudget { max_tokens: Some(most), ..EffectiveBudget::default() },
        ..RunBudget::default()
    }
}

fn bounded(flow: &Given, budget: RunBudget) -> Run {
    let birth = Birth { budget: Some(budget), ..flow.birth() };
    Run::new(Arc::new(birth), Arc::new(flow.plan().expect("a definition that runs")))
}

fn lines(log: &[Entry]) -> Vec<String> {
    log.iter().map(|entry| line(&entry.event)).collect()
}

fn used(tokens: u64) -> Vec<Fact> {
    let usage = ProviderUsage {
        provider: "p".to_owned(),
        model: "m".to_owned(),
        input_tokens: tokens,
        output_tokens: 0,
        total_tokens: None,
        cost_estimate_usd: None,
        currency: None,
        cache_hit: None,
        cache_read_tokens: None,
        cache_write_tokens: None,
        node_id: None,
        trace_id: None,
    };
    vec![Fact::Agent { place: 0, fact: AgentFact::Used(usage) }]
}

#[test]
fn it_is_told_behind_for_whom_the_run_is_and_before_what_delivered_it() {
    let flow = given("a:noop");
    let attribution = RosterRunInitiated {
        roster_id: "host:sally-1".into(),
        persona: "Sally".into(),
        agent_id: "vendor.acme.desk.writer".into(),
        workflow_id: "w".into(),
        trigger_source: "webhook".into(),
        trigger_subscription_id: Some("sub".into()),
    };
    let delivery = Delivered {
        work_id: None,
        subscription_id: "sub".into(),
        dedup_key: "k".into(),
        attempt: 1,
        event: Object::new(),
    };
    let birth = Birth {
        budget: Some(tokens(5)),
        attribution: Some(attribution),
        delivery: Some(delivery),
        ..flow.birth()
    };
    assert_eq!(birth.delivery_id().as_str(), "run-1-3");
    let mut run = Run::new(Arc::new(birth), Arc::new(flow.plan().expect("runs")));
    let log = run.decide(&Command::Start, at(0)).expect("it starts");
    let opening = ["run.started", "roster.run.initiated", "budget.reserved"];
    assert_eq!(lines(&log)[..3], opening);
    assert_eq!(lines(&log)[3], "trigger.delivery.attempted");
    assert_eq!(log[0].cause, Some(Cause::Event(3)));
    let reserved = log[2].event.payload();
    assert_eq!(reserved, json!({ "effectiveBudget": { "maxTokens": 5 }, "scope": "run" }));
}

/// Whoever folds a log that was cut anywhere goes on with the same events.
#[test]
fn a_log_that_was_cut_anywhere_is_finished_the_same() {
    let flow = given("a:ai");
    let policy = RunBudget { threshold_percent: Some(50.0), ..tokens(10) };
    let mut run = bounded(&flow, policy);
    let mut log = run.decide(&Command::Start, at(0)).expect("it starts");
    let attempt = run.tasks().next().expect("a task").attempt;
    log.extend(
        run.decide(&Command::RecordFacts { attempt, facts: used(12) }, at(1)).expect("told"),
    );
    let expected = [
        "run.started",
        "budget.reserved",
        "node.started a",
        "provider.usage a",
        "budget.consumed",
        "budget.threshold.crossed",
        "budget.exhausted",
        "cap.breached BudgetTokens 10",
        "node.cancelled a",
        "run.failed budget_exhausted",
    ];
    assert_eq!(lines(&log), expected);
    for cut in 4..log.len() {
        let (birth, plan) = (run.birth().clone(), run.plan().clone());
        let mut heir = Run::replay(birth, plan, &log[..cut]);
        let rest = heir.decide(&Command::Continue, at(1)).expect("it goes on");
        assert_eq!(lines(&rest), expected[cut..], "cut at {cut}");
    }
}

#[test]
fn what_a_child_used_is_its_parents() {
    let flow = given("call:subWorkflow after:noop")
        .edges("call>after")
        .config("call", json!({ "workflowId": "child" }));
    let mut run = bounded(&flow, tokens(100));
    let mut log = run.decide(&Command::Start, at(0)).expect("it starts");
    let order = run.child_orders().pop().expect("a child is owed");
    let left = run.budget_left();
    let child = RunBudget::admit(&Object::new(), &HostLimits::default(), left).expect("admitted");
    let child = child.expect("a child is bounded like its parent");
    assert_eq!((child.limits.max_tokens, child.scope), (Some(100), BudgetScope::Run));
    let (attempt, workflow) = (order.attempt, order.workflow);
    let dispatch = Command::Dispatch { attempt, child: "run-child".into(), workflow };
    log.extend(run.decide(&dispatch, at(1)).expect("dispatched"));
    let news = ChildUpdate {
        run: "run-child".into(),
        status: RunStatus::Completed,
        outputs: Object::new(),
        error: None,
        memory: Vec::new(),
        files: Vec::new(),
        used: Consumption { tokens: 101, ..Consumption::default() },
    };
    log.extend(run.decide(&Command::UpdateChild(news), at(2)).expect("heard"));
    assert_eq!(run.status(), RunStatus::Failed, "{:?}", lines(&log));
    assert_eq!(run.snapshot().error.map(|error| error.code), Some("budget_exhausted".to_owned()));
    assert_eq!(run.budget_left().and_then(|left| left.max_tokens), Some(0));
}

/// With nothing left and a person to ask, the node waits where it stood.
#[test]
fn a_node_that_wants_more_waits_for_a_person() {
    let flow = given("a:ai");
    let policy = RunBudget { on_exhaustion: OnExhaustion::Interrupt, ..tokens(10) };
    let mut run = bounded(&flow, policy);
    run.decide(&Command::Start, at(0)).expect("it starts");
    let attempt = run.tasks().next().expect("a task").attempt;
    let tell = |facts| Command::RecordFacts { attempt: attempt.clone(), facts };
    run.decide(&tell(used(12)), at(1)).expect("told");
    assert_eq!(run.status(), RunStatus::Running, "what is paid for may come to its end");
    let asked = run.decide(&tell(vec![Fact::Calling]), at(2)).expect("told");
    assert_eq!(lines(&asked)[..2], ["budget.exhausted", "interrupt.requested a"]);
    assert_eq!((run.status(), run.tasks().count()), (RunStatus::WaitingApproval, 0));
}

#[test]
fn an_answer_about_a_budget_leaves_the_one_before() {
    let flow = given("a:ai");
    let policy = RunBudget { on_exhaustion: OnExhaustion::Interrupt, ..tokens(10) };
    let mut run = bounded(&flow, policy);
    run.decide(&Command::Start, at(0)).expect("it starts");
    let accept = || {
        let (value, by) = (json!({ "action": "accept" }), Some("key:k".into()));
        Command::Resolve(Resolution { node: "a".into(), value, via: Via::Key, by })
    };
    let data = json!({ "artifactType": "x", "title": "may it?", "actions": ["accept", "reject"] });
    let question =
        Question { kind: InterruptKind::Approval, data, resume_schema: None, timeout_ms: None };
    let attempt = run.tasks().next().expect("a task").attempt;
    let asks = Command::Finish { attempt, outcome: Outcome::Suspend(question) };
    run.decide(&asks, at(1)).expect("asked");
    run.decide(&accept(), at(2)).expect("answered");
    let attempt = run.tasks().next().expect("a task").attempt;
    for facts in [used(12), vec![Fact::Calling]] {
        let tell = Command::RecordFacts { attempt: attempt.clone(), facts };
        run.decide(&tell, at(3)).expect("told");
    }
    run.decide(&accept(), at(4)).expect("answered");
    let task = run.tasks().next().expect("a task");
    let about = |answered: Option<callboard_core::Answered>| {
        answered.expect("an answer").data["artifactType"].clone()
    };
    assert_ne!(about(task.answer), "x");
    assert_eq!(about(task.decision), "x");
}
