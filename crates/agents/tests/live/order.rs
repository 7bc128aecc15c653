//! The order of the protocol (RFC 0077 §E) under random models, some of whose hosts die or whose runs are cancelled.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use callboard_agents::{ModelError, ModelRequest, StopReason, Turn};
use callboard_core::{Resolution, Via};
use callboard_engine::{Engine, Recorded, Store as _};
use callboard_protocol::{EventId, RunId};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::given::{Said, World, agent_order, calls, offered, payload, says, told};
use crate::sim::{Fate, doomed_store, open_questions, scope};

/// Stands in everything that a model, a tool or a caller says.
pub(crate) const SAID: &str = "CANARY";
const STARTED: &str = "agent.invocation.started";
const COMPLETED: &str = "agent.invocation.completed";
const CANCELLED: &str = "run.cancelled";
/// How long models and slow tools take for each thing that they do. Time is simulated; longer than words are kept back.
const PACE: Duration = Duration::from_millis(60);

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Answers {
        confidence: Option<u8>,
        thinks: bool,
        shape: Shape,
    },
    Calls(Vec<Wanted>),
    Refuses,
    IsFiltered,
    IsCut,
    /// Speaks first, if it does, and ends with this status.
    Fails {
        status: u16,
        thinks: bool,
        wait: Option<u64>,
    },
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    Fits,
    Fenced,
    Violates,
    Chats,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Wanted {
    Allowed,
    Slow,
    Writing,
    WithoutScope,
    Outside,
    Unknown,
    Misfitting,
    Failing,
}

#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) steps: Vec<Step>,
    pub(crate) ruling: Value,
    pub(crate) fate: Fate,
    /// Somebody cancels the run as soon as its log has so many events.
    pub(crate) cancel: Option<u64>,
}

fn steps() -> impl Strategy<Value = Step> {
    let shape = prop_oneof![
        4 => Just(Shape::Fits),
        1 => Just(Shape::Fenced),
        2 => Just(Shape::Violates),
        1 => Just(Shape::Chats),
    ];
    let wanted = prop_oneof![
        3 => Just(Wanted::Allowed),
        2 => Just(Wanted::Slow),
        1 => Just(Wanted::Writing),
        1 => Just(Wanted::WithoutScope),
        1 => Just(Wanted::Outside),
        1 => Just(Wanted::Unknown),
        1 => Just(Wanted::Misfitting),
        1 => Just(Wanted::Failing),
    ];
    let status = prop::sample::select(vec![400, 401, 429, 500, 529]);
    let wait = prop::option::of(prop::sample::select(vec![2, 600]));
    prop_oneof![
        2 => (prop::option::of(0..=10_u8), any::<bool>(), shape)
            .prop_map(|(confidence, thinks, shape)| Step::Answers { confidence, thinks, shape }),
        4 => prop::collection::vec(wanted, 1..4).prop_map(Step::Calls),
        1 => Just(Step::Refuses),
        1 => Just(Step::IsFiltered),
        1 => Just(Step::IsCut),
        2 => (status, any::<bool>(), wait)
            .prop_map(|(status, thinks, wait)| Step::Fails { status, thinks, wait }),
    ]
}

pub(crate) fn cases() -> impl Strategy<Value = Case> {
    let rulings = vec![
        json!({ "action": "accept" }),
        json!({ "action": "reject" }),
        json!({ "queue": SAID }),
    ];
    let fates = prop_oneof![
        Just(Fate::Live),
        (1..40_u64).prop_map(Fate::DieBefore),
        (1..40_u64).prop_map(Fate::DieAfter),
    ];
    let cancels = prop::option::of(1..40_u64);
    (prop::collection::vec(steps(), 0..6), prop::sample::select(rulings), fates, cancels)
        .prop_map(|(steps, ruling, fate, cancel)| Case { steps, ruling, fate, cancel })
}

