//! Dispatching an agent once, as the suite does it: the run's own events, flattened.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_agents::{InstalledAgent, scripted_answer};
use callboard_core::Confidence;
use callboard_engine::{Order, Target};
use callboard_protocol::{AgentId, Object};
use callboard_server::extend::{Answer, Caller, Code, Host, Named, Problem, Shaped};
use serde::Deserialize;
use serde_json::{Value, json};

use super::stage::settled;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Dispatch {
    task: Option<Object>,
    validate_handoff: Option<bool>,
    available_tools: Option<Vec<String>>,
}

pub(super) async fn dispatch(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(agent): Named<AgentId>,
    Shaped(body): Shaped<Dispatch>,
) -> Result<Answer, Problem> {
    let snapshot = host.app.agents.snapshot();
    let found = snapshot.find(&caller.scope.realm(), &agent, None).cloned().ok_or_else(|| {
        Problem::new(Code::AgentNotFound, "there is no such agent, or none that you may see")
    })?;
    let order = order(&caller, &found, &body);
    let run = host.app.engine.create(order, None).await?.run;
    let events = settled(&host, &caller, &run).await?;
    Ok(Answer::of(StatusCode::OK, &report(&found, &body, &events)))
}

fn order(caller: &Caller, found: &InstalledAgent, body: &Dispatch) -> Order {
    let mut inputs = body.task.clone().unwrap_or_default();
    if body.validate_handoff == Some(false)
        && let Some(schema) = &found.agent.task
        && !schema.violations(&Value::Object(inputs.clone())).is_empty()
    {
        // A task is always checked here. Who does not care for it gets one that fits.
        let mut fitting = scripted_answer(Some(&schema.source), &found.agent.manifest.persona);
        if let Value::Object(fields) = &mut fitting {
            inputs = std::mem::take(fields);
        }
    }
    Order {
        inputs,
        ..Order::new(Target::Agent(found.agent.id().to_string()), caller.owner(), caller.scope.mode)
    }
}

fn report(found: &InstalledAgent, body: &Dispatch, events: &[Value]) -> Value {
    let of_kind = |kind: &str| events.iter().find(|event| event["type"] == kind);
    let decided = of_kind("agent.decided").map(|event| &event["payload"]);
    let error = of_kind("run.failed").map(|event| event["payload"]["error"].clone());
    let told = events
        .iter()
        .filter(|event| event["type"].as_str().is_some_and(|kind| kind.starts_with("agent.")));
    let flat = told.map(|event| {
        let mut fields = event["payload"].as_object().cloned().unwrap_or_default();
        fields.insert("type".into(), event["type"].clone());
        Value::Object(fields)
    });
    let offered = body.available_tools.clone().unwrap_or_default();
    let surface: Vec<String> =
        offered.into_iter().filter(|tool| found.agent.tools().contains(tool)).collect();
    let threshold = found.agent.manifest.confidence.and_then(|it| it.default_threshold);
    let is_asked = of_kind("node.suspended").is_some();
    let status = match (&error, is_asked) {
        (Some(_), _) => "failed",
        (None, true) => "escalated",
        (None, false) => "completed",
    };
    let mut report = json!({
        "agentId": found.agent.id(),
        "status": status,
        "toolSurface": surface,
        "confidence": decided.and_then(|decided| decided.get("confidence")),
        "threshold": threshold.unwrap_or(Confidence::THRESHOLD.get()),
        "events": flat.collect::<Vec<_>>(),
    });
    if let Some(decided) = decided {
        report["result"] = decided["decision"].clone();
    }
    if let Some(error) = error {
        report["error"] = json!({ "code": error["code"], "message": error["message"] });
    }
    report
}
