//! Workflows as tools: a call is a run of its own, and its result is the run's.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_engine::{
    CatalogEntry, Engine, Scope, StoreError, SubRun, SubRunError, SubRunResult, WeakEngine,
};
use callboard_protocol::{
    Object, RunId, RunStatus, SafetyTier, ToolEgress, ToolReplay, ToolSource, ToolTransport,
    WorkflowDefinition, WorkflowId,
};

use super::{Tool, ToolDescriptor, ToolFault, ToolInvocation, Toolbox};
use crate::pack::Schema;

const PREFIX: &str = "openwop:workflow.";

/// The workflows that can be run in each scope, once there is an engine that can run them.
#[derive(Debug, Default)]
pub struct WorkflowTools {
    engine: OnceLock<WeakEngine>,
}

impl WorkflowTools {
    /// The engine performs agents, which have this: so it comes last, and is not kept alive by it.
    pub fn attach(&self, engine: &Engine) {
        self.engine.get_or_init(|| engine.downgrade());
    }

    fn engine(&self) -> Option<Engine> {
        self.engine.get()?.upgrade()
    }
}

#[async_trait]
impl Toolbox for WorkflowTools {
    async fn find(&self, scope: &Scope, name: &str) -> Option<Arc<dyn Tool>> {
        let id = WorkflowId::from(name.strip_prefix(PREFIX)?);
        let engine = self.engine()?;
        let found = engine.catalog().find(scope, &id).await;
        let entry = found.unwrap_or_else(|error| unread(&error))?;
        let descriptor = describe(&entry)?;
        Some(Arc::new(WorkflowTool { descriptor, workflow: id }))
    }

    async fn list(&self, scope: &Scope) -> Vec<ToolDescriptor> {
        let Some(engine) = self.engine() else { return Vec::new() };
        let listed = engine.catalog().list(scope).await;
        let entries = listed.unwrap_or_else(|error| unread(&error));
        entries.iter().filter_map(describe).collect()
    }
}

#[derive(Debug)]
struct WorkflowTool {
    descriptor: ToolDescriptor,
    workflow: WorkflowId,
}

#[async_trait]
impl Tool for WorkflowTool {
    fn descriptor(&self) -> &ToolDescriptor {
        &self.descriptor
    }

    async fn invoke(&self, call: ToolInvocation<'_>) -> Result<Value, ToolFault> {
        let nobody = || ToolFault::refused("only a run can start another");
        let caller = call.caller.ok_or_else(nobody)?;
        let (workflow, inputs) = (&self.workflow, call.arguments);
        let sub_run = SubRun { effect: call.effect, workflow, inputs };
        let run = caller.start_sub_run(sub_run).await.map_err(explain)?;
        match tokio::time::timeout(call.within, caller.sub_run_result(&run)).await {
            Ok(Ok(end)) => report(&run, &end),
            Ok(Err(error)) => Err(explain(error)),
            Err(_) => Err(ToolFault::Unanswered(format!(
                "run {run} is still active and has no result yet"
            ))),
        }
    }
}

/// An agent works with the available tools; the operator gets the reason for missing ones.
fn unread<T: Default>(error: &StoreError) -> T {
    tracing::warn!(%error, "workflows not offered as tools");
    T::default()
}

/// None for a workflow whose inputs cannot be described.
fn describe(entry: &CatalogEntry) -> Option<ToolDescriptor> {
    let definition = entry.plan.definition();
    let input = Schema::compile(input_schema(definition).to_string().as_bytes()).ok()?;
    let description = definition.description.clone();
    Some(ToolDescriptor {
        id: format!("{PREFIX}{}", definition.id),
        title: definition.name.clone(),
        description: description
            .unwrap_or_else(|| format!("Runs the workflow {}.", definition.name)),
        input,
        source: ToolSource::Workflow,
        tier: SafetyTier::Write,
        transport: ToolTransport::Native,
        egress: ToolEgress::HostMediated,
        // The effect's id is the key of the run.
        replay: ToolReplay::Idempotent,
        required_scopes: Vec::new(),
    })
}

/// One property for each variable; a workflow that declares none takes what it is given.
fn input_schema(definition: &WorkflowDefinition) -> Value {
    let mut properties = Object::new();
    for variable in &definition.variables {
        let mut property = json!({ "type": variable.kind });
        if let Some(description) = &variable.description {
            property["description"] = description.clone().into();
        }
        properties.insert(variable.name.clone(), property);
    }
    let is_needed = |variable: &&callboard_protocol::WorkflowVariable| {
        variable.required && variable.default_value.is_none()
    };
    let required: Vec<&String> =
        definition.variables.iter().filter(is_needed).map(|variable| &variable.name).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": definition.variables.is_empty(),
    })
}

fn report(run: &RunId, end: &SubRunResult) -> Result<Value, ToolFault> {
    if end.status == RunStatus::Completed {
        let outputs = end.last.get("outputs").cloned().unwrap_or_else(|| json!({}));
        return Ok(json!({ "runId": run, "outputs": outputs }));
    }
    let error = end.last.get("error");
    let part = |name: &str| error.and_then(|error| error.get(name)).and_then(Value::as_str);
    Err(ToolFault::Failed(match (part("code"), part("message")) {
        (Some(code), Some(message)) => format!("run {run} failed: {code}: {message}"),
        _ => format!("run {run} was cancelled"),
    }))
}

fn explain(error: SubRunError) -> ToolFault {
    match error {
        SubRunError::Refused(failure) => {
            ToolFault::Refused(format!("{}: {}", failure.code, failure.message))
        }
        SubRunError::Store(_) | SubRunError::Superseded(_) => {
            ToolFault::Unavailable("the run cannot be started now".to_owned())
        }
    }
}