/// What a model says in one step; who has none left answers well.
pub(crate) fn said(step: Option<&Step>, request: &ModelRequest) -> Said {
    let well = Step::Answers { confidence: None, thinks: false, shape: Shape::Fits };
    let ended = |stop| Ok(Turn { stop, ..says(&format!("{SAID} no")) }).into();
    match step.unwrap_or(&well) {
        Step::Answers { confidence, thinks, shape } => {
            let confidence = confidence.map_or(String::new(), |tenths| {
                format!(r#","_confidence":{}"#, f64::from(tenths) / 10.0)
            });
            let fitting = format!(r#"{{"queue":"{SAID}"{confidence}}}"#);
            let text = match shape {
                Shape::Fits => fitting,
                Shape::Fenced => format!("Here:\n```json\n{fitting}\n```\n"),
                Shape::Violates => format!(r#"{{"colour":"{SAID}"}}"#),
                Shape::Chats => format!("{SAID}, I would say"),
            };
            let thinking = if *thinks { format!("{SAID} hm") } else { String::new() };
            Ok(Turn { thinking, ..says(&text) }).into()
        }
        Step::Calls(wanted) => {
            let named: Vec<(String, Value)> =
                wanted.iter().map(|wanted| named(*wanted, request)).collect();
            let named: Vec<(&str, Value)> =
                named.iter().map(|(name, arguments)| (name.as_str(), arguments.clone())).collect();
            Ok(calls(request, &named)).into()
        }
        Step::Refuses => ended(StopReason::Refusal),
        Step::IsFiltered => ended(StopReason::ContentFilter),
        Step::IsCut => ended(StopReason::Length),
        Step::Fails { status, thinks, wait } => {
            let error = ModelError::of_status("puppet", *status, wait.map(Duration::from_secs));
            Said::torn(if *thinks { SAID } else { "" }, SAID, error)
        }
    }
}

fn named(wanted: Wanted, request: &ModelRequest) -> (String, Value) {
    let note = json!({ "n": 1, "note": SAID });
    match wanted {
        Wanted::Allowed => (offered(request, "count"), note),
        Wanted::Slow => {
            (offered(request, "count"), json!({ "note": SAID, "waitMs": PACE.as_millis() as u64 }))
        }
        Wanted::Writing => (offered(request, "post"), note),
        Wanted::WithoutScope => (offered(request, "door"), note),
        Wanted::Outside => ("conformance-disallowed-tool".to_owned(), note),
        Wanted::Unknown => (format!("{SAID}-tool"), note),
        Wanted::Misfitting => (offered(request, "count"), json!({ "n": SAID })),
        Wanted::Failing => (offered(request, "count"), json!({ "fail": SAID })),
    }
}

/// Waits for the end, and answers whatever is asked on the way, or cancels.
pub(crate) async fn settled(
    world: &World,
    host: &Engine,
    run: &RunId,
    case: &Case,
) -> Vec<Recorded> {
    loop {
        let page = world.store.read(&scope(), run, 0, usize::MAX).await.unwrap().unwrap();
        if page.status.is_terminal() {
            return page.events;
        }
        if case.cancel.is_some_and(|at| page.version >= at) {
            host.cancel(&scope(), run, None, None, None).await.expect("the cancel is taken");
            continue;
        }
        if !open_questions(&world.store).await.is_empty() {
            let suspended = page.events.iter().rfind(|event| event.kind == "node.suspended");
            let is_doubt = suspended.map(payload).unwrap()["reason"] == "low-confidence";
            let value = if is_doubt { case.ruling.clone() } else { json!({ "action": "repeat" }) };
            let by = Some("key:k".into());
            let resolution = Resolution { node: "agent".into(), value, via: Via::Key, by };
            host.resolve(&scope(), run, resolution, None).await.expect("the answer is taken");
            continue;
        }
        world.store.changed(run, page.version).await;
    }
}

async fn play(case: &Case) -> (World, Vec<Recorded>) {
    let (steps, turns) = (case.steps.clone(), AtomicUsize::new(0));
    let script = move |request: &ModelRequest| {
        said(steps.get(turns.fetch_add(1, Ordering::Relaxed)), request)
    };
    let world = World::of(script, |_| {}).await;
    if case.cancel.is_some() {
        *world.model.thinks.lock().unwrap() = PACE;
    }
    let doomed = doomed_store(Arc::clone(&world.store), case.fate);
    let first = world.host("first", Arc::clone(&doomed) as _);
    let order = agent_order(json!({ "text": SAID }), json!({}));
    let run = first.create(order, None).await.unwrap().run;
    let lived = tokio::select! {
        () = doomed.died.notified() => None,
        log = settled(&world, &first, &run, case) => Some(log),
    };
    let log = match lived {
        Some(log) => log,
        None => {
            first.kill();
            let second = world.host("second", Arc::clone(&world.store) as _);
            settled(&world, &second, &run, case).await
        }
    };
    (world, log)
}

/// The agent's events of each bracket. None stands outside of one.
pub(crate) fn brackets(log: &[Recorded]) -> Vec<Vec<&Recorded>> {
    let mut brackets: Vec<Vec<&Recorded>> = Vec::new();
    let mut is_open = false;
    for event in log.iter().filter(|event| event.kind.starts_with("agent.")) {
        if event.kind == STARTED {
            assert!(!is_open, "a bracket within a bracket");
            brackets.push(Vec::new());
        }
        is_open = event.kind != COMPLETED && (is_open || event.kind == STARTED);
        let bracket = brackets.last_mut().expect("nothing before the first bracket");
        assert!(is_open || event.kind == COMPLETED, "{} outside of a bracket", event.kind);
        bracket.push(event);
    }
    assert!(!is_open, "a bracket was left open");
    assert!(!brackets.is_empty() || is_cancelled(log));
    brackets
}

pub(crate) fn is_cancelled(log: &[Recorded]) -> bool {
    log.last().is_some_and(|end| end.kind == CANCELLED)
}

/// What must be the next event of the agent.
#[derive(Debug, PartialEq)]
enum Due {
    Prompt,
    Anything,
    /// Another piece of thinking, or the end of it.
    Thinking {
        pieces: u64,
    },
    Return {
        call_id: Value,
        called: EventId,
    },
    /// A decision is the last word.
    Nothing,
}

pub(crate) fn follow(bracket: &[&Recorded], is_stopped: bool) {
    let (first, last) = (payload(bracket[0]), payload(bracket[bracket.len() - 1]));
    assert_eq!(first["invocationId"], last["invocationId"]);
    let mut due = Due::Prompt;
    for event in &bracket[1..bracket.len() - 1] {
        let told = payload(event);
        due = match (due, event.kind.as_str()) {
            (Due::Prompt, "agent.promptResolved") => Due::Anything,
            (Due::Anything, "agent.promptResolved" | "agent.reasoned") => Due::Anything,
            (Due::Anything, "agent.reasoning.delta") => {
                assert_eq!(told["sequence"], 0);
                Due::Thinking { pieces: 1 }
            }
            (Due::Thinking { pieces }, "agent.reasoning.delta") => {
                assert_eq!(told["sequence"], pieces);
                Due::Thinking { pieces: pieces + 1 }
            }
            (Due::Thinking { .. }, "agent.reasoned") => Due::Anything,
            (Due::Anything, "agent.toolCalled") => {
                let called = EventId::of(&event.run, event.sequence);
                Due::Return { call_id: told["callId"].clone(), called }
            }
            (Due::Return { call_id, called }, "agent.toolReturned") => {
                assert_eq!(told["callId"], call_id);
                let document = serde_json::to_value(event).unwrap();
                assert_eq!(document["causationId"], called.as_str());
                assert_eq!(told.get("outcome").is_some(), told.get("error").is_none());
                Due::Anything
            }
            (Due::Anything, "agent.decided") => Due::Nothing,
            (due, kind) => panic!("{kind} where {due:?} was due"),
        };
    }
    assert!(!matches!(due, Due::Thinking { .. } | Due::Return { .. }), "{due:?} is still due");
    let decides = matches!(last["outcome"].as_str(), Some("completed" | "escalated"));
    // Who is stopped may have decided already.
    assert!(due == Due::Nothing || !decides, "{last}");
    assert!(due != Due::Nothing || decides || is_stopped, "{last}");
}

/// What is told of an agent once its run is cancelled: that what was open is closed, and nothing else.
fn assert_closed(log: &[Recorded]) {
    let asked = log.iter().position(|event| event.kind == "callboard.cancel.requested");
    let after = log.iter().skip(asked.unwrap_or(log.len()));
    let after: Vec<&Recorded> = after.filter(|event| event.kind.starts_with("agent.")).collect();
    let Some((last, open)) = after.split_last() else { return };
    assert_eq!((last.kind.as_str(), &payload(last)["outcome"]), (COMPLETED, &json!("failed")));
    for event in open {
        match event.kind.as_str() {
            "agent.toolReturned" => assert_eq!(payload(event)["error"]["code"], "outcome_unknown"),
            "agent.reasoned" => assert_eq!(payload(event)["torn"], true),
            kind => panic!("{kind} of an agent that was stopped"),
        }
    }
}

pub(crate) fn assert_silent(event: &Recorded) {
    let told = payload(event);
    let known: &[&str] = match event.kind.as_str() {
        STARTED => &[
            "invocationId",
            "agentId",
            "source",
            "modelClass",
            "resolvedModel",
            "resolvedProvider",
            "resolvedAgentVersion",
            "toolSurfaceCount",
            "memoryBound",
        ],
        COMPLETED => &["invocationId", "agentId", "outcome", "schemaValidated", "confidence"],
        _ => &[],
    };
    let keys = told.as_object().unwrap().keys();
    let unknown: Vec<&String> = keys.filter(|key| !known.contains(&key.as_str())).collect();
    assert!(known.is_empty() || unknown.is_empty(), "{unknown:?}");
    let speaks = [
        "run.started",
        "run.completed",
        "node.completed",
        "output.chunk",
        "agent.reasoned",
        "agent.reasoning.delta",
        "agent.toolCalled",
        "agent.toolReturned",
        "agent.decided",
        "interrupt.requested",
        "interrupt.resolved",
        "node.suspended",
        "node.resumed",
    ];
    let is_silent = !speaks.contains(&event.kind.as_str());
    assert!(!is_silent || !event.payload.contains(SAID), "{}: {}", event.kind, event.payload);
    assert!(!event.payload.contains("Sort it."), "the prompt is in {}", event.kind);
}

/// How the run ended must be how its last bracket did.
pub(crate) fn assert_ended(log: &[Recorded], bracket: &[&Recorded]) {
    let outcome = payload(bracket[bracket.len() - 1])["outcome"].clone();
    let end = log.last().unwrap();
    if is_cancelled(log) {
        return assert!(
            told(log, "run.failed").is_empty() && told(log, "run.completed").is_empty()
        );
    }
    let expected = if outcome == "completed" { "run.completed" } else { "run.failed" };
    assert_eq!(end.kind, expected, "{outcome}");
    let code = payload(end)["error"]["code"].clone();
    assert_eq!(outcome == "refused", code == "envelope_refusal", "{outcome}, {code}");
}

/// All that must be true of a story, however it went.
fn check(case: &Case, world: &World, log: &[Recorded]) {
    let brackets = brackets(log);
    for (place, bracket) in brackets.iter().enumerate() {
        follow(bracket, is_cancelled(log) && place + 1 == brackets.len());
    }
    log.iter().for_each(assert_silent);
    assert_closed(log);
    if let Some(last) = brackets.last() {
        assert_ended(log, last);
    }
    let known = ["openwop:test.count", "openwop:test.post", "openwop:test.door"];
    for called in told(log, "agent.toolCalled") {
        assert!(known.contains(&called["toolName"].as_str().unwrap()), "{called}");
    }
    let returned = told(log, "agent.toolReturned");
    let ran = returned.iter().filter(|told| told.get("durationMs").is_some()).count();
    let made = world.made.lock().unwrap().len();
    // A host that dies may make the call again whose outcome it took along; nobody waits for one of a cancelled run.
    let again = usize::from(case.fate != Fate::Live) + usize::from(is_cancelled(log));
    assert!((ran..=ran + again).contains(&made), "{ran} of {made} calls");
    let thought = told(log, "agent.reasoned");
    let answered = thought.iter().filter(|told| told["torn"] != true).count();
    assert!(told(log, "provider.usage").len() <= answered);
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, cases: 300, ..ProptestConfig::default()
    })]

    /// A-40, A-43, A-50, A-55, A-56.
    #[test]
    fn whatever_a_model_does_its_story_is_in_order_and_its_brackets_are_silent(case in cases()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let (world, log) = runtime.block_on(play(&case));
        check(&case, &world, &log);
    }
}

/// While it thinks, speaks, waits for a tool: each is closed, and the run is cancelled.
#[tokio::test(start_paused = true)]
async fn a_cancel_at_any_event_closes_what_is_open() {
    let answers = Step::Answers { confidence: Some(10), thinks: true, shape: Shape::Fits };
    let steps = vec![Step::Calls(vec![Wanted::Slow, Wanted::Allowed]), answers];
    let case = |cancel| Case { steps: steps.clone(), ruling: json!({}), fate: Fate::Live, cancel };
    let (_, whole) = play(&case(Some(u64::MAX))).await;
    let spoken = whole.iter().rposition(|event| event.kind == "output.chunk").unwrap() as u64;
    let mut closed = Vec::new();
    for at in 1..=spoken {
        let case = case(Some(at));
        let (world, log) = play(&case).await;
        check(&case, &world, &log);
        assert!(is_cancelled(&log), "at {at}");
        let asked = log.iter().position(|event| event.kind == "callboard.cancel.requested");
        closed.extend(log.into_iter().skip(asked.unwrap()).map(|event| event.kind));
    }
    for kind in ["agent.toolReturned", "agent.reasoned", COMPLETED] {
        assert!(closed.iter().any(|closed| closed == kind), "{kind} was never open");
    }
}
