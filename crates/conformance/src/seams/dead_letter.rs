//! `POST /v1/host/sample/deadletter/exhaust`: a run that is given up, and what can still be done with it.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_engine::{Order, Target};
use callboard_server::extend::{Answer, Caller, Host, Problem, Shaped};
use serde::Deserialize;
use serde_json::{Value, json};

use super::stage::{definition, ended, node, replay, with_workflows};

const WORKFLOW: &str = "callboard-seam-given-up";
/// Longer than its one retry takes, which begins after a second.
const PATIENCE: Duration = Duration::from_secs(15);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Exhaust {
    scenario: Scenario,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Scenario {
    ExhaustRetries,
    ForkAfterDeadLetter,
}

pub(super) async fn exhaust_retries(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<Exhaust>,
) -> Result<Answer, Problem> {
    let order = Order::new(Target::Workflow(WORKFLOW.into()), caller.owner(), caller.scope.mode);
    let created = async { host.app.engine.create(order, None).await.map_err(Problem::from) };
    let run = with_workflows(&host, &caller, &[failing()], created).await?.run;
    let events = ended(&host, &caller, &run, PATIENCE).await?;
    let event = events.iter().find(|event| event["type"] == "run.dead_lettered");
    let mut shown = json!({ "event": event, "runId": run });
    if body.scenario == Scenario::ForkAfterDeadLetter {
        // What cannot be forked is refused here as it is everywhere.
        let fork = replay(&host, &caller, run).await?;
        shown["forkEligible"] = true.into();
        shown["forkRunId"] = json!(fork);
    }
    Answer::json(StatusCode::OK, &shown)
}

/// One node that fails whenever it is tried, and is tried twice.
fn failing() -> Value {
    let config = json!({ "retryable": true, "code": "always_busy", "message": "never mind" });
    let mut fails = node("only", "core.fail", &config);
    fails["settings"] = json!({ "maxRetries": 1 });
    definition(WORKFLOW, &[fails])
}
