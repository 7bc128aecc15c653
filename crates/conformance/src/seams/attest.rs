//! What a child leaves, attested and agreed to, as the suite asks for it: a parent, its child, and somebody's answer.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_engine::{Order, Target};
use callboard_protocol::{Object, RunId};
use callboard_server::extend::{Answer, Caller, Host, Problem, Shaped, fresh};
use serde::Deserialize;
use serde_json::{Value, json};

use super::stage::{answer, definition, ended, idle, node, settled, with_workflows};

/// The node that takes over what its child leaves.
const NODE: &str = "call";
/// How long a run may take to its end once it was answered.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Attest {
    child_outputs: Object,
    #[serde(default)]
    output_attestation: Object,
    approval_action: Option<Value>,
}

pub(super) async fn attest(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<Attest>,
) -> Result<Answer, Problem> {
    let id = fresh("callboard-sample-attest-");
    let child = format!("{id}-child");
    let definitions = [leaving(&child, &body.child_outputs), taking(&id, &child, &body)];
    let played = play(&host, &caller, &id, body.approval_action.as_ref());
    let shown = with_workflows(&host, &caller, &definitions, played).await?;
    Ok(Answer::of(StatusCode::OK, &shown))
}

async fn play(
    host: &Host,
    caller: &Caller,
    id: &str,
    action: Option<&Value>,
) -> Result<Value, Problem> {
    let order = Order::new(Target::Workflow(id.into()), caller.owner(), caller.scope.mode);
    let run = host.app.engine.create(order, None).await?.run;
    let mut events = settled(host, caller, &run).await?;
    if events.iter().any(|event| event["type"] == "node.suspended") {
        match action {
            Some(Value::String(action)) => {
                answer(host, caller, &run, NODE, json!({ "action": action })).await?;
            }
            Some(said) => answer(host, caller, &run, NODE, said.clone()).await?,
            // Nobody answers: what waits is put an end to, and nothing was taken over.
            None => {
                let engine = &host.app.engine;
                engine.cancel(&caller.scope, &run, None, Some(caller.principal()), None).await?;
            }
        }
        events = ended(host, caller, &run, PATIENCE).await?;
    }
    Ok(report(&run, &events))
}

fn report(run: &RunId, events: &[Value]) -> Value {
    let told = |kind: &str| events.iter().find(|event| event["type"] == kind);
    let harvested = told("core.workflowChain.event");
    let asked = told("interrupt.requested").map(|event| &event["payload"]["data"]["attestation"]);
    let attestation = harvested.map(|event| &event["payload"]["attestation"]).or(asked);
    let changed = events.iter().filter(|event| event["type"] == "variable.changed");
    let taken = changed.filter_map(|event| {
        let name = event["payload"]["name"].as_str()?;
        Some((name.to_owned(), event["payload"]["next"].clone()))
    });
    let taken: Object = taken.collect();
    let mut shown = json!({
        "runId": run,
        "attestation": attestation,
        "harvestedEvent": harvested.map(|event| &event["payload"]),
        "merged": !taken.is_empty(),
    });
    if !taken.is_empty() {
        shown["mergedValues"] = taken.into();
    }
    shown
}

/// A child that does nothing; what it leaves are its variables.
fn leaving(id: &str, outputs: &Object) -> Value {
    let variable = |(name, value): (&String, &Value)| {
        let kind = match value {
            Value::String(_) => "string",
            Value::Number(_) => "number",
            Value::Bool(_) => "boolean",
            Value::Array(_) => "array",
            Value::Object(_) | Value::Null => "object",
        };
        json!({ "name": name, "type": kind, "defaultValue": value })
    };
    let variables: Vec<Value> = outputs.iter().map(variable).collect();
    let mut leaving = idle(id);
    leaving["variables"] = json!(variables);
    leaving
}

fn taking(id: &str, child: &str, body: &Attest) -> Value {
    let names = body.child_outputs.keys();
    let mapping: Object = names.map(|name| (name.clone(), json!(name))).collect();
    let call = json!({ "workflowId": child, "outputMapping": mapping,
        "outputAttestation": body.output_attestation });
    definition(id, &[node(NODE, "core.subWorkflow", &call)])
}
