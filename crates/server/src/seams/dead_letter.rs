//! `POST /v1/host/sample/deadletter/exhaust`: a run that is given up, and what can still be done with it.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_engine::{ForkOrder, Order, Overlay, Target};
use callboard_protocol::{ForkMode, RunId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::stage::{definition, ended, node, with_workflows};
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::Shaped;
use crate::keys::Caller;
use crate::problem::Problem;

const WORKFLOW: &str = "callboard-seam-given-up";
/// Longer than its one retry takes, which begins after a second.
const PATIENCE: Duration = Duration::from_secs(15);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exhaust {
    scenario: Scenario,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Scenario {
    ExhaustRetries,
    ForkAfterDeadLetter,
}

pub(crate) async fn exhaust_retries(
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
        let fork = fork(&host, &caller, run).await?;
        shown["forkEligible"] = true.into();
        shown["forkRunId"] = json!(fork);
    }
    Answer::json(StatusCode::OK, &shown)
}

/// What cannot be forked is refused here as it is everywhere.
async fn fork(host: &Host, caller: &Caller, source: RunId) -> Result<RunId, Problem> {
    let order = ForkOrder {
        source,
        from: 0,
        mode: ForkMode::Replay,
        owner: caller.owner(),
        key_mode: caller.scope.mode,
        overlay: Overlay::default(),
    };
    Ok(host.app.engine.fork(&caller.scope, order, None).await?.run)
}

/// One node that fails whenever it is tried, and is tried twice.
fn failing() -> Value {
    let config = json!({ "retryable": true, "code": "always_busy", "message": "never mind" });
    let mut fails = node("only", "core.fail", &config);
    fails["settings"] = json!({ "maxRetries": 1 });
    definition(WORKFLOW, &[fails])
}
