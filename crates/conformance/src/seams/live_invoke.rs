//! Invoking an agent live, as the suite does it: a run of the scripted model, told what to try.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_agents::scripted_answer;
use callboard_engine::{Order, Target};
use callboard_protocol::{AgentId, InvocationSource, Object};
use callboard_server::extend::{Answer, Caller, Code, Host, Problem, Shaped};
use serde::Deserialize;
use serde_json::{Value, json};

use super::stage::settled;

/// The agent of the suite that promises a shape of its result.
pub(super) const DEFAULT: &str = "core.openwop.agent-examples.structured-fixture";
/// The one name that the suite has for such a shape.
const STRICT: &str = "conformance-strict-handoff";

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct LiveInvoke {
    agent_id: Option<AgentId>,
    source: Option<InvocationSource>,
    return_schema_ref: Option<String>,
    #[serde(default)]
    force_invalid_result: bool,
    attempt_tool: Option<String>,
}

pub(super) async fn live_invoke(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<LiveInvoke>,
) -> Result<Answer, Problem> {
    if let Some(unknown) = body.return_schema_ref.as_deref().filter(|name| *name != STRICT) {
        return Err(Problem::new(Code::ValidationError, format!("no schema {unknown:?} is known")));
    }
    let agent = body.agent_id.clone().unwrap_or_else(|| DEFAULT.into());
    let mut task = any_task(&host, &caller, &agent)?;
    steer(&mut task, &body);
    let target = match body.source {
        None | Some(InvocationSource::RunApi) => Target::Agent(agent.to_string()),
        Some(InvocationSource::ChatMention) => Target::Mentioned(agent.to_string()),
        Some(InvocationSource::WorkflowNode) => Target::Node(agent.to_string()),
    };
    let order = Order {
        inputs: task,
        configurable: object(json!({ "ai": { "provider": "scripted" } })),
        ..Order::new(target, caller.owner(), caller.scope.mode)
    };
    let run = host.app.engine.create(order, None).await?.run;
    let events = settled(&host, &caller, &run).await?;
    let bracket = |kind: &str| {
        let of_kind = events.iter().rfind(|event| event["type"] == kind);
        of_kind.map(|event| event["payload"].clone()).unwrap_or_default()
    };
    let completed = bracket("agent.invocation.completed");
    Ok(Answer::of(
        StatusCode::OK,
        &json!({
            "runId": run,
            "invocationId": bracket("agent.invocation.started")["invocationId"],
            "outcome": completed["outcome"],
        }),
    ))
}

/// Something that an agent takes.
pub(super) fn any_task(host: &Host, caller: &Caller, agent: &AgentId) -> Result<Object, Problem> {
    let snapshot = host.app.agents.snapshot();
    let found = snapshot.find(&caller.scope.realm(), agent, None).ok_or_else(|| {
        Problem::new(Code::AgentNotFound, "there is no such agent, or none that you may see")
    })?;
    let schema = found.agent.task.as_ref().map(|schema| &*schema.source);
    Ok(match scripted_answer(schema, &found.agent.manifest.persona) {
        Value::Object(fields) => fields,
        _ => Object::new(),
    })
}

/// Tells the scripted model what to try, in the first text of the task.
fn steer(task: &mut Object, body: &LiveInvoke) {
    let mut directives = String::new();
    if body.force_invalid_result {
        directives.push_str(" [[scripted: violate]]");
    }
    if let Some(tool) = &body.attempt_tool {
        directives.push_str(&format!(" [[scripted: tool {tool} {{}}]]"));
    }
    match task.values_mut().find(|value| value.is_string()) {
        Some(Value::String(text)) => text.push_str(&directives),
        _ => drop(task.insert("text".to_owned(), directives.into())),
    }
}

fn object(value: Value) -> Object {
    value.as_object().cloned().unwrap_or_default()
}
