//! Node types that an operator declares: a node of such a type is a run of the workflow that the type stands for, with the
//! node's inputs, and its outputs are that run's.

use async_trait::async_trait;
use callboard_core::{Outcome, RetryClass, Schema};
use callboard_engine::{Activity, Call, CallFailure, Effect, OnUnknown, SubRun, SubRunError};
use callboard_protocol::{Failure, Object, RunStatus, WorkflowId};
use serde_json::{Value, json};

use super::given::{failed, invalid, outcome};

/// One declared type.
#[derive(Debug, Clone)]
pub struct DeclaredNode {
    pub type_id: String,
    pub description: String,
    pub workflow: WorkflowId,
    /// What the inputs of a node, and the outputs of its run, must match.
    pub inputs: Option<Schema>,
    pub outputs: Option<Schema>,
}

#[async_trait]
impl Activity for DeclaredNode {
    async fn perform(&self, call: Call) -> Outcome {
        match self.run(&call).await {
            // Nobody listens to an attempt that no longer counts.
            Err(Stop::Superseded) => outcome(Ok(Object::new())),
            Err(Stop::Failed(failure)) => outcome(Err(failure)),
            Ok(outputs) => outcome(Ok(outputs)),
        }
    }

    fn describe(&self) -> Option<Value> {
        let outputs = match &self.outputs {
            Some(schema) => fields(Some(schema)),
            None => "the outputs of the workflow".into(),
        };
        Some(json!({
            "typeId": self.type_id,
            "group": "Of this host",
            "summary": self.description,
            "workflowId": self.workflow,
            "config": [],
            "inputs": fields(self.inputs.as_ref()),
            "outputs": outputs,
            "example": format!("step:\n  type: {}\n", self.type_id),
            "configSchema": { "type": "object", "additionalProperties": false },
        }))
    }
}

/// The properties of a schema, as those of other node types are listed.
fn fields(schema: Option<&Schema>) -> Value {
    let Some(schema) = schema else { return json!([]) };
    let required = schema.source["required"].as_array().cloned().unwrap_or_default();
    let properties = schema.source["properties"].as_object().into_iter().flatten();
    let field = |(name, property): (&String, &Value)| {
        json!({
            "name": name,
            "kind": property["type"].as_str().unwrap_or("any value"),
            "required": required.contains(&json!(name)),
            "about": property["description"].as_str().unwrap_or_default(),
        })
    };
    properties.map(field).collect()
}

enum Stop {
    Superseded,
    Failed(CallFailure),
}

impl From<CallFailure> for Stop {
    fn from(failure: CallFailure) -> Self {
        Self::Failed(failure)
    }
}

impl DeclaredNode {
    async fn run(&self, call: &Call) -> Result<Object, Stop> {
        if !call.config.is_empty() {
            return Err(
                invalid("a type that stands for a workflow has no config; give it inputs").into()
            );
        }
        check(self.inputs.as_ref(), "the inputs", &call.inputs)?;
        let effect = call.effect_id(Effect {
            index: 0,
            provider: "workflow",
            request: &Value::Null,
            on_unknown: OnUnknown::Repeat,
            is_recorded: false,
        });
        let inputs = call.inputs.clone();
        let sub_run = SubRun { effect: &effect, workflow: &self.workflow, inputs };
        let run = call.start_sub_run(sub_run).await.map_err(stop)?;
        let end = call.sub_run_result(&run).await.map_err(stop)?;
        if end.status != RunStatus::Completed {
            let status = end.status.as_str();
            let why = end.last.get("error").and_then(|error| error["message"].as_str());
            let message =
                format!("run {run} of {} {status}: {}", self.workflow, why.unwrap_or("-"));
            let details = json!({ "childRunId": run, "childStatus": end.status, "childError": end.last.get("error") });
            let failure = Failure::new("child_run_failed", message)
                .with_details(details.as_object().cloned().unwrap_or_default());
            return Err(CallFailure { failure, class: RetryClass::Final }.into());
        }
        let outputs = end.last.get("outputs").and_then(Value::as_object).cloned();
        let outputs = outputs.unwrap_or_default();
        check(self.outputs.as_ref(), "the outputs", &outputs)?;
        Ok(outputs)
    }
}

fn check(schema: Option<&Schema>, what: &str, fields: &Object) -> Result<(), CallFailure> {
    let Some(schema) = schema else { return Ok(()) };
    match schema.violations(&Value::Object(fields.clone())).first() {
        None => Ok(()),
        Some(violation) => Err(invalid(format!("{what}: {violation}"))),
    }
}

fn stop(error: SubRunError) -> Stop {
    match error {
        SubRunError::Superseded(_) => Stop::Superseded,
        SubRunError::Refused(failure) => {
            Stop::Failed(CallFailure { failure, class: RetryClass::Final })
        }
        SubRunError::Store(error) => {
            tracing::warn!(%error, "the run of a declared node is out of reach");
            let mut away = failed("service_unavailable", "its run cannot be reached now");
            away.class = RetryClass::Retryable;
            Stop::Failed(away)
        }
    }
}
