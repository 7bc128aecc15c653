//! What these doors share: definitions that are there for a while, runs that are waited for.

use std::time::Duration;

use callboard_core::{Resolution, Via};
use callboard_engine::{ForkOrder, Overlay, Page};
use callboard_protocol::{ForkMode, RunId, WorkflowId};
use callboard_server::extend::{Caller, Code, Host, Problem, documents, read_rest, workflows};
use serde_json::{Value, json};

/// What a host that is not overrun needs many times over.
const PATIENCE: Duration = Duration::from_secs(30);

/// Registers definitions for as long as `play` takes.
pub(super) async fn with_workflows<T>(
    host: &Host,
    caller: &Caller,
    definitions: &[Value],
    play: impl Future<Output = Result<T, Problem>>,
) -> Result<T, Problem> {
    let played = async {
        for definition in definitions {
            workflows::store(host, caller, definition.to_string().as_bytes()).await?;
        }
        play.await
    };
    let played = played.await;
    for definition in definitions {
        let id = definition["id"].as_str().unwrap_or_default();
        host.app.engine.catalog().remove(&caller.scope, &id.into()).await?;
    }
    played
}

/// The log of a run that has come to its end, or to where it waits for somebody.
pub(super) async fn settled(
    host: &Host,
    caller: &Caller,
    run: &RunId,
) -> Result<Vec<Value>, Problem> {
    let has_settled = |page: &Page| page.status.is_terminal() || page.status.is_waiting();
    documents(&read_until(host, caller, run, PATIENCE, has_settled).await?.events)
}

/// The log of a run that has come to its end in time.
pub(super) async fn ended(
    host: &Host,
    caller: &Caller,
    run: &RunId,
    patience: Duration,
) -> Result<Vec<Value>, Problem> {
    let page = read_until(host, caller, run, patience, |page| page.status.is_terminal()).await?;
    documents(&page.events)
}

/// Waits until a run has told how it began: the suite reads the log as soon as it has the answer.
pub(super) async fn begun(host: &Host, caller: &Caller, run: &RunId) -> Result<(), Problem> {
    read_until(host, caller, run, PATIENCE, |page| !page.events.is_empty()).await.map(drop)
}

async fn read_until(
    host: &Host,
    caller: &Caller,
    run: &RunId,
    patience: Duration,
    is_enough: impl Fn(&Page) -> bool,
) -> Result<Page, Problem> {
    let (store, clock) = (host.app.engine.store(), host.app.engine.clock());
    let until = clock.now().plus(patience);
    loop {
        let page = read_rest(host, caller, run, 0).await?.ok_or_else(|| Problem::no_such("run"))?;
        if is_enough(&page) {
            return Ok(page);
        }
        if clock.now() >= until {
            let message = "the run did not come that far in time";
            return Err(Problem::new(Code::ServiceUnavailable, message));
        }
        tokio::select! {
            () = store.changed(run, page.version) => {}
            () = clock.sleep_until(until) => {}
        }
    }
}

/// A replay of a run from its start.
pub(super) async fn replay(host: &Host, caller: &Caller, source: RunId) -> Result<RunId, Problem> {
    let order = ForkOrder {
        source,
        from: 0,
        mode: ForkMode::Replay,
        owner: caller.owner(),
        key_mode: caller.scope.mode,
        dialect: callboard_protocol::Dialect::V1,
        overlay: Overlay::default(),
    };
    Ok(host.app.engine.fork(&caller.scope, order, None).await?.run)
}

/// The workflows that a supervisor is to give work to, and definitions for those that are not there yet.
pub(super) async fn workers(
    host: &Host,
    caller: &Caller,
    names: &[String],
) -> Result<(Vec<WorkflowId>, Vec<Value>), Problem> {
    let (mut workers, mut missing) = (Vec::new(), Vec::new());
    for name in names {
        // The suite's own names are none that a workflow could have.
        let worker = WorkflowId::from(name.replace('.', "-"));
        let known = host.app.engine.catalog().find(&caller.scope, &worker).await?;
        if known.is_none() && !workers.contains(&worker) {
            missing.push(idle(worker.as_str()));
        }
        workers.push(worker);
    }
    Ok((workers, missing))
}

/// A supervisor that decides as its plan says, and the node that gives its workers their work.
pub(super) fn supervised(plan: &[Value], dispatch: &Value) -> [Value; 2] {
    let supervisor = json!({ "mockDispatchPlan": plan });
    [
        node("supervisor", "core.orchestrator.supervisor", &supervisor),
        node("dispatch", "core.dispatch", dispatch),
    ]
}

/// Answers what a node asks.
pub(super) async fn answer(
    host: &Host,
    caller: &Caller,
    run: &RunId,
    node: &str,
    value: Value,
) -> Result<(), Problem> {
    let by = Some(caller.principal());
    let resolution = Resolution { node: node.into(), value, by, via: Via::Key };
    host.app.engine.resolve(&caller.scope, run, resolution, None).await?;
    Ok(())
}

/// Nodes one after the other.
pub(super) fn definition(id: &str, nodes: &[Value]) -> Value {
    let edge = |pair: &[Value]| {
        let (from, to) = (&pair[0]["id"], &pair[1]["id"]);
        json!({ "id": to, "sourceNodeId": from, "targetNodeId": to })
    };
    let edges: Vec<Value> = nodes.windows(2).map(edge).collect();
    json!({ "id": id, "name": id, "version": "1.0", "nodes": nodes, "edges": edges,
        "triggers": [], "variables": [], "metadata": {}, "settings": {} })
}

pub(super) fn node(id: &str, type_id: &str, config: &Value) -> Value {
    json!({ "id": id, "typeId": type_id, "name": id, "position": { "x": 0, "y": 0 },
        "config": config, "inputs": {} })
}

/// A workflow of one node that does nothing.
pub(super) fn idle(id: &str) -> Value {
    definition(id, &[node("noop", "core.noop", &json!({}))])
}
