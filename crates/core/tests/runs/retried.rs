//! Retries of runs that have ended: what is kept, what is done again, and what is refused.

use std::sync::Arc;

use callboard_core::{
    Birth, Command, Entry, Fork, Plan, RetriedVisit, RetryChange, RetryRefusal, RetryTerms, Run,
    retry_place,
};
use callboard_protocol::{ForkMode, RunStatus};
use serde_json::{Value, json};

use crate::given::{Do, Given, at, given};
use crate::story::{Played, line, play};

fn terms(from: Option<&str>, changed: RetryChange) -> RetryTerms {
    RetryTerms { from: from.map(Into::into), changed }
}

/// A retry of a run with this plan, before its first own event.
fn prepared(source: &Played, plan: Arc<Plan>, terms: &RetryTerms) -> Result<Played, RetryRefusal> {
    let place = retry_place(&source.log, terms.from.as_ref())?;
    let (history, ended) = source.log.split_at(place);
    let old = source.run.birth();
    let birth = Birth {
        run_id: "run-2".into(),
        created_at: at(3_000_000),
        fork: Some(Fork::of(old, ForkMode::Branch, place as u64, source.log.len() as u64)),
        ..Birth::clone(old)
    };
    let run = Run::new(Arc::new(birth), plan).retry(history, ended, terms)?;
    Ok(Played { run, log: history.to_vec(), lines: Vec::new() })
}

fn retried(source: &Played, terms: &RetryTerms) -> Result<Played, RetryRefusal> {
    let mut retry = prepared(source, source.run.plan().clone(), terms)?;
    begin(&mut retry);
    Ok(retry)
}

fn begin(retry: &mut Played) {
    let begun = retry.run.decide(&Command::Branch, at(3_000_000)).expect("a branch");
    retry.lines.extend(begun.iter().map(|entry| line(&entry.event)));
    retry.log.extend(begun);
}

/// The log alone gives the same run, to whoever takes over.
fn assert_rebuilt(retry: &Played) {
    let (birth, plan) = (retry.run.birth().clone(), retry.run.plan().clone());
    let rebuilt = Run::replay(birth, plan, &retry.log);
    assert_eq!(rebuilt.snapshot(), retry.run.snapshot());
    assert_eq!(rebuilt.head(), retry.run.head());
}

fn refusal(source: &Played, from: Option<&str>) -> RetryRefusal {
    retried(source, &terms(from, RetryChange::Nothing)).err().expect("a refusal")
}

/// `bad` fails while `good` is still at it; `end` waits for both.
fn half_failed() -> Played {
    let flow = given("first:noop good:ai bad:ai end:noop")
        .edges("first>good first>bad good>end bad>end")
        .most_millis(1_000);
    let steps = [
        (0, Do::Start),
        (5, Do::FailedForGood("bad", "broken")),
        (9, Do::Done("good", json!({ "text": "kept" }))),
    ];
    play(&flow, &steps)
}

#[test]
fn a_retry_keeps_what_completed_beside_the_failure() {
    let source = half_failed();
    assert_eq!(source.run.status(), RunStatus::Failed);
    let mut retry = retried(&source, &terms(None, RetryChange::Nothing)).expect("a retry");
    assert_eq!(retry.lines, ["run.resumed", "node.started bad v1"], "good is not done again");
    retry.step(3_000_010, &Do::Done("bad", json!({ "text": "mended" })));
    assert_eq!(
        retry.lines[2..],
        ["node.completed bad", "node.started end v1", "node.completed end", "run.completed"]
    );
    assert_eq!(retry.variable("good"), json!({ "text": "kept" }));
    let resumed = retry.log.iter().rfind(|entry| entry.event.kind() == "run.resumed");
    let reason = resumed.expect("told").event.payload()["reason"].clone();
    assert_eq!(reason, "retried from run-1 at bad");
    assert_rebuilt(&retry);
}

