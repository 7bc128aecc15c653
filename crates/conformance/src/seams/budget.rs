//! `POST /v1/host/sample/budget/run`: a model is asked under a budget that cannot hold.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_agents::{MockEntry, MockText, StopReason, TokenUsage};
use callboard_engine::{Order, Target};
use callboard_protocol::{NodeId, Object};
use callboard_server::extend::{Answer, Caller, Code, Host, Problem, Shaped};
use serde::Deserialize;
use serde_json::{Value, json};

use super::stage::settled;

const PROBE: &str = "callboard-budget-probe";
const NODE: &str = "ask";
/// The suite's own model that costs something.
const MODEL: &str = "mock-priced";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Play {
    scenario: Scenario,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Scenario {
    HardCostExhaust,
    ModelDenied,
}

/// An ordinary run of an ordinary node; only what the model answers is put down here.
pub(super) async fn budget(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(play): Shaped<Play>,
) -> Result<Answer, Problem> {
    let absent = || Problem::new(Code::CapabilityNotProvided, "there is no mock provider here");
    let mock = host.app.mock.as_ref().ok_or_else(absent)?;
    let entry = MockEntry {
        text: MockText("{}".to_owned()),
        stop: StopReason::Stop,
        usage: TokenUsage { input: 60_000, output: 40_000, ..TokenUsage::default() },
    };
    mock.program(&caller.scope.tenant, &NodeId::from(NODE), vec![entry]);
    let (engine, owner, source) = (&host.app.engine, caller.owner(), probe().to_string());
    let (catalog, mode) = (engine.catalog(), caller.scope.mode);
    let registered = catalog.register(&owner, mode, source.as_bytes(), host.now()).await;
    registered.map_err(|error| Problem::invalid(error.to_string()))?;
    let policy = match play.scenario {
        Scenario::HardCostExhaust => json!({ "maxCostUsd": 0.25, "thresholdPercent": 50 }),
        Scenario::ModelDenied => json!({ "modelDeny": [MODEL] }),
    };
    let order = Order {
        configurable: Object::from_iter([("budget".to_owned(), policy)]),
        ..Order::new(Target::Workflow(PROBE.into()), owner, mode)
    };
    let run = engine.create(order, None).await?.run;
    let events = settled(&host, &caller, &run).await?;
    let error = events.last().map(|last| last["payload"]["error"]["code"].clone());
    let model_called = events.iter().any(|event| event["type"] == "provider.usage");
    let answer = json!({
        "runId": run, "events": events, "error": error.unwrap_or_default(), "modelCalled": model_called,
    });
    Ok(Answer::of(StatusCode::OK, &answer))
}

fn probe() -> Value {
    json!({
        "id": PROBE, "name": PROBE, "version": "1.0", "variables": [], "edges": [], "triggers": [],
        "metadata": {}, "settings": {},
        "nodes": [{
            "id": NODE, "typeId": "core.ai.structuredOutput", "name": NODE,
            "position": { "x": 0, "y": 0 },
            "config": { "provider": "mock", "model": MODEL, "outputSchema": { "type": "object" } },
            "inputs": {
                "messages": { "type": "static", "value": [{ "role": "user", "content": "Answer." }] }
            },
        }],
    })
}
