//! The loop of a supervisor, as the suite drives it: so many turns, a doubt in one of them, and what comes of it.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_engine::{Condition, Order, Target};
use callboard_protocol::{Event, RunId};
use callboard_server::extend::{Answer, Caller, Code, Host, Problem, Shaped, files, fresh};
use serde::Deserialize;
use serde_json::{Value, json};

use super::stage::{answer, definition, ended, idle, node, settled, supervised, with_workflows};

/// More turns than the suite ever asks for; each is a run of its own.
const MOST_TURNS: u64 = 32;
/// Less than any floor allows.
const DOUBT: f64 = 0.1;
/// How long a run may take to its end once it was answered.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AgentLoop {
    turns: u64,
    workspace_write_at_turn: Option<u64>,
    suspend_at_turn: Option<u64>,
    #[serde(default)]
    resume: bool,
    max_loop_iterations: Option<u64>,
}

pub(super) async fn agent_loop(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<AgentLoop>,
) -> Result<Answer, Problem> {
    if host.app.engine.limits().execution_model < 5 {
        let message = "turns are counted from execution model 5 on";
        return Err(Problem::new(Code::CapabilityRequired, message));
    }
    if body.workspace_write_at_turn.is_some_and(|turn| !(1..body.turns).contains(&turn)) {
        let message = "must be a turn that another one follows";
        return Err(Problem::invalid_at("workspaceWriteAtTurn", message));
    }
    if !(1..=MOST_TURNS).contains(&body.turns) {
        let message = format!("must be 1 to {MOST_TURNS}");
        return Err(Problem::invalid_at("turns", &message));
    }
    let crew = Crew::new(&body);
    let played = play(&host, &caller, &crew, &body);
    let shown = with_workflows(&host, &caller, &crew.definitions, played).await?;
    Ok(Answer::of(StatusCode::OK, &shown))
}

async fn play(
    host: &Host,
    caller: &Caller,
    crew: &Crew,
    body: &AgentLoop,
) -> Result<Value, Problem> {
    let bound = body.max_loop_iterations.map(|most| ("maxLoopIterations".to_owned(), json!(most)));
    let order = Order {
        configurable: bound.into_iter().collect(),
        ..Order::new(Target::Workflow(crew.id.as_str().into()), caller.owner(), caller.scope.mode)
    };
    let run = host.app.engine.create(order, None).await?.run;
    let mut events = settled(host, caller, &run).await?;
    if body.resume && is_open(&events) {
        answer(host, caller, &run, "supervisor", json!({ "action": "accept" })).await?;
        events = ended(host, caller, &run, PATIENCE).await?;
    }
    let of_kind = |kind: &'static str| events.iter().filter(move |event| event["type"] == kind);
    let decisions = of_kind("runOrchestrator.decided").map(|event| event["payload"].clone());
    let mut shown = json!({ "runId": run, "decisions": decisions.collect::<Vec<_>>() });
    let place = events.iter().position(|event| event["type"] == "node.resumed");
    if let Some(place) = place {
        let told = events[..place].iter().rfind(|it| it["type"] == "runOrchestrator.decided");
        shown["resumedIteration"] =
            told.map_or(Value::Null, |told| told["payload"]["iteration"].clone());
    }
    if let Some(breach) = of_kind("cap.breached").next() {
        shown["bound"] = breach["payload"].clone();
    }
    if let Some(turn) = body.workspace_write_at_turn {
        shown["workspaceVisible"] =
            visible(host, caller, (&run, &crew.file), &events, turn).await?;
    }
    Ok(shown)
}

/// Whether a file is seen at the end of the turn that wrote it, and at the beginning of the next. Takes it away again.
async fn visible(
    host: &Host,
    caller: &Caller,
    (run, file): (&RunId, &str),
    events: &[Value],
    turn: u64,
) -> Result<Value, Problem> {
    let begins =
        |event: &&Value| event["type"] == "node.started" && event["nodeId"] == "supervisor";
    let next = usize::try_from(turn).ok().and_then(|turn| events.iter().filter(begins).nth(turn));
    let Some(next) = next.and_then(|event| event["sequence"].as_u64()) else {
        return Ok(Value::Null);
    };
    let sees = async |version: u64| {
        let seen = host.app.engine.files_seen(&caller.scope, run, version).await?;
        Ok::<bool, Problem>(seen.iter().any(|seen| seen.path == file))
    };
    let shown = json!({ "atWriteTurn": sees(next).await?, "atNextTurn": sees(next + 1).await? });
    files::delete(host, caller, None, file, &Condition::Always).await?;
    Ok(shown)
}

fn is_open(events: &[Value]) -> bool {
    let last = events.last().and_then(|last| last["type"].as_str());
    last.is_some_and(|kind| !Event::is_terminal(kind))
}

/// A supervisor with its plan, and those that it gives work to.
struct Crew {
    id: String,
    /// What is written in the turn that was asked for.
    file: String,
    definitions: Vec<Value>,
}

impl Crew {
    fn new(body: &AgentLoop) -> Self {
        let id = fresh("callboard-sample-loop-");
        let (worker, writer) = (format!("{id}-worker"), format!("{id}-writer"));
        let file = format!("sample/{id}.md");
        let plan: Vec<Value> = (1..=body.turns)
            .map(|turn| {
                let writes = body.workspace_write_at_turn == Some(turn);
                decision(body, turn, if writes { &writer } else { &worker })
            })
            .collect();
        let write = json!({ "action": "write", "path": file, "content": "written by a turn" });
        let write = [node("write", "callboard.files", &write)];
        let definitions = vec![idle(&worker), definition(&writer, &write), crew(&id, &plan)];
        Self { id, file, definitions }
    }
}

fn decision(body: &AgentLoop, turn: u64, worker: &str) -> Value {
    let mut decision = if turn == body.turns {
        json!({ "kind": "terminate" })
    } else {
        json!({ "kind": "next-worker", "nextWorkerIds": [worker] })
    };
    if body.suspend_at_turn == Some(turn) {
        decision["confidence"] = json!(DOUBT);
    }
    decision
}

fn crew(id: &str, plan: &[Value]) -> Value {
    let mut crew = definition(id, &supervised(plan, &json!({})));
    crew["edges"] = json!([
        { "id": "there", "sourceNodeId": "supervisor", "targetNodeId": "dispatch" },
        { "id": "back", "sourceNodeId": "dispatch", "targetNodeId": "supervisor" },
    ]);
    crew
}