/// A rejection, a limit on time and a cancel end a run too.
#[test]
fn what_stopped_a_run_from_outside_does_not_stop_its_retry() {
    let gate = given("gate:approvalGate after:noop").edges("gate>after");
    let reject = Do::Answer("gate", json!({ "action": "reject" }));
    let source = play(&gate, &[(0, Do::Start), (5, reject)]);
    assert_eq!(source.run.status(), RunStatus::Failed);
    let retry = retried(&source, &terms(None, RetryChange::Nothing)).expect("a retry");
    assert_eq!(retry.run.status(), RunStatus::WaitingApproval, "it is asked once more");
    let (then, now) = (source.payload("interrupt.requested"), retry.run.interrupts().next());
    assert_ne!(then["key"], now.expect("a question").key.as_str());

    let slow = given("a:noop say:ai").edges("a>say").most_millis(1_000);
    let late = play(&slow, &[(0, Do::Start), (1_000, Do::Continue)]);
    let cancelled = play(&slow, &[(0, Do::Start), (10, Do::Cancel)]);
    for (source, end) in [(late, RunStatus::Failed), (cancelled, RunStatus::Cancelled)] {
        assert_eq!(source.run.status(), end);
        let mut retry = retried(&source, &terms(None, RetryChange::Nothing)).expect("a retry");
        assert_eq!(retry.lines, ["run.resumed", "node.started say #1"]);
        retry.step(3_000_900, &Do::Done("say", json!({})));
        assert_eq!(retry.run.status(), RunStatus::Completed, "its time counts from the retry");
        assert_rebuilt(&retry);
    }
}

#[test]
fn a_named_node_is_done_again_with_all_that_depends_on_it() {
    let flow = given("a:ai b:ai c:ai").edges("a>b b>c");
    let steps = [
        (0, Do::Start),
        (1, Do::Done("a", json!({ "n": 1 }))),
        (2, Do::Done("b", json!({ "n": 1 }))),
        (3, Do::Done("c", json!({ "n": 1 }))),
    ];
    let source = play(&flow, &steps);
    assert_eq!(refusal(&source, None), RetryRefusal::Completed);
    let mut retry = retried(&source, &terms(Some("b"), RetryChange::Nothing)).expect("a retry");
    retry.step(3_000_001, &Do::Done("b", json!({ "n": 2 })));
    retry.step(3_000_002, &Do::Done("c", json!({ "n": 2 })));
    assert_eq!(
        retry.lines,
        [
            "run.resumed",
            "node.started b v1",
            "node.completed b",
            "node.started c v1",
            "node.completed c",
            "run.completed"
        ]
    );
    assert_eq!((retry.variable("a")["n"].clone(), retry.variable("b")["n"].clone()), {
        (json!(1), json!(2))
    });
    assert_rebuilt(&retry);
}

/// A node of a loop goes on with the turn in which it failed.
#[test]
fn a_failure_within_a_loop_goes_on_with_its_turn() {
    let flow = given("each:loop work:ai after:noop")
        .edges("each>work work>each:any_success each>after")
        .config("each", json!({ "items": ["x", "y", "z"] }));
    let steps = [
        (0, Do::Start),
        (1, Do::Done("work", json!({}))),
        (2, Do::FailedForGood("work", "broken")),
    ];
    let source = play(&flow, &steps);
    assert_eq!(source.run.status(), RunStatus::Failed, "{:#?}", source.lines);
    let mut retry = retried(&source, &terms(None, RetryChange::Nothing)).expect("a retry");
    for millis in [1, 2] {
        retry.step(3_000_000 + millis, &Do::Done("work", json!({})));
    }
    let worked = retry.lines.iter().filter(|line| *line == "node.completed work").count();
    assert_eq!((retry.run.status(), worked), (RunStatus::Completed, 2), "{:#?}", retry.lines);
    assert_rebuilt(&retry);
}

/// The calls of an agent that were answered are its past; a refusal by what it was answered is not.
#[test]
fn only_a_call_without_an_answer_goes_on_within_its_visit() {
    let flow = given("say:ai");
    for (code, changed, visit) in [
        ("service_unavailable", RetryChange::Nothing, RetriedVisit::Same),
        ("service_unavailable", RetryChange::Inputs, RetriedVisit::New),
        ("envelope_invalid", RetryChange::Nothing, RetriedVisit::New),
    ] {
        let steps =
            [(0, Do::Start), (1, Do::Chunks("say", &[0])), (2, Do::FailedForGood("say", code))];
        let source = play(&flow, &steps);
        let retry = retried(&source, &terms(None, changed)).expect("a retry");
        let fork = retry.run.birth().fork.as_ref().and_then(|fork| fork.retry.as_ref());
        assert_eq!(fork.expect("a retry").nodes[0].visit, visit, "{code} {changed:?}");
        let started = match visit {
            RetriedVisit::Same => "node.started say #1",
            RetriedVisit::New => "node.started say v1",
        };
        assert_eq!(retry.lines, ["run.resumed", started]);
        assert_rebuilt(&retry);
    }
}

#[test]
fn what_cannot_be_retried_is_refused() {
    let flow = given("a:ai b:noop c:fail").edges("a>b a>c:any_failed");
    let running = play(&flow, &[(0, Do::Start)]);
    assert_eq!(refusal(&running, None), RetryRefusal::NotEnded);
    let ended = play(&flow, &[(0, Do::Start), (1, Do::Done("a", json!({})))]);
    let unknown = RetryRefusal::UnknownNode { node: "x".into() };
    assert_eq!(refusal(&ended, Some("x")), unknown);
    assert_eq!(refusal(&ended, Some("c")), RetryRefusal::NotReached { node: "c".into() });
    let lost = given("a:noop b:noop")
        .edges("a>b")
        .edge(0, json!({ "condition": { "type": "equals", "left": "x", "right": 1 } }));
    let source = play(&lost, &[(0, Do::Start)]);
    let nothing = RetryRefusal::NothingFailed { code: "no_path_completed".to_owned() };
    assert_eq!(refusal(&source, None), nothing);
}

/// The same steps, with `b` mended; an edge before the others moves all their places.
fn mended(flow: &Given) -> Arc<Plan> {
    let mut newest = flow.clone();
    let edges = newest.definition["edges"].as_array_mut().expect("edges");
    edges.insert(0, json!({ "id": "e99", "sourceNodeId": "a", "targetNodeId": "new" }));
    let newest = newest.extra(json!({ "id": "new", "typeId": "core.noop" }));
    Arc::new(newest.plan().expect("a definition that runs"))
}

#[test]
fn the_newest_definition_takes_over_what_was_done_under_the_old() {
    let is =
        |right: &str| json!({ "condition": { "type": "equals", "left": "to", "right": right } });
    let flow = given("a:ai b:ai other:noop").edges("a>b a>other");
    let flow = flow.edge(0, is("b")).edge(1, is("other"));
    let steps = [
        (0, Do::Start),
        (1, Do::Done("a", json!({ "to": "b" }))),
        (2, Do::FailedForGood("b", "no")),
    ];
    let source = play(&flow, &steps);
    assert_eq!(source.run.status(), RunStatus::Failed, "{:#?}", source.lines);
    let newest = terms(None, RetryChange::Definition);
    let mut retry = prepared(&source, mended(&flow), &newest).expect("a retry");
    begin(&mut retry);
    retry.step(3_000_001, &Do::Done("b", json!({})));
    assert_eq!(retry.run.status(), RunStatus::Completed, "{:#?}", retry.lines);
    let started = |node: &str| {
        retry.lines.iter().any(|line| line.starts_with(&format!("node.started {node}")))
    };
    assert!(
        started("new") && started("b") && !started("a") && !started("other"),
        "{:#?}",
        retry.lines
    );
    assert_rebuilt(&retry);
    let gone = Arc::new(given("a:ai z:noop").edges("a>z").plan().expect("a definition"));
    let refused = prepared(&source, gone, &newest).err();
    // `z` was never reached, so there is something to do; without it there is not.
    assert_eq!(refused, None);
    let empty = Arc::new(given("a:ai").plan().expect("a definition"));
    let refused = prepared(&source, empty, &newest).err();
    assert_eq!(refused, Some(RetryRefusal::NodeGone { node: "b".into() }));
}

fn told(log: &[Entry]) -> Vec<(String, Value)> {
    log.iter().map(|entry| (entry.event.kind().to_owned(), entry.event.payload())).collect()
}

/// R54: a replay of a retry, from any of its events, goes through failure and retry alike.
#[test]
fn a_retry_can_be_replayed_and_retried() {
    let source = half_failed();
    let mut first = retried(&source, &terms(None, RetryChange::Nothing)).expect("a retry");
    first.step(3_000_010, &Do::FailedForGood("bad", "again"));
    assert_eq!(first.run.status(), RunStatus::Failed);
    let mut second = retried(&first, &terms(None, RetryChange::Nothing)).expect("another");
    assert_eq!(second.lines, ["run.resumed", "node.started bad v2"]);
    second.step(3_000_020, &Do::Done("bad", json!({})));
    assert_eq!(second.run.status(), RunStatus::Completed);
    assert_rebuilt(&second);
    let (log, length) = (&second.log, second.log.len() as u64);
    for from in 0..log.len() {
        let old = second.run.birth();
        let fork = Some(Fork::of(old, ForkMode::Replay, from as u64, length));
        let birth = Birth { run_id: "run-3".into(), fork, ..Birth::clone(old) };
        let plan = second.run.plan().clone();
        let mut run = Run::new(Arc::new(birth), plan).with_source(&log[from..]);
        log[..from].iter().for_each(|entry| run.apply(entry));
        let mut again = log[..from].to_vec();
        while !run.status().is_terminal() {
            let more = run.decide(&Command::Continue, at(9_000_000)).expect("a replay goes on");
            assert!(!more.is_empty(), "stuck at {from}");
            again.extend(more);
        }
        assert_eq!(told(&again), told(log), "from {from}");
    }
}
